#!/usr/bin/env python3
"""Tensors in made-up memory as debuggers show them. The expected layouts are those of numpy 2.4 (str(array))."""
import math
import pathlib
import struct
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "debuggers"))
import capstan_layout as layout
from capstan_text import BFLOAT16, CODES, FLOAT16, half_text

TABLE, IMPL, STORAGE, DATA, SLICES = 0x1000, 0x2000, 0x3000, 0x400000, 0x5000
ELEMENTS = [("float32", "f", 4), ("float64", "f", 8), ("float16", "f", 2), ("bfloat16", "b", 2), ("int8", "i", 1),
            ("int16", "i", 2), ("int32", "i", 4), ("int64", "i", 8), ("uint8", "u", 1), ("bool", "?", 1)]
DTYPES = {name: number + 20 for number, (name, _, _) in enumerate(ELEMENTS)}
# Offsets as no compiler would choose them: nothing but the table tells them.
OFFSETS = {"version": 1, "bytes": 0, "tensor_bytes": 256, "references": 4, "dtype": 100, "contiguous": 101,
           "trainable": 102, "data": 200, "storage": 8, "slices": 16, "sizes": 24, "numel": 88, "rank": 96,
           "strides": 110, "max_rank": 8, "storage_bytes": 32, "storage_references": 8, "storage_version": 12,
           "device_kind": 20, "device_index": 17, "slices_indices": 8, "slices_values": 0, "elements_count": 10}


class Memory:
    """Blocks of bytes; everything between them cannot be read."""

    def __init__(self):
        self.blocks = {}
        numbers = [OFFSETS[name] for name in layout.FIELDS.split()[1:]]
        table = layout.HEADER.pack(b"CAPSTAN\0", *numbers)
        for name, kind, size in ELEMENTS:
            table += layout.ELEMENT.pack(name.encode(), DTYPES[name], kind.encode(), size)
        self.blocks[TABLE] = bytearray(table)

    def read(self, address, size):
        for start, block in self.blocks.items():
            if start <= address and address + size <= start + len(block):
                return bytes(block[address - start:address - start + size])
        raise layout.Unreadable("%d bytes at 0x%x" % (size, address))

    def put(self, start, code, offset, *values):
        struct.pack_into("<" + code, self.blocks[start], offset, *values)

    def tensor(self, dtype, sizes, values, strides=None, first=0, device=(0, 0), at=IMPL):
        """`values` in memory from DATA on; the tensor begins at the one numbered `first`."""
        row_major = [math.prod(max(size, 1) for size in sizes[axis + 1:]) for axis in range(len(sizes))]
        strides = row_major if strides is None else strides
        _, kind, size = next(element for element in ELEMENTS if element[0] == dtype)
        code = {"float64": "d", "float16": "e", "float32": "f"}.get(dtype) or CODES[kind, size]
        offset = at - IMPL
        self.blocks[DATA + offset] = bytearray(struct.pack("<%d%s" % (len(values), code), *values))
        self.blocks[STORAGE + offset] = bytearray(32)
        self.put(STORAGE + offset, "II", 8, 1, 3)
        self.put(STORAGE + offset, "B", 20, device[0])
        self.put(STORAGE + offset, "b", 17, device[1])
        self.blocks[at] = bytearray(256)
        plain = strides == row_major or 0 in sizes
        self.put(at, "IQ", 4, 2, STORAGE + offset)
        self.put(at, "BB?", 100, DTYPES[dtype], plain, True)
        self.put(at, "qi", 88, math.prod(sizes), len(sizes))
        self.put(at, "%dq" % len(sizes), 24, *sizes)
        self.put(at, "%dq" % len(sizes), 110, *strides)
        self.put(at, "Q", 200, DATA + offset + first * size)
        return self

    def show(self, limit=200, parameter=False):
        return layout.show(self.read, TABLE, IMPL, limit, parameter)


def shown(*tensor, limit=200, **options):
    return Memory().tensor(*tensor, **options).show(limit)


