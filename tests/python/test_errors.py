"""Every mistake is a tenon.Error that says what is wrong and where; nothing else comes out, and nothing crashes."""

import inspect

import numpy as np
import pytest
import tenon
import tenon.loops as tl
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

GRAPH = """\
graph g(%x: f32[N, 4]) {
  %w: f32[4] = parameter "w"
  %y: f32[N, 4] = add(%x, %w) @ "model.py":12:3
  return %y
}
"""


@pytest.fixture
def graph():
    return tenon.Graph("g")


def caught(function):
    with pytest.raises(tenon.Error) as info:
        function()
    return info.value


def test_the_fields():
    error = caught(lambda: tenon.parse("graph g() {\n  %y = nag()\n  return\n}", file="net.tg"))
    assert (error.file, error.line, error.column) == ("net.tg", 2, 8)
    assert error.message == "there is no op 'nag'; did you mean 'neg'?"
    assert str(error) == f"net.tg:2:8: error: {error.message}"
    assert isinstance(error, ValueError)


def test_an_error_without_a_place_is_where_python_called(graph):
    line = inspect.currentframe().f_lineno + 1
    error = caught(lambda: graph.input("x", "f99[2]"))
    assert (error.line, error.column) == (line, 0)
    assert error.file.endswith("test_errors.py")
    error = caught(lambda: tenon.ops.neg(3))  # a function of the package is not the place
    assert error.file.endswith("test_errors.py")


def test_a_failure_at_run_time_is_where_the_model_says():
    graph = tenon.Graph()
    x = graph.input("x", "f32[4]")
    where = graph.input("where", "i64[1]")
    line = inspect.currentframe().f_lineno + 1
    graph.output(graph.op("index", x, [where]))
    error = caught(lambda: graph.evaluate(np.zeros(4, np.float32), np.array([7])))
    assert error.line == line
    assert "7" in error.message


PARSE_ERRORS = {
    "": (1, 1),
    "graph": (1, 6),
    "graph g(": (1, 9),
    "graph g() { return %x }": (1, 20),
    "graph g(%x: f32[2], %x: f32[2]) { return }": (1, 21),
    "graph g(%x: q32[2]) { return }": (1, 13),
    "graph g(%x: f32[2) { return }": (1, 13),
    "graph g(%x: f32[2]) {\n  %y: f32[3] = neg(%x)\n  return\n}": (2, 3),
    "graph g(%x: f32[2]) {\n  %y = sum(%x) {dims=[5]}\n  return\n}": (2, 8),
    "graph g(%x: f32[2]) {\n  %y = sum(%x) {dim=[0]}\n  return\n}": (2, 17),
    "graph g() {\n  %c: u8[] = constant 256\n  return\n}": (2, 23),
    "graph g() { return } more": (1, 22),
}


