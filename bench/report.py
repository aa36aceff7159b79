"""Prints what was measured: the table of all rows, that of their growth, a summary, and how two runs differ."""
import targets
from measured import growth_of, spread, work_factor
from verdicts import AGREE, NOT_COMPARED, compare_runs, holds, verdict


def human(value, unit="ns"):
    if unit != "ns":
        return f"{value:.1f} MB" if unit == "MB" else f"{value:g}"
    unit, size = next((u, s) for u, s in (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1)) if value >= s or s == 1)
    scaled = value / size
    return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f} {unit}"


def digits(number):
    return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f}"


def times(ratio):
    """Quartiles: the median, and half of what lies between the others."""
    return "" if ratio is None else f"{digits(ratio.median)}x+-{digits(ratio.half_width())}"


def short_name(peer):
    """LibTorch 1.13.1 -> LibTorch 1.13"""
    return ".".join(peer.split(".")[:2])


def peer_cell(row, peer):
    figures = next((one for one in row.theirs if one.peer == peer), None)
    return f"{human(figures.median(), row.unit):>8} {times(row.ratio(figures)):>11}" if figures else " " * 20


def setting_cell(row):
    """The best LibTorch's setting, with its version; or what else the row is compared with."""
    best, other = row.best(), row.best("other")
    if best and best.setting:
        return f"{short_name(best.peer).split()[-1]} {best.setting}"
    return f"{times(row.ratio(other))} of {human(other.median())} {other.peer}" if other else ""


def peak_pair(row, what):
    """Ours and theirs."""
    peaks = [row.extra.get(f"ours_{what}"), row.extra.get(f"peer_{what}")]
    return "/".join(f"{mb:.0f}" for mb in peaks if mb is not None)


def peak_cell(row):
    """Of whole processes, then what is beyond that of a program that adds two tensors."""
    whole = peak_pair(row, "peak_mb")
    return f"{whole} own {peak_pair(row, 'own_mb')}" if "ours_own_mb" in row.extra else whole


def print_table(rows, checks, peers):
    cells = [f"{short_name(peer.name):>20.20}" for peer in peers]
    print("  ".join([f"{'work':<26}", f"{'Capstan':>9}", f"{'+-':>4}", *cells, f"{'best LibTorch, or other':<32}",
                     f"{'peak MB':>21}", f"{'target':<15}", "verdict"]))
    for row in rows:
        cells = [peer_cell(row, peer.name) for peer in peers]
        target = ", ".join(check.target for check in checks[row.name])
        print("  ".join([f"{row.name:<26}", f"{human(row.median(), row.unit):>9}", f"{100 * spread(row.ours):>3.0f}%",
                         *cells, f"{setting_cell(row):<32.32}", f"{peak_cell(row):>21}", f"{target:<15}",
                         verdict(row, checks[row.name])]))
    print("\nRatios are medians of pairs measured in the same round; +- is half of the middle half."
          "\nclose: the target lies within that half."
          "\nt: threads of kernels, b: of BLAS, keep: malloc that keeps memory, /: variant of the program."
          "\nPeaks are whole processes, Capstan's and LibTorch's lowest with malloc as it comes, libraries included;"
          "\nown: without what a program needs that adds two tensors."
          f"\nTargets: t2: at most {targets.TWO_THREADS} of one thread's time; mem: at most LibTorch's peak.")
    for name, yardstick in targets.YARDSTICKS.items():
        print(f"Rows that {name} bounds hold at {yardstick.share:.0%} of it.")


def print_sizes(rows, verbose):
    """Of libraries on disk: each alone, and with all that it loads."""
    sizes = next((row.extra["parts_mb"] for row in rows if row.name == "library_size"), {})
    for name, parts in sizes.items():
        own, whole = next(iter(parts.values())), sum(parts.values())
        print(f"library_size: {short_name(name)}: own {own:.1f} MB, all {whole:.1f} MB")
        for file, size in parts.items() if verbose else []:
            print(f"  {size:>8.2f} MB  {file}")


# --- growth ------------------------------------------------------------------------------------------------------


