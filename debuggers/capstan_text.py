"""Lays values out as NumPy does; lib/core/print.cpp does the same for the program itself."""
import collections
import decimal
import math
import struct

LARGEST_CUT = 1000  # values of a summary, at most
EDGE = 3            # items at each end of a summarised axis
PRECISION = 8       # digits behind the point
LINE_WIDTH = 75

CODES = {("f", 2): "e", ("f", 4): "f", ("f", 8): "d", ("b", 2): "H", ("?", 1): "B", ("u", 1): "B",
         ("i", 1): "b", ("i", 2): "h", ("i", 4): "i", ("i", 8): "q"}


class Element(collections.namedtuple("Element", "name kind bytes")):
    """A type of elements."""

    def decode(self, raw):
        """The values in some bytes."""
        values = [value for (value,) in struct.iter_unpack("<" + CODES[self.kind, self.bytes], raw)]
        if self.kind == "b":
            return [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in values]
        return [bool(value) for value in values] if self.kind == "?" else values

    def encode(self, value):
        """The bytes of the nearest number of this floating type; None if it is too large."""
        try:
            if self.kind == "f":
                return struct.pack("<" + CODES[self.kind, self.bytes], value)
            (bits,) = struct.unpack("<I", struct.pack("<f", value))
            return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF)
        except OverflowError:
            return None

    def shortest(self, value):
        """The decimal with the fewest digits that names a finite number among those of its type."""
        if self.bytes == 8:
            return decimal.Decimal(repr(value))
        exact = decimal.Decimal(value)
        for digits in range(1, 10):
            for rounding in (decimal.ROUND_HALF_EVEN, decimal.ROUND_UP):  # below a power of two neighbours lie closer
                short = decimal.Context(digits, rounding).create_decimal(exact)
                if self.encode(float(short)) == self.encode(value):
                    return short
        return exact

    def large(self):
        """From here on NumPy writes exponents: beyond the digits that the type is sure of, or eight."""
        return {2: 1e3, 4: 1e6, 8: 1e8}[self.bytes]


FLOAT16, BFLOAT16 = Element("float16", "f", 2), Element("bfloat16", "b", 2)


def half_text(element, bits):
    (value,) = element.decode(struct.pack("<H", bits))
    return single(value, element)


def positions(size, edge):
    """The positions of an axis that are shown; None stands for the others."""
    if edge is None or size <= 2 * edge:
        return range(size)
    return [*range(edge), None, *range(size - edge, size)]


def edge_of(sizes, limit):
    """How many items to show at each end of long axes, or None to show everything."""
    if limit is None or math.prod(sizes) <= limit:
        return None
    for edge in range(EDGE, 1, -1):
        if math.prod(min(size, 2 * edge) for size in sizes) <= LARGEST_CUT:
            return edge
    return 1


def values_text(tensor, limit):
    if tensor.numel() == 0:
        return "[]"
    edge = edge_of(tensor.sizes, limit)
    values = list(tensor.values(edge))
    if not tensor.sizes:
        return single(values[0], tensor.element)
    texts = words(values, tensor.element)
    return rows([(size, positions(size, edge)) for size in tensor.sizes], iter(texts), " ", LINE_WIDTH)


def single(value, element):
    """A value alone: all its digits."""
    if element.kind not in "fb" or not math.isfinite(value):
        return str(value)
    short = element.shortest(value)
    if element.bytes < 8 and abs(value) >= element.large():
        return "%.*e" % (len(short.normalize().as_tuple().digits) - 1, value)
    return str(float(short))


def rows(axes, texts, indent, width):
    (size, shown), *inner = axes
    if not inner:
        return row(size, shown, texts, indent, width)
    separator = "\n" * len(inner)
    text = ""
    for i in shown:
        text += indent + ("..." if i is None else rows(inner, texts, indent + " ", width - 1))
        text += "" if i == size - 1 else separator
    return "[%s]" % text[len(indent):]


def row(size, shown, texts, indent, width):
    lines, line = [], indent
    for i in shown:
        word = "..." if i is None else next(texts)
        if len(line) + len(word) > width - 1 and len(line) > len(indent):
            lines.append(line.rstrip())
            line = indent
        line += word if i == size - 1 else word + " "
    return "[%s]" % "\n".join([*lines, line])[len(indent):]


def words(values, element):
    """The values as texts of one width."""
    if element.kind in "fb":
        texts = float_words(values, element)
    else:
        texts = [" True" if value is True else str(value) for value in values]
    width = max(map(len, texts))
    return [text.rjust(width) for text in texts]


def float_words(values, element):
    """Texts whose points stand in one column."""
    finite = [value for value in values if math.isfinite(value)]
    sizes = [abs(value) for value in finite if value != 0]
    exponent = bool(sizes) and (max(sizes) >= element.large() or min(sizes) < 1e-4 or max(sizes) / min(sizes) > 1000)
    parts = scientific if exponent else fixed
    split = [parts(value, element.shortest(value)) if math.isfinite(value) else None for value in values]
    left, right, power = (max((len(part[i]) for part in split if part), default=0) for i in range(3))
    texts = []
    for value, part in zip(values, split):
        if part is None:
            texts.append(str(value))  # nan, inf, -inf
        elif exponent:
            digits, _, tail = ("%.*e" % (right, value)).partition("e")  # NumPy fills up with true digits, not zeros
            texts.append("%s%se%s%s" % (digits, "" if right else ".", tail[0], tail[1:].rjust(power, "0")))
        else:
            texts.append("%s.%s" % (part[0].rjust(left), part[1].ljust(right)))
    return texts


def fixed(value, shortest):
    """The digits before and behind the point."""
    left, _, right = format(shortest, "f").partition(".")
    if len(right) > PRECISION:
        left, _, right = ("%.*f" % (PRECISION, value)).partition(".")
    return left, right.rstrip("0"), ""


def scientific(value, shortest):
    """The digits behind the point that are shown, and those of the exponent."""
    right = "".join(map(str, shortest.as_tuple().digits[1:])).rstrip("0")
    if len(right) > PRECISION:
        right = ("%.*e" % (PRECISION, value)).partition("e")[0].partition(".")[2].rstrip("0")
    return "", right, "%02d" % abs(shortest.adjusted() if value != 0 else 0)
