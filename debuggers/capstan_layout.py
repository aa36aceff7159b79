"""Reads Capstan's tensors from a program's memory.

The scripts for gdb and lldb share it; it knows no debugger. All it needs is `read(address, size)`, which gives bytes or
raises Unreadable. Where the fields are it learns from the table `capstan_debug_layout` inside the program
(lib/core/debug_layout.hpp). So it needs no debug information of the library and fits whichever version is linked.
"""
import collections
import math
import struct

from capstan_text import Element, positions, values_text

SYMBOL = "capstan_debug_layout"
LIMIT = 200      # more values than this are summarised: what gdb's `print elements` begins with
CHUNK = 1 << 16  # values read at once
DEVICES = ("cpu", "cuda")


class Unreadable(Exception):
    """Memory that is not there, or does not hold what it should."""


# --- what the table in the program says ------------------------------------------------------------------------------

HEADER = struct.Struct("<8s23I")
FIELDS = ("magic version bytes tensor_bytes references dtype contiguous trainable data storage slices sizes numel rank "
          "strides max_rank storage_bytes storage_references storage_version device_kind device_index slices_indices "
          "slices_values elements_count")
ELEMENT = struct.Struct("<13sBcB")


class Layout(collections.namedtuple("Layout", FIELDS + " elements")):
    """The table."""


def read_layout(read, address):
    header = HEADER.unpack(read(address, HEADER.size))
    if header[0] != b"CAPSTAN\0" or header[1] != 1:
        raise Unreadable("%s of this program is of a version that these scripts do not know" % SYMBOL)
    elements = {}
    for name, dtype, kind, size in ELEMENT.iter_unpack(read(address + HEADER.size, header[-1] * ELEMENT.size)):
        elements[dtype] = Element(name.rstrip(b"\0").decode(), kind.decode(), size)
    return Layout(*header, elements)


# --- a tensor --------------------------------------------------------------------------------------------------------


class Tensor:
    """The fields of a tensor, and its values."""

    def __init__(self, read, layout, address):
        self.read = read
        raw = read(address, layout.tensor_bytes)

        def field(code, offset, block=raw):
            return struct.unpack_from("<" + code, block, offset)[0]

        self.references = field("I", layout.references)
        self.trainable = field("?", layout.trainable)
        self.contiguous = field("B", layout.contiguous)
        self.data = field("Q", layout.data)
        self.element = layout.elements.get(field("B", layout.dtype))
        rank = field("i", layout.rank)
        if not 0 <= rank <= layout.max_rank:
            rank = 0
            self.element = None
        self.sizes = list(struct.unpack_from("<%dq" % rank, raw, layout.sizes))
        self.strides = list(struct.unpack_from("<%dq" % rank, raw, layout.strides))
        if not self.is_sound(field("q", layout.numel)):
            raise Unreadable("no tensor at 0x%x; freed, overwritten, or not yet made" % address)

        storage = read(field("Q", layout.storage), layout.storage_bytes)
        self.storage_references = field("I", layout.storage_references, storage)
        self.version = field("I", layout.storage_version, storage)
        kind = field("B", layout.device_kind, storage)
        if kind >= len(DEVICES) or self.storage_references == 0:
            raise Unreadable("no storage behind the tensor at 0x%x; freed or overwritten" % address)
        self.device = device_text(kind, field("b", layout.device_index, storage))
        slices = field("Q", layout.slices)
        self.slices = [slices + layout.slices_indices, slices + layout.slices_values] if slices != 0 else None

    def is_sound(self, numel):
        """Whether the fields can be those of a tensor. Of a freed one the count is 0, or the first bytes are overwritten."""
        row_major, stride = True, 1
        for size, step in zip(reversed(self.sizes), reversed(self.strides)):
            row_major &= size == 1 or step == stride
            stride *= max(size, 1)
        return (self.element is not None and 0 < self.references < 1 << 24 and min(self.sizes, default=0) >= 0
                and numel == self.numel() and self.contiguous == (row_major or numel == 0))

    def numel(self):
        return math.prod(self.sizes)

    def heading(self):
        return "%s %s %s" % (shape_text(self.sizes), self.element.name, self.device)

    def values(self, edge=None):
        """The values in row-major order; with an edge those of a summary alone."""
        if self.contiguous and edge is None:
            yield from self.run(0, self.numel(), 1)
            return
        offsets = [0]
        for size, stride in zip(self.sizes[:-1], self.strides[:-1]):
            offsets = [base + i * stride for base in offsets for i in positions(size, edge) if i is not None]
        size, stride = (self.sizes[-1], self.strides[-1]) if self.sizes else (1, 1)
        cut = edge is not None and size > 2 * edge
        runs = [(0, edge), (size - edge, edge)] if cut else [(0, size)]
        for base in offsets:
            for first, count in runs:
                yield from self.run(base + first * stride, count, stride)

    def run(self, offset, count, stride):
        """`count` values from an offset on."""
        size = self.element.bytes
        for first in range(0, count, CHUNK):
            start, some = offset + first * stride, min(CHUNK, count - first)
            if 0 < abs(stride) <= 8:  # neighbours come with what lies between them
                low = min(start, start + (some - 1) * stride)
                near = self.element.decode(self.bytes_at(low, (some - 1) * abs(stride) + 1))
                yield from near[::abs(stride)][:: 1 if stride > 0 else -1]
            else:
                for i in range(some):
                    yield from self.element.decode(self.bytes_at(start + i * stride, 1))

    def bytes_at(self, offset, count):
        size = self.element.bytes
        return self.read(self.data + offset * size, count * size)


