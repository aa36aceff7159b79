"""NumPy's side of scripts/check-peers: python npy.py write|check FOLDER

`write` writes .npy and .npz files with NumPy, for Capstan to read; `check` reads those that Capstan wrote there and
compares them with what they should hold, which npy.cpp beside this file knows as well. Prints one line a file.
"""
import io
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))  # behind all others: files there are called like packages
from elements import elements  # noqa: E402

WRITTEN = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "b1"]  # by Capstan
TYPES = WRITTEN + ["u2", "u4", "u8", "c8", "c16"]
SHAPES = [(), (5,), (0,), (2, 3), (2, 0, 3), (2, 3, 4), (1, 2, 1, 2, 1, 2, 1)]
LARGEST = 2**63 - 1


def array(code, shape, order="<"):
    return np.array(elements(code, shape), dtype=np.dtype(order + code)).reshape(shape)


def in_archive(code):
    return "layer/gr\u00f6\u00dfter_" + code


def write(folder):
    def save(name, values, version=(1, 0)):
        with open(folder / name, "wb") as file:
            np.lib.format.write_array(file, values, version=version, allow_pickle=False)
        print(f"  {name}: written")

    for code in TYPES:
        for i, shape in enumerate(SHAPES):
            for order, mark in (("little", "<"), ("big", ">")):
                values = array(code, shape, mark)
                save(f"{code}_{order}_c_{i}.npy", values)
                save(f"{code}_{order}_fortran_{i}.npy", np.asfortranarray(values) if shape else values)
    for version in (1, 2, 3):
        save(f"version{version}.npy", array("f4", (2, 3)), (version, 0))
    save("extremes_u8.npy", np.array([0, LARGEST], dtype="<u8"))
    named = {in_archive(code): array(code, (2, 3)) for code in TYPES}
    np.savez(folder / "stored.npz", **named)
    np.savez_compressed(folder / "deflated.npz", **named)
    print("  stored.npz: written\n  deflated.npz: written")


def fault(actual, expected):
    """What is wrong with an array, or ''."""
    if actual.dtype != expected.dtype:
        return f"the type is {actual.dtype}, not {expected.dtype}"
    if actual.shape != expected.shape:
        return f"the shape is {actual.shape}, not {expected.shape}"
    return "" if actual.tobytes() == expected.tobytes() else "the elements differ"


def fault_of_file(path, expected):
    """The same of a .npy file, which NumPy must also write byte for byte alike."""
    wrong = fault(np.load(path, allow_pickle=False), expected)
    if wrong or int(np.__version__.split(".")[0]) < 2:  # older ones leave no room for a growing first size
        return wrong
    own = io.BytesIO()
    np.save(own, expected, allow_pickle=False)
    return "" if own.getvalue() == path.read_bytes() else "NumPy would write other bytes"


def fault_of_archive(path):
    with np.load(path, allow_pickle=False) as archive:
        if archive.files != [in_archive(code) for code in WRITTEN]:
            return f"it holds {archive.files}"
        faults = {code: fault(archive[in_archive(code)], array(code, (2, 3))) for code in WRITTEN}
        return ", ".join(f"{code}: {wrong}" for code, wrong in faults.items() if wrong)


def check(folder):
    """True if anything differs."""
    faults = {f"{code}_{i}.npy": fault_of_file(folder / f"{code}_{i}.npy", array(code, shape))
              for code in WRITTEN for i, shape in enumerate(SHAPES)}
    faults["transposed.npy"] = fault_of_file(folder / "transposed.npy", np.ascontiguousarray(array("f4", (2, 3)).T))
    faults["extremes.npy"] = fault_of_file(folder / "extremes.npy", np.array([-LARGEST - 1, LARGEST], dtype="<i8"))
    for name in ("stored.npz", "deflated.npz"):
        faults[name] = fault_of_archive(folder / name)
    for name, wrong in faults.items():
        print(f"  {name}: {wrong or 'equal'}")
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