class Values(unittest.TestCase):
    def test_every_type_prints_as_numpy_does(self):
        for dtype, values, expected in [
                ("float32", [1 / 3, 2 / 3, 1], "[0.33333334 0.6666667  1.        ]"),
                ("float64", [1 / 3, 2 / 3, 1], "[0.33333333 0.66666667 1.        ]"),
                ("float64", [math.nan, math.inf, -math.inf, 1.5], "[ nan  inf -inf  1.5]"),
                ("float64", [1e-10, -1.0, 1.23456789012e10],
                 "[ 1.00000000e-10 -1.00000000e+00  1.23456789e+10]"),
                ("float64", [1e-100, 1.5, 1e100], "[1.0e-100 1.5e+000 1.0e+100]"),
                ("float64", [-0.0, 0.0], "[-0.  0.]"),
                ("float32", [2000000, 1], "[2.e+06 1.e+00]"),
                ("float16", [0.1, 0.2, 0.015625], "[0.1     0.2     0.01563]"),
                ("bfloat16", [0x3F80, 0x3DCD, 0xC000], "[ 1.   0.1 -2. ]"),  # 0.1 is 0x3dcccccd in float32
                ("int8", [-128, 5], "[-128    5]"), ("int16", [-300, 7], "[-300    7]"),
                ("int32", [1, -20], "[  1 -20]"), ("int64", [1 << 62], "[4611686018427387904]"),
                ("uint8", [1, 20, 255], "[  1  20 255]"), ("bool", [1, 0], "[ True False]"), ("bool", [1], "[ True]")]:
            with self.subTest(dtype=dtype, values=values):
                self.assertEqual(shown(dtype, [len(values)], values), f"[{len(values)}] {dtype} cpu {expected}")

    def test_single_values_show_all_digits(self):
        self.assertEqual(shown("float32", [], [0.1]), "[] float32 cpu 0.1")
        self.assertEqual(shown("float64", [], [1 / 3]), "[] float64 cpu 0.3333333333333333")
        self.assertEqual(shown("int32", [], [7]), "[] int32 cpu 7")

    def test_axes_nest(self):
        self.assertEqual(shown("int32", [2, 2, 1], range(4)), "[2, 2, 1] int32 cpu\n[[[0]\n  [1]]\n\n [[2]\n  [3]]]")

    def test_tensors_without_elements_show_none(self):
        for sizes in ([0], [0, 3], [2, 0]):
            self.assertEqual(shown("float32", sizes, []), f"{sizes} float32 cpu []")

    def test_strides_are_followed(self):
        self.assertEqual(shown("int32", [3, 2], range(6), strides=[1, 3]), "[3, 2] int32 cpu\n[[0 3]\n [1 4]\n [2 5]]")
        self.assertEqual(shown("int32", [4], range(4), strides=[-1], first=3), "[4] int32 cpu [3 2 1 0]")
        self.assertEqual(shown("int32", [3], range(40), strides=[-13], first=30), "[3] int32 cpu [30 17  4]")
        self.assertEqual(shown("int32", [2, 2], [8, 9], strides=[0, 1]), "[2, 2] int32 cpu\n[[8 9]\n [8 9]]")

    def test_long_axes_are_cut(self):
        self.assertEqual(shown("int64", [201], range(201)), "[201] int64 cpu [  0   1   2 ... 198 199 200]")
        self.assertEqual(shown("int32", [7, 30], range(210)), """[7, 30] int32 cpu
[[  0   1   2 ...  27  28  29]
 [ 30  31  32 ...  57  58  59]
 [ 60  61  62 ...  87  88  89]
 ...
 [120 121 122 ... 147 148 149]
 [150 151 152 ... 177 178 179]
 [180 181 182 ... 207 208 209]]""")
        self.assertNotIn("...", shown("int64", [201], range(201), limit=None))

    def test_a_summary_has_at_most_a_thousand_values(self):
        text = shown("uint8", [7] * 4, [1] * 7 ** 4)  # three at each end of four axes would be 1296
        self.assertEqual(text.count("1") - text.split("\n")[0].count("1"), 4 ** 4)

    def test_long_rows_are_broken(self):
        self.assertEqual(shown("int64", [40], range(40)), """[40] int64 cpu
[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39]""")


