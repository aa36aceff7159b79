"""Shows Capstan's tensors in lldb: `command script import capstan_lldb.py`, then `v h`, `tensor h --full`.

Memory is read, nothing in the program is called, so core files and programs that have crashed do as well.
See docs/debuggers.md.
"""
import os
import sys

import lldb

folder = os.path.dirname(os.path.realpath(__file__))
if folder not in sys.path:
    sys.path.insert(0, folder)

import capstan_layout as layout
from capstan_text import BFLOAT16, FLOAT16, half_text


def reader(process):
    def read(address, size):
        error = lldb.SBError()
        data = process.ReadMemory(address & (1 << 64) - 1, size, error)
        if not error.Success() or data is None or len(data) != size:
            raise layout.Unreadable("%d bytes at 0x%x" % (size, address))
        return data

    return read


def table(target):
    found = target.FindSymbols(layout.SYMBOL)
    for i in range(found.GetSize()):
        address = found.GetContextAtIndex(i).GetSymbol().GetStartAddress().GetLoadAddress(target)
        if address != lldb.LLDB_INVALID_ADDRESS:
            return address
    raise layout.Unreadable("this program has no symbol %s" % layout.SYMBOL)


def field(value, name):
    """A field as an SBValue that has a value."""
    child = value.GetNonSyntheticValue().GetChildMemberWithName(name)
    if not child.IsValid():
        raise layout.Unreadable("there is no field " + name)
    if child.GetError().Fail():
        raise layout.Unreadable(child.GetError().GetCString())
    return child


def unsigned(value, name):
    return field(value, name).GetValueAsUnsigned()


def signed(value, name):
    return field(value, name).GetValueAsSigned()


def tensor_text(value, parameter=False):
    target = value.GetTarget()
    return layout.show(reader(value.GetProcess()), table(target), unsigned(value, "impl_"), layout.LIMIT, parameter)


def parameter_text(value):
    return tensor_text(value, parameter=True)


def shape_text(value):
    rank = signed(value, "rank_")
    if not 0 <= rank <= 8:
        raise layout.Unreadable("no shape: its rank is %d" % rank)
    sizes = field(value, "sizes_")
    return layout.shape_text([sizes.GetChildAtIndex(axis).GetValueAsSigned() for axis in range(rank)])


def device_text(value):
    return layout.device_text(unsigned(value, "kind"), signed(value, "index"))


def scalar_text(value):
    floating = field(value, "floating_").GetData().GetDouble(lldb.SBError(), 0)
    return layout.scalar_text(unsigned(value, "kind_"), floating, signed(value, "integer_"),
                              unsigned(value, "too_large_") != 0)


def float16_text(value):
    return half_text(FLOAT16, unsigned(value, "bits_"))


def bfloat16_text(value):
    return half_text(BFLOAT16, unsigned(value, "bits_"))


def summary(text):
    """A function as lldb wants it, around one from a value to its text."""

    def provide(value, internal_dict):
        try:
            return text(value)
        except layout.Unreadable as fault:
            return layout.unreadable(fault)

    return provide


# An enumerator's name alone is what lldb shows of a DType anyway.
TEXTS = {"Tensor": tensor_text, "Parameter": parameter_text, "Shape": shape_text, "Device": device_text,
         "Scalar": scalar_text, "float16": float16_text, "bfloat16": bfloat16_text}
globals().update({name + "_summary": summary(text) for name, text in TEXTS.items()})


class Whole:
    """Hides the fields: the summary says it all."""

    def __init__(self, value, internal_dict):
        pass

    def num_children(self):
        return 0

    def has_children(self):
        return False


def tensor_command(debugger, line, context, result, internal_dict):
    """Shows a tensor together with its strides, and how many handles and tensors share it.

tensor VARIABLE           as `v` does, and a line about its memory
tensor VARIABLE --full    every value
tensor VARIABLE --stats   one line: least, largest, mean, standard deviation, how many are NaN or infinite"""
    path, option = layout.split_command(line)
    value = context.GetFrame().GetValueForVariablePath(path)
    try:
        if not value.IsValid():
            raise layout.Unreadable("there is no variable " + path)
        parameter = "capstan::Parameter" in (value.GetTypeName() or "")
        result.AppendMessage(layout.command(reader(context.GetProcess()), table(context.GetTarget()),
                                            unsigned(value, "impl_"), option, layout.LIMIT, parameter))
    except layout.Unreadable as fault:
        result.SetError("tensor: %s" % fault)


def __lldb_init_module(debugger, internal_dict):
    here = "--skip-pointers --category capstan"
    for name in TEXTS:
        debugger.HandleCommand("type summary add %s --no-value --python-function %s.%s_summary capstan::%s" % (
            here, __name__, name, name))
        debugger.HandleCommand("type synthetic add %s --python-class %s.Whole capstan::%s" % (here, __name__, name))
    debugger.HandleCommand("type category enable capstan")
    debugger.HandleCommand("command script add --function %s.tensor_command tensor" % __name__)
