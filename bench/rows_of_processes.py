"""Rows that are no benchmark program's: whole processes, files on disk, counts. Each function yields its rows."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from statistics import median

from measured import Figures, Row, by_round
from peers import Failed, output_of

BENCH = Path(__file__).resolve().parent


def process_row(name, measure, ours, theirs, turns):
    """Whole processes by turns: wall time, and peak memory in MB. `theirs` are commands by peer."""
    figures = {peer: [] for peer in [None, *theirs]}
    for _ in range(turns):
        for peer, command in {None: ours, **theirs}.items():
            try:
                figures[peer].append([int(number) for number in output_of([measure, *command]).split()])
            except Failed as error:
                if peer is None:
                    raise
                print(f"{name}: without {peer.name}: {error}", file=sys.stderr)
                theirs = {other: command for other, command in theirs.items() if other != peer}
    figures = {peer: figures[peer] for peer in [None, *theirs]}
    times = {peer: by_round(ns for ns, _ in pairs) for peer, pairs in figures.items()}
    peaks = {peer: round(median(kb for _, kb in pairs) * 1024 / 1e6, 1) for peer, pairs in figures.items()}
    row = Row(name, times[None], [Figures(peer.name, peer.kind, times[peer]) for peer in theirs])
    best = row.best()
    row.extra = {"ours_peak_mb": peaks[None],
                 "peer_peak_mb": next((peaks[peer] for peer in theirs if best and peer.name == best.peer), None)}
    return row


def compile_rows(build, programs, peers, options):
    def compiling(source, standard, include_dirs, output):
        return [programs["compiler"], f"-std=c++{standard}", "-O2", "-w", "-c",
                *(f"-I{folder}" for folder in include_dirs), BENCH / source, "-o", build / output]

    theirs = {peer: compiling("user_file_torch.cpp", peer.standard, peer.include_dirs, "user_file_torch.o")
              for peer in peers if peer.standard}
    ours = compiling("user_file.cpp", "20", [BENCH.parent / "include"], "user_file.o")
    yield process_row("compile_user_file", programs["measure"], ours, theirs, 1 if options.quick else 3)


def start_rows(_, programs, peers, options):
    theirs = {peer: [peer.hello] for peer in peers if peer.hello}
    yield process_row("hello_start", programs["measure"], [programs["hello"]], theirs, 5 if options.quick else 21)


def loaded_mb(library):
    """MB on disk of a library, which comes first, and of all that it loads, file by file.

    The C and C++ libraries, which every program has, are among these.
    """
    lines = output_of(["ldd", library]).splitlines()
    found = [re.search(r"(?:=> )?(/\S+) \(0x", line) for line in lines]
    files = dict.fromkeys([Path(library).resolve(), *(Path(one[1]).resolve() for one in found if one)])
    return {str(file): file.stat().st_size / 1e6 for file in files}


def size_rows(_, programs, peers, __):
    if programs["library"]:
        ours = loaded_mb(programs["library"])
        theirs = {peer: loaded_mb(peer.library) for peer in peers if peer.library}
        parts = {"Capstan": ours} | {peer.name: loaded for peer, loaded in theirs.items()}
        yield Row("library_size", by_round([sum(ours.values())]),
                  [Figures(peer.name, peer.kind, by_round([sum(loaded.values())])) for peer, loaded in theirs.items()],
                  unit="MB", extra={"parts_mb": parts})


def steady_rows(_, programs, __, ___):
    """Requests to the system for memory in 100 steps of each of two training loops, after the second step."""
    counts = json.loads(output_of([programs["steady"]]))
    yield Row("steady_allocations", by_round([counts["mlp"] + counts["lstm"]]), unit="count", extra={"counts": counts})


# --- CSV files ---------------------------------------------------------------------------------------------------


def write_csv(path, mixed):
    """100,000 rows: eight floating numbers; if mixed two are integers, one is a text, and some fields are empty."""
    random = Random(1)
    with open(path, "w", encoding="ascii") as file:
        file.write("a,b,c,d,e,f,g,h\n")
        for _ in range(100_000):
            row = [f"{random.uniform(-1e4, 1e4):.6g}" for _ in range(8)]
            if mixed:
                row[1], row[2] = str(random.randrange(100_000)), str(random.randrange(100))
                row[3] = "" if random.random() < 0.01 else row[3]
                row[7] = random.choice(["INLAND", "NEAR BAY", "NEAR OCEAN", "<1H OCEAN"])
            file.write(",".join(row) + "\n")


def csv_row(name, mixed, build, programs, options):
    """Whole files, by turns with pandas where a Python that has it is found."""
    python = os.environ.get("CAPSTAN_PEERS_PYTHON") or programs["python"] or sys.executable
    has_pandas = subprocess.run([python, "-c", "import pandas"], capture_output=True).returncode == 0
    path = build / f"{name}.csv"
    write_csv(path, mixed)
    figures, peer = {"ours": [], "peer": []}, None
    commands = {"ours": [programs["csv"]], "peer": [python, BENCH / "csv_pandas.py"] if has_pandas else None}
    for _ in range(options.rounds):
        for side, command in commands.items():
            if command:
                result = json.loads(output_of([*command, path, 3 if options.quick else 7]))
                figures[side].append(1e6 * result["median_ms"])
                peer = f"pandas {result['pandas']}" if "pandas" in result else None
    theirs = [Figures(peer, "other", by_round(figures["peer"]), "its C reader")] if peer else []
    return Row(name, by_round(figures["ours"]), theirs)


def csv_number_rows(build, programs, _, options):
    yield csv_row("csv_numbers", False, build, programs, options)


def csv_mixed_rows(build, programs, _, options):
    yield csv_row("csv_mixed", True, build, programs, options)


# --- files that Capstan writes -----------------------------------------------------------------------------------


FILE_ROWS = {  # our figure, what it is held against, and what that is called
    "safetensors_save_1gb": ("save", "file_copy", "plain file copy"),
    "safetensors_load_1gb": ("load", "file_copy", "plain file copy"),
    "checkpoint_stall": ("checkpoint_stall", "copy_of_state", "copy of the weights"),
    "loop_with_scalars": ("thousand_steps_with_scalars", "thousand_steps", "without scalars"),
    "scalars_1000": ("thousand_scalars", None, None),
}


def file_rows(build, programs, _, options):
    size, rounds = (100, 1) if options.quick else (1000, options.rounds)
    figures = json.loads(output_of([programs["files"], build / "bench_files", size, rounds]))
    for name, (ours, theirs, what) in FILE_ROWS.items():
        if options.filter.search(name):
            others = [Figures(what, "other", by_round([1e6 * figures[theirs]]))] if theirs else []
            yield Row(name, by_round([1e6 * figures[ours]]), others)


# --- all of them -------------------------------------------------------------------------------------------------


STAGES = [  # the rows' names, who yields them, and about how many seconds that takes
    (["compile_user_file"], compile_rows, 120),
    (["hello_start"], start_rows, 30),
    (["library_size"], size_rows, 1),
    (["steady_allocations"], steady_rows, 1),
    (["csv_numbers"], csv_number_rows, 15),
    (["csv_mixed"], csv_mixed_rows, 15),
    (list(FILE_ROWS), file_rows, 60),
]


def wanted_stages(options):
    return [stage for stage in STAGES if any(options.filter.search(name) for name in stage[0])]


def process_rows(build, programs, peers, options, clock):
    for names, rows, _ in wanted_stages(options):
        clock.say(", ".join(names))
        with clock.running("processes", names[0], 1):
            made = list(rows(build, programs, peers, options))
        yield from made
