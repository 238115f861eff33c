"""Running graphs: whose memory is read, whose is written, and what comes back."""

import gc
import operator
import sys
import threading
import weakref

import numpy as np
import pytest
import tenon
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

NUMPY_DTYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u8": np.uint8,
    "bool": np.bool_,
}
TORCH_DTYPES = {name: getattr(torch, np.dtype(dtype).name) for name, dtype in NUMPY_DTYPES.items()} | {
    "bf16": torch.bfloat16
}


def doubling(type_="f32[N, M]"):
    graph = tenon.Graph("doubling")
    x = graph.input("x", type_)
    graph.output(x + x)
    return graph


def identity(type_):
    graph = tenon.Graph("identity")
    graph.output(graph.input("x", type_))
    return graph


def counter(data):
    """count += 1, and gives the old count."""
    graph = tenon.Graph("counter")
    count = graph.buffer("count", data)
    graph.update(count, count + 1)
    graph.output(count)
    return graph


# ---- kinds and dtypes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_numpy_in_numpy_out(dtype):
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(NUMPY_DTYPES[dtype])
    (out,) = identity(f"{dtype}[2, 3]").evaluate(array)
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(out, array, strict=True)


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_torch_in_torch_out(dtype):
    tensor = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(TORCH_DTYPES[dtype])
    (out,) = identity(f"{dtype}[2, 3]").evaluate(tensor)
    assert isinstance(out, torch.Tensor)
    torch.testing.assert_close(out, tensor, rtol=0, atol=0)


def test_bf16_beside_numpy_is_a_tensor():
    graph = tenon.Graph()
    graph.input("x", "f32[]")
    graph.output(graph.constant(1.5, "bf16"))
    (out,) = graph.evaluate(np.float32(0))
    assert isinstance(out, tenon.Tensor)
    assert (out.dtype, out.shape) == ("bf16", ())
    assert torch.from_dlpack(out).item() == 1.5
    with pytest.raises(tenon.Error, match="NumPy has no bf16"):
        np.asarray(out)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_rank_0(kind):
    graph = tenon.Graph()
    x = graph.input("x", "f64[]")
    graph.output(x * 2)
    (out,) = graph.evaluate(kind(np.float64(1.5)))
    assert out.shape == ()
    assert float(out) == 3
    (out,) = graph.evaluate(1.5)  # a number is an input of rank 0
    assert isinstance(out, np.ndarray)
    assert out.shape == ()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_arrays(shape):
    (out,) = doubling().evaluate(np.zeros(shape, np.float32))
    assert out.shape == shape
    (out,) = doubling().evaluate(torch.zeros(shape))
    assert out.shape == shape


def test_the_first_input_decides_the_kind():
    graph = tenon.Graph()
    x = graph.input("x", "f32[2]")
    y = graph.input("y", "f32[2]")
    graph.output(x + y)
    array, tensor = np.ones(2, np.float32), torch.ones(2)
    assert isinstance(graph.evaluate(array, tensor)[0], np.ndarray)
    assert isinstance(graph.evaluate(tensor, array)[0], torch.Tensor)
    assert isinstance(graph.evaluate(y=array, x=tensor)[0], torch.Tensor)
    assert isinstance(graph.evaluate(tenon.Tensor(array), tensor)[0], tenon.Tensor)


def test_inputs_by_name():
    graph = tenon.Graph()
    x = graph.input("x", "f32[]")
    y = graph.input("layer.y", "f32[]")
    graph.output(x * 10 + y)
    for out in [graph.evaluate(1, 2), graph.evaluate(1, **{"layer.y": 2}), graph.evaluate(**{"layer.y": 2, "x": 1})]:
        assert float(out[0]) == 12


def test_parameters_that_require_gradients_are_read():
    weight = torch.nn.Parameter(torch.ones(2))
    graph = tenon.Graph()
    graph.output(graph.parameter("w", weight) + graph.input("x", "f32[2]"))
    (out,) = graph.evaluate(torch.ones(2, requires_grad=True))
    assert out.tolist() == [2, 2]
    assert not out.requires_grad


def test_a_lazy_negation_is_resolved():
    tensor = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert tensor.is_neg()
    (out,) = identity("f32[2]").evaluate(tensor)
    assert out.tolist() == [-2, 4]


# ---- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[::2],
        lambda a: a[:, 1::2],
        lambda a: a[::-1],
        lambda a: a[::-1, ::-2],
        lambda a: a[1:3, 2:],
        lambda a: np.broadcast_to(a[:1], (6, 8)),
        lambda a: np.broadcast_to(a[0, 0], (6, 8)),
        lambda a: np.asfortranarray(a),
    ],
)
def test_strided_numpy(view):
    array = view(np.arange(48, dtype=np.float32).reshape(6, 8))
    np.testing.assert_array_equal(doubling().evaluate(array)[0], array * 2)
    assert tenon.Tensor(array).data_ptr == array.__array_interface__["data"][0]


