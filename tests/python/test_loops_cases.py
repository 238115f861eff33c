"""The cases that are exact on every backend. tests/named/exact_cases_test.cpp has the same in C++."""

import math

import numpy as np
import pytest
import tenon
import tenon.loops as tl

pytestmark = pytest.mark.parametrize("backend", [name for name in tl.backends() if tl.is_available(name)])


def vector(*values):
    return np.array(values, dtype=np.float32)


def counted(*shape):
    return np.arange(math.prod(shape), dtype=np.float32).reshape(shape)


def ones(*shape):
    return np.ones(shape, dtype=np.float32)


def tensor(array, *symbols):
    return tl.Tensor(array).to(*symbols)


def check(actual, expected, backend):
    result = actual.backend(backend).numpy()
    np.testing.assert_array_equal(result, np.array(expected, dtype=result.dtype))


def check_close(actual, expected, backend):
    np.testing.assert_allclose(actual.backend(backend).numpy(), expected, rtol=1e-6)


def loop_over(tree, node, var, step=1):
    (found,) = [ref for ref in tree.path(tree.find(node)) if (tree.loop(ref).var, tree.loop(ref).step) == (var, step)]
    return found


def reduction_of(tree):
    return next(node for node in tree.ir.order if node.kind == "reduce")


@pytest.fixture
def s():
    return tl.SymbolGenerator()


# ---- schedules -------------------------------------------------------------------------------------------------------


@pytest.fixture
def matmul(s):
    x = 3 * counted(16, 16)
    y = 100 - 2 * counted(16, 16)
    return (tensor(x, s.m, s.k) * tensor(y, s.k, s.n)).sum(s.k), x @ y


def split_by_10(c):
    tree = c.loop_tree
    return tree.split(loop_over(tree, reduction_of(tree), "k"), 10)


def test_matmul(backend, matmul):
    c, expected = matmul
    check(c, expected, backend)


def test_matmul_with_k_split_by_10(backend, matmul):
    c, expected = matmul
    tree = split_by_10(c)
    outer = tree.loop(loop_over(tree, reduction_of(tree), "k", 10))
    assert (outer.size, outer.tail) == (1, 6)
    check(c.set(tree), expected, backend)


def test_matmul_with_k_split_by_10_and_swapped(backend, matmul):
    c, expected = matmul
    tree = split_by_10(c)
    fold = reduction_of(tree)
    swapped = tree.swap_loops(loop_over(tree, fold, "k", 10), loop_over(tree, fold, "m"))
    assert swapped.depth(loop_over(swapped, fold, "k", 10)) == 0
    check(c.set(swapped), expected, backend)


def test_negate_under_nested_splits(backend, s):
    x = counted(405) - 7
    c = -tensor(x, s.m)
    tree = c.loop_tree
    for size in (39, 9, 2):
        tree = tree.split(tree.path(tree.find(tree.ir.order[0]))[-1], size)
    loops = [tree.loop(ref) for ref in tree.path(tree.find(tree.ir.order[0]))]
    assert [(loop.size, loop.tail) for loop in loops] == [(10, 15), (4, 3), (4, 1), (2, 0)]
    check(c.set(tree), -x, backend)


def test_sum_through_split_node(backend, s):
    c = tensor(3 * counted(256), s.m).sum()
    tree = c.loop_tree
    fold = reduction_of(tree)
    tree = tree.split(loop_over(tree, fold, "m"), 10)
    parts = tree.split_node(fold, loop_over(tree, fold, "m", 10))
    assert len(parts.ir.order) > len(tree.ir.order)
    check(c.set(parts), 97920, backend)


# ---- windows ---------------------------------------------------------------------------------------------------------


def test_strided_convolution_infers_its_input(backend, s):
    x = tl.Tensor(s.m)
    c = (x[2 * s.o + s.k] * tensor(ones(3), s.k)).sum(s.k).with_sizes({s.o: 8})
    assert c.size(s.m) == 17
    x.bind(counted(17))
    check(c, [3, 9, 15, 21, 27, 33, 39, 45], backend)


@pytest.mark.parametrize("size", [17, 18])
def test_strided_convolution_infers_its_output(backend, s, size):
    c = (tensor(counted(size), s.m)[2 * s.o + s.k] * tensor(ones(3), s.k)).sum(s.k)
    assert c.shape == (8,)
    check(c, [3, 9, 15, 21, 27, 33, 39, 45], backend)


def test_sizes_that_come_with_the_data(backend, s):
    x, w = tl.Tensor(s.m), tl.Tensor(s.k)
    c = (x.pad(s.m, 1)[2 * s.o + s.k] * w).sum(s.k).backend(backend)
    np.testing.assert_array_equal(np.asarray(c.run({x: counted(5), w: ones(3)})), [1, 6, 7])
    np.testing.assert_array_equal(np.asarray(c.run({x: counted(6), w: ones(2)})), [0, 3, 7, 5])


def test_dilation(backend, s):
    c = (tensor(counted(9), s.m)[s.o + 2 * s.k] * tensor(ones(3), s.k)).sum(s.k)
    check(c, [6, 9, 12, 15, 18], backend)


def test_padded_convolution(backend, s):
    x, w = tensor(ones(5), s.m), tensor(ones(3), s.k)
    check((x.pad(s.m, 1)[s.o + s.k] * w).sum(s.k), [2, 3, 3, 3, 2], backend)
    check((x.at(s.o + s.k - 1) * w).sum(s.k).with_sizes({s.o: 5}), [2, 3, 3, 3, 2], backend)