class Headings(unittest.TestCase):
    def test_an_undefined_tensor_says_so(self):
        self.assertEqual(layout.show(Memory().read, TABLE, 0, 200), "undefined tensor")

    def test_values_on_a_gpu_are_left_alone(self):
        text = shown("float32", [2], [1, 2], device=(1, 3))
        self.assertEqual(text, "[2] float32 cuda:3, values not readable from here")

    def test_a_parameter_says_whether_it_is_trained(self):
        memory = Memory().tensor("float32", [2], [1, 2])
        self.assertEqual(memory.show(parameter=True), "[2] float32 cpu trainable [1. 2.]")
        memory.put(IMPL, "?", OFFSETS["trainable"], False)
        self.assertEqual(memory.show(parameter=True), "[2] float32 cpu not trainable [1. 2.]")

    def test_row_slices_are_shown_as_they_are_held(self):
        memory = Memory().tensor("float32", [5, 2], [])
        memory.tensor("int64", [2], [3, 1], at=IMPL + 0x10000)
        memory.tensor("float32", [2, 2], [1, 2, 3, 4], at=IMPL + 0x20000)
        memory.blocks[SLICES] = bytearray(struct.pack("<QQ", IMPL + 0x20000, IMPL + 0x10000))  # values, indices
        memory.put(IMPL, "Q", OFFSETS["slices"], SLICES)
        self.assertEqual(memory.show(), "[5, 2] float32 cpu, zero but for the rows [3 1]:\n[[1. 2.]\n [3. 4.]]")

    def test_the_command_tells_what_else_there_is(self):
        memory = Memory().tensor("float32", [2, 2], [6, 12, 12, 26])
        self.assertEqual(layout.command(memory.read, TABLE, IMPL, "", 200),
                         "[2, 2] float32 cpu\n[[ 6. 12.]\n [12. 26.]]\n"
                         "strides [2, 1]  data 0x400000  handles 2  tensors on the storage 1  writes 3")
        # mean 56/4; deviations -8, -2, -2, 12: variance 216/4, and sqrt(54) = 7.348...
        self.assertEqual(layout.command(memory.read, TABLE, IMPL, "stats", 200),
                         "[2, 2] float32 cpu  min 6  max 26  mean 14  std 7.35  nan 0  inf 0")
        memory.tensor("float64", [3], [math.nan, math.inf, 2])
        self.assertEqual(layout.statistics(memory.read, TABLE, IMPL),
                         "[3] float64 cpu  min 2  max 2  mean 2  std 0  nan 1  inf 1")

    def test_the_command_takes_an_option_behind_the_expression(self):
        for line, parts in [("h", ("h", "")), ("net.w --full", ("net.w", "full")), ("x + y stats", ("x + y", "stats")),
                            ("a b", ("a b", "")), ("stats", ("stats", "")), ("", ("", ""))]:
            self.assertEqual(layout.split_command(line), parts)


class Broken(unittest.TestCase):
    def unreadable(self, memory, address=IMPL):
        with self.assertRaises(layout.Unreadable):
            layout.show(memory.read, TABLE, address, 200)

    def test_a_wild_pointer_is_unreadable(self):
        self.unreadable(Memory(), 0x1111111111111111)
        self.unreadable(Memory(), 8)

    def test_a_freed_tensor_is_unreadable(self):
        for offset, code, value in [("references", "I", 0), ("references", "I", 0x5556A040), ("dtype", "B", 0x55),
                                    ("contiguous", "B", 0x7F), ("contiguous", "B", 0), ("rank", "i", 9),
                                    ("rank", "i", -1), ("sizes", "q", -2), ("numel", "q", 5), ("storage", "Q", 64)]:
            with self.subTest(field=offset, value=value):
                memory = Memory().tensor("float32", [2, 3], range(6))
                memory.put(IMPL, code, OFFSETS[offset], value)
                self.unreadable(memory)

    def test_a_freed_storage_is_unreadable(self):
        for offset, value in [("storage_references", 0), ("device_kind", 9)]:
            memory = Memory().tensor("float32", [2], [1, 2])
            memory.put(STORAGE, "B", OFFSETS[offset], value)
            self.unreadable(memory)

    def test_a_table_of_another_version_is_refused(self):
        memory = Memory().tensor("float32", [2], [1, 2])
        memory.put(TABLE, "I", 8, 2)
        self.unreadable(memory)

    def test_values_that_cannot_be_read_leave_the_heading(self):
        memory = Memory().tensor("float32", [2], [1, 2])
        del memory.blocks[DATA]
        self.assertEqual(memory.show(), "[2] float32 cpu <unreadable: 8 bytes at 0x400000>")


class Small(unittest.TestCase):
    def test_scalars_devices_and_halves(self):
        self.assertEqual(layout.scalar_text(0, 1.0, 1, False), "true")
        self.assertEqual(layout.scalar_text(1, 7.0, 7, False), "7")
        self.assertEqual(layout.scalar_text(1, 2.0 ** 63, 0, True), "9.223372036854776e+18")
        self.assertEqual(layout.scalar_text(2, 0.5, 0, False), "0.5")
        self.assertEqual(layout.device_text(0, 0), "cpu")
        self.assertEqual(layout.device_text(1, 2), "cuda:2")
        self.assertEqual(half_text(FLOAT16, 0x2E66), "0.1")  # 0.0999756
        self.assertEqual(half_text(BFLOAT16, 0xC000), "-2.0")


if __name__ == "__main__":
    unittest.main()