@pytest.mark.parametrize(
    "view",
    [lambda t: t.T, lambda t: t[::2], lambda t: t[:, 1::2], lambda t: t[:1].expand(6, 8), lambda t: t[1:3, 2:]],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_strided_torch(view, dtype):
    tensor = view(torch.arange(48).reshape(6, 8).to(dtype))
    (out,) = doubling("f32[N, M]" if dtype == torch.float32 else "bf16[N, M]").evaluate(tensor)
    torch.testing.assert_close(out, tensor * 2, rtol=0, atol=0)
    assert tenon.Tensor(tensor).data_ptr == tensor.data_ptr()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_view_of_any_array(data):
    dtype = data.draw(st.sampled_from(sorted(NUMPY_DTYPES)))
    array = data.draw(hnp.arrays(NUMPY_DTYPES[dtype], hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)))
    view = array[data.draw(hnp.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True))]
    view = np.asarray(view)
    (out,) = identity(f"{dtype}{list(view.shape)}").evaluate(view)
    np.testing.assert_array_equal(out, view, strict=True)


# ---- operators -------------------------------------------------------------------------------------------------------

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITWISE = [operator.and_, operator.or_, operator.xor]


@pytest.mark.parametrize("apply", [*ARITHMETIC, *COMPARISONS, *BITWISE, operator.matmul])
def test_binary_operators_are_those_of_torch(apply):
    a, b = torch.tensor([[7, 4], [1, 6]]), torch.tensor([[2, 3], [5, 6]])
    graph = tenon.Graph()
    x, y = graph.input("x", "i64[2, 2]"), graph.input("y", "i64[2, 2]")
    expected = [apply(a, b)]
    graph.output(apply(x, y))
    if apply is not operator.matmul:
        expected += [apply(a, 3), apply(3, b)]
        graph.output(apply(x, 3), apply(3, y))
    torch.testing.assert_close(list(graph.evaluate(a, b)), expected)


@pytest.mark.parametrize("apply", [operator.neg, operator.abs, operator.invert])
def test_unary_operators_are_those_of_torch(apply):
    a = torch.tensor([-2, 0, 5])
    graph = tenon.Graph()
    graph.output(apply(graph.input("x", "i64[3]")))
    torch.testing.assert_close(graph.evaluate(a)[0], apply(a))


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_parameters_share_memory():
    array = np.ones(3, np.float32)
    tensor = torch.ones(3)
    graph = tenon.Graph()
    a = graph.parameter("a", array)
    b = graph.parameter("b", tensor)
    graph.output(a + b)
    assert graph.leaf("a").data.data_ptr == array.__array_interface__["data"][0]
    assert graph.leaf("b").data.data_ptr == tensor.data_ptr()
    array[:] = 10
    tensor[:] = 5
    assert graph.evaluate()[0].tolist() == [15, 15, 15]


@pytest.mark.parametrize("make", [np.zeros, torch.zeros], ids=["numpy", "torch"])
def test_updates_write_into_the_callers_memory(make):
    data = make((2,))
    graph = counter(data)
    (first,) = graph.evaluate()
    (second,) = graph.evaluate()
    assert data.tolist() == [2, 2]
    assert first.tolist() == [0, 0]
    assert second.tolist() == [1, 1]


def test_updates_respect_strides():
    array = np.zeros((4, 6))
    counter(array[::-2, 1::3]).evaluate()
    expected = np.zeros((4, 6))
    expected[::-2, 1::3] = 1
    np.testing.assert_array_equal(array, expected)


def test_an_input_can_be_updated():
    graph = tenon.Graph()
    x = graph.input("x", "f32[2]")
    graph.update(x, x * 3)
    array = np.ones(2, np.float32)
    assert graph.evaluate(array) == ()
    assert array.tolist() == [3, 3]


def test_two_buffers_can_swap():
    a, b = np.array([1.0]), np.array([2.0])
    graph = tenon.Graph()
    first, second = graph.buffer("a", a), graph.buffer("b", b)
    graph.update(first, second)
    graph.update(second, first)
    graph.evaluate()
    assert (a[0], b[0]) == (2, 1)


def test_a_failure_changes_no_memory():
    good, short = np.zeros(2), np.zeros(2)
    graph = tenon.Graph()
    x = graph.input("x", "f64[N]")
    buffer = graph.buffer("good", good)
    graph.update(buffer, buffer + 1)
    graph.output(tenon.ops.reshape(x, shape=[tenon.Expr("N")]))
    with pytest.raises(tenon.Error):
        graph.evaluate(short.astype(np.float32))
    assert good.tolist() == [0, 0]


def test_read_only_memory_can_be_read_but_not_updated():
    array = np.ones(2)
    array.flags.writeable = False
    graph = tenon.Graph()
    buffer = graph.buffer("state", array)
    graph.output(buffer + 1)
    assert graph.evaluate()[0].tolist() == [2, 2]
    graph.update(buffer, buffer * 2)
    with pytest.raises(tenon.Error, match="buffer 'state' is updated by graph main, but its memory is read-only"):
        graph.evaluate()
    assert array.tolist() == [1, 1]
    assert graph.leaf("state").data.read_only
    assert not np.asarray(graph.leaf("state").data).flags.writeable