def growth_cell(row, size, base=None):
    if row is None:
        return " " * 64
    ratio = row.ratio(row.best())
    mark = "*" if row.leading_frameworks() else " "
    work = work_factor(row.name) if base else None
    factors = f"x{row.median() / base.median():.3g}" + (f" of x{work:.3g}" if work else "") if base else ""
    return (f"{size:>11} {human(row.median()):>8} {100 * spread(row.ours):>2.0f}% {times(ratio):>11}{mark}"
            f"{factors:<16} {peak_pair(row, 'peak_mb'):>9} ")


def print_growth(growth, rows):
    """One line for each way to grow: the smaller size, the base row, the larger."""
    by_name = {row.name: row for row in rows}
    lines = {}
    for row in growth:
        base, axis, size = growth_of(row.name)
        lines.setdefault((base, axis), []).append((size, row))
    heads = f"{'size':>11} {'Capstan':>8} {'+-':>3} {'ratio':>11} {'time of work':<16} {'peak MB':>9} "
    print(f"\n{'growth':<34}" + 3 * heads)
    for (base, axis), sizes in lines.items():
        # A base that only runs at fixed numbers of threads is shown with two of them.
        base_row = next((by_name[name] for name in (base, f"{base}_t2", f"{base}_t1") if name in by_name), None)
        sizes.sort(key=lambda pair: pair[0])
        cells = [growth_cell(row, size, base_row) for size, row in sizes]
        cells.insert(1, growth_cell(base_row, "base"))
        print(f"{base + '.' + axis:<34}" + "".join(cells).rstrip())
    print("\ntime of work: the base row's times so much, for so much of its work, as the largest part of it grows."
          "\n*: a framework is faster than Capstan.")


# --- summary -----------------------------------------------------------------------------------------------------


def print_names(title, names):
    names = list(names)
    print(f"{title}: {len(names)}{': ' if names else ''}{', '.join(names)}")


def print_summary(rows, growth, checks, failed, left_out):
    held = [row for row in rows if holds(checks[row.name])]
    missed = [(row, check) for row in rows for check in checks[row.name] if not check.holds]
    print(f"\n{len(held)} rows hold, {len({row.name for row, _ in missed})} are missed")
    for row, check in missed:
        measured = check.measured if check.measured == NOT_COMPARED else f"measured {check.measured}"
        print(f"  {row.name:<28} {check.target:<8} {measured}{', close' if check.close else ''}")
    print_names("rows without a target", [row.name for row in rows if not checks[row.name]])
    for row in rows:
        if row.name in targets.NOTES and row.best():
            print(f"{row.name}: {times(row.ratio(row.best()))}; {targets.NOTES[row.name]}x")
    faster = {row.name: row.leading_frameworks() for row in [*rows, *growth]}
    print_names("rows that a framework does faster",
                [f"{name} ({', '.join(who)})" for name, who in faster.items() if who])
    ratios = {row.name: row.ratio(row.best()) for row in growth}
    print_names("rows of the growth table slower than LibTorch",
                [name for name, ratio in ratios.items() if ratio and ratio.median < 1])
    for peer, why in failed.items():
        print(f"FAILED: {peer}, whose figures above are those before that: {why.splitlines()[0]}")
    for peer in sorted({peer for peer, _ in left_out}):
        print_names(f"rows that {peer} could not run", sorted({name for who, name in left_out if who == peer}))


def print_comparison(new, old, path, wanted):
    """Whether the runs agree."""
    found = compare_runs(new, old, wanted)
    apart = {name: change for name, change in found.changes.items() if abs(change) > AGREE}
    print(f"\nagainst {path}: ratios of {len(found.changes)} rows differ by {found.typical:.1%} in the median; "
          f"{len(apart)} by more than {AGREE:.0%}")
    for name, change in sorted(apart.items(), key=lambda pair: -abs(pair[1])):
        print(f"  {name:<34} {change:+.0%}")
    print_names("rows that hold in one run alone, and are not close", found.verdicts)
    print_names("rows of this run alone", found.only_new)
    print_names("rows of that run alone", found.only_old)
    print("agree" if found.agree() else "differ")
    return found.agree()