@pytest.mark.parametrize("text", PARSE_ERRORS)
def test_parse_errors_have_line_and_column(text):
    error = caught(lambda: tenon.parse(text, file="net.tg"))
    assert error.file == "net.tg"
    line, column = PARSE_ERRORS[text]
    assert error.line == line
    assert abs(error.column - column) <= 8


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda g, x: tenon.Graph("a b"), "'a b' cannot name a graph"),
        (lambda g, x: g.input("x", "f32[4]"), "two leaves named 'x'"),
        (lambda g, x: g.input("1", "f32[4]"), "cannot name an input"),
        (lambda g, x: g.input("y", 5), "a type is a text"),
        (lambda g, x: g.input("y", ("f32", 4)), "a type is a text"),
        (lambda g, x: g.input("y", ("f32", [2.5])), "a size must be an integer"),
        (lambda g, x: g.input("y", "f32[-1]"), "negative size"),
        (lambda g, x: g.input("y", "f32[2"), "'f32.2' is not a type"),
        (lambda g, x: g.input("y", "f32[N /]"), "is not a type"),
        (lambda g, x: g.parameter("w", [1, 2]), "parameter 'w' is a list: give a NumPy array or a torch tensor"),
        (lambda g, x: g.parameter("w", None), "parameter 'w' is a NoneType"),
        (lambda g, x: g.parameter("w", np.zeros(2, np.complex64)), "dtype complex64, which Tenon lacks"),
        (lambda g, x: g.parameter("w", np.zeros(2, np.uint16)), "dtype uint16, which Tenon lacks"),
        (lambda g, x: g.parameter("w", np.zeros(2, ">f4")), "dtype >f4"),
        (lambda g, x: g.parameter("w", np.zeros(2, object)), "dtype object"),
        (lambda g, x: g.parameter("w", np.array(["a"])), "dtype <U1"),
        (lambda g, x: g.parameter("w", torch.zeros(2, device="meta")), "device meta"),
        (lambda g, x: g.parameter("w", torch.zeros(2, dtype=torch.complex64)), "dtype torch.complex64"),
        (lambda g, x: g.constant(300, "u8"), "300 does not fit u8"),
        (lambda g, x: g.constant(0.5, "i32"), "0.5 does not fit i32"),
        (lambda g, x: g.constant(2**70), "does not fit i64"),
        (lambda g, x: g.constant("a"), "a constant is a str"),
        (lambda g, x: g.constant(1, "float"), "'float' is not a dtype"),
        (lambda g, x: g.bind("w", np.zeros(2)), "no parameter or buffer 'w'"),
        (lambda g, x: g.bind("x", np.zeros(2)), "'x' is an input"),
        (lambda g, x: g.symbol("N", 5, 1), "empty range"),
        (lambda g, x: g.symbol("a b"), "a b"),
        (lambda g, x: g.output(3), "expected a tenon.Value, got an int"),
        (lambda g, x: g.output(tenon.Graph("h").input("x", "f32[]")), "a value of graph h cannot be used in graph g"),
        (lambda g, x: x + tenon.Graph("h").input("x", "f32[]"), "a value of graph h cannot be used in graph g"),
        (lambda g, x: x + np.zeros(3, np.float32), "add"),
        (lambda g, x: x + np.zeros(4, np.complex64), "complex64"),
        (lambda g, x: g.op("nag", x), "there is no op 'nag'; did you mean 'neg'"),
        (lambda g, x: tenon.op("nag"), "there is no op 'nag'"),
        (lambda g, x: g.op("neg"), "operand 'x' must be given"),
        (lambda g, x: g.op("neg", x, x), "neg takes 1 operand, got 2"),
        (lambda g, x: g.op("neg", None), "operand 'x' must be given"),
        (lambda g, x: g.op("neg", x, dims=[0]), "dims"),
        (lambda g, x: g.op("sum", x, dims="0"), "attribute 'dims' of sum must be a list of integers, got a str"),
        (lambda g, x: g.op("sum", x, dims=[0.5]), "must be a list of integers, got a float"),
        (lambda g, x: g.op("sum", x, dims=[7]), "7"),
        (lambda g, x: g.op("sum", x, keepdim=1), "attribute 'keepdim' of sum must be True or False, got an int"),
        (lambda g, x: g.op("reshape", x, shape=[3]), "reshape"),
        (lambda g, x: g.op("reshape", x, shape=["N +"]), "'N .' is not a size"),
        (lambda g, x: g.op("reshape", x), "shape"),
        (lambda g, x: tenon.ops.full(g, value=1, shape=[2], dtype="f8"), "'f8' is not a dtype"),
        (lambda g, x: tenon.ops.iota(size=3), "give the graph first"),
        (lambda g, x: tenon.ops.iota(g, x, size=3), "iota takes no operands"),
        (lambda g, x: bool(x), "no truth value"),
        (lambda g, x: x[0, 0, 0], "3 indices for a value of rank 1"),
        (lambda g, x: x[4], "index 4 is out of range"),
        (lambda g, x: x[-5], "index -5 is out of range"),
        (lambda g, x: x[::-1], "step must be positive"),
        (lambda g, x: x[x], "indexed by integers"),
        (lambda g, x: x[..., ...], "one ellipsis"),
        (lambda g, x: setattr(x, "name", "a b"), "cannot name a value"),
        (lambda g, x: tenon.differentiate(g, ["nothing"]), "no input, parameter or buffer 'nothing'"),
        (lambda g, x: tenon.differentiate(g, [3]), "expected a tenon.Value"),
        (lambda g, x: tenon.run_passes(g, ["css"]), "there is no pass 'css'; did you mean 'cse'"),
        (lambda g, x: tenon.Expr("N +"), "'N .' is not a size"),
        (lambda g, x: tenon.Expr(1.5), "a size must be"),
        (lambda g, x: tenon.Expr("N").evaluate(), "N"),
        (lambda g, x: int(tenon.Expr("N")), "N is not a constant"),
        (lambda g, x: tenon.Expr("N").bounds(N=3), r"must be a pair \(low, high\)"),
        (lambda g, x: tenon.Expr("N").bounds(N=(3, 1)), "empty range"),
        (lambda g, x: tenon.Expr(2**62) * 4, "64"),
        (lambda g, x: tenon.Expr("N") // 0, "zero"),
        (lambda g, x: tenon.Tensor([1]), "the data is a list"),
        (lambda g, x: g.evaluate(), "input 'x' of graph g is missing"),
        (lambda g, x: g.evaluate(np.zeros(4, np.float32), 1), "graph g takes 1 inputs, got 2"),
        (lambda g, x: g.evaluate(np.zeros(4, np.float32), x=1), "input 'x' of graph g is given twice"),
        (lambda g, x: g.evaluate(np.zeros(4, np.float32), y=1), "graph g has no input 'y'"),
        (lambda g, x: g.evaluate(np.zeros(4)), r"input 'x' must be f32\[4\], got f64\[4\]"),
        (lambda g, x: g.evaluate(np.zeros((4, 1), np.float32)), r"must be f32\[4\], got f32\[4, 1\]"),
        (lambda g, x: g.evaluate(np.zeros(5, np.float32)), "dimension 0 of input 'x'"),
        (lambda g, x: g.evaluate([0, 0, 0, 0]), "input 'x' is a list"),
        (lambda g, x: g.evaluate("abcd"), "input 'x' is a str"),
    ],
)
def test_mistakes(graph, mistake, message):
    x = graph.input("x", "f32[4]")
    graph.output(x)
    before = str(graph)
    with pytest.raises(tenon.Error, match=message) as info:
        mistake(graph, x)
    assert info.value.line > 0
    assert info.value.file
    assert str(graph) == before


