#!/usr/bin/env python3
"""Prints tests/state_dict_files.cpp: small files that PyTorch makes, and the tensors that it saves in them.

Usage: state_dict_files.py > state_dict_files.cpp. Needs PyTorch and NumPy. The files are packed by zlib: torch.save fills
them with padding.
"""
import collections
import copy
import io
import warnings
import zipfile
import zlib

import numpy as np
import torch

WIDTH = 112  # characters in a line
HERE = {torch.uint16: "int32", torch.uint32: "int64", torch.uint64: "int64", torch.complex64: "float32",
        torch.complex128: "float64"}
files, refused = [], []


def saved(value, **options):
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


def flat(value, path=""):
    """(name, tensor) for all tensors in dictionaries, lists and tuples."""
    if isinstance(value, torch.Tensor):
        return [(path, value.detach())]
    if isinstance(value, (list, tuple)):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return []
    return [found for key, item in value.items() for found in flat(item, f"{path}.{key}" if path else str(key))]


def expected(name, x):
    dtype = HERE.get(x.dtype, str(x.dtype).removeprefix("torch."))
    if x.is_complex():
        x = torch.view_as_real(x)
    return name, dtype, list(x.shape), [float(v) for v in x.flatten().tolist()]


def add(name, value, data=None, **options):
    data = data or saved(value, **options)
    files.append((name, data, [expected(*found) for found in flat(value)]))


def models():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    add("linear_and_batch_norm", model.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.25)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 3])
    model(torch.tensor([[1.0, 2.0], [3.0, -1.0]])).square().sum().backward()
    optimizer.step()
    schedule.step()
    add("checkpoint", {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "loss": 0.5,
                       "schedule": schedule.state_dict(), "args": {"lr": 0.25, "name": None, "nested": [1, (2, "x")]},
                       "device": torch.device("cuda", 1), "shape": torch.Size([2, 3]), "large": -2**80,
                       "type": torch.float16})


def tensors():
    numbers = [-3, -2, -1, 0, 1, 2]
    signed = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32,
              torch.int64]
    types = {str(t): torch.tensor(numbers, dtype=t).reshape(2, 3) for t in signed}
    types |= {str(t): torch.arange(250, 256).to(t).reshape(3, 2) for t in
              (torch.uint8, torch.uint16, torch.uint32, torch.uint64)}
    types["torch.bool"] = torch.tensor([True, False, True])
    types["largest"] = torch.tensor([65535, 0], dtype=torch.uint16)
    types |= {str(t): torch.tensor([1 + 2j, -3 + 0.5j], dtype=t) for t in (torch.complex64, torch.complex128)}
    add("types", types)

    base = torch.arange(12.0).reshape(3, 4)
    add("views", {"whole": base, "tied": base, "column": base[:, 1], "transposed": base.t(), "row": base[1],
                  "inner": base[1:, 1:3], "stretched": base[1:2].expand(2, 4), "steps": base[:, ::2],
                  "complex": torch.arange(6.0).to(torch.complex64).reshape(2, 3).t()})
    add("shapes", {"scalar": torch.tensor(3.5), "count": torch.tensor(2**40), "none": torch.empty(0),
                   "no_rows": torch.empty(2, 0, 3), "ones": torch.ones(1, 1, 1, 1, 1, 1, 1, 2)})
    add("tensor", torch.arange(3))
    add("list", [torch.zeros(1), (torch.ones(1), {"a": torch.arange(2), 7: [torch.tensor(4.0)]}), "text"])
    add("nothing", {})
    named = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    named.origin = "here"
    tagged = torch.tensor([3.0])
    tagged.origin = "there"
    add("parameters", {"plain": torch.nn.Parameter(torch.tensor([0.5])), "frozen":
                       torch.nn.Parameter(torch.tensor([0.25]), requires_grad=False), "named": named, "tagged": tagged})


