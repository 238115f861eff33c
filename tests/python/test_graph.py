"""Building, printing, reading and transforming graphs from Python."""

import copy
import inspect
import re

import numpy as np
import pytest
import tenon
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

MLP = """\
graph mlp(%x: f32[N, 4]) {
  symbol N in [1, 64]
  %w: f32[2, 4] = parameter "fc.weight"
  %half: f32[] = constant 0.5
  %y: f32[4, 2] = permute(%w) {dims=[1, 0]} @ "model.py":12
  %z: f32[N, 4] = mul(%x, %half)
  return %z, %y
}
"""


def without_locations(graph):
    return re.sub(r' @ "[^"]*"(:\d+)*', "", str(graph))


# ---- text ------------------------------------------------------------------------------------------------------------


def test_text_round_trip():
    graph = tenon.parse(MLP)
    assert str(graph) == MLP
    assert tenon.parse(str(graph)) == graph


def test_building_gives_the_text():
    graph = tenon.Graph("net")
    n = graph.symbol("N", 1, 64)
    x = graph.input("x", "f32[N, 4]")
    state = graph.buffer("running", "f32[N, 4]")
    h = graph.op("mul", x, 0.5)
    h.name = "h"
    total = tenon.ops.sum(h, dims=[1], keepdim=True)
    graph.update(state, h)
    graph.output(total)
    graph.output(h)
    assert (
        without_locations(graph)
        == """\
graph net(%x: f32[N, 4]) {
  symbol N in [1, 64]
  %running: f32[N, 4] = buffer "running"
  %0: f32[] = constant 0.5
  %h: f32[N, 4] = mul(%x, %0)
  %1: f32[N, 1] = sum(%h) {dims=[1], keepdim=true}
  update %running = %h
  return %1, %h
}
"""
    )
    assert n == tenon.Expr("N")
    graph.verify()


def test_equality_ignores_names_locations_and_data():
    a, b = (tenon.parse(MLP.replace("%z", name).replace(":12", line)) for name, line in [("%z", ":12"), ("%q", ":99")])
    b.bind("fc.weight", np.ones((2, 4), np.float32))
    assert a == b
    assert a != tenon.parse(MLP.replace("0.5", "0.25"))
    assert a != tenon.parse(MLP.replace("mlp", "net"))
    assert a != "mlp"


def test_a_copy_grows_alone():
    graph = tenon.parse(MLP)
    for other in (graph.copy(), copy.copy(graph)):
        assert other == graph
        other.output(other.inputs[0])
        assert len(other.outputs) == 3
    assert len(graph.outputs) == 2


# ---- leaves and values -----------------------------------------------------------------------------------------------


def test_values_know_their_types():
    graph = tenon.Graph()
    x = graph.input("x", "bf16[2*N + 1, 3]")
    assert (x.type, x.dtype, x.ndim, x.name) == ("bf16[2*N + 1, 3]", "bf16", 2, "x")
    assert x.shape == (tenon.Expr("2*N + 1"), 3)
    assert isinstance(x.shape[1], int)
    assert x.graph is graph
    assert graph.inputs[0].id == x.id


@pytest.mark.parametrize("dtype", ["f32", torch.float32, np.float32, np.dtype("float32")], ids=str)
def test_a_type_may_be_a_pair(dtype):
    graph = tenon.Graph()
    n = graph.symbol("N")
    assert graph.input("x", (dtype, [n + 1, 4])).type == "f32[N + 1, 4]"


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [(2, None, "i64"), (2.5, None, "f32"), (True, None, "bool"), (2, "f16", "f16"), (255, "u8", "u8")],
)
def test_constants_from_numbers(number, dtype, expected):
    graph = tenon.Graph()
    value = graph.constant(number, dtype)
    assert value.type == f"{expected}[]"
    graph.output(value)
    assert graph.evaluate()[0] == number


def test_a_constant_is_a_copy():
    array = np.arange(4, dtype=np.float32)
    graph = tenon.Graph()
    graph.output(graph.constant(array), graph.constant(array, dtype="i8"))
    array[:] = 7
    floats, integers = graph.evaluate()
    np.testing.assert_array_equal(floats, np.arange(4, dtype=np.float32), strict=True)
    np.testing.assert_array_equal(integers, np.arange(4, dtype=np.int8), strict=True)


def test_leaves():
    graph = tenon.parse(MLP)
    assert [(leaf.kind, leaf.name) for leaf in graph.leaves] == [
        ("input", "x"),
        ("parameter", "fc.weight"),
        ("constant", ""),
    ]
    weight = graph.leaf("fc.weight")
    assert weight.value.type == "f32[2, 4]"
    assert weight.data is None
    assert graph.leaf("x").data is None
    assert graph.leaf("nothing") is None
    graph.bind("fc.weight", np.full((2, 4), 3, np.float32))
    np.testing.assert_array_equal(np.asarray(weight.data), np.full((2, 4), 3, np.float32))