def test_convolution_2d(backend, s):
    x = counted(4, 64, 8, 8) * 37 % 17 - 8
    w = counted(64, 64, 3, 3) * 29 % 13 - 6
    padded = tensor(x, s.b, s.c, s.h, s.w).pad(s.h, 1).pad(s.w, 1)
    windows = padded[s.b, s.c, s.y + s.kh, s.x + s.kw]
    out = (windows * tensor(w, s.m, s.c, s.kh, s.kw)).sum(s.c, s.kh, s.kw).transpose(s.b, s.m, s.y, s.x)

    graph = tenon.Graph("conv")
    image, kernel = graph.input("x", "f32[4, 64, 8, 8]"), graph.input("w", "f32[64, 64, 3, 3]")
    graph.output(tenon.ops.conv(image, kernel, padding=[1, 1]))
    (expected,) = graph.evaluate(x, w)
    check(out, expected, backend)


# ---- shapes ----------------------------------------------------------------------------------------------------------


def test_pad2d(backend, s):
    x = tensor(vector([1, 2], [3, 4]), s.m, s.n)
    check(x.pad(s.m, 1).pad(s.n, 1), [[0, 0, 0, 0], [0, 1, 2, 0], [0, 3, 4, 0], [0, 0, 0, 0]], backend)


def test_concat_of_three(backend, s):
    a, b, c = (tensor(vector(*pair), s.m) for pair in ((1, 2), (3, 4), (5, 6)))
    check(tl.concat([a, b, c], s.m), [1, 2, 3, 4, 5, 6], backend)
    longer = tensor(vector(3, 4, 5), s.n)
    check(tl.concat([(a, s.m), (longer, s.n), (c, s.m)], s.o), [1, 2, 3, 4, 5, 5, 6], backend)


def test_transposed_flatten(backend, s):
    x = tensor(counted(2, 3), s.m, s.n)
    check(x.flatten([s.n, s.m], s.o), [0, 3, 1, 4, 2, 5], backend)
    check(x.transpose(s.n, s.m), [[0, 3], [1, 4], [2, 5]], backend)


def test_row_major_then_column_major_flatten(backend, s):
    x = tensor(counted(8, 8), s.m, s.n)
    check(x.flatten([s.m, s.n], s.o), np.arange(64), backend)
    check(x.flatten([s.n, s.m], s.o), np.arange(64).reshape(8, 8).T.reshape(-1), backend)


def test_slice_reverse_and_split_dim(backend, s):
    x = tensor(counted(6), s.m)
    check(x[s.o + 2].with_sizes({s.o: 3}), [2, 3, 4], backend)
    check(x[3 * s.o + 1], [1, 4], backend)
    check(x[x.size(s.m) - 1 - s.o], [5, 4, 3, 2, 1, 0], backend)
    check(x.split(s.m, [s.n, s.k], 2).transpose(s.k, s.n), [[0, 2, 4], [1, 3, 5]], backend)


def test_gather(backend, s):
    x = tensor(counted(4, 2), s.m, s.n)
    indices = tensor(np.array([3, 2, 1]), s.o)
    check(x[indices, s.n], [[6, 7], [4, 5], [2, 3]], backend)


# ---- values ----------------------------------------------------------------------------------------------------------


def test_exp_of_pad(backend, s):
    check_close(tl.exp(tensor(vector(1, 2), s.m).pad(s.m, 1)), [1, math.e, math.e**2, 1], backend)


def test_arithmetic_on_a_padded_view(backend, s):
    padded = tensor(vector(1, 2), s.m).pad(s.m, 1)
    check(5 * padded, [0, 5, 10, 0], backend)
    check(padded * padded, [0, 1, 4, 0], backend)


def test_equal_looking_graphs_are_told(backend, s):
    a, b, x = (tensor(vector(*pair), s.m) for pair in ((1, 2), (10, 20), (100, 200)))
    check(a + b, [11, 22], backend)
    check(x + x, [200, 400], backend)
    check(b + x, [110, 220], backend)


def test_abs_and_log(backend, s):
    x = tensor(vector(-0.5, -1.5, -2.5), s.m)
    check(tl.abs(x), [0.5, 1.5, 2.5], backend)
    check_close(tl.log(abs(x)), np.log([0.5, 1.5, 2.5]), backend)


def test_softmax(backend, s):
    x = tensor(counted(4), s.m)
    e = tl.exp(x - x.max())
    check_close(e / e.sum(), np.exp(np.arange(4)) / np.exp(np.arange(4)).sum(), backend)


def test_a_long_dimension_stays_exact(backend, s):
    size = 2**24 + 3
    assert tl.index(s.m).with_sizes({s.m: size}).sum().backend(backend).numpy() == size * (size - 1) // 2
    x = tensor(np.arange(size, dtype=np.int32), s.n)
    check(x[2**22 * s.o + 2], [2, 2**22 + 2, 2**23 + 2, 3 * 2**22 + 2, 2**24 + 2], backend)


def test_two_sizes_of_one_symbol(backend, s):
    with pytest.raises(tenon.Error, match=r"m has the size 3 from dimension 0 of the data f32\[3\] .* the size 4 from"):
        (tensor(counted(3), s.m) + tensor(counted(4, 2), s.m, s.n)).backend(backend).numpy()
