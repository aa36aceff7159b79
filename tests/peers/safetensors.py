"""The safetensors package's side of scripts/check-peers: python safetensors.py write|check FOLDER

`write` writes safetensors files with the package, for Capstan to read; `check` reads those that Capstan wrote there and
compares them with what they should hold, which safetensors.cpp beside this file knows as well, and with the bytes that
the package itself writes. Types that NumPy does not have go by PyTorch; without it they are left out. Prints one line a
file.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:] = [path for path in sys.path if pathlib.Path(path).resolve() != HERE]  # where safetensors is this file

import numpy as np  # noqa: E402
import safetensors.numpy  # noqa: E402
from safetensors import safe_open  # noqa: E402

try:
    import safetensors.torch
    import torch
except ImportError:
    torch = None

sys.path.append(str(HERE))  # behind all others
from elements import elements  # noqa: E402

NUMPY = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I8": "|i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "|u1",
         "BOOL": "|b1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "C64": "<c8"}
TORCH = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
         "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz"}
WRITTEN = ["F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "BOOL"]  # by Capstan; and BF16
SHAPES = [(), (5,), (0,), (2, 3), (2, 0, 3), (1, 2, 1, 2, 1, 2, 1)]
METADATA = {'format "\\\n': "gr\u00f6\u00dfter\x01"}


def name_of(shape):
    return f'layer."gr\u00f6\u00dfter".{shape}'


def arrays(code, prefix=""):
    return {prefix + name_of(i): np.array(elements(code, shape), dtype=NUMPY[code]).reshape(shape)
            for i, shape in enumerate(SHAPES)}


def all_arrays():
    return {name: array for code in WRITTEN for name, array in arrays(code, code).items()}


def tensors(code):
    def tensor(shape):
        return torch.tensor(elements(code, shape), dtype=torch.float32).reshape(shape).to(getattr(torch, TORCH[code]))

    return {name_of(i): tensor(shape) for i, shape in enumerate(SHAPES)}


def known(code):
    """Whether PyTorch has that type, and the package knows it."""
    try:
        safetensors.torch.save({"x": torch.zeros(1).to(getattr(torch, TORCH[code]))})
    except (AttributeError, KeyError, safetensors.SafetensorError):
        return False
    return True


def files(codes, other_codes):
    """File, the bytes that the package writes for it, what it holds, and its metadata."""
    for code in codes:
        yield f"{code}.safetensors", arrays(code), None
    yield "all.safetensors", all_arrays(), None
    yield "metadata.safetensors", arrays("F32"), METADATA
    yield "none.safetensors", {}, None
    for code in other_codes if torch else []:
        if known(code):
            yield f"{code}.safetensors", tensors(code), None


def package_of(named):
    first = next(iter(named.values()), None)
    return safetensors.numpy if first is None or isinstance(first, np.ndarray) else safetensors.torch


def write(folder):
    for file, named, metadata in files(NUMPY, TORCH):
        package_of(named).save_file(named, str(folder / file), metadata)
        print(f"  {file}: written")


def same(actual, expected):
    if isinstance(expected, np.ndarray):
        return (actual.dtype, actual.shape, actual.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        return False
    return torch.equal(actual.to(torch.float64), expected.to(torch.float64))


def fault(path, named, metadata):
    """What is wrong with a file, or ''."""
    package = package_of(named)
    with safe_open(str(path), framework="numpy" if package is safetensors.numpy else "pt") as file:
        if (file.metadata() or None) != metadata:
            return f"the metadata are {file.metadata()}"
        if sorted(file.keys()) != sorted(named):
            return f"it holds {sorted(file.keys())}"
        for name, expected in named.items():
            if not same(file.get_tensor(name), expected):
                return f"{name} differs"
    own = package.save(named, metadata)
    return "" if own == path.read_bytes() else "the package would write other bytes"


def check(folder):
    """True if anything differs."""
    rows = list(files(WRITTEN, ["BF16"]))
    transposed = np.ascontiguousarray(np.arange(6, dtype="<f4").reshape(2, 3).T)
    rows.append(("transposed.safetensors", {"x": transposed}, None))
    wrong = False
    for file, named, metadata in rows:
        try:
            text = fault(folder / file, named, metadata)
        except Exception as error:  # one line for each file, whatever happens
            text = f"{type(error).__name__}: {error}"
        print(f"  {file}: {text or 'equal'}")
        wrong = wrong or bool(text)
    if torch is None:
        print("  BF16.safetensors: left out, there is no torch")
    return wrong


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
