"""Holds rows against bench/targets.py, and one run against another."""
from statistics import median
from typing import NamedTuple

import targets
from measured import paired_ratio, threads_of

NOT_COMPARED = "not compared"
AGREE = 0.10  # ratios of two runs that differ by more are named
UNCLEAR = 1.35  # a row within this factor of what it has to reach, above or below, is measured more often


class Check(NamedTuple):
    target: str
    measured: str
    holds: bool
    close: bool = False  # the target is within the spread


def is_close(found, target):
    return found.low < target < found.high


def share_of_limit(row, rows):
    """What a row reaches of its yardstick's rate on as many threads, or None."""
    if row.name not in targets.BOUNDS:
        return None
    amount, name = targets.BOUNDS[row.name]
    # A row with the defaults is held against the faster of one thread and two.
    times = [(done, paired_ratio(row.ours, rows[f"{name}_t{threads}"].ours))
             for threads, done in enumerate(targets.YARDSTICKS[name].amounts, 1)
             if f"{name}_t{threads}" in rows and threads_of(row.name) in (None, threads)]
    return min((amount / done / time.median for done, time in times if time), default=None)


def check_ratio(row, rows, has_libtorch):
    least = targets.RATIOS.get(row.name)
    if least is None:
        return []
    ratio, target = row.ratio(row.rival()), f">={least:g}x"
    if ratio is None:
        return [Check(target, NOT_COMPARED, False)] if has_libtorch else []
    measured, close = f"{ratio.median:.2f}", is_close(ratio, least)
    if ratio.median >= least:
        return [Check(target, measured, True, close)]
    share = share_of_limit(row, rows)
    if share is None:
        return [Check(target, measured, False, close)]
    yardstick = targets.YARDSTICKS[targets.BOUNDS[row.name][1]]
    return [Check(target, f"{measured}, {share:.0%} of {yardstick.what}", share >= yardstick.share, close)]


def check_threads(row, rows, _):
    one = rows.get(row.name.removesuffix("_t2") + "_t1")
    if not row.name.endswith("_t2") or not one or targets.is_yardstick(row.name):
        return []
    share = paired_ratio(row.ours, one.ours)
    if share is None:
        return []
    return [Check("t2", f"{share.median:.2f} of t1", share.median <= targets.TWO_THREADS,
                  is_close(share, targets.TWO_THREADS))]


def check_memory(row, _, __):
    ours, theirs = row.extra.get("ours_peak_mb"), row.extra.get("peer_peak_mb")
    if row.name not in targets.STEPS or ours is None or theirs is None:
        return []
    return [Check("mem", f"{ours:.0f} of {theirs:.0f} MB", ours <= theirs)]


def check_limits(row, _, __):
    checks = []
    for what, most in targets.LIMITS.get(row.name, {}).items():
        value = row.extra.get("ours_peak_mb") if what == "peak_mb" else row.median()
        unit, size = {"ns": ("ms", 1e6), "count": ("requests", 1)}.get(what, ("MB", 1))
        if value is not None:
            checks.append(Check(f"<={most / size:g} {unit}", f"{value / size:.3g} {unit}", value <= most))
    return checks


def check_rows(rows, has_libtorch):
    """The checks of every row, by its name. Without LibTorch rows have only those that need no peer."""
    by_name = {row.name: row for row in rows}
    return {row.name: [check for kind in (check_ratio, check_threads, check_memory, check_limits)
                       for check in kind(row, by_name, has_libtorch)] for row in rows}


def is_unclear(found, target):
    return found is not None and target / UNCLEAR < found < target * UNCLEAR


def is_ratio_unclear(row, rows):
    least, ratio = targets.RATIOS.get(row.name), row.ratio(row.best())
    if least is None or ratio is None:
        return False
    share = share_of_limit(row, rows) if ratio.median < least else None
    return (is_unclear(ratio.median, least)
            or is_unclear(share, targets.YARDSTICKS[targets.BOUNDS[row.name][1]].share if share else 1))


def unclear_rows(rows):
    """Names of rows near what they have to reach, on whichever side of it: of LibTorch's speed, of a yardstick's, or of
    their time on one thread."""
    by_name, names = {row.name: row for row in rows}, set()
    for row in rows:
        if is_ratio_unclear(row, by_name):
            names.add(row.name)
        one = by_name.get(row.name.removesuffix("_t2") + "_t1") if row.name.endswith("_t2") else None
        share = paired_ratio(row.ours, one.ours) if one and not targets.is_yardstick(row.name) else None
        if share and is_unclear(share.median, targets.TWO_THREADS):
            names |= {row.name, one.name}
    return [name for name in by_name if name in names]


def holds(checks):
    """None for a row without a target."""
    return all(check.holds for check in checks) if checks else None


def judged(checks):
    """In a word or two: the first thing missed, if any."""
    missed = [check for check in checks if not check.holds]
    if not missed:
        return ("holds, close" if any(check.close for check in checks) else "holds") if checks else "-"
    if missed[0].measured == NOT_COMPARED:
        return NOT_COMPARED
    return f"MISSED {missed[0].measured}{', close' if missed[0].close else ''}"


def verdict(row, checks):
    """What was judged, and which frameworks are faster."""
    leads = row.leading_frameworks(targets.FRAMEWORK_LEAD)
    faster = " and ".join(f"{peer.split()[0]} {lead:.1f}x" for peer, lead in leads.items())
    return f"{judged(checks)}, but {faster} faster" if faster else judged(checks)


# --- two runs ----------------------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    changes: dict        # of ratios, by row
    typical: float       # the median of how large these are
    verdicts: list       # rows that hold in one run and not in the other, though neither is close
    only_new: list
    only_old: list

    def agree(self):
        return self.typical <= AGREE and not (self.verdicts or self.only_new or self.only_old)


def rows_by_name(run, wanted):
    return {row["name"]: row for row in run["rows"] + run["growth"] if wanted(row["name"])}


def is_row_close(row):
    return any(check.get("close") for check in row.get("checks", []))


def compare_runs(new, old, wanted=lambda name: True):
    """Two runs, as their JSON, in the rows that are wanted."""
    now, before = rows_by_name(new, wanted), rows_by_name(old, wanted)
    both = [name for name in now if name in before]
    changes = {name: now[name]["ratio"] / before[name]["ratio"] - 1 for name in both
               if now[name]["ratio"] and before[name]["ratio"]}
    verdicts = [name for name in both if now[name].get("holds") != before[name].get("holds")
                and not is_row_close(now[name]) and not is_row_close(before[name])]
    typical = median(abs(change) for change in changes.values()) if changes else 0
    return Comparison(changes, typical, verdicts, [name for name in now if name not in before],
                      [name for name in before if name not in now])