def test_nodes():
    graph = tenon.parse(MLP)
    permute, mul = graph.nodes
    assert permute.op.name == "permute"
    assert permute.attrs == {"dims": [1, 0]}
    assert [value.name for value in mul.operands] == ["x", "half"]
    assert [value.name for value in mul.results] == ["z"]
    assert (permute.location.file, permute.location.line, permute.location.column) == ("model.py", 12, 0)
    assert str(permute) == '%y: f32[4, 2] = permute(%w) {dims=[1, 0]} @ "model.py":12'
    assert graph.symbols == {"N": (1, 64)}


def test_symbols_may_be_unbounded():
    graph = tenon.Graph()
    graph.symbol("N")
    graph.symbol("M", low=2)
    assert graph.symbols == {"M": (2, None), "N": (0, None)}


def test_nodes_know_the_line_that_made_them():
    graph = tenon.Graph()
    x = graph.input("x", "f32[2]")
    line = inspect.currentframe().f_lineno + 1
    y = tenon.ops.neg(x)
    z = x[1:]
    graph.output(y, z)
    neg, slice_ = graph.nodes
    assert (neg.location.line, slice_.location.line) == (line, line + 1)
    assert neg.location.file.endswith("test_graph.py")
    assert neg.location == tenon.parse(str(graph)).nodes[0].location


def test_values_keep_their_graph_alive():
    value = tenon.Graph("kept").input("x", "f32[2]")
    assert value.graph.name == "kept"
    assert tenon.ops.neg(value).type == "f32[2]"


# ---- operands and attributes -----------------------------------------------------------------------------------------


def evaluated(graph, value, *inputs):
    graph.output(value)
    return graph.evaluate(*inputs)[-1]


@pytest.mark.parametrize(
    ("tensor", "number", "expected"),
    [
        ("f32", 2, "f32"),
        ("f32", 2.5, "f32"),
        ("bf16", 2.5, "bf16"),
        ("i8", 2, "i8"),
        ("i8", 2.5, "f32"),
        ("bool", 2, "i64"),
        ("bool", True, "bool"),
        ("f16", True, "f16"),
    ],
)
def test_a_number_takes_the_dtype_beside_it(tensor, number, expected):
    graph = tenon.Graph()
    x = graph.input("x", f"{tensor}[3]")
    torch_x = torch.zeros(3, dtype=tenon_to_torch(tensor))
    for value, peer in [(x + number, torch_x + number), (number * x, number * torch_x)]:
        assert value.dtype == expected
        assert tenon_to_torch(value.dtype) == peer.dtype


def tenon_to_torch(dtype):
    names = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "i64": "int64", "bool": "bool"}
    return getattr(torch, names[dtype])


def test_arrays_beside_values_become_constants():
    graph = tenon.Graph()
    x = graph.input("x", "f32[2, 2]")
    array = np.array([1, 2], np.float32)
    tensor = torch.tensor([3.0, 4.0])
    graph.output(x + array, array + x, x * tensor, tensor * x, np.float32(3) + x)
    given = np.array([[1, 2], [3, 4]], np.float32)
    expected = [given + array, array + given, given * [3, 4], given * [3, 4], given + 3]
    for mine, theirs in zip(graph.evaluate(given), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs.astype(np.float32), strict=True)


FLOATS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "floor_div": lambda x, y: x // y,
    "remainder": lambda x, y: x % y,
    "pow": lambda x, y: abs(x) ** y,
    "matmul": lambda x, y: x @ y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: abs(x),
    "number on the right": lambda x, y: ((x - 1) / 2) ** 2 // 3 % 4,
    "number on the left": lambda x, y: 3 % (2 ** (1 - x) + 5 / abs(y) + 1) + 7 // (abs(y) + 1) + 2 * x,
}
INTEGERS = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "not": lambda x, y: ~x,
    "shift_left": lambda x, y: x << (y & 3),
    "shift_right": lambda x, y: x >> (y & 3),
    "reflected": lambda x, y: (6 & x) | (1 | y) | (3 ^ x) | (1 << (y & 3)),
}


@pytest.mark.parametrize("name", FLOATS)
def test_operators_agree_with_torch(name):
    check_operator(FLOATS[name], torch.tensor([[1.5, -2.0], [3.0, 0.5]]), torch.tensor([[2.0, -2.0], [1.0, 3.0]]))


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_operators_agree_with_torch(name):
    check_operator(INTEGERS[name], torch.tensor([1, -2, 7, 12]), torch.tensor([3, 5, 1, 0]))


