"""The FX walker: every form of a model gives one Graph, with its weights shared, its writes as updates, its symbols
with their ranges, and its lines."""

import inspect
import math
import operator
import re

import pytest
import sympy
import tenon
import torch
from small_models import Mlp
from tenon.capture.fx import import_exported_program, import_graph_module
from tenon.capture.models import capture_exported_program, exported
from tenon.capture.names import location_of
from tenon.capture.sizes import _in_integers
from torch import fx, nn
from torch.export import Dim, export
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import cast_symbool_to_symint_guardless
from torch.utils._sympy.functions import CeilToInt, FloatTrueDiv, FloorToInt, ToFloat, TruncToInt


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last", torch.zeros(3), persistent=False)
        self.scale = torch.full((3,), 2.0)

    def forward(self, x):
        self.count.add_(1)
        self.last.copy_(x)
        return x * self.scale


def graph_of(model, *args, **options):
    return import_exported_program(export(model, args, strict=False, **options)).graph


def test_leaves_have_the_names_of_the_model():
    graph = graph_of(Mlp(), torch.randn(2, 4))
    assert [(leaf.kind, leaf.name) for leaf in graph.leaves] == [
        ("input", "x"),
        ("parameter", "up.weight"),
        ("parameter", "up.bias"),
        ("parameter", "down.weight"),
        ("parameter", "down.bias"),
    ]
    graph.verify()


def test_weights_are_shared():
    model = Mlp()
    graph = graph_of(model, torch.randn(2, 4))
    assert graph.leaf("up.weight").data.data_ptr == model.up.weight.data_ptr()


def test_every_form_of_a_model_gives_the_same_graph():
    model, x = Mlp().eval(), torch.randn(2, 4)
    expected = graph_of(model, x)
    assert import_exported_program(exported(model, (x,), None, None)).graph == expected
    assert import_exported_program(exported(fx.symbolic_trace(model), (x,), None, None)).graph == expected
    assert import_exported_program(exported(export(model, (x,)).module(), (x,), None, None)).graph == expected


