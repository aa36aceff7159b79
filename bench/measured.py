"""What is known of a row: its name's parts, our figures, and those of every peer at its best."""
import re
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import NamedTuple

GROWTH = re.compile(r"(?P<base>[^./]+)\.(?P<axis>\w+)=(?P<size>\d+)$")

# Of growth rows: the base row's size, and the power of it that the largest part of the work grows with.
WORK = {
    "add_64.size": (64, 1), "chain_32_backward.length": (32, 1), "lstm4_one_sample.width": (4, 2),
    "exp.size": (1 << 20, 1), "tanh.size": (1 << 20, 1), "sigmoid.size": (1 << 20, 1),
    "softmax.width": (1024, 1), "layer_norm.width": (1024, 1), "batch_norm.batch": (1024, 1),
    "sum_axis0.size": (1024, 2), "sum_axis1.size": (1024, 2), "sum_all.size": (1024, 2),
    "where.width": (1024, 1), "gather_elements.width": (1024, 1), "scatter_add_elements.width": (1024, 1),
    "gather_rows.batch": (10_000, 1), "scatter_add_rows.batch": (10_000, 1), "cumsum_rows.width": (1024, 1),
    "cumsum_columns.width": (1024, 1), "cumsum_long.size": (1 << 20, 1), "topk_rows.width": (1024, 1),
    "topk_long.size": (1 << 20, 1), "sort_columns.width": (1024, 1),
    "transposed_copy.size": (1024, 2), "matmul_1024.size": (1024, 3),
    "conv3x3_64.batch": (32, 1), "conv3x3_64.width": (64, 2), "conv5x5.batch": (50, 1), "depthwise.batch": (16, 1),
    "max_pool2d.batch": (50, 1), "attention.batch": (8, 1), "attention.positions": (128, 2),
    "layer_norm_images.batch": (32, 1), "batch_norm_images.batch": (32, 1), "softmax_images.batch": (32, 1),
    "softmax_layer.width": (1024, 1), "attention_layer.batch": (8, 1), "ptb_medium.batch": (20, 1),
    "adam_20m.size": (20_000_000, 1), "gru_256_forward.batch": (32, 1), "gru_256.batch": (32, 1),
    "gru_256.steps": (50, 1), "gru_256.width": (256, 2), "bilstm_256.batch": (32, 1),
    "lstm_variable_length.batch": (32, 1), "mnist_cnn_step.batch": (50, 1),
    "parity_step.batch": (1000, 1), "parity_step.steps": (50, 1), "parity_step.width": (24, 2),
    "char_lstm_fused.batch": (64, 1), "char_lstm_fused.steps": (10, 1), "char_lstm_fused.width": (64, 2),
    "char_lstm_cell.batch": (64, 1), "char_lstm_cell.width": (64, 2),
    "ptb_small.batch": (20, 1), "ptb_small.steps": (20, 1), "ptb_small.width": (200, 1),  # most is the output's product
    "seq2seq_step.batch": (64, 1), "seq2seq_step.width": (50, 2),
}


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


def work_factor(name):
    """A growth row's work as a multiple of the base row's, or None where that is not known."""
    base, axis, size = growth_of(name)
    known = WORK.get(f"{base}.{axis}")
    return (size / known[0]) ** known[1] if known else None


# --- figures -----------------------------------------------------------------------------------------------------


class Figure(NamedTuple):
    """A measured value, and when it was measured: a round has several turns."""
    value: float
    round: int = 0
    turn: int = 0


class Quartiles(NamedTuple):
    low: float
    median: float
    high: float

    def half_width(self):
        return (self.high - self.low) / 2


def by_round(values):
    """Figures of which each round has one."""
    return [Figure(value, number) for number, value in enumerate(values)]


def middle(figures):
    return median(figure.value for figure in figures)


def quartiles(values):
    return Quartiles(*quantiles(values, n=4, method="inclusive")) if len(values) > 1 else Quartiles(*3 * values)


def spread(figures):
    """Half of the middle half, as a share of the median."""
    found = quartiles([figure.value for figure in figures])
    return found.half_width() / found.median if found.median else 0


def paired_ratio(above, below):
    """Quartiles of each figure above as a multiple of the one below of the same round and the nearest turn.

    None where there is no such pair, or nothing that can be divided by.
    """
    ratios = []
    for one in above:
        same = [other for other in below if other.round == one.round and other.value]
        if same:
            ratios.append(one.value / min(same, key=lambda other: abs(other.turn - one.turn)).value)
    return quartiles(ratios) if ratios else None


# --- rows --------------------------------------------------------------------------------------------------------


@dataclass
class Figures:
    """A peer's figures of a row, at its best setting and variant."""
    peer: str
    kind: str            # libtorch, framework, or other: no framework at all
    values: list         # of Figure
    setting: str = ""
    name: str = ""       # the peer's own, with the variant
    settled: bool = False  # measured in more rounds than others, which may owe their median to chance

    def median(self):
        return middle(self.values)


@dataclass
class Row:
    name: str
    ours: list                                  # of Figure
    theirs: list = field(default_factory=list)  # Figures, one a peer
    unit: str = "ns"                            # or MB, or count
    extra: dict = field(default_factory=dict)   # more columns of the JSON file

    def median(self):
        return middle(self.ours)

    def ratio(self, figures):
        """Quartiles of how many times faster, or smaller, than the peer; None where there is nothing to compare."""
        return paired_ratio(figures.values, self.ours) if figures else None

    def best(self, kind="libtorch"):
        """The peer of that kind that did best, of settled ones if there are any; or None."""
        of_kind = [one for one in self.theirs if one.kind == kind]
        settled = [one for one in of_kind if one.settled]
        return min(settled or of_kind, key=Figures.median, default=None)

    def rival(self):
        """Whom the row is judged against: the best LibTorch, else what is no framework."""
        return self.best() or self.best("other")

    def leading_frameworks(self, lead=1):
        """Frameworks that are more than `lead` times faster, and how many times."""
        ratios = {one.peer: self.ratio(one) for one in self.theirs if one.kind == "framework"}
        return {peer: 1 / ratio.median for peer, ratio in ratios.items() if ratio and ratio.median * lead < 1}

    def ratio_json(self, figures):
        low, ratio, high = self.ratio(figures) or (None, None, None)
        return {"ratio": ratio, "ratio_low": low, "ratio_high": high}

    def as_json(self):
        peers = {one.peer: {"median": one.median(), "spread": spread(one.values), "setting": one.setting,
                            "row": one.name} | self.ratio_json(one) for one in self.theirs}
        best = self.best()
        return {"name": self.name, "unit": self.unit, "ours": self.median(), "ours_spread": spread(self.ours),
                "best_libtorch": best.peer if best else None, "peers": peers} | self.ratio_json(
                    self.rival()) | self.extra
