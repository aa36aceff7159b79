"""PyTorch's side of scripts/check-peers: python state_dict.py write|check FOLDER

`write` writes files by torch.save, for Capstan to read; `check` reads those that Capstan wrote there by
torch.load(weights_only=True) and compares them with what they should hold, which state_dict.cpp beside this file knows as
well. Prints one line a file.
"""
import collections
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))  # behind all others: files there are called like packages
from elements import elements  # noqa: E402

# Those that Capstan writes.
WRITTEN = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]
TYPES = WRITTEN + ["uint16", "uint32", "uint64", "complex64", "complex128"]
SHAPES = [(), (5,), (0,), (2, 3), (2, 0, 3), (300, 2), (1, 2, 1, 2, 1, 2, 1)]


def tensor(code, shape):
    return torch.tensor(elements(code, shape), dtype=getattr(torch, code)).reshape(shape)


def name(code):
    return "layer.gr\u00f6\u00dfter_" + code


def everything(shape, types=TYPES):
    return collections.OrderedDict((name(code), tensor(code, shape)) for code in types)


def write(folder):
    def save(file, value, **options):
        torch.save(value, folder / file, **options)
        print(f"  {file}: written")

    for i, shape in enumerate(SHAPES):
        save(f"shape{i}.pt", everything(shape))
    for protocol in range(2, 6):
        save(f"protocol{protocol}.pt", everything((2, 3)), pickle_protocol=protocol)
    save("strided.pt", {key: torch.stack([x.t(), x.t()], 2)[:, :, 0].t() for key, x in everything((300, 2)).items()})
    weight = torch.nn.Parameter(torch.ones(2))
    schedule = torch.optim.lr_scheduler.MultiStepLR(torch.optim.SGD([weight], 0.5), [1, 2])
    save("checkpoint.pt", {"model": everything((2, 3)), "schedule": schedule.state_dict(), "epoch": 3, "best": 0.5,
                           "history": [{"loss": 1.0}, ("a", None)]})


def fault(path, expected):
    """What is wrong with a file, or ''."""
    actual = torch.load(path, weights_only=True)
    if list(actual) != list(expected):
        return f"it holds {list(actual)}"
    for key, x in actual.items():
        if x.dtype != expected[key].dtype or x.shape != expected[key].shape:
            return f"{key} is {x.dtype} {list(x.shape)}"
        if not x.is_contiguous() or not torch.equal(x, expected[key]):
            return f"{key}: the elements differ"
    return ""


def check(folder):
    """True if anything differs."""
    faults = {f"shape{i}.pt": fault(folder / f"shape{i}.pt", everything(shape, WRITTEN))
              for i, shape in enumerate(SHAPES)}
    faults["transposed.pt"] = fault(folder / "transposed.pt", {"t": tensor("float32", (2, 3)).t()})
    faults["empty.pt"] = fault(folder / "empty.pt", {})
    for file, wrong in faults.items():
        print(f"  {file}: {wrong or 'equal'}")
    return any(faults.values())


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "write":
        write(folder)
    else:
        sys.exit(1 if check(folder) else 0)


if __name__ == "__main__":
    main()