def check_operator(function, a, b):
    dtype = "f32" if a.is_floating_point() else "i64"
    graph = tenon.Graph()
    x, y = (graph.input(name, (dtype, list(t.shape))) for name, t in (("x", a), ("y", b)))
    torch.testing.assert_close(evaluated(graph, function(x, y), a, b), function(a, b))


def test_a_size_may_be_an_operand():
    graph = tenon.Graph()
    x = graph.input("x", "f32[N]")
    (n,) = x.shape
    y = evaluated(graph, tenon.ops.sum(x) + n * 2, np.ones(5, np.float32))
    assert y == 15
    assert y.dtype == np.float32


def test_operands_by_name_and_lists():
    graph = tenon.Graph()
    x = graph.input("x", "f32[2]")
    y = graph.input("y", "f32[2]")
    joined = tenon.ops.concat([x, y, np.zeros(1, np.float32)], dim=0)
    assert joined.type == "f32[5]"
    assert tenon.ops.concat(x, y, dim=0).type == "f32[4]"
    assert tenon.ops.add(x, y=y).type == "f32[2]"
    assert tenon.op("add")(x, y).type == "f32[2]"
    assert graph.op("sum", x=x, dims=0).type == "f32[]"


def test_an_op_without_operands_takes_the_graph():
    graph = tenon.Graph()
    n = graph.symbol("N")
    assert tenon.ops.iota(graph, size=n + 1).type == "i64[N + 1]"
    assert tenon.ops.full(graph, value=1.5, shape=["2*N", 3], dtype=torch.float16).type == "f16[2*N, 3]"


