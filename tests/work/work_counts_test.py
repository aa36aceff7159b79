#!/usr/bin/env python3
"""Holds what work costs to the figures in bounds.json: work_counts_test.py PROGRAM --built-with TEXT [--record]

PROGRAM is tests/work/work_counts.cpp, which says what it counts. Instructions are counted by valgrind, where it is
found, and only within the steps, not before and behind them. They depend on compiler and options, so they are held to
their bounds only where TEXT is what it was when they were recorded; the others are held to theirs everywhere. A figure
may be a tenth above what is recorded; one that is a fifth below is reported, to be recorded anew. The library's
allocator must not ask the system for anything. --record writes this machine's figures to bounds.json instead. Prints a
line for each figure that is off, and the number of figures checked.

Each count is there to catch changes such as these, of one line each:
  instructions          `choose_kernels` in lib/cpu/backend.cpp that never takes the AVX2 kernels (softmax, layer_norm);
                        `thread_bin_limit` in lib/core/allocator.cpp that is 0, so that every block goes by way of the
                        shared cache and its lock (add_1)
  heap_calls and bytes  `Session` in autograd/gradient.cpp that deletes its buffers instead of keeping them for the next
                        replay; in a plan, anything
  system_allocations    a `cache_limit` in lib/core/allocator.cpp that is 0: what is freed goes back to the system
  tensors               `Replay::accumulator` in autograd/gradient.cpp that finds no place, so that gradients of weights
                        used in every step are made anew before they are added (char_lstm_cell)
  kept_bytes            `binary` in autograd/elementwise.hpp that saves both operands, whichever is followed
                        (chain_32_backward)
  peak_bytes            `replay_entries` in autograd/gradient.cpp that keeps gradients that are used up
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

BOUNDS = pathlib.Path(__file__).with_name("bounds.json")
STEPS = 4  # for all counts but instructions
PROCESSES = 2  # at a time, as tests/CMakeLists.txt tells ctest
# Steps whose instructions are counted, so few that valgrind takes seconds. None: it would take minutes even for one.
ROWS = {
    "add_1": 1000, "add_64": 1000, "chain_32_backward": 100, "softmax": 1, "exp_small": 4, "tanh_small": 4,
    "sigmoid_small": 4, "sum_axis0_small": 4, "sum_axis1_small": 4, "sum_all_small": 4, "transposed_copy_small": 4,
    "matmul_64": 10, "matmul_256": 1, "linear_single_row": 10, "layer_norm": 1, "batch_norm_small": 4,
    "attention_small": 2, "conv3x3_small": 1, "conv3x3_few_places": 1, "depthwise_small": 2, "max_pool2d_small": 4,
    "gru_small": 2, "bilstm_small": 2, "adam_small": 4, "parity_step": None, "parity_small": 2, "char_lstm_fused": 1,
    "char_lstm_cell": 1, "seq2seq_step": None, "seq2seq_small": 2, "ptb_small": None, "ptb_tiny": 2,
    "mnist_cnn_step": None, "mnist_cnn_small": 1, "plan_lstm4": 1000, "plan_gru64": 200,
}
FIGURES = ["heap_calls", "heap_bytes", "tensors", "kept_bytes", "peak_bytes"]
ABOVE, BELOW = 1.1, 0.8  # of what is recorded: a fault, a hint
# The same kernels on all machines: valgrind knows AVX2 and no AVX-512.
ENVIRONMENT = {**os.environ, "CAPSTAN_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CAPSTAN_SIMD": "avx2",
               "OPENBLAS_CORETYPE": "Haswell"}
COUNTED = "measured_steps"
VALGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--toggle-collect=*{COUNTED}*"]


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {result.returncode}:\n{result.stderr}")
    return result


def counts(program, row):
    """The figures of one step, without instructions."""
    said = json.loads(run([program, row, str(STEPS)]).stdout)
    for name in ("heap_calls", "heap_bytes"):
        said[name] = round(said[name] / STEPS, 2)
    return said


def instructions(program, row):
    """Of one step."""
    said = run([*VALGRIND, program, row, str(ROWS[row])]).stderr
    collected = int(re.search(r"Collected *: *(\d+)", said)[1])
    if collected == 0:
        sys.exit(f"valgrind counted nothing in {row}: {COUNTED} must be a function of its own, named in the program")
    return round(collected / ROWS[row])


def why_no_instructions(built_with, recorded_with):
    """Empty if they can be counted and compared. `recorded_with` is None if they are to be recorded."""
    processor = pathlib.Path("/proc/cpuinfo")
    if shutil.which("valgrind") is None:
        return "there is no valgrind"
    if not processor.exists() or "avx2" not in processor.read_text(errors="replace"):
        return "this processor has no AVX2"
    if not built_with.startswith("Release"):
        return f"this build is '{built_with}', and no release"
    if recorded_with not in (None, built_with):
        return f"this build is '{built_with}', and the figures are of '{recorded_with}'"
    return ""


def measure(program, with_instructions):
    """row -> figures"""
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        figures = {row: pool.submit(counts, program, row) for row in ROWS}
        counted = {row: pool.submit(instructions, program, row)
                   for row, steps in ROWS.items() if steps and with_instructions}
        measured = {row: result.result() for row, result in figures.items()}
        for row, result in counted.items():
            measured[row]["instructions"] = result.result()
    return measured


def record(measured, before, built_with):
    """Writes bounds.json. Instructions that were not counted stay as they are."""
    rows = {}
    for row, found in measured.items():
        kept = before["rows"].get(row, {}).get("instructions")
        rows[row] = {"instructions": found.get("instructions", kept), **{name: found[name] for name in FIGURES}}
    counted = any("instructions" in found for found in measured.values())
    lines = ",\n".join(f'    "{row}": {json.dumps(figures)}' for row, figures in rows.items())
    with_what = json.dumps(built_with if counted else before["built_with"])
    BOUNDS.write_text(f'{{\n  "built_with": {with_what},\n  "rows": {{\n{lines}\n  }}\n}}\n')


def compare(measured, recorded):
    """Prints what is off. The numbers of figures that were checked, and of faults."""
    checked, faults = 0, 0
    for row, found in measured.items():
        checked += 1
        if found["system_allocations"] != 0:
            faults += 1
            print(f"FAULT  {row}: the allocator asked the system {found['system_allocations']} times in {STEPS} steps")
        for name in ["instructions", *FIGURES]:
            if name not in found:
                continue
            checked += 1
            bound = recorded.get(row, {}).get(name)
            if bound is None:
                faults += 1
                print(f"FAULT  {row}: {name} = {found[name]:,} has no bound yet; see --record")
            elif found[name] > ABOVE * bound:
                faults += 1
                print(f"FAULT  {row}: {name} = {found[name]:,}, above {bound:,} by more than a tenth")
            elif found[name] < BELOW * bound:
                print(f"hint   {row}: {name} = {found[name]:,} is far below {bound:,}; the bound could be tightened")
    return checked, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--built-with", required=True, help="build type, processor, compiler, libraries")
    parser.add_argument("--record", action="store_true", help="write this machine's figures to bounds.json")
    options = parser.parse_args()

    if run([options.program]).stdout.split() != list(ROWS):
        sys.exit("the rows of the program are not those of this script")
    recorded = json.loads(BOUNDS.read_text())
    reason = why_no_instructions(options.built_with, None if options.record else recorded["built_with"])
    if reason:
        print(f"instructions are not counted: {reason}")
    measured = measure(options.program, not reason)
    if options.record:
        record(measured, recorded, options.built_with)
        return 0
    checked, faults = compare(measured, recorded["rows"])
    print(f"{checked} figures, {faults} faults")
    if faults:
        print(f"if they are meant: {shlex.join(sys.argv)} --record")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
