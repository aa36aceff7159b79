#!/usr/bin/env python3
"""What gdb or lldb shows of the program inspect.cpp: debugger_test.py gdb|lldb PROGRAM

Exits with 77, for ctest's SKIP_RETURN_CODE, where there is no such debugger or where it may not trace a program.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "debuggers"

# Values from inspect.cpp, laid out as numpy 2.4 does (str(array)).
EXPECTED = {
    "scene.matrix": "[2, 2] float32 cpu\n[[ 6. 12.]\n [12. 26.]]",
    "scene.undefined": "undefined tensor",
    "scene.number": "[] float32 cpu 2.5",
    "scene.row": "[5] int64 cpu [0 1 2 3 4]",
    "scene.backwards": "[5] int64 cpu [4 3 2 1 0]",
    "scene.columns": "[3, 2] int32 cpu\n[[1 4]\n [2 5]\n [3 6]]",
    "scene.stretched": "[2, 2] float64 cpu\n[[1.5 2.5]\n [1.5 2.5]]",
    "scene.no_rows": "[0, 3] float32 cpu []",
    "scene.large": """[7, 200] int64 cpu
[[   0    1    2 ...  197  198  199]
 [ 200  201  202 ...  397  398  399]
 [ 400  401  402 ...  597  598  599]
 ...
 [ 800  801  802 ...  997  998  999]
 [1000 1001 1002 ... 1197 1198 1199]
 [1200 1201 1202 ... 1397 1398 1399]]""",
    "scene.half": "[2] float16 cpu [0.1 0.2]",
    "scene.brain": "[2] bfloat16 cpu [ 1. -2.]",
    "scene.small": "[2] int8 cpu [ 1 -2]",
    "scene.bytes": "[3] uint8 cpu [  1  20 255]",
    "scene.flags": "[2] bool cpu [ True False]",
    "scene.slices": "[5, 2] float32 cpu, zero but for the rows [3 2]:\n[[1. 2.]\n [3. 4.]]",
    "scene.weight": "[2] float32 cpu trainable [1. 2.]",
    "scene.frozen": "[1] float32 cpu not trainable [3.]",
    "scene.shape": "[2, 3, 4]",
    "scene.no_axes": "[]",
    "scene.dtype": "bfloat16",
    "scene.host": "cpu",
    "scene.gpu": "cuda:1",
    "scene.whole": "7",
    "scene.real": "0.5",
    "scene.truth": "true",
    "scene.sixteen": "0.1",
}
# Regular expressions: addresses differ, and a vector is shown by the debugger's own printer.
MATCHED = {
    "*scene.freed": r"<unreadable: no tensor at 0x[0-9a-f]+; freed, overwritten, or not yet made>",
    "*scene.wild": r"<unreadable: \d+ bytes at 0x1111111111111111>",
    "scene.pair": r".*\[\] int32 cpu 7.*undefined tensor.*",
}
COMMANDS = {
    "tensor scene.matrix": r"\[2, 2\] float32 cpu\n\[\[ 6\. 12\.\]\n \[12\. 26\.\]\]\n"
                           r"strides \[2, 1\]  data 0x[0-9a-f]+  handles 2  tensors on the storage 1  writes \d+",
    "tensor scene.matrix --stats": r"\[2, 2\] float32 cpu  min 6  max 26  mean 14  std 7\.35  nan 0  inf 0",
    "tensor scene.large --full": r"\[7, 200\] int64 cpu\n\[\[   0    1    2    3 .*",
    "tensor scene.nothing": r"error: .*",
}
IN_MAIN = {"h": EXPECTED["scene.matrix"]}  # a local variable, one frame up
DENIED = re.compile(r"ptrace|Operation not permitted|Could not trace|personality|'A' packet", re.IGNORECASE)


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def start(debugger, program, commands, answers):
    """Runs the debugger; what it printed."""
    inside = str(HERE / f"inside_{debugger}.py")
    line = {"gdb": ["gdb", "-batch", "-nx", "-x", inside, program],
            "lldb": ["lldb", "--batch", "--no-lldbinit", "-o", f'command script import "{inside}"', program]}[debugger]
    environment = dict(os.environ, CAPSTAN_SCRIPT=str(SCRIPTS / f"capstan_{debugger}.py"), PYTHONDONTWRITEBYTECODE="1",
                       CAPSTAN_COMMANDS=json.dumps(commands), CAPSTAN_ANSWERS=answers, DEBUGINFOD_URLS="",
                       CAPSTAN_NUM_THREADS="1")
    result = subprocess.run(line, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=300)
    return result.stdout


def has_python(debugger):
    line = {"gdb": ["gdb", "-batch", "-nx", "-ex", "python print(6 * 7)"],
            "lldb": ["lldb", "--batch", "--no-lldbinit", "-o", "script print(6 * 7)"]}[debugger]
    return "42" in subprocess.run(line, capture_output=True, text=True, timeout=60).stdout.split()


def main():
    debugger, program = sys.argv[1:]
    if not shutil.which(debugger):
        skip(f"no {debugger} on this machine")
    if not has_python(debugger):
        skip(f"this {debugger} has no Python")
    show = {"gdb": "print", "lldb": "v"}[debugger]
    in_main = IN_MAIN if debugger == "gdb" else {}  # lldb 14 sees no variables at all in g++'s optimized main
    first = [f"{show} {name}" for name in (*EXPECTED, *MATCHED)]
    commands = [*first, *COMMANDS, "up", *(f"{show} {name}" for name in in_main)]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "answers.json"
        output = start(debugger, program, commands, str(path))
        if not path.exists():
            if DENIED.search(output):
                skip(f"{debugger} may not trace a program here")
            print(output)
            sys.exit(f"{debugger} did not stop in stop_here()")
        answers = json.loads(path.read_text())

    faults = []

    def compare(command, right, expected):
        answer = answers[command].rstrip("\n")
        shown = answer.partition(" = ")[2] if command.startswith(show + " ") else answer
        if not right(shown):
            faults.append(f"{command}\n--- expected\n{expected}\n--- shown\n{answer}\n")

    for name, text in (*EXPECTED.items(), *in_main.items()):
        compare(f"{show} {name}", lambda shown, text=text: shown == text, text)
    for name, pattern in MATCHED.items():
        compare(f"{show} {name}", lambda shown, pattern=pattern: re.fullmatch(pattern, shown, re.DOTALL), pattern)
    for command, pattern in COMMANDS.items():
        compare(command, lambda shown, pattern=pattern: re.fullmatch(pattern, shown, re.DOTALL), pattern)
    if "Python Exception" in output or "Traceback" in output:
        faults.append(output)
    if any("..." in answers[command] for command in COMMANDS if command.endswith("--full")):
        faults.append("--full leaves something out")
    print("\n".join(faults), f"{len(answers)} commands, {len(faults)} faults", sep="\n")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
