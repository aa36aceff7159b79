#!/usr/bin/env python3
"""Runs capstan-plot-run on runs made here, and looks at what it prints and draws: plot_run_test.py PROGRAM [DATA]

DATA is the folder of data sets, whose event files are drawn, too. Exits with 77 if the build reads no event files.
"""
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

SVG = "{http://www.w3.org/2000/svg}"
faults = []


# --- event files, by the definitions of protobuf and TFRecord ---

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data):
    head = struct.pack("<Q", len(data))
    return head + crc32c(head) + data + crc32c(data)


def varint(value):
    text = b""
    while value > 127:
        text += bytes([value & 127 | 128])
        value >>= 7
    return text + bytes([value])


def field(number, data):
    return varint(number * 8 + 2) + varint(len(data)) + data


def event(time, step, what):
    return record(b"\x09" + struct.pack("<d", time) + b"\x10" + varint(step) + what)


def scalar(time, step, tag, value):
    name = tag if isinstance(tag, bytes) else tag.encode()
    return event(time, step, field(5, field(1, field(1, name) + b"\x15" + struct.pack("<f", value))))


def write_run(folder, curves, first_time=1000.0, first_step=0):
    """`curves` maps tags to lists of values, of steps 0, 1, ... or from `first_step` on."""
    folder.mkdir(parents=True, exist_ok=True)
    data = event(first_time, 0, field(3, b"brain.Event:2"))
    for tag, values in curves.items():
        for step, value in enumerate(values):
            data += scalar(first_time + 60 * step, first_step + step, tag, value)
    (folder / "events.out.tfevents.1000.host").write_bytes(data)


# --- running it ---

def check(condition, what):
    if not condition:
        faults.append(what)


def run(*arguments, status=0):
    result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, encoding="utf-8")
    if "install libprotozero-dev" in result.stderr:
        print(result.stderr)
        sys.exit(77)
    check(result.returncode == status, f"{arguments} exits with {result.returncode}: {result.stderr}")
    return result


def drawn(path):
    """The texts of the picture, and how many curves there are."""
    root = xml.parse(path).getroot()
    texts = [text.text for text in root.iter(SVG + "text")]
    lines = list(root.iter(SVG + "polyline"))
    for shape in (*lines, *root.iter(SVG + "path")):
        numbers = shape.get("points") or shape.get("d")
        check("nan" not in numbers.lower() and "inf" not in numbers.lower(), f"{path}: a point is no number")
    for tag in ("line", "rect", "circle", "text"):
        for shape in root.iter(SVG + tag):
            check(all("nan" not in value and "inf" not in value for value in shape.attrib.values()),
                  f"{path}: a place is no number")
    return texts, len(lines)


def two_runs(folder):
    write_run(folder / "runs/a", {"loss": [1, 0.5, 0.25], "accuracy/test": [0.5, 0.75, 0.875]})
    write_run(folder / "runs/deep/b", {"loss": [2, 1, 0.5]})
    result = run(folder / "runs", "--output", folder / "two.svg")
    texts, lines = drawn(folder / "two.svg")
    check({"loss", "accuracy/test", "a", "deep/b", "step", "2 runs"} <= set(texts), f"two runs: {texts}")
    check(texts.count("a") == 1, "one legend")
    check(lines == 3, f"two runs: {lines} curves")
    check("  a: 3 points, steps 0 to 2, last 0.25, lowest 0.25 at step 2" in result.stdout, result.stdout)
    check("two.svg: 2 tags of 2 runs" in result.stdout, result.stdout)

    run(folder / "runs", "--output", folder / "one.svg", "--tags", "acc*,nothing")
    texts, lines = drawn(folder / "one.svg")
    check("accuracy/test" in texts and "loss" not in texts and lines == 1, f"--tags: {texts}")

    run(folder / "runs", "--output", folder / "smooth.svg", "--smooth", 0.9, "--x", "time", "--log",
        "--title", "A & <B>")
    texts, lines = drawn(folder / "smooth.svg")
    check({"A & <B>", "minutes since the run began", "smoothed by 0.9; pale: as logged"} <= set(texts), f"{texts}")
    check(lines == 6, f"--smooth: {lines} curves")

    result = run(folder / "runs", "--output", folder / "none.svg", "--tags", "nothing", status=2)
    check("no tag fits 'nothing'" in result.stderr and "accuracy/test" in result.stderr, result.stderr)
    check(not (folder / "none.svg").exists(), "nothing is written after an error")
    result = run(folder / "runs", "--output", folder / "curves.png", status=2)
    check("must end in .svg" in result.stderr, result.stderr)


