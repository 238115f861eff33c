"""Sums of millions of numbers: no further from an f64 run than twice what PyTorch is, or than assert_close allows.

0.1 in f32 is rounded the same way at every step of a running sum, so errors do not cancel.
"""

import pytest
import tenon
import torch
import torch.nn.functional as F

N = 1 << 22
MANY = torch.export.Dim("many", min=2)


def tenths(*shape):
    return torch.full(shape, 0.1)


def noise(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1))


def near_one(*shape):
    return 1 + 1e-4 * torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def depthwise_gradient(grad, x, w):
    no = [False, True, False]
    return torch.ops.aten.convolution_backward(grad, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 4, no)[1]


CASES = {
    "sum of two columns": (lambda x: x.sum(0), [tenths(N, 2)]),
    "sum of columns": (lambda x: x.sum(0), [tenths(N // 128, 300)]),
    "sum of columns of work": (lambda x: (x.exp() * x + x.sin() * 0.1).sum(0), [tenths(N // 1024, 768)]),
    "sum of rows": (lambda x: x.sum(1), [tenths(2, N // 2)]),
    "sum of the middle": (lambda x: x.sum(1), [tenths(2, N // 8, 3)]),
    "sum of the first and the last": (lambda x: x.sum((0, 2)), [tenths(N // 512, 3, 49)]),
    "sum of all": (lambda x: x.sum(), [tenths(N // 8, 7)]),
    "mean": (lambda x: x.mean(0), [tenths(N, 2)]),
    "variance": (lambda x: x.var(0), [noise(N // 4, 2)]),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=0), [tenths(N // 4, 2)]),
    "logsumexp": (lambda x: x.logsumexp(0), [noise(N // 4, 2)]),
    "softmax": (lambda x: x.softmax(0) * N, [noise(N // 4, 2)]),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), [noise(N // 4, 3)]),
    "matmul": (lambda x, y: x @ y, [tenths(33, N // 32), tenths(N // 32, 17)]),
    "matmul of transposed": (lambda x, y: x.T @ y, [tenths(N // 32, 8), tenths(N // 32, 24)]),
    "dot": (lambda x, y: x @ y, [tenths(1, N), tenths(N, 1)]),
    "convolution's gradient": (depthwise_gradient, [tenths(128, 4, 32, 32), tenths(128, 4, 32, 32), noise(4, 1, 3, 3)]),
    "cumsum": (lambda x: x.cumsum(0), [tenths(N)]),
    "cumsum of columns": (lambda x: x.cumsum(0), [tenths(N // 64, 20)]),
    "cumprod": (lambda x: x.cumprod(0), [near_one(N // 4)]),
    "logcumsumexp": (lambda x: x.logcumsumexp(0), [tenths(N // 8)]),
    "prod": (lambda x: x.prod(), [near_one(N)]),
    "prod of columns": (lambda x: x.prod(0), [near_one(N // 4, 2)]),
    "index_add": (
        lambda x, i: torch.zeros(3, 2, dtype=x.dtype).index_add(0, i, x),
        [tenths(N // 8, 2), torch.zeros(N // 8, dtype=torch.int64)],
    ),
    "f16": (lambda x: x.sum(0), [tenths(N // 8, 2).half() / 16]),
    "bf16": (lambda x: x.sum(0), [tenths(N, 2).bfloat16()]),
}
DYNAMIC = {
    "sum of columns": (lambda x: x.sum(0), [tenths(N // 4, 3)], ({0: MANY},)),
    "sum of the middle": (lambda x: x.sum(1), [tenths(2, N // 16, 16)], ({1: MANY},)),
    "matmul": (lambda x, y: x @ y, [tenths(33, N // 32), tenths(N // 32, 17)], ({1: MANY}, {0: MANY})),
    "cumsum": (lambda x: x.cumsum(0), [tenths(N // 4, 2)], ({0: MANY},)),
}


def module_of(fn):
    class Model(torch.nn.Module):
        def forward(self, *args):
            return fn(*args)

    return Model()


def tolerance_units(result, exact):
    """How far it is, at most, in what assert_close allows for the dtype."""
    relative, absolute = torch.testing._comparison.default_tolerances(result)
    return ((result.double() - exact).abs() / (relative * exact.abs() + absolute)).max().item()


def check(fn, inputs, *results):
    exact = fn(*(x.double() if x.is_floating_point() else x for x in inputs))
    allowed = max(1, 2 * tolerance_units(fn(*inputs), exact))
    assert all(tolerance_units(result, exact) <= allowed for result in results)


@pytest.mark.parametrize("name", CASES)
def test_compiled(name):
    fn, inputs = CASES[name]
    programs = [tenon.compile(module_of(fn), tuple(inputs), threads=threads) for threads in (1, 2)]
    check(fn, inputs, *(program(*inputs) for program in programs))


@pytest.mark.parametrize("name", DYNAMIC)
def test_sizes_that_only_the_run_knows(name):
    fn, inputs, dims = DYNAMIC[name]
    check(fn, inputs, tenon.compile(module_of(fn), tuple(inputs), dynamic_shapes=(dims,))(*inputs))


@pytest.mark.parametrize("name", ["sum of rows", "sum of columns", "prod of columns", "f16"])
def test_without_native_code(name, tmp_path):
    fn, inputs = CASES[name]
    tenon.compile(module_of(fn), tuple(inputs)).save(tmp_path / "sum.tenon")
    check(fn, inputs, tenon.load(tmp_path / "sum.tenon", native=False)(*inputs))


@pytest.mark.parametrize("name", ["sum of two columns", "cumsum", "prod"])
def test_reference(name):
    fn, inputs = CASES[name]
    parts = [x[: 1 << 16] for x in inputs]
    graph = tenon.compile(module_of(fn), tuple(parts)).graph
    check(fn, parts, graph.evaluate(*parts)[0])
