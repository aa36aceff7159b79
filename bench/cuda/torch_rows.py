"""How a row of the GPU benchmarks is measured in PyTorch; what bench/cuda_rows.hpp is for Capstan."""
import gc
import json
import time
from statistics import median

import torch

DEVICE = torch.device("cuda", 0)


def values(shape, seed=1):
    """Always the same numbers, uniform in [-2, 2)."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.rand(shape, generator=generator, device=DEVICE) * 4 - 2


def indices(shape, high, seed=1):
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randint(high, shape, generator=generator, device=DEVICE)


def each_size(name, base, **axes):
    """Names of rows with their sizes: the base, and each other value of each axis, such as "conv5x5.batch=5"."""
    yield name, base
    for axis, others in axes.items():
        for value in others:
            yield f"{name}.{axis}={value}", base | {axis: value}


def allow_tf32(on):
    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


def graphed(work):
    """Work recorded as a CUDA graph, as PyTorch's documentation has it for whole training steps."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return lambda: (graph.replay(), work)  # the graph reads what the work holds


class Bench:
    """Runs rows and prints one line of JSON for each. A row that throws says so, and the others are measured."""

    def __init__(self, options):
        self.options = options
        self.failed = False
        gc.collect()
        gc.freeze()  # what the imports made need not be looked through again

    def row(self, name, prepare):
        """Measures work by the clock of the host, around many runs and the wait for the GPU."""
        self._print(name, lambda: self._median(name, prepare))

    def unrecorded(self, name, prepare):
        def measure():
            with torch.no_grad():
                return self._median(name, prepare)
        self._print(name, measure)

    def compiled(self, name, prepare):
        """The row name/compiled, unless such rows are left out."""
        def measure():
            try:
                return self._median(name, prepare)
            finally:
                torch.compiler.reset()  # it would hold models and inputs
        if not self.options.skip_compiled:
            self._print(f"{name}/compiled", measure)

    def issue(self, name, calls, prepare):
        """How long the host takes to ask for work that the GPU does meanwhile."""
        def measure():
            with torch.no_grad():
                work, figures = self._prepare_alone(prepare), []
                for turn in range(self.options.repeats + 1):
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    for _ in range(calls):
                        work()
                    if turn > 0:
                        figures.append((time.perf_counter() - start) / calls)
                torch.cuda.synchronize()
                return median(figures)
        self._print(name, measure)

    def _median(self, name, prepare):
        work = self._prepare_alone(prepare)
        for _ in range(5):  # cuDNN tries its algorithms, pools fill up
            work()
        min_time = self.options.min_time * (0.3 if "." in name else 1)
        runs, seconds = 1, self._seconds(work, 1)
        while seconds < min_time:
            wanted = int(1.2 * runs * min_time / max(seconds, 1e-7))
            runs = min(max(wanted, runs + 1), 10 * runs)
            seconds = self._seconds(work, runs)
        return median(self._seconds(work, runs) / runs for _ in range(self.options.repeats))

    @staticmethod
    def _prepare_alone(prepare):
        """Nothing of the rows before is kept on the device, and its peak counts from when the inputs are there."""
        gc.collect()
        torch.cuda.empty_cache()
        work = prepare()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return work

    @staticmethod
    def _seconds(work, runs):
        gc.disable()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(runs):
            work()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        gc.enable()
        return seconds

    def _print(self, name, measure):
        if not self.options.filter.search(name.split("/")[0]):
            return
        if self.options.list:
            print(name)
            return
        try:
            result = {"name": name, "us": 1e6 * measure(), "peak_reserved": torch.cuda.max_memory_reserved(),
                      "peak_allocated": torch.cuda.max_memory_allocated()}
        except Exception as error:  # of whatever kind: compilers and drivers have their own
            self.failed = True
            result = {"name": name, "error": str(error) or type(error).__name__}
        print(json.dumps(result), flush=True)