# --- what is shown ---------------------------------------------------------------------------------------------------


def show(read, table, address, limit, parameter=False):
    """What `p tensor` prints: shape, type and device, then the values."""
    if address == 0:
        return "undefined tensor"
    layout = read_layout(read, table)
    tensor = Tensor(read, layout, address)
    title = tensor.heading()
    if parameter:
        title += " trainable" if tensor.trainable else " not trainable"
    if tensor.slices is None or tensor.device != "cpu":
        return with_values(title, tensor, limit)
    indices, values = (Tensor(read, layout, struct.unpack("<Q", read(place, 8))[0]) for place in tensor.slices)
    return with_values("%s, zero but for the rows %s:" % (title, values_text(indices, limit)), values, limit)


def heading(read, table, address):
    """Shape, type and device alone."""
    return Tensor(read, read_layout(read, table), address).heading() if address != 0 else "undefined tensor"


def with_values(title, tensor, limit):
    if tensor.device != "cpu":
        return title + ", values not readable from here"
    try:
        text = values_text(tensor, limit)
    except Unreadable as fault:
        text = unreadable(fault)
    return title + ("\n" if "\n" in text else " ") + text


def unreadable(fault):
    return "<unreadable: %s>" % fault


def details(read, table, address):
    """A line of what `show` leaves out."""
    if address == 0:
        return ""
    tensor = Tensor(read, read_layout(read, table), address)
    return "strides %s  data 0x%x  handles %d  tensors on the storage %d  writes %d" % (
        shape_text(tensor.strides), tensor.data, tensor.references, tensor.storage_references, tensor.version)


def statistics(read, table, address):
    """What Tensor::describe() says."""
    if address == 0:
        return "undefined tensor"
    tensor = Tensor(read, read_layout(read, table), address)
    if tensor.device != "cpu" or tensor.slices is not None:
        raise Unreadable("the values of this tensor are not in the memory of the program")
    low, high, mean, squares, finite, nan, inf = math.inf, -math.inf, 0.0, 0.0, 0, 0, 0
    for value in map(float, tensor.values()):
        if not math.isfinite(value):
            nan, inf = nan + math.isnan(value), inf + math.isinf(value)
            continue
        low, high, finite = min(low, value), max(high, value), finite + 1
        step = value - mean  # Welford's update
        mean += step / finite
        squares += step * (value - mean)
    text = tensor.heading()
    if finite:
        text += "  min %.3g  max %.3g  mean %.3g  std %.3g" % (low, high, mean, math.sqrt(squares / finite))
    return text + "  nan %d  inf %d" % (nan, inf)


def shape_text(sizes):
    return "[%s]" % ", ".join(map(str, sizes))


def device_text(kind, index):
    if kind >= len(DEVICES):
        return "<no device: kind %d>" % kind
    return DEVICES[kind] if kind == 0 else "%s:%d" % (DEVICES[kind], index)


def scalar_text(kind, floating, integer, too_large):
    """A capstan::Scalar: 0 boolean, 1 integer, 2 floating."""
    if kind == 0:
        return "true" if integer else "false"
    return str(integer) if kind == 1 and not too_large else repr(floating)


def split_command(line):
    """`EXPRESSION [--full | --stats]` of the command `tensor`: the expression, and "full", "stats" or ""."""
    expression, _, last = line.strip().rpartition(" ")
    option = last.lstrip("-")
    return (expression.strip(), option) if expression and option in ("full", "stats") else (line.strip(), "")


def command(read, table, address, option, limit, parameter=False):
    """What the command `tensor` prints."""
    if option == "stats":
        return statistics(read, table, address)
    text = show(read, table, address, None if option == "full" else limit, parameter)
    return "\n".join(filter(None, (text, details(read, table, address))))