def test_memory_that_overlaps_itself_cannot_be_updated():
    with pytest.raises(tenon.Error, match="share memory"):
        counter(torch.zeros(1).expand(3)).evaluate()


def test_outputs_alias_nothing():
    array, weight = np.ones(2), np.ones(2)
    graph = tenon.Graph()
    x = graph.input("x", "f64[2]")
    w = graph.parameter("w", weight)
    c = graph.constant(np.ones(2))
    y = x + w
    graph.output(x, w, c, y, y)
    for out in graph.evaluate(array):
        out[:] = 99
    assert array.tolist() == weight.tolist() == [1, 1]
    assert [out.tolist() for out in graph.evaluate(array)] == [[1, 1]] * 3 + [[2, 2]] * 2


# ---- lifetimes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_the_graph_keeps_its_weights_alive(kind):
    source = np.arange(1000, dtype=np.float64) if kind == "numpy" else torch.arange(1000, dtype=torch.float64)
    graph = tenon.Graph()
    graph.output(tenon.ops.sum(graph.parameter("w", source)))
    derived = [graph.copy(), tenon.run_passes(graph, ["dce"])]
    del graph, source
    gc.collect()
    noise = [np.full(1000, 7.0) for _ in range(100)]
    assert [float(g.evaluate()[0]) for g in derived] == [499500, 499500]
    del noise


def test_the_graph_lets_its_weights_go():
    source = np.ones(10)
    gone = weakref.ref(source)
    graph = tenon.Graph()
    graph.parameter("w", source)
    del source
    gc.collect()
    assert gone() is not None
    graph.bind("w", np.zeros(10))
    gc.collect()
    assert gone() is None


def test_inputs_are_let_go():
    source = np.ones((2, 2), np.float32)
    before = sys.getrefcount(source)
    for _ in range(10):
        doubling().evaluate(source)
    gc.collect()
    assert sys.getrefcount(source) == before


def test_results_outlive_the_graph():
    (numpy_out,) = doubling().evaluate(np.ones((2, 2), np.float32))
    (torch_out,) = doubling().evaluate(torch.ones(2, 2))
    gc.collect()
    assert numpy_out.tolist() == torch_out.tolist() == [[2, 2], [2, 2]]
    assert numpy_out.flags.writeable


def test_tensors_are_handed_on_without_a_copy():
    (out,) = doubling().evaluate(tenon.Tensor(np.ones((2, 2), np.float32)))
    address = out.data_ptr
    array, tensor = np.asarray(out), torch.from_dlpack(out)
    assert array.__array_interface__["data"][0] == tensor.data_ptr() == address
    assert np.from_dlpack(out).__array_interface__["data"][0] == address
    assert np.array(out, dtype=np.int64, copy=True).tolist() == [[2, 2], [2, 2]]
    del out
    gc.collect()
    tensor[0, 0] = 5
    assert array[0, 0] == 5


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_the_gil_is_released():
    graph = doubling()
    array = np.ones((3000, 1000), np.float32)
    ticks = []
    done = threading.Event()

    def tick():
        while not done.wait(0.0005):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    before = len(ticks)
    graph.evaluate(array)
    during = len(ticks) - before
    done.set()
    thread.join()
    assert during > 2  # one that was due before may come in between


def test_a_graph_can_grow_while_it_runs():
    graph = doubling()
    array = np.ones((50, 50), np.float32)
    failures = []

    def run():
        try:
            for _ in range(20):
                assert graph.evaluate(array)[0][0, 0] == 2
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        tenon.ops.neg(graph.inputs[0])
    for thread in threads:
        thread.join()
    assert not failures


def test_updated_memory_may_not_be_shared():
    graph = tenon.parse(
        "graph g(%x: f32[2], %y: f32[2]) { %a = neg(%x) %b = exp(%y) update %x = %a update %y = %b return }"
    )
    shared = np.zeros(3, np.float32)
    with pytest.raises(tenon.Error, match="'x' and 'y' are both updated by graph g, but share memory"):
        graph.evaluate(shared[:2], shared[1:])
    graph.evaluate(shared[:2], np.zeros(2, np.float32))


def test_updated_memory_may_not_overlap_itself():
    graph = tenon.parse("graph g(%x: f32[2, 2]) { %a = neg(%x) update %x = %a return }")
    window = np.lib.stride_tricks.as_strided(np.zeros(3, np.float32), (2, 2), (4, 4))
    with pytest.raises(tenon.Error, match="its elements share memory"):
        graph.evaluate(window)


def test_symbolic_parameters_bind_by_their_data():
    graph = tenon.parse('graph g(%x: f32[N]) { %w: f32[N] = parameter "w" %y = mul(%x, %w) return %y }')
    graph.bind("w", np.array([1, 2, 3], np.float32))
    (y,) = graph.evaluate(np.full(3, 2, np.float32))
    np.testing.assert_array_equal(y, [2, 4, 6])
    with pytest.raises(tenon.Error, match="N"):
        graph.evaluate(np.zeros(4, np.float32))
