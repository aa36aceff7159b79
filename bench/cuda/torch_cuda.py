#!/usr/bin/env python3
"""The rows of capstan_cuda_bench in PyTorch, on a GPU: one line of JSON each.

Where a user can choose between ways to do the same, there is a row for each: "mnist_cnn/fused". Those that end in
/compiled are by torch.compile, those in /graph replay a CUDA graph; all others are eager.
"""
import argparse
import re
import sys

import torch

from torch_layers import layer_rows
from torch_ops import op_rows
from torch_rows import Bench, allow_tf32
from torch_training import training_rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="rows to measure")
    parser.add_argument("--min-time", type=float, default=0.05, metavar="SECONDS", help="that a figure takes at least")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="figures of which the median counts")
    parser.add_argument("--skip-compiled", action="store_true", help="without torch.compile, whose first run is slow")
    bench = Bench(parser.parse_args())
    torch.backends.cudnn.benchmark = True
    allow_tf32(False)
    op_rows(bench)
    layer_rows(bench)
    training_rows(bench)
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