def test_symbolic_trace_with_every_kind_of_node():
    class Kinds(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.bias = nn.Parameter(torch.randn(4))

        def forward(self, x):
            return torch.add(self.linear(x), self.bias).relu()

    model, x = Kinds(), torch.randn(2, 4)
    traced = fx.symbolic_trace(model)
    assert {node.op for node in traced.graph.nodes} == {
        "placeholder",
        "call_module",
        "get_attr",
        "call_function",
        "call_method",
        "output",
    }
    torch.testing.assert_close(tenon.compile(traced, (x,))(x), model(x))


def test_writes_become_updates():
    captured = import_exported_program(export(Counter(), (torch.randn(3),), strict=False))
    targets = {str(leaf.name) for leaf in captured.graph.leaves if leaf.kind == "buffer"}
    assert targets == {"count", "last"}
    assert len(captured.graph.updates) == 2
    assert [leaf.kind for leaf in captured.graph.leaves].count("constant") >= 1


def test_functional_programs_give_the_same_updates():
    program = export(Counter(), (torch.randn(3),), strict=False)
    in_place = import_exported_program(program).graph
    functional = import_exported_program(program.run_decompositions({})).graph
    names = [{str(target) for target, _ in graph.updates} for graph in (in_place, functional)]
    assert names[0] == names[1]


def test_ranges_of_symbols():
    batch = Dim("batch", min=2, max=64)
    graph = graph_of(Mlp(), torch.randn(5, 4), dynamic_shapes={"x": {0: batch}})
    assert list(graph.symbols.values()) == [(2, 64)]
    graph = graph_of(Mlp(), torch.randn(5, 4), dynamic_shapes={"x": {0: Dim("batch")}})
    ((low, high),) = graph.symbols.values()
    assert low <= 2
    assert high is None


def test_sizes_are_expressions():
    def flat(x):
        return x.reshape(x.shape[0] * x.shape[1])

    (output,) = graph_of(wrapped(flat), torch.randn(5, 4), dynamic_shapes=({0: Dim("a"), 1: Dim("b")},)).outputs
    a, b = sorted(output.shape[0].symbols)
    assert output.shape[0] == tenon.Expr(f"{a}*{b}")


def test_values_have_the_names_of_nodes():
    text = str(graph_of(wrapped(lambda x: torch.tanh(x).exp()), torch.randn(3)))
    assert "%tanh: f32[3]" in text
    assert "%exp: f32[3]" in text


def test_lines_are_those_of_the_model():
    class Lines(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x)  # the line, though PyTorch's own code makes the call

    line = inspect.getsourcelines(Lines.forward)[1] + 1
    graph = graph_of(Lines(), torch.randn(2, 3))
    assert {node.location.line for node in graph.nodes} == {line}
    assert graph.nodes[0].location.file.endswith("test_walker.py")


def test_no_line_is_no_location():
    graph = fx.Graph()
    assert location_of(graph.placeholder("x")) is None


def test_no_grad_regions_are_inlined():
    def model(x):
        with torch.no_grad():
            y = x * 2
        return y + x

    captured = import_exported_program(export(wrapped(model), (torch.randn(3, requires_grad=True),)))
    assert captured.unsupported == []
    assert [node.op.name for node in captured.graph.nodes] == ["mul", "add"]


@torch.library.custom_op("tenon_walker::cubed", mutates_args=())
def cubed(x: torch.Tensor) -> torch.Tensor:
    return x * x * x


@cubed.register_fake
def _(x):
    return torch.empty_like(x)


def test_decompositions_serve_what_the_registry_lacks():
    program = export(wrapped(lambda x: torch.ops.tenon_walker.cubed(x) + 1), (torch.randn(4),))
    _, captured = capture_exported_program(program)
    assert [target for target, _, _ in captured.unsupported] == ["tenon_walker.cubed.default"]
    torch._decomp.register_decomposition(torch.ops.tenon_walker.cubed.default)(lambda x: x * x * x)
    _, captured = capture_exported_program(program)
    assert captured.unsupported == []
    assert [node.op.name for node in captured.graph.nodes] == ["mul", "mul", "add"]


def wrapped(function):
    class Module(nn.Module):
        def forward(self, x):
            return function(x)

    return Module()


# ---- sympy ----------------------------------------------------------------------------------------------------------


def test_parse_srepr():
    assert tenon.parse_srepr("Integer(3)") == 3
    assert tenon.parse_srepr("Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(1))") == tenon.Expr("2*s0 + 1")
    with pytest.raises(tenon.Error, match="Piecewise"):
        tenon.parse_srepr("Piecewise(Integer(1))")


def test_rounded_floats_are_rounded_fractions():
    n = sympy.Symbol("n", positive=True, integer=True)
    for rounding, rounded in ((CeilToInt, math.ceil), (FloorToInt, math.floor), (TruncToInt, math.trunc)):
        exact = _in_integers(rounding(FloatTrueDiv(0.75 - ToFloat(n) * 1.5, 7.0)))
        assert not exact.has(FloatTrueDiv)
        assert [exact.subs(n, value) for value in range(1, 50)] == [
            rounded((0.75 - value * 1.5) / 7.0) for value in range(1, 50)
        ]


@pytest.mark.parametrize("divisor", [0.1, FloatTrueDiv(1.0, ToFloat(sympy.Symbol("m", positive=True, integer=True)))])
def test_floats_that_round_twice_are_no_fractions(divisor):
    n = sympy.Symbol("n", positive=True, integer=True)
    size = CeilToInt(FloatTrueDiv(ToFloat(n), divisor))
    assert _in_integers(size) == size


# ---- .pt2 files -----------------------------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        weights = torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1)
        return weights @ v, weights.sum(dim=-1)


def rows_and_columns(x):
    return x.t().reshape(-1) * x.shape[0], torch.cat([x, x + 1])[: x.shape[0]], x.shape[0] * 2


class Repeated(nn.Module):
    def forward(self, x, again):
        return x.repeat(again) * again


BATCH = Dim("batch", min=2, max=32)
PT2_MODELS = {
    "mlp": (Mlp(), (torch.randn(5, 4),), None),
    "dynamic mlp": (Mlp(), (torch.randn(5, 4),), {"x": {0: BATCH}}),
    "counter": (Counter(), (torch.randn(3),), None),
    "attention": (Attention(), (torch.randn(3, 5, 8),), {"x": {0: BATCH, 1: Dim("length", min=2, max=64)}}),
    "batch norm": (nn.BatchNorm2d(3), (torch.randn(2, 3, 4, 4),), None),
    "convolution": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2)), (torch.randn(2, 3, 9, 9),), None),
    "sizes": (None, (torch.randn(4, 6),), ({0: BATCH},)),
    "automatic sizes": (None, (torch.randn(4, 6),), ({0: Dim.AUTO, 1: Dim.AUTO},)),
    "derived sizes": (None, (torch.randn(4, 6),), ({0: 2 * Dim("half", min=1, max=16)},)),
    "numbers": (Repeated(), (torch.randn(4), 3), ({0: BATCH}, Dim.DYNAMIC)),
}


