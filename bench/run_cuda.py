#!/usr/bin/env python3
"""Measures Capstan and, where it was found, eager PyTorch on a GPU in turns; prints work, ours, theirs, ratio.

Both sides are programs with rows of the same names, and processes of the two sides alternate. A row's figure is the
median over the rounds; PyTorch's is that of its fastest variant ("mnist_cnn/fused"). Rows that end in _captured are our
recorded steps beside PyTorch's eager ones. Rows bound by memory also show their share of the bandwidth of a copy, the
faster side's; products their rate; and what was aimed at, if they miss it.
"""
import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

BENCH = Path(__file__).resolve().parent
COPY_SHARE, PRODUCT_RATIO, CAPTURED_RATIO, ISSUE_US = 0.90, 0.95, 3.0, 4.0    # what is aimed at


def run(command):
    """The results that a program printed; its rows may fail one by one."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode not in (0, 1) or not results:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stderr}")
    return results


def peer_of(python):
    """PyTorch's version and the GPU's name, or None."""
    asked = "import torch; print(torch.__version__); print(torch.cuda.get_device_name(0))"
    try:
        done = subprocess.run([python, "-c", asked], capture_output=True, text=True)
    except OSError:
        return None
    lines = done.stdout.splitlines()
    return f"PyTorch {lines[-2]} on {lines[-1]}" if done.returncode == 0 and len(lines) >= 2 else None


def measure(programs, rounds):
    """For each program a list of results by name, each with the median of its figures; in the order of the rows."""
    figures = [defaultdict(list) for _ in programs]
    last = [{} for _ in programs]
    for turn in range(rounds):
        print(f"round {turn + 1} of {rounds}", file=sys.stderr)
        for side, command in enumerate(programs):
            for result in run(command):
                last[side][result["name"]] = result
                if "us" in result:
                    figures[side][result["name"]].append(result["us"])
    for side, results in enumerate(last):
        for name, result in results.items():
            if figures[side][name]:
                result.pop("error", None)
                result["us"] = median(figures[side][name])
    return last


def fastest(results):
    """The fastest variant of every row, and the errors of rows that have none."""
    rows = {}
    for name, result in results.items():
        row = name.split("/")[0]
        if row not in rows or result.get("us", float("inf")) < rows[row].get("us", float("inf")):
            rows[row] = result
    return rows


def rate(result):
    """Bytes a microsecond."""
    return result["bytes"] / result["us"]


def compare(ours, theirs):
    copies = [side["copy"]["us"] for side in (ours, theirs) if "us" in side.get("copy", {})]
    copied = ours.get("copy", {}).get("bytes", 0) / min(copies) if copies else 0
    for name, result in ours.items():
        peer = theirs.get(name.removesuffix("_captured"), {})
        row = {"name": name, "ours_us": result.get("us"), "peer_us": peer.get("us"), "ratio": None,
               "peer_variant": "/".join(peer.get("name", "").split("/")[1:]) or None}
        if "error" in result:
            yield row | {"error": result["error"]}
            continue
        if row["peer_us"]:
            row["ratio"] = row["peer_us"] / row["ours_us"]
        if result["bytes"] and copied:
            row["copy_share"] = rate(result) / copied
        if result["bytes"]:
            row["gb_per_s"] = rate(result) / 1e3
        if result["flops"]:
            row["tflops"] = result["flops"] / result["us"] / 1e6
        row["missed"] = missed(row)
        yield row


def missed(row):
    """The aim that a row misses, or None."""
    if row["name"] == "add_16_issue" and row["ours_us"] >= ISSUE_US:
        return f"below {ISSUE_US:.0f} us"
    if row["name"].endswith("_captured") and row["ratio"] is not None and row["ratio"] < CAPTURED_RATIO:
        return f"{CAPTURED_RATIO:.0f} x"
    if "tflops" in row and row["ratio"] is not None and row["ratio"] < PRODUCT_RATIO:
        return f"{PRODUCT_RATIO:.2f} x"
    if row.get("copy_share", 1) < COPY_SHARE:
        return f"{COPY_SHARE:.0%} of a copy"
    return None


def human(us):
    if us is None:
        return ""
    unit, size = next((u, s) for u, s in (("s", 1e6), ("ms", 1e3), ("us", 1)) if us >= s or s == 1)
    value = us / size
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def print_row(row):
    if "error" in row:
        print(f"{row['name']:<24} failed: {row['error']}")
        return
    ratio = f"{row['ratio']:.2f} x" if row["ratio"] is not None else ""
    notes = []
    if "copy_share" in row:
        notes.append(f"{row['copy_share']:.0%} of a copy")
    if "gb_per_s" in row:
        notes.append(f"{row['gb_per_s']:.0f} GB/s")
    if "tflops" in row:
        notes.append(f"{row['tflops']:.1f} TFLOP/s")
    if row["peer_variant"]:
        notes.append(f"theirs {row['peer_variant']}")
    if row["missed"]:
        notes.append(f"AIM: {row['missed']}")
    print(f"{row['name']:<24} {human(row['ours_us']):>9} {human(row['peer_us']):>9} {ratio:>9}  {', '.join(notes)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="build folder, configured with -DCAPSTAN_CUDA=ON "
                        "-DCAPSTAN_BENCH=ON")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch (this one)")
    parser.add_argument("--filter", default="", metavar="REGEX", help="rows to measure; copy always is")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    parser.add_argument("--rounds", type=int, default=3, help="turns of the two sides (3)")
    parser.add_argument("--min-time", type=float, default=0.05, metavar="SECONDS", help="of a figure (0.05)")
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.min_time = 1, 0.01

    wanted = f"^copy$|{options.filter}" if options.filter else ""
    time = ["--min-time", str(options.min_time)]
    programs = [[options.build.resolve() / "bench" / "capstan_cuda_bench", "--filter", wanted, *time]]
    peer = peer_of(options.python)
    if peer:
        programs.append([options.python, BENCH / "cuda" / "torch_cuda.py",
                         "--filter", wanted.replace("_captured", ""), *time])
    results = measure(programs, options.rounds)
    rows = list(compare(results[0], fastest(results[1]) if peer else {}))

    print(f"theirs: {peer}" if peer else
          f"{options.python} has no PyTorch that sees a GPU: these are Capstan's figures alone.")
    print(f"{'work':<24} {'Capstan':>9} {'theirs':>9} {'ratio':>9}")
    for row in rows:
        print_row(row)
    if options.json:
        options.json.write_text(json.dumps({"peer": peer, "rows": rows}, indent=1) + "\n")
    sys.exit(1 if any("error" in row for row in rows) else 0)


if __name__ == "__main__":
    main()
