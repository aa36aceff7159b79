#!/usr/bin/env python3
"""Measures Capstan and, where it was found, PyTorch on a GPU in turns; prints times, ratios, peaks of memory, verdicts.

Both sides are programs with rows of the same names, and processes of the two sides alternate. A row's figure is the
median over the rounds, and +- half of their range. PyTorch's is that of its fastest eager variant ("mnist_cnn/fused");
where torch.compile or a CUDA graph is faster than that, the last column says by how much we are faster then. Rows with
_captured are our recorded steps beside PyTorch's eager ones; its graphs count beside these alone. Growth rows, as
conv3x3.batch=4, are other sizes of a workload.

Memory is the most that each side's allocator had from the driver while the row ran. Rows bound by memory also show
their share of the bandwidth of a copy, of the nearest size and of the faster side; products their rate. Verdicts are
about what bench/cuda/targets.json asks for, and AIM names what is missed.
"""
import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from math import log
from pathlib import Path
from statistics import geometric_mean, median

BENCH = Path(__file__).resolve().parent
TARGETS = json.loads((BENCH / "cuda" / "targets.json").read_text())
NOT_EAGER = ("compiled", "graph")


# --- running ---------------------------------------------------------------------------------------------------


def run(command):
    """The results that a program printed; its rows may fail one by one."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    said = done.stderr.strip().splitlines() or ["it said nothing"]
    if done.returncode == 2 or not results:
        sys.exit(f"{command[0]} ended with {done.returncode}: {said[-1]}")
    if done.returncode not in (0, 1):
        print(f"{command[0]} ended with {done.returncode} behind {results[-1]['name']}: {said[-1]}", file=sys.stderr)
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
    """For each program its results by name, with all figures of the rounds; in the order of the rows."""
    sides = [{} for _ in programs]
    figures = [defaultdict(list) for _ in programs]
    for turn in range(rounds):
        print(f"round {turn + 1} of {rounds}", file=sys.stderr)
        for results, times, command in zip(sides, figures, programs):
            for result in run(command):
                name = result["name"]
                if "us" in result:
                    times[name].append(result["us"])
                if "us" in result or name not in results:
                    results[name] = result
    for results, times in zip(sides, figures):
        for name, all_us in times.items():
            results[name] |= {"us": median(all_us), "spread": (max(all_us) - min(all_us)) / 2 / median(all_us)}
    return sides


# --- comparing -------------------------------------------------------------------------------------------------


def variant_of(result):
    return result["name"].partition("/")[2]


def by_row(theirs):
    """All variants of every row that were measured."""
    rows = defaultdict(list)
    for name, result in theirs.items():
        if "us" in result:
            rows[name.split("/")[0]].append(result)
    return rows


def fastest(results):
    return min(results, key=lambda result: result["us"], default=None)


def copies_of(ours, peers):
    """Of each size of a copy its bytes, and how many of them the faster side moves in a microsecond."""
    copies = []
    for name, result in ours.items():
        if re.fullmatch(r"copy(\..*)?", name) and "us" in result:
            copies.append((result["bytes"], result["bytes"] / fastest([result, *peers[name]])["us"]))
    return copies


def rates(result, copies):
    """Bandwidth and arithmetic, where the row counts them."""
    row = {}
    if result["bytes"]:
        row["gb_per_s"] = result["bytes"] / result["us"] / 1e3
        if copies:
            _, copied = min(copies, key=lambda copy: abs(log(copy[0] / result["bytes"])))
            row["copy_share"] = result["bytes"] / result["us"] / copied
    if result["flops"]:
        row["tflops"] = result["flops"] / result["us"] / 1e6
    return row


def against_peers(result, peers):
    """Time and memory beside the fastest eager variant, and time beside whatever is faster still."""
    eager = fastest([peer for peer in peers if variant_of(peer) not in NOT_EAGER])
    captured = "_captured" in result["name"]
    best = fastest([peer for peer in peers if captured or variant_of(peer) != "graph"])
    row = {}
    if eager:
        row |= {"peer_us": eager["us"], "peer_spread": eager["spread"], "peer_variant": variant_of(eager) or None,
                "ratio": eager["us"] / result["us"], "peer_reserved": eager["peak_reserved"],
                "peer_allocated": eager["peak_allocated"],
                "memory_share": result["peak_reserved"] / max(eager["peak_reserved"], 1)}
    if best and best is not eager:
        row |= {"best_us": best["us"], "best_variant": variant_of(best), "best_ratio": best["us"] / result["us"]}
    return row


def text_of(target):
    """">=0.95 ratio", "<=4 ours_us"."""
    least = "at_least" in target
    return f"{'>=' if least else '<='}{target['at_least' if least else 'at_most']:g} {target['figure']}"


def checks_of(row):
    """The targets of a row, and whether it holds them."""
    checks = []
    for target in TARGETS:
        value = row.get(target["figure"])
        if value is not None and re.fullmatch(target["rows"], row["name"]):
            holds = value >= target["at_least"] if "at_least" in target else value <= target["at_most"]
            checks.append({"what": target["what"], "target": text_of(target), "value": value, "holds": holds})
    return checks


def compare(ours, theirs):
    peers = by_row(theirs)
    copies = copies_of(ours, peers)
    for name, result in ours.items():
        if "us" not in result:
            yield {"name": name, "error": result["error"]}
            continue
        row = {"name": name, "ours_us": result["us"], "ours_spread": result["spread"],
               "ours_reserved": result["peak_reserved"]}
        row |= against_peers(result, peers[name.replace("_captured", "")]) | rates(result, copies)
        yield row | {"checks": checks_of(row)}


def verdict(row):
    missed = [check["target"] for check in row["checks"] if not check["holds"]]
    if missed:
        return f"MISSED, AIM: {', '.join(missed)}"
    return "holds" if row["checks"] else "-"


# --- printing --------------------------------------------------------------------------------------------------


def human(us):
    if us is None:
        return ""
    unit, size = next((u, s) for u, s in (("s", 1e6), ("ms", 1e3), ("us", 1)) if us >= s or s == 1)
    value = us / size
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def percent(share):
    return "" if share is None else f"{share:.0%}"


def mebibytes(count):
    return "" if count is None else f"{count / (1 << 20):.0f}"


def print_line(name, *cells):
    widths = (9, 5, 9, 5, 8, 8, 8)
    fixed = " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths))
    print(f"{name:<36} {fixed}  {'  '.join(cells[len(widths):])}".rstrip())


def notes_of(row):
    notes = []
    if "copy_share" in row:
        notes.append(f"{row['copy_share']:.0%} of a copy")
    if "gb_per_s" in row:
        notes.append(f"{row['gb_per_s']:.0f} GB/s")
    if "tflops" in row:
        notes.append(f"{row['tflops']:.1f} TFLOP/s")
    if row.get("peer_variant"):
        notes.append(f"theirs {row['peer_variant']}")
    if "best_us" in row:
        notes.append(f"{row['best_ratio']:.2f} x {row['best_variant']}")
    return ", ".join(notes)


def print_row(row):
    if "error" in row:
        print(f"{row['name']:<36} failed: {row['error']}")
        return
    ratio = f"{row['ratio']:.2f} x" if "ratio" in row else ""
    print_line(row["name"], human(row["ours_us"]), percent(row["ours_spread"]), human(row.get("peer_us")),
               percent(row.get("peer_spread")), ratio, mebibytes(row["ours_reserved"]),
               mebibytes(row.get("peer_reserved")), f"{verdict(row):<8}", notes_of(row))


def print_targets(measured):
    for target in TARGETS:
        checks = [(check, row["name"]) for row in measured for check in row["checks"]
                  if check["what"] == target["what"]]
        if not checks:
            continue
        worst = min if "at_least" in target else max
        check, name = worst(checks, key=lambda pair: pair[0]["value"])
        print(f"  {sum(check['holds'] for check, _ in checks)} of {len(checks)} hold: {target['what']} "
              f"({text_of(target)}); worst {check['value']:.2f}, {name}")


def print_summary(rows, theirs):
    measured = [row for row in rows if "error" not in row]
    print("\nSummary")
    print_targets(measured)
    for what, chosen in (("base rows", lambda name: "." not in name), ("growth rows", lambda name: "." in name)):
        ratios = [row["ratio"] for row in measured if "ratio" in row and chosen(row["name"])]
        if ratios:
            slower = sum(ratio < 1 for ratio in ratios)
            print(f"  {len(ratios)} {what}: {geometric_mean(ratios):.2f} x eager PyTorch in the geometric mean; "
                  f"{slower} slower than it")
    for row in rows:
        if "error" in row:
            print(f"  ours failed: {row['name']}")
    for name, result in theirs.items():
        if "us" not in result:
            print(f"  theirs failed: {name}: {(result['error'].splitlines() or [''])[0][:100]}")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="build folder, configured with -DCAPSTAN_CUDA=ON "
                        "-DCAPSTAN_BENCH=ON")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch (this one)")
    parser.add_argument("--filter", default="", metavar="REGEX", help="rows to measure; copies always are. "
                        "'^[^.]*$' is all but growth rows")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    parser.add_argument("--rounds", type=int, default=3, help="turns of the two sides (3)")
    parser.add_argument("--min-time", type=float, default=0.05, metavar="SECONDS",
                        help="of a figure (0.05); growth rows take 0.3 of it")
    parser.add_argument("--quick", action="store_true", help="one short round without torch.compile, for a first look")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.min_time = 1, 0.01
    return options


def main():
    options = read_options()
    wanted = rf"^copy(\.|$)|{options.filter}" if options.filter else ""
    time = ["--min-time", str(options.min_time)]
    programs = [[options.build.resolve() / "bench" / "capstan_cuda_bench", "--filter", wanted, *time]]
    peer = peer_of(options.python)
    if peer:
        programs.append([options.python, BENCH / "cuda" / "torch_cuda.py",
                         "--filter", wanted.replace("_captured", ""), *time])
        if options.quick:
            programs[1].append("--skip-compiled")
    ours, theirs = measure(programs, options.rounds) if peer else (*measure(programs, options.rounds), {})
    rows = list(compare(ours, theirs))

    print(f"theirs: {peer}" if peer else
          f"{options.python} has no PyTorch that sees a GPU: these are Capstan's figures alone.")
    print_line("work", "Capstan", "+-", "theirs", "+-", "ratio", "MiB", "theirs", "verdict ")
    for row in rows:
        print_row(row)
    print_summary(rows, theirs)
    if options.json:
        options.json.write_text(json.dumps({"peer": peer, "rows": rows}, indent=1) + "\n")
    sys.exit(1 if any("error" in row for row in rows) else 0)


if __name__ == "__main__":
    main()
