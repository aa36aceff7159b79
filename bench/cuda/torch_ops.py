"""The rows of bench/capstan_cuda_ops.cpp in PyTorch."""
import torch

from torch_rows import allow_tf32, each_size, indices, values

VECTOR, VECTOR_SIZES = {"size": 1 << 26}, [1 << 20, 1 << 28]
MATRIX, SQUARES = {"rows": 8192, "columns": 4096}, [1024, 16384]
FEATURES, TABLE = 128, [500000, 128]


def matrix_of(rows, columns, size=None):
    return [size, size] if size else [rows, columns]


def elementwise_rows(bench):
    def rows(name, inputs, function):
        for row, sizes in each_size(name, VECTOR, size=VECTOR_SIZES):
            def prepare():
                tensors = inputs([sizes["size"]])
                return lambda: function(*tensors)
            bench.unrecorded(row, prepare)

    def one(shape):
        return [values(shape)]

    def two(shape):
        return [values(shape, 1), values(shape, 2)]

    rows("copy", one, torch.clone)
    rows("add", two, torch.add)
    rows("mul", two, torch.mul)
    rows("exp", one, torch.exp)
    rows("tanh", one, torch.tanh)
    rows("sigmoid", one, torch.sigmoid)
    rows("where", lambda shape: [values(shape, 3) > 0, *two(shape)], torch.where)


def reduction_rows(bench):
    def rows(name, function):
        for row, sizes in each_size(name, MATRIX, size=SQUARES):
            def prepare():
                x = values(matrix_of(**sizes))
                return lambda: function(x)
            bench.unrecorded(row, prepare)

    rows("transposed_copy", lambda x: x.t().contiguous())
    rows("sum_axis0", lambda x: x.sum(0))
    rows("sum_axis1", lambda x: x.sum(1))
    rows("sum_all", lambda x: x.sum())


def table_rows(bench):
    for row, sizes in each_size("gather_rows", {"rows": 200000}, rows=[10000, 1000000]):
        def gather():
            x, i = values(TABLE), indices([sizes["rows"]], TABLE[0])
            return lambda: x.index_select(0, i)
        bench.unrecorded(row, gather)
    for row, sizes in each_size("scatter_add_rows", {"rows": 200000}, rows=[10000, 1000000]):
        def scatter():
            x, i = values(TABLE), indices([sizes["rows"]], TABLE[0])
            y = values([sizes["rows"], FEATURES], 2)
            return lambda: x.index_add(0, i, y)
        bench.unrecorded(row, scatter)


def element_rows(bench):
    for row, sizes in each_size("gather_elements", MATRIX, size=SQUARES):
        def gather():
            shape = matrix_of(**sizes)
            x, i = values(shape), indices(shape, shape[1])
            return lambda: x.gather(1, i)
        bench.unrecorded(row, gather)
    for row, sizes in each_size("scatter_add_elements", MATRIX, size=SQUARES):
        def scatter():
            shape = matrix_of(**sizes)
            x, i, y = values(shape), indices(shape, shape[1]), values(shape, 2)
            return lambda: x.scatter_add(1, i, y)
        bench.unrecorded(row, scatter)


def product_rows(bench):
    def row(name, shape, dtype=torch.float32):
        def prepare():
            a, b = values(shape, 1).to(dtype), values(shape, 2).to(dtype)
            return lambda: torch.matmul(a, b)
        bench.unrecorded(name, prepare)

    for name, sizes in each_size("matmul_4096", {"size": 4096}, size=[512, 1024]):
        row(name, [sizes["size"]] * 2)
    row("matmul_8192", [8192, 8192])
    for name, sizes in each_size("batched_matmul", {"batch": 64}, batch=[4, 256]):
        row(name, [sizes["batch"], 1024, 1024])
    allow_tf32(True)
    row("matmul_4096_tf32", [4096, 4096])
    row("matmul_8192_tf32", [8192, 8192])
    row("batched_matmul_tf32", [64, 1024, 1024])
    allow_tf32(False)
    row("matmul_4096_bf16", [4096, 4096], torch.bfloat16)
    row("matmul_8192_bf16", [8192, 8192], torch.bfloat16)


def chain_of(length, wrap=lambda function: function):
    """The work of the row: multiplications and a sum, recorded, and the gradient."""
    x, w = (values([64], 1) * 0.05 + 1).requires_grad_(), values([64], 2) * 0.05 + 1

    def chain(y):
        for _ in range(length):
            y = y * w
        return y.sum()

    total = wrap(chain)
    return lambda: torch.autograd.grad(total(x), x)


def small_rows(bench):
    for row, sizes in each_size("add_16_issue", {"size": 16}, size=[1024, 65536]):
        def add():
            a, b = values([sizes["size"]], 1), values([sizes["size"]], 2)
            return lambda: torch.add(a, b)
        bench.issue(row, 1000, add)
    for row, sizes in each_size("chain_32_backward", {"length": 32}, length=[8, 128]):
        bench.row(row, lambda: chain_of(**sizes))
    bench.compiled("chain_32_backward", lambda: chain_of(32, torch.compile))


def op_rows(bench):
    elementwise_rows(bench)
    reduction_rows(bench)
    table_rows(bench)
    element_rows(bench)
    product_rows(bench)
    small_rows(bench)