def odd_runs(folder):
    nan, inf = float("nan"), float("inf")
    write_run(folder / "odd", {"one point": [3], "gaps": [1, nan, 2, 3, inf, 5], "all the same": [7] * 5,
                               "nothing finite": [nan, nan], "below zero": [-1, -2], "large": [0, 1e38, 3e38],
                               "a <tag> & \"more\"": [0, 1], "long " + "name " * 40: [1e-30, 2e-30],
                               b"no UTF-8 \xff\x01": [1, 2], "many": [i % 7 for i in range(2000)]})
    for options in ([], ["--log"], ["--smooth", "0.5"], ["--x", "time"]):
        result = run(folder / "odd", "--output", folder / "odd.svg", *options)
        texts, _ = drawn(folder / "odd.svg")
        check({"one point", "gaps", "a <tag> & \"more\"", "no UTF-8 \ufffd\ufffd", "odd"} <= set(texts), f"{texts}")
        check("2 not finite" in result.stdout, result.stdout)
        check("\ufffd\ufffd" in result.stdout and "\x01" not in result.stdout, "control characters are not printed")

    write_run(folder / "far", {"one point": [3]}, first_step=1 << 60)
    run(folder / "far", "--output", folder / "far.svg")
    _, lines = drawn(folder / "far.svg")  # one more or less is the same number there
    check(lines == 1, f"a step of 2^60: {lines} curves")

    for i in range(45):
        write_run(folder / f"many/run{i:02}", {"loss": [i, i + 1]})
    run(folder / "many", "--output", folder / "many.svg")
    texts, lines = drawn(folder / "many.svg")
    check(lines == 45 and {f"run{i:02}" for i in range(45)} <= set(texts), f"45 runs: {lines}")


def errors(folder):
    (folder / "empty").mkdir()
    check("no event file is in the folder" in run(folder / "empty", status=2).stderr, "an empty folder")
    check("there is no such file" in run(folder / "missing", status=2).stderr, "a missing folder")
    run(status=2)
    write_run(folder / "mixed/good", {"loss": [1]})
    write_run(folder / "mixed/broken", {"loss": [1]})
    file = next((folder / "mixed/broken").iterdir())
    data = bytearray(file.read_bytes())
    data[20] ^= 1
    file.write_bytes(data)
    result = run(folder / "mixed", "--output", folder / "mixed.svg", status=1)
    check("checksum" in result.stderr and ".cpp" not in result.stderr, result.stderr)
    check("good" in drawn(folder / "mixed.svg")[0], "the other run is drawn")
    write_run(folder / "no_scalars", {})
    check("there are no scalars" in run(folder / "no_scalars", status=2).stderr, "no scalars")


def long_names(folder):
    names = [f"{'a' * 40}{i}{'b' * 40}" for i in range(2)]  # what differs is in the middle, which is left out
    for name in names:
        write_run(folder / "long" / name, {"loss": [1, 2], "accuracy": [2, 1]})
    run(folder / "long", "--output", folder / "long.svg")
    texts, _ = drawn(folder / "long.svg")
    legend = [text for text in texts if text.startswith("aaaa")]
    check(len(legend) == 2 and legend[1] == legend[0] + " (2)", f"long names: {legend}")
    colors = {line.get("stroke") for line in xml.parse(folder / "long.svg").getroot().iter(SVG + "polyline")}
    check(len(colors) == 2, f"long names: {colors}")


