#!/usr/bin/env python3
"""Tests the program capstan-weights: weights_command_test.py PROGRAM

Its files are made here byte by byte, and by the program itself.
"""
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv[1]
CODES = {"F32": "f", "F64": "d", "I64": "q", "U8": "B"}


def safetensors(tensors, metadata=None):
    """The bytes of a file. Tensors are (name, type, shape, values)."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, kind, shape, values in tensors:
        packed = struct.pack(f"<{len(values)}{CODES[kind]}", *values)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


NAN, INFINITY = float("nan"), float("inf")
WEIGHT = ("fc.weight", "F32", [2, 3], [1, -2, 3, 4.5, 0, 6])
BIAS = ("fc.bias", "F32", [3], [0.25, NAN, -1])
STEPS = ("steps", "I64", [], [2**53 + 1])


class Weights(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, tensors, metadata=None):
        path = self.folder / name
        path.write_bytes(safetensors(tensors, metadata))
        return path

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120)

    def check(self, code, *arguments):
        """What the program prints when it exits with that code: on the standard output, or for 2 on the other one."""
        result = self.run_program(*arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        if code < 2:
            self.assertEqual(result.stderr, "")
        else:
            self.assertNotEqual(result.stderr, "")
        return result.stderr if code == 2 else result.stdout

    def convert(self, *arguments):
        """Whether the files could be converted: not if the build has no archives."""
        result = self.run_program("convert", *arguments)
        if result.returncode == 2 and "this build has no minizip" in result.stderr:
            self.skipTest("this build has no minizip")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_list_shows_names_types_shapes_bytes_totals_and_metadata(self):
        path = self.write("net.safetensors", [WEIGHT, BIAS, STEPS], {"format": "pt", "note": "a\nb"})
        lines = self.check(0, "list", path).splitlines()
        self.assertRegex(lines[0], r"^fc\.weight +float32 +\[2, 3\] +24 bytes$")
        self.assertRegex(lines[1], r"^fc\.bias +float32 +\[3\] +12 bytes$")
        self.assertRegex(lines[2], r"^steps +int64 +\[\] +8 bytes$")
        self.assertEqual(lines[3], "3 tensors, 10 elements, 44 bytes")
        self.assertCountEqual(lines[4:], ["format: pt", "note: a\\x0Ab"])

    def test_control_characters_are_escaped_and_other_letters_are_not(self):
        path = self.write("net.safetensors", [("a\x1b\x7f\x80\x9b\x9f\xa0\xe9\u011b\u20ac", *BIAS[1:])])
        said = self.check(0, "list", path)  # U+011B ends in the byte 9B
        self.assertTrue(said.startswith("a\\x1B\\x7F\\xC2\\x80\\xC2\\x9B\\xC2\\x9F\xa0\xe9\u011b\u20ac "), ascii(said))

    def test_list_shows_values_without_the_nan(self):
        path = self.write("net.safetensors", [WEIGHT, BIAS, ("none", "F32", [0, 3], [])])
        lines = self.check(0, "list", path, "--values").splitlines()
        numbers = re.findall(r"(min|max|mean|nan) +(\S+)", lines[0])
        self.assertEqual(numbers[:2], [("min", "-2"), ("max", "6")])
        self.assertAlmostEqual(float(numbers[2][1]), 12.5 / 6, places=4)
        self.assertEqual(re.findall(r"(min|max|mean|nan) +(\S+)", lines[1]),
                         [("min", "-1"), ("max", "0.25"), ("mean", "-0.375"), ("nan", "1")])
        self.assertNotIn("min", lines[2])

    def test_equal_files_are_equal_also_where_they_have_nan(self):
        first = self.write("a.safetensors", [WEIGHT, BIAS, STEPS], {"a": "b"})
        second = self.write("b.safetensors", [STEPS, BIAS, WEIGHT])
        self.assertIn("3 equal, 0 different", self.check(0, "compare", first, second))

    def test_what_only_one_file_has_and_other_shapes_and_types_differ(self):
        first = self.write("a.safetensors", [WEIGHT, BIAS, STEPS, ("a", "F32", [1], [0])])
        second = self.write("b.safetensors", [("fc.weight", "F32", [3, 2], WEIGHT[3]), ("fc.bias", "F64", [3], BIAS[3]),
                                              STEPS, ("b", "U8", [2], [0, 1])])
        said = self.check(1, "compare", first, second)
        self.assertIn("fc.weight is float32 [2, 3] and float32 [3, 2]", said)
        self.assertIn("fc.bias is float32 [3] and float64 [3]", said)
        self.assertRegex(said, r"only first: +a float32 \[1\]")
        self.assertRegex(said, r"only second: +b uint8 \[2\]")
        self.assertIn("1 equal, 2 different, 1 only in", said)

    def test_types_may_differ_if_asked(self):
        first = self.write("a.safetensors", [BIAS])
        second = self.write("b.safetensors", [("fc.bias", "F64", [3], BIAS[3])])
        self.check(1, "compare", first, second)
        self.check(0, "compare", first, second, "--any-type")

    def test_values_may_differ_by_the_tolerances(self):
        first = self.write("a.safetensors", [("x", "F64", [4], [1.0, 100.0, 0.0, INFINITY])])
        second = self.write("b.safetensors", [("x", "F64", [4], [1.5, 101.0, 0.0, INFINITY])])
        said = self.check(1, "compare", first, second)
        self.assertIn("x in 2 of 4 values, by up to 1 (relative 0.333333)", said)  # 0.5 of 1.5
        self.check(1, "compare", first, second, "--absolute", 0.5)
        self.check(0, "compare", first, second, "--absolute", 1)
        self.check(1, "compare", first, second, "--relative", 0.3)
        self.check(0, "compare", first, second, "--relative", 0.34)
        self.check(0, "compare", first, second, "--absolute", 0.5, "--relative", 0.005)

    def test_nan_and_infinities_are_within_no_tolerance(self):
        first = self.write("a.safetensors", [("x", "F64", [3], [NAN, INFINITY, 1])])
        for other in ([1, INFINITY, 1], [NAN, -INFINITY, 1], [NAN, 1, 1], [NAN, INFINITY, NAN]):
            second = self.write("b.safetensors", [("x", "F64", [3], other)])
            said = self.check(1, "compare", first, second, "--absolute", 1e300, "--relative", 1)
            self.assertIn("x in 1 of 3 values", said)

    def test_integers_are_compared_exactly(self):
        first = self.write("a.safetensors", [STEPS])
        second = self.write("b.safetensors", [("steps", "I64", [], [2**53])])  # the same as a double
        self.assertIn("by up to 1 ", self.check(1, "compare", first, second))
        self.check(0, "compare", first, second, "--absolute", 1)

    def test_long_tensors_are_compared_to_their_ends(self):
        values = [i % 251 for i in range((1 << 20) + 10)]
        first = self.write("a.safetensors", [("x", "U8", [len(values)], values)])
        values[-1] += 1
        second = self.write("b.safetensors", [("x", "U8", [len(values)], values)])
        self.assertIn("x in 1 of 1,048,586 values", self.check(1, "compare", first, second))

    def test_names_of_the_first_file_are_renamed_by_the_longest_beginning(self):
        first = self.write("a.safetensors", [WEIGHT, BIAS])
        second = self.write("b.safetensors", [("head.weight", *WEIGHT[1:]), ("b", *BIAS[1:])])
        self.check(1, "compare", first, second)
        self.check(0, "compare", "--rename", "fc.=head.", "--rename", "fc.bias=b", first, second)
        self.assertIn("two tensors", self.check(2, "compare", first, second, "--rename", "fc.weight=x", "--rename", "fc.bias=x"))
        self.assertIn("another one is of 'fc.', too", self.check(2, "compare", first, second, "--rename", "fc.=head.",
                                                                 "--rename", "fc.=b."))
        self.assertIn("FROM=TO", self.check(2, "compare", first, second, "--rename", "fc."))

    def test_what_is_converted_is_equal_in_every_format(self):
        first = self.write("a.safetensors", [WEIGHT, BIAS, STEPS], {"format": "pt"})
        for name in ("b.npz", "c.pt", "d.safetensors"):
            self.convert(first, self.folder / name)
            self.check(0, "compare", first, self.folder / name)
        self.convert(self.folder / "c.pt", self.folder / "e.npz")
        self.check(0, "compare", self.folder / "b.npz", self.folder / "e.npz")
        self.assertIn("format: pt", self.check(0, "list", self.folder / "d.safetensors"))

    def test_metadata_that_a_format_has_no_place_for_are_counted(self):
        first = self.write("a.safetensors", [WEIGHT], {"format": "pt"})
        self.convert(first, self.folder / "b.npz")
        self.assertIn("1 tensors; left out are 1 entries of metadata", self.check(0, "convert", first, self.folder / "b.npz"))

    def test_checkpoints_show_their_parts_and_become_plain_weights(self):
        path = self.write("a.safetensors", [WEIGHT, BIAS, STEPS], {"capstan.checkpoint": "1", "step": "1200"})
        said = self.check(0, "list", path)
        self.assertIn("a checkpoint of: fc (2), steps (1)\n", said)
        self.assertIn("step: 1200\n", said)
        self.check(0, "convert", path, self.folder / "b.safetensors")
        self.check(0, "compare", path, self.folder / "b.safetensors")
        self.assertNotIn("step:", self.check(0, "list", self.folder / "b.safetensors"))

    def test_errors_are_told_without_a_place_in_the_program(self):
        path = self.write("a.safetensors", [WEIGHT])
        missing = self.folder / "missing"
        said = self.check(2, "list", missing)
        self.assertEqual(said, f"capstan-weights: read_weights: {missing}: cannot be opened: No such file or directory; "
                               "it must exist and be readable.\n")
        self.assertIn("must end in .safetensors, .npz, .pt or .pth", self.check(2, "convert", path, self.folder / "x.h5"))
        self.assertIn("cannot be made", self.check(2, "convert", path, self.folder / "no" / "x.safetensors"))
        self.check(2, "compare", path, missing)
        self.check(2, "compare", path)
        self.check(2, "compare", path, path, "--absolute", "-1")
        self.check(2, "burn", path)
        self.check(2)
        self.assertFalse((self.folder / "x.h5").exists())

    def test_an_output_that_cannot_be_written_is_an_error(self):
        path = self.write("a.safetensors", [WEIGHT])
        for arguments in (["list", path], ["compare", path, path]):
            with open("/dev/full", "w") as full:
                result = subprocess.run([PROGRAM, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True,
                                        timeout=120)
            self.assertEqual(result.returncode, 2)
            self.assertIn("the output cannot be written", result.stderr)

    def test_help_is_no_error(self):
        for arguments in (["--help"], ["compare", "--help"]):
            self.assertIn("Usage", self.check(0, *arguments))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
