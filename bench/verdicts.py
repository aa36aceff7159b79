"""Holds rows against bench/targets.py."""
from statistics import median
from typing import NamedTuple

import targets


class Check(NamedTuple):
    target: str
    measured: str
    holds: bool


def bandwidth_share(row, rows):
    """What a row moves as a share of what a plain copy or sum moves on as many threads, or None."""
    moved = targets.first_match(targets.BYTES, row.name)
    if not moved:
        return None
    size, stream = moved
    suffix = row.name[-3:] if row.name.endswith(("_t1", "_t2")) else ""
    # A row with the defaults is held against the faster of one thread and two.
    plain = [rows[name].median() for name in ([stream + suffix] if suffix else [f"{stream}_t1", f"{stream}_t2"])
             if name in rows]
    return size / row.median() / (targets.STREAM_BYTES[stream] / min(plain)) if plain else None


def check_ratio(row, rows):
    least = targets.first_match(targets.RATIOS, row.name)
    best = row.best()
    if least is None or best is None:
        return []
    ratio, target = row.ratio(best), f">={least:g}x"
    if ratio >= least:
        return [Check(target, f"{ratio:.2f}", True)]
    if targets.is_noisy(row.name) and ratio >= least - targets.NOISE:
        return [Check(target, f"{ratio:.2f}, within noise", True)]
    share = bandwidth_share(row, rows)
    if share is not None and share >= targets.BANDWIDTH:
        return [Check(target, f"{ratio:.2f}, {share:.0%} of memory", True)]
    return [Check(target, f"{ratio:.2f}" + (f", {share:.0%} of memory" if share else ""), False)]


def check_threads(row, rows):
    one = rows.get(row.name.removesuffix("_t2") + "_t1")
    if not row.name.endswith("_t2") or not one:
        return []
    share = row.median() / one.median()
    return [Check("t2", f"{share:.2f} of t1", share <= targets.TWO_THREADS)]


def check_memory(row, _):
    ours, theirs = row.extra.get("ours_peak_mb"), row.extra.get("peer_peak_mb")
    if not targets.is_step(row.name) or ours is None or theirs is None:
        return []
    return [Check("mem", f"{ours:.0f} of {theirs:.0f} MB", ours <= theirs)]


def check_limits(row, _):
    checks = []
    for what, most in targets.LIMITS.get(row.name, {}).items():
        value = row.extra.get("ours_peak_mb") if what == "peak_mb" else row.median()
        unit, size = {"ns": ("ms", 1e6), "count": ("calls", 1)}.get(what, ("MB", 1))
        if value is not None:
            checks.append(Check(f"<={most / size:g} {unit}", f"{value / size:.3g} {unit}", value <= most))
    return checks


def check_rows(rows):
    """The checks of every row, by its name. One without LibTorch has only those that need no peer."""
    by_name = {row.name: row for row in rows}
    return {row.name: [check for kind in (check_ratio, check_threads, check_memory, check_limits)
                       for check in kind(row, by_name)] for row in rows}


def verdict(checks):
    """In a word or two: the first thing missed, if any."""
    missed = [check for check in checks if not check.holds]
    if missed:
        return f"MISSED {missed[0].measured}"
    return "holds" if checks else "-"


def needs_stream(name):
    return targets.first_match(targets.BYTES, name) is not None


def compare_runs(new, old):
    """Two runs, as their JSON: the change of each row's ratio, and the median of how large these are."""
    before = {row["name"]: row["ratio"] for row in old["rows"] + old["growth"]}
    changes = {row["name"]: row["ratio"] / before[row["name"]] - 1 for row in new["rows"] + new["growth"]
               if row["ratio"] and before.get(row["name"])}
    return changes, median(abs(change) for change in changes.values()) if changes else None
