"""The printers of Capstan's types for gdb, and the command `tensor`. capstan_gdb.py loads them."""
import gdb
import gdb.printing
import gdb.types

import capstan_layout as layout
from capstan_text import BFLOAT16, FLOAT16, half_text


def read(address, size):
    try:
        return bytes(gdb.selected_inferior().read_memory(address & (1 << 64) - 1, size))
    except (gdb.error, ValueError, OverflowError, MemoryError):
        raise layout.Unreadable("%d bytes at 0x%x" % (size, address)) from None


def table():
    try:
        return int(gdb.parse_and_eval("&" + layout.SYMBOL))
    except gdb.error:
        raise layout.Unreadable("this program has no symbol %s" % layout.SYMBOL) from None


def options():
    """Those of the `print` that is running; gdb has told them since version 13."""
    return gdb.print_options() if hasattr(gdb, "print_options") else {}


def limit():
    return options().get("max_elements", gdb.parameter("print elements")) or None  # 0 and None stand for no limit


def show(address, parameter=False):
    if options().get("summary"):  # arguments of functions in a backtrace
        return layout.heading(read, table(), address)
    return layout.show(read, table(), address, limit(), parameter)


def tensor_text(value):
    return show(int(value["impl_"]))


def parameter_text(value):
    return show(int(value["impl_"]), parameter=True)


def impl_text(value):
    return show(int(value.address))


def shape_text(value):
    rank = int(value["rank_"])
    if not 0 <= rank <= 8:
        raise layout.Unreadable("no shape: its rank is %d" % rank)
    return layout.shape_text([int(value["sizes_"][axis]) for axis in range(rank)])


def dtype_text(value):
    element = layout.read_layout(read, table()).elements.get(int(value))
    return element.name if element else "<no dtype: %d>" % int(value)


def device_text(value):
    return layout.device_text(int(value["kind"]), int(value["index"]))


def scalar_text(value):
    return layout.scalar_text(int(value["kind_"]), float(value["floating_"]), int(value["integer_"]),
                              bool(value["too_large_"]))


def float16_text(value):
    return half_text(FLOAT16, int(value["bits_"]))


def bfloat16_text(value):
    return half_text(BFLOAT16, int(value["bits_"]))


TEXTS = {"Tensor": tensor_text, "Parameter": parameter_text, "TensorImpl": impl_text, "Shape": shape_text,
         "DType": dtype_text, "Device": device_text, "Scalar": scalar_text, "float16": float16_text,
         "bfloat16": bfloat16_text}


def printer(text):
    """A class as gdb wants it, around a function from a value to its text."""

    class Printer:
        def __init__(self, value):
            self.value = value

        def to_string(self):
            try:
                return text(self.value)
            except (gdb.error, layout.Unreadable) as fault:
                return layout.unreadable(fault)

    return Printer


class TensorCommand(gdb.Command):
    """Shows a tensor together with its strides, and how many handles and tensors share it.

tensor EXPRESSION           as `print` does, and a line about its memory
tensor EXPRESSION --full    every value
tensor EXPRESSION --stats   one line: least, largest, mean, standard deviation, how many are NaN or infinite"""

    def __init__(self):
        super().__init__("tensor", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, line, from_tty):
        expression, option = layout.split_command(line)
        try:
            value = gdb.parse_and_eval(expression)
            parameter = gdb.types.get_basic_type(value.type).tag == "capstan::Parameter"
            print(layout.command(read, table(), int(value["impl_"]), option, limit(), parameter))
        except (gdb.error, layout.Unreadable) as fault:
            raise gdb.GdbError("tensor: %s" % fault) from None


def register(objfile):
    """Of a library that is just being loaded, or of everything if that is None."""
    collection = gdb.printing.RegexpCollectionPrettyPrinter("capstan")
    for name, text in TEXTS.items():
        collection.add_printer(name, "^capstan::%s$" % name, printer(text))
    gdb.printing.register_pretty_printer(objfile, collection, replace=True)
    TensorCommand()