@pytest.mark.parametrize(
    "key",
    [
        0,
        -1,
        (1, 2),
        slice(None),
        slice(1, None),
        slice(None, -1),
        slice(None, None, 2),
        slice(-2, 100),
        slice(3, 1),
        (slice(None), 1),
        (..., -1),
        (0, ..., slice(1, 3)),
        None,
        (slice(None), None, 0),
        (None, ..., None),
        ...,
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", ["f32[3, 4, 5]", "f32[N, 4, M]"])
def test_indexing(key, shape):
    graph = tenon.Graph()
    graph.symbol("N", 3)
    graph.symbol("M", 3)
    x = graph.input("x", shape)
    array = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    np.testing.assert_array_equal(evaluated(graph, x[key], array), array[key], strict=True)


# ---- the op table ----------------------------------------------------------------------------------------------------


def test_records():
    record = tenon.op("sum")
    assert (record.name, record.family, record.results) == ("sum", "reduction", ("out",))
    assert not record.composite
    assert record.differentiable
    assert [operand.name for operand in record.operands] == ["x"]
    assert "f32" in record.operands[0].dtypes
    dims, keepdim = record.attrs
    assert (dims.name, dims.kind, dims.required, dims.default) == ("dims", "list of ints", False, [])
    assert (keepdim.name, keepdim.kind, keepdim.default) == ("keepdim", "bool", False)


def test_every_op_has_a_function_with_a_signature():
    for record in tenon.op_table():
        function = getattr(tenon.ops, record.name, None) or getattr(tenon.ops, record.name + "_")
        parameters = inspect.signature(function).parameters
        assert {attr.name for attr in record.attrs} <= set(parameters)
        assert {operand.name for operand in record.operands} <= set(parameters)
        assert record.doc in function.__doc__


def test_samples_are_graphs_of_one_node():
    for sample in tenon.op("sum").samples():
        assert [node.op.name for node in sample.graph.nodes] == ["sum"]
        sample.graph.verify()
        assert tenon.parse(str(sample.graph)) == sample.graph


# ---- transformations -------------------------------------------------------------------------------------------------


def test_differentiate_by_name_and_by_value():
    graph = tenon.Graph()
    x = graph.input("x", "f64[N]")
    w = graph.parameter("w", torch.tensor(3.0, dtype=torch.float64))
    graph.output(tenon.ops.sum(tenon.ops.exp(x * w)))
    gradient = tenon.differentiate(graph, wrt=["w", x])
    given = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    dw, dx = gradient.evaluate(given, grad_0=torch.tensor(2.0, dtype=torch.float64))
    torch.testing.assert_close(dx, 2 * 3 * torch.exp(3 * given))
    torch.testing.assert_close(dw, 2 * (given * torch.exp(3 * given)).sum())


def test_passes_report():
    graph = tenon.parse("""
        graph g(%x: f32[4]) {
          %a: f32[4] = neg(%x)
          %b: f32[4] = neg(%x)
          %c: f32[4] = exp(%x)
          %d: f32[4] = add(%a, %b)
          return %d
        }""")
    runs = []
    seen = []

    def after(run, result):
        runs.append(run)
        seen.append(str(result))

    result = tenon.run_passes(graph, ["cse", "dce", "decompose"], skip=["decompose"], after=after)
    assert [node.op.name for node in result.nodes] == ["neg", "add"]
    assert [(run.name, run.nodes_before, run.nodes_after) for run in runs] == [
        ("cse", 4, 3),
        ("dce", 3, 2),
        ("decompose", 2, 2),
    ]
    assert [run.changed for run in runs] == [True, True, False]
    assert [run.skipped for run in runs] == [False, False, True]
    assert all(run.milliseconds >= 0 for run in runs)
    assert seen[-1] == str(result)
    assert len(graph.nodes) == 4
    assert set(tenon.passes()) >= {"cse", "dce", "decompose", "canonicalize"}


def test_an_exception_in_a_callback_passes_through():
    def after(run, graph):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tenon.run_passes(tenon.parse(MLP), ["dce"], after=after)


# ---- expressions -----------------------------------------------------------------------------------------------------


def test_expressions():
    n, m = tenon.Expr("N"), tenon.Expr("M")
    assert str(2 * n + 1 - n) == "N + 1"
    assert n + m == m + n
    assert hash(n + m) == hash(m + n)
    assert n - n == 0
    assert int(n - n + 3) == 3
    assert (n + m).symbols == ("M", "N")
    assert (7 // n).evaluate(N=2) == 3
    assert (n % 4).evaluate({"N": -1}) == 3
    assert (n * 3 + m).substitute(N=m, M=2) == 3 * m + 2
    assert (n.ceildiv(4)).evaluate(N=5) == 2
    assert n.min(3).evaluate(N=5) == 3
    assert n.lt(m).evaluate(N=1, M=2) == 1
    assert (2 * n).bounds(N=(1, 64)) == (2, 128)
    assert (-n).bounds(N=(0, None)) == (None, 0)
    assert ((16 * n + m) // 16).simplify(M=(0, 15)) == n
    assert (3 * n + m).differentiate("N") == 3
    assert (3 * n + m).intercept("N") == m
    assert repr(n) == "Expr('N')"


NAMES = ("a", "b", "c")


def expressions():
    leaves = st.integers(-20, 20) | st.sampled_from(NAMES).map(tenon.Expr)
    binary = {
        "add": (lambda x, y: x + y),
        "sub": (lambda x, y: x - y),
        "mul": (lambda x, y: x * y),
        "div": (lambda x, y: x // y),
        "mod": (lambda x, y: x % y),
    }
    pairs = leaves.map(lambda leaf: (leaf, lambda env: env[str(leaf)] if isinstance(leaf, tenon.Expr) else leaf))

    def combine(children):
        def make(name, left, right):
            op = binary[name]
            return (op(tenon.Expr(left[0]), right[0]), lambda env: op(left[1](env), right[1](env)))

        divisors = st.integers(1, 9).map(lambda d: (d, lambda env: d))
        safe = st.builds(make, st.sampled_from(["add", "sub", "mul"]), children, children)
        division = st.builds(make, st.sampled_from(["div", "mod"]), children, divisors)
        return safe | division

    return st.recursive(pairs, combine, max_leaves=8)


@settings(max_examples=200, deadline=None)
@given(expressions(), st.fixed_dictionaries({name: st.integers(-30, 30) for name in NAMES}))
def test_expressions_agree_with_python(pair, values):
    expr, function = tenon.Expr(pair[0]), pair[1]
    assert expr.evaluate(values) == function(values)
    assert tenon.Expr(str(expr)) == expr
    low, high = expr.bounds({name: (value, value) for name, value in values.items()})
    assert low is None or low <= function(values)
    assert high is None or function(values) <= high


def test_ops_see_the_declared_ranges_of_symbols():
    graph = tenon.Graph()
    graph.symbol("N", 4, 4)
    x = graph.input("x", "f32[N]")
    graph.output(tenon.ops.reshape(x, shape=[2, 2]))
    assert tenon.parse(str(graph)) == graph


def test_a_symbolic_dimension_takes_an_integer_index():
    graph = tenon.Graph()
    x = graph.input("x", "f32[N, 4]")
    data = torch.arange(12.0).reshape(3, 4)
    torch.testing.assert_close(evaluated(graph, x[2], data), data[2])
    torch.testing.assert_close(evaluated(graph, x[-1, 1:3], data), data[-1, 1:3])


def test_a_step_must_be_an_integer():
    x = tenon.Graph().input("x", "f32[N, 4]")
    for step in (tenon.Expr("N"), "2"):
        with pytest.raises(tenon.Error, match="step must be an integer"):
            x[::step]


def test_values_cannot_name_symbols():
    with pytest.raises(tenon.Error, match="'nan' cannot name a symbol"):
        tenon.Graph().input("x", "f32[nan]")
