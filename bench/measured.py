"""What is known of a row: its name's parts, our figures, and those of every peer at its best."""
import re
from dataclasses import dataclass, field
from statistics import median, quantiles

GROWTH = re.compile(r"(?P<base>[^./]+)\.(?P<axis>\w+)=(?P<size>\d+)$")


def row_of(name):
    """parity_step_t1/layer/real_time -> parity_step_t1"""
    return name.split("/")[0]


def variant_of(name):
    return "/".join(name.removesuffix("/real_time").split("/")[1:])


def threads_of(name):
    """The number of threads that a row holds both sides to, or None."""
    suffix = re.search(r"_t(\d+)$", row_of(name))
    return int(suffix[1]) if suffix else None


def growth_of(name):
    """parity_step.batch=100 -> ("parity_step", "batch", 100); None for a base row."""
    found = GROWTH.fullmatch(row_of(name))
    return (found["base"], found["axis"], int(found["size"])) if found else None


def with_twins(base):
    """A row's name, and those of the same work held to one thread and to two."""
    return [base, f"{base}_t1", f"{base}_t2"]


def spread(figures):
    """Half of the middle half, as a share of the median."""
    if len(figures) < 2 or median(figures) == 0:
        return 0
    low, _, high = quantiles(figures, n=4, method="inclusive")
    return (high - low) / 2 / median(figures)


@dataclass
class Figures:
    """A peer's figures of a row, at its best setting and variant."""
    peer: str
    kind: str                                        # libtorch, framework, or other: no framework at all
    values: list
    setting: str = ""
    name: str = ""                                   # the peer's own, with the variant
    environment: dict = field(default_factory=dict)  # of its best setting

    def median(self):
        return median(self.values)


@dataclass
class Row:
    name: str
    ours: list                                  # one figure a turn
    theirs: list = field(default_factory=list)  # Figures, one a peer
    unit: str = "ns"                            # or MB, or count
    extra: dict = field(default_factory=dict)   # more columns of the JSON file

    def median(self):
        return median(self.ours)

    def ratio(self, figures):
        """How many times faster, or smaller, than the peer; None where nothing can be divided by."""
        return figures.median() / self.median() if figures and self.median() else None

    def best(self, kind="libtorch"):
        """The peer of that kind that did best, or None."""
        return min((one for one in self.theirs if one.kind == kind), key=Figures.median, default=None)

    def faster_frameworks(self):
        return [one.peer for one in self.theirs if one.kind == "framework" and one.median() < self.median()]

    def as_json(self):
        peers = {one.peer: {"median": one.median(), "spread": spread(one.values), "ratio": self.ratio(one),
                            "setting": one.setting, "row": one.name} for one in self.theirs}
        best = self.best()
        return {"name": self.name, "unit": self.unit, "ours": self.median(), "ours_spread": spread(self.ours),
                "best_libtorch": best.peer if best else None, "ratio": self.ratio(best), "peers": peers} | self.extra
