"""Prints what was measured: the table of all rows, that of their growth, a summary, and how two runs differ."""
import targets
from measured import growth_of, spread, with_twins
from verdicts import compare_runs, verdict

AGREE = 0.10  # ratios of two runs that differ by more are named


def human(value, unit="ns"):
    if unit != "ns":
        return f"{value:.1f} MB" if unit == "MB" else f"{value:g}"
    unit, size = next((u, s) for u, s in (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1)) if value >= s or s == 1)
    scaled = value / size
    return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f} {unit}"


def times(ratio):
    return "" if ratio is None else f"{ratio:.{2 if ratio < 10 else 1 if ratio < 100 else 0}f}x"


def short_name(peer):
    """LibTorch 1.13.1 -> LibTorch 1.13"""
    return ".".join(peer.split(".")[:2])


def peer_cell(row, peer):
    figures = next((one for one in row.theirs if one.peer == peer), None)
    return f"{human(figures.median(), row.unit):>8} {times(row.ratio(figures)):>6}" if figures else " " * 15


def setting_cell(row):
    """The best LibTorch's setting, with its version; or what else the row is compared with."""
    best, other = row.best(), row.best("other")
    if best and best.setting:
        return f"{short_name(best.peer).split()[-1]} {best.setting}"
    return f"{other.peer} {human(other.median())} {times(row.ratio(other))}" if other else ""


def peak_cell(row):
    peaks = [row.extra.get("ours_peak_mb"), row.extra.get("peer_peak_mb")]
    return "/".join(f"{mb:.0f}" for mb in peaks if mb is not None)


def print_table(rows, checks, peers):
    cells = [f"{short_name(peer.name):>15.15}" for peer in peers]
    print("  ".join([f"{'work':<26}", f"{'Capstan':>9}", f"{'+-':>4}", *cells, f"{'best LibTorch':<28}",
                     f"{'peak MB':>9}", f"{'target':<15}", "verdict"]))
    for row in rows:
        cells = [peer_cell(row, peer.name) for peer in peers]
        target = ", ".join(check.target for check in checks[row.name])
        mark = " *" if row.faster_frameworks() else ""
        print("  ".join([f"{row.name:<26}", f"{human(row.median(), row.unit):>9}", f"{100 * spread(row.ours):>3.0f}%",
                         *cells, f"{setting_cell(row):<28.28}", f"{peak_cell(row):>9}", f"{target:<15}",
                         verdict(checks[row.name]) + mark]))
    print("\nt: threads of kernels, b: of BLAS, keep: malloc that keeps memory, /: variant of the program."
          "\nPeaks are whole processes, Capstan's and the best LibTorch's, libraries included."
          f"\nTargets: t2: at most {targets.TWO_THREADS} of one thread's time; mem: at most LibTorch's peak."
          f"\nProducts hold with {targets.NOISE:g} less, those bound by memory at {targets.BANDWIDTH:.0%} of a copy."
          "\n*: a framework is faster than Capstan.")


# --- growth ------------------------------------------------------------------------------------------------------


def growth_cell(row, size):
    if row is None:
        return " " * 30
    best = row.best()
    mark = "*" if row.faster_frameworks() else " "
    return f"{size:>11} {human(row.median()):>9} {times(row.ratio(best) if best else None):>6}{mark} "


def print_growth(growth, rows):
    """One line for each way to grow: the smaller size, the base row, the larger, each with its ratio."""
    by_name = {row.name: row for row in rows}
    lines = {}
    for row in growth:
        base, axis, size = growth_of(row.name)
        lines.setdefault((base, axis), []).append((size, row))
    print(f"\n{'growth':<34}" + "".join(f"{'size':>11} {'Capstan':>9} {'ratio':>6}  " for _ in range(3)))
    for (base, axis), sizes in lines.items():
        # A base that only runs at fixed numbers of threads is shown with two of them.
        base_row = next((by_name[name] for name in (base, f"{base}_t2", f"{base}_t1") if name in by_name), None)
        sizes.sort(key=lambda pair: pair[0])
        cells = [growth_cell(row, size) for size, row in sizes]
        cells.insert(1, growth_cell(base_row, "base"))
        print(f"{base + '.' + axis:<34}" + "".join(cells).rstrip())


# --- summary -----------------------------------------------------------------------------------------------------


def print_names(title, names):
    names = list(names)
    print(f"{title}: {len(names)}{': ' if names else ''}{', '.join(names)}")


def print_summary(rows, growth, checks, failed, left_out):
    held = [row for row in rows if checks[row.name] and all(check.holds for check in checks[row.name])]
    missed = [(row, check) for row in rows for check in checks[row.name] if not check.holds]
    print(f"\n{len(held)} rows hold, {len({row.name for row, _ in missed})} are missed")
    for row, check in missed:
        print(f"  {row.name:<28} {check.target:<8} measured {check.measured}")
    print_names("rows without a target", [row.name for row in rows if not checks[row.name]])
    for row in rows:
        note = targets.first_match(targets.NOTES, row.name)
        if note and checks[row.name] and row.best():
            print(f"{row.name}: {times(row.ratio(row.best()))}; {note}x")
    faster = {row.name: row.faster_frameworks() for row in [*rows, *growth]}
    print_names("rows that a framework does faster",
                [f"{name} ({', '.join(who)})" for name, who in faster.items() if who])
    slower = [row.name for row in growth if row.best() and row.ratio(row.best()) < 1]
    print_names("rows of the growth table slower than LibTorch", slower)
    for peer, why in failed.items():
        print(f"FAILED: {peer}, whose figures above are those before that: {why.splitlines()[0]}")
    for peer in sorted({peer for peer, _ in left_out}):
        print_names(f"rows that {peer} could not run", sorted({name for who, name in left_out if who == peer}))


def print_comparison(new, old, path):
    changes, typical = compare_runs(new, old)
    if not changes:
        print(f"\nno row has a ratio both here and in {path}")
        return
    apart = {name: change for name, change in changes.items() if abs(change) > AGREE}
    print(f"\nagainst {path}: ratios of {len(changes)} rows differ by {typical:.1%} in the median; "
          f"{len(apart)} by more than {AGREE:.0%}")
    for name, change in sorted(apart.items(), key=lambda pair: -abs(pair[1])):
        print(f"  {name:<34} {change:+.0%}")