@pytest.mark.parametrize("name", PT2_MODELS)
def test_the_same_graph_as_the_pt2_reader(name, tmp_path):
    model, args, dynamic_shapes = PT2_MODELS[name]
    program = export(model or wrapped(rows_and_columns), args, dynamic_shapes=dynamic_shapes)
    torch.export.save(program, tmp_path / "model.pt2")
    from_file = tenon.import_pt2(str(tmp_path / "model.pt2"))
    captured = import_exported_program(torch.export.load(tmp_path / "model.pt2"))
    assert captured.unsupported == from_file.unsupported == []
    assert captured.graph.symbols == from_file.graph.symbols
    assert captured.graph == from_file.graph, f"{captured.graph}\n{from_file.graph}"
    traced, stored = (
        re.sub(r"\b(?:batch|length|half|x\.[01]|s\d+)(?=\W)", "SIZE", str(graph))  # a file has not the names of Dims
        for graph in (import_exported_program(program).graph, from_file.graph)
    )
    assert traced == stored


def test_functional_updates_happen_at_once():
    class Swap(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(2))
            self.register_buffer("b", torch.ones(2))

        def forward(self, x):
            a = self.a.clone()
            self.a.copy_(self.b)
            self.b.copy_(a)
            return x + self.a[0]

    model = Swap()
    program = tenon.compile(export(model, (torch.zeros(2),)).run_decompositions({}))
    torch.testing.assert_close(program(torch.zeros(2)), torch.ones(2))
    torch.testing.assert_close(model.a, torch.ones(2))
    torch.testing.assert_close(model.b, torch.zeros(2))


def test_log_sums_of_attention_have_the_dtype_of_the_trace():
    """PyTorch before 2.12 takes them for f32 where they are f64."""
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    operands = [torch.randn(2, 3, 5, 4, dtype=torch.float64) for _ in range(3)]
    module = make_fx(lambda *given: attention(*given))(*operands)
    for node in module.graph.nodes:
        if node.target is attention:
            node.meta["val"] = (node.meta["val"][0], node.meta["val"][1].float())
        elif node.name == "getitem_1":
            node.meta["val"] = node.meta["val"].float()
    captured = import_graph_module(module)
    assert captured.unsupported == []
    result, sums = map(torch.from_dlpack, captured.graph.evaluate(*operands))
    expected, expected_sums = attention(*operands)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(sums.transpose(1, 2), expected_sums.float())  # the graph gives it as it lies in memory


def test_a_condition_as_an_integer_is_known_from_sizes():
    """PyTorch 2.11 leaves the conversion in its traces."""
    n = torch.export.export(
        wrapped(lambda x: x * 2), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n")},)
    ).graph.find_nodes(op="placeholder")[0]
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = n.meta["val"]
    size = graph.call_function(torch.ops.aten.sym_size.int, (x, 0))
    size.meta["val"] = x.meta["val"].shape[0]
    known = graph.call_function(cast_symbool_to_symint_guardless, (True,))
    flag = graph.call_function(operator.eq, (size, 5))
    flag.meta["val"] = torch.sym_not(size.meta["val"] != 5)
    asked = graph.call_function(cast_symbool_to_symint_guardless, (flag,))
    y = graph.call_function(torch.ops.aten.mul.Tensor, (x, asked))
    z = graph.call_function(torch.ops.aten.add.Tensor, (y, known))
    y.meta["val"] = z.meta["val"] = x.meta["val"]
    graph.output((z,))
    captured = import_graph_module(fx.GraphModule({}, graph))
    assert captured.unsupported == []
    for rows in (4, 5):
        given = torch.randn(rows, 4)
        (result,) = map(torch.from_dlpack, captured.graph.evaluate(given))
        torch.testing.assert_close(result, given * (rows == 5) + 1)