def full_disk(folder):
    """A picture that cannot be written leaves the one before."""
    write_run(folder / "full", {"loss": [1, 2]})
    picture = folder / "full.svg"
    picture.write_text("before")
    result = subprocess.run([PROGRAM, folder / "full", "--output", picture], capture_output=True, encoding="utf-8",
                            restore_signals=False,  # SIGXFSZ stays ignored: the write fails
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    check(result.returncode == 2 and "could not be written" in result.stderr, f"{result.returncode}: {result.stderr}")
    check(picture.read_text() == "before", "the picture is as it was")
    check(not list(folder.glob("full.svg?*")), "nothing is left beside it")


def full_output(folder):
    """What cannot be printed is an error, though the picture is drawn."""
    if not os.path.exists("/dev/full"):
        return
    write_run(folder / "printed", {"loss": [1, 2]})
    with open("/dev/full", "w") as full:
        result = subprocess.run([PROGRAM, folder / "printed", "--output", folder / "printed.svg"], stdout=full,
                                stderr=subprocess.PIPE, encoding="utf-8")
    check(result.returncode == 2 and "the output cannot be written" in result.stderr,
          f"/dev/full: {result.returncode}: {result.stderr}")


def script(folder):
    """scripts/plot-run, around the program that is there already and something that copies instead of drawing."""
    root, tools = folder / "root", folder / "root/build/release/tools"
    (root / "scripts").mkdir(parents=True)
    tools.mkdir(parents=True)
    (tools / "capstan-plot-run").symlink_to(pathlib.Path(PROGRAM).resolve())
    shutil.copy(pathlib.Path(__file__).resolve().parent.parent / "scripts/plot-run", root / "scripts")
    stand_ins = {"scripts/setup": "", "scripts/configure": "", "bin/cmake": "",
                 "bin/rsvg-convert": 'cp "$5" "$4"'}  # --zoom 2 --output PNG SVG
    (root / "bin").mkdir()
    for name, line in stand_ins.items():
        (root / name).write_text("#!/usr/bin/env bash\n" + line + "\n")
        (root / name).chmod(0o755)
    write_run(folder / "scripted", {"loss": [1, 2]})
    pictures = folder / "pictures & more"
    pictures.mkdir()
    (pictures / "x.svg").write_text("mine")
    png = pictures / "x.png"

    def plot(*output):
        return subprocess.run(["bash", root / "scripts/plot-run", folder / "scripted", *output], capture_output=True,
                              encoding="utf-8", env=os.environ | {"PATH": f"{root / 'bin'}:{os.environ['PATH']}"})

    for output in (["-o", png], [f"-o{png}"], ["--output", png], [f"--output={png}"]):
        result = plot(*output)
        check(result.returncode == 0 and f"{png}: 1 tag of 1 run" in result.stdout, f"{output}: {result}")
        check(png.exists() and "loss" in drawn(png)[0], f"{output}: the picture")
        check(sorted(path.name for path in pictures.iterdir()) == ["x.png", "x.svg"], f"{output}: nothing else is made")
        check((pictures / "x.svg").read_text() == "mine", f"{output}: another picture is as it was")
        png.unlink(missing_ok=True)
    for name in ("scripts/setup", "scripts/configure", "bin/cmake"):
        before = (root / name).read_text()
        (root / name).write_text("#!/usr/bin/env bash\nexit 1\n")
        result = plot("-o", png)
        check(result.returncode == 2 and not png.exists(), f"{name} fails: {result}")
        (root / name).write_text(before)


def shared_data(folder, data):
    files = sorted((pathlib.Path(data) / "tfevents").glob("*scalar*"))
    if not files:
        print("no event files in the folder of data sets")
        return
    run(*files, "--output", folder / "shared.svg")
    texts, _ = drawn(folder / "shared.svg")
    check({"my_metric", "epoch_loss", "Loss/train", "Accuracy/test", *(file.name for file in files)} <= set(texts),
          f"{texts}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        two_runs(folder)
        odd_runs(folder)
        long_names(folder)
        full_disk(folder)
        full_output(folder)
        script(folder)
        errors(folder)
        if len(sys.argv) > 2:
            shared_data(folder, sys.argv[2])
    print("\n".join(faults) or "all pictures are as they should be")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    main()