def test_positions_that_are_not_there_are_index_errors(graph):
    x = graph.input("x", "f32[4]")
    graph.output(x + 1)
    program = tenon._tenon.compile_graph(graph)
    tree = tl.LoopTree(tl.lower(graph))
    for mistake in (lambda: x[4], lambda: x[0, 0], lambda: program.loop_tree(9), lambda: tree.loop(999)):
        with pytest.raises(IndexError) as caught:
            mistake()
        assert isinstance(caught.value, tenon.PositionError)
        assert isinstance(caught.value, tenon.Error)


def test_misaligned_and_odd_strides_are_refused(graph):
    raw = np.zeros(17, np.uint8)
    misaligned = raw[1:].view(np.float32)
    assert "not aligned" in caught(lambda: graph.parameter("a", misaligned)).message
    records = np.zeros(4, np.dtype([("a", np.float32), ("b", np.uint8)]))
    assert "copy" in caught(lambda: graph.parameter("b", records["a"])).message


def test_conflicting_symbols():
    graph = tenon.Graph()
    x = graph.input("x", "f32[N]")
    y = graph.input("y", "f32[N]")
    graph.output(x + y)
    error = caught(lambda: graph.evaluate(np.zeros(2, np.float32), np.zeros(3, np.float32)))
    assert "y" in error.message


def test_declared_ranges_are_checked():
    graph = tenon.Graph()
    graph.symbol("N", 1, 4)
    graph.output(graph.input("x", "f32[N]"))
    assert len(graph.evaluate(np.zeros(4, np.float32))[0]) == 4
    assert "N" in caught(lambda: graph.evaluate(np.zeros(5, np.float32))).message


def test_updates_are_checked(graph):
    x = graph.input("x", "f32[4]")
    assert "only a buffer or an input" in caught(lambda: graph.update(x + 1, x)).message
    assert "cannot be updated with f32[]" in caught(lambda: graph.update(x, tenon.ops.sum(x))).message
    graph.update(x, x * 2)
    assert "updated twice" in caught(lambda: graph.update(x, x)).message


def test_integers_have_no_gradient(graph):
    graph.output(graph.input("i", "i64[]"))
    assert "dtype i64 has no gradient" in caught(lambda: tenon.differentiate(graph, ["i"])).message


def test_a_comparison_is_no_condition(graph):
    x = graph.input("x", "f32[4]")
    assert "no truth value" in caught(lambda: x if x > 1 else -x).message


def test_arrays_have_a_largest_rank(graph):
    error = caught(lambda: tenon.ops.full(graph, value=1, shape=[1] * 65, dtype="f32"))
    assert "has 65 dimensions: at most 64 are supported" in error.message


def test_unbound_weights():
    graph = tenon.parse(GRAPH)
    assert "parameter 'w' has no data" in caught(lambda: graph.evaluate(np.zeros((1, 4), np.float32))).message
    assert "f32[3]" in caught(lambda: graph.bind("w", np.zeros(3, np.float32))).message


def test_wrong_python_types_are_type_errors(graph):
    for mistake in (lambda: graph.input(3, "f32[]"), lambda: tenon.parse(3), lambda: graph.op(), tenon.op):
        with pytest.raises(TypeError):
            mistake()


def test_a_failed_call_leaves_the_graph_usable(graph):
    x = graph.input("x", "f32[4]")
    for mistake in (lambda: x + np.zeros(3, np.float32), lambda: graph.op("sum", x, dims=[9])):
        caught(mistake)
    graph.output(x * 2)
    graph.verify()
    assert graph.evaluate(np.ones(4, np.float32))[0].tolist() == [2] * 4


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_text_crashes_the_parser(data):
    """Cut, doubled and replaced pieces of a good text parse or are an Error."""
    text = GRAPH
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 8)))
        text = (
            text[:start]
            + data.draw(st.sampled_from(["", text[start:end] * 2, "%", "]", "(", "9" * 30, '"', "é"]))
            + text[end:]
        )
    try:
        graph = tenon.parse(text)
    except tenon.Error as error:
        graph, line = None, error.line
    assert tenon.parse(str(graph)) == graph if graph else line > 0