def protocols():
    value = collections.OrderedDict(w=torch.tensor([1.0, -1.0]), extra={"set": {1}, "bytes": b"abc", "z": 1 + 2j,
                                    "array": bytearray(b"x"), "list": [torch.tensor([7], dtype=torch.int16)] * 2})
    for protocol in range(2, 6):
        add(f"protocol{protocol}", value, pickle_protocol=protocol)
    plain = copy.deepcopy(dict(w=value["w"]))
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(plain))) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr("archive/", b"")
        for entry in old.namelist():
            new.writestr(entry, old.read(entry))
    add("packed_by_zip", plain, out.getvalue())


def strangers():
    def refuse(name, data, reason):
        refused.append((name, data, reason))

    x = torch.ones(2)
    refuse("before_1_6", saved({"x": x}, _use_new_zipfile_serialization=False), "PyTorch before version 1.6 (a pickle")
    scripted = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), scripted)
    refuse("torchscript", scripted.getvalue(), "it is a TorchScript archive (entry '")
    refuse("model", saved(torch.nn.Identity()), "names the function 'torch.nn.modules.linear.Identity'")
    refuse("sparse", saved({"x": x.to_sparse()}), "names the function 'torch._utils._rebuild_sparse_tensor'")
    quantized = torch.quantize_per_tensor(x, 0.5, 0, torch.qint8)
    refuse("quantized", saved({"x": quantized}), "names the function 'torch._utils._rebuild_qtensor'")
    refuse("meta", saved({"x": x.to("meta")}), "names the function 'torch._utils._rebuild_meta_tensor_no_storage'")
    refuse("float8", saved({"x": x.to(torch.float8_e4m3fn)}), "names the function 'torch.float8_e4m3fn'")
    refuse("conjugated", saved({"x": torch.tensor([1j]).conj()}), "it must be saved after resolve_conj()")
    refuse("numpy", saved({"x": x, "best": np.float64(2)}), "multiarray.scalar'")
    refuse("stretched", saved({"x": torch.ones(1).expand(2**40)}), " are left of the 4 for each of the ")
    refuse("large", saved({"x": torch.tensor([1, 2**64 - 1], dtype=torch.uint64)}),
           "the unsigned number 18446744073709551615 at offset 8 of the entry")
    refuse("nine_axes", saved({"x": torch.ones([1] * 9)}), "the tuple of a tensor's sizes has 9 values")
    refuse("number", saved(3), "is an integer; it must be a dictionary, list or tuple of tensors, or a tensor.")


def wrapped(items, indent):
    """Items with commas in lines."""
    lines, line = [], ""
    for item in items:
        if len(line) + len(item) > WIDTH - indent:
            lines.append(line.rstrip())
            line = ""
        line += item + ", "
    return ("\n" + " " * indent).join(lines + [line.rstrip(", ")])


def packed(data):
    digits = zlib.compress(data, 9).hex()
    lines = [digits[i:i + WIDTH] for i in range(0, len(digits), WIDTH)]
    return f"{len(data)},\n" + "\n".join(f'     "{line}"' for line in lines)


def number(value):
    return str(int(value)) if value == int(value) else repr(value)


def tensor_row(name, dtype, sizes, values):
    start = f'{{"{name}", "{dtype}", {{{", ".join(map(str, sizes))}}}, {{'
    text = wrapped(list(map(number, values)), 9)
    return start + ("\n" + " " * 9 if len(start) + len(text) > WIDTH else "") + text + "}}"


def main():
    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    models()
    tensors()
    protocols()
    strangers()
    print(f"// Made by tests/state_dict_files.py with PyTorch {torch.__version__}. Do not edit.\n")
    print('#include "tests/state_dict_files.hpp"\n')
    print("namespace tests {\n")
    print("// clang-format off")
    print("const std::vector<SavedFile> saved_files = {")
    for name, data, rows in files:
        print(f'    {{"{name}", {packed(data)},\n     {{' + ",\n      ".join(tensor_row(*row) for row in rows) + "}},")
    print("};\n")
    print("const std::vector<RefusedFile> refused_files = {")
    for name, data, reason in refused:
        print(f'    {{"{name}", {packed(data)},\n     "{reason}"}},')
    print("};\n// clang-format on\n")
    print("}  // namespace tests")


if __name__ == "__main__":
    main()
