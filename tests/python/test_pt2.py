"""The .pt2 reader sees what torch.export.save wrote: every field, for models that are exported here and now."""

import inspect
import json
import zipfile
from collections import OrderedDict, namedtuple

import pytest
import sympy
import tenon
import torch
from torch.export import Dim, export, save
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree
from torch.utils._sympy import functions

DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64"}
DTYPES |= {9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 29: "float8_e4m3fn"}
LAYOUTS = {7: "strided"}
FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}
KINDS = {None: "unknown", 1: "positional", 2: "keyword"}
FLOATS = {"Infinity": float("inf"), "-Infinity": float("-inf")}

Pair = namedtuple("Pair", ["low", "high"])
pytree._register_namedtuple(Pair, serialized_type_name="test_pt2.Pair")

# ---- the file's JSON, in the reader's form ---------------------------------------------------------------------------


def only(union):
    ((tag, value),) = union.items()
    return tag, value


def expected_argument(union):
    tag, value = only(union)
    return tag, expected_value(tag, value)


def expected_value(tag, value):
    match tag:
        case "as_none":
            return None
        case "as_tensor":
            return value["name"]
        case "as_tensors":
            return [tensor["name"] for tensor in value]
        case "as_nested_tensors":
            return [[tensor["name"] for tensor in tensors] for tensors in value]
        case "as_optional_tensor":
            return expected_argument(value)[1]
        case "as_optional_tensors":
            return [expected_argument(tensor)[1] for tensor in value]
        case "as_sym_int" | "as_sym_float" | "as_sym_bool":
            return only(value)[1]
        case "as_sym_ints" | "as_sym_floats" | "as_sym_bools":
            return [only(number)[1] for number in value]
        case "as_float":
            return FLOATS.get(value, value)
        case "as_scalar_type":
            return DTYPES[value]
        case "as_layout":
            return LAYOUTS[value]
        case "as_memory_format":
            return FORMATS[value]
        case "as_device":
            return value["type"], value["index"]
        case "as_complex":
            return complex(value["real"], value["imag"])
        case "as_string_to_argument":
            return {name: expected_argument(entry) for name, entry in value.items()}
        case _:
            return value


def check_argument(argument, union):
    tag, value = only(union)
    if tag != "as_graph":
        assert argument == expected_argument(union)
        return
    assert argument[0] == tag
    name, graph = argument[1]
    assert name == value["name"]
    check_graph(graph, value["graph"])


def value_at(expression, bindings):
    """The value of sympy's srepr where the symbols have these values."""
    read = eval(expression, {**vars(sympy), **vars(functions)})
    value = read.subs({symbol: bindings[symbol.name] for symbol in read.free_symbols})
    return bool(value) if isinstance(value, sympy.logic.boolalg.Boolean) else int(value)


def names_in(expression):
    read = eval(expression, {**vars(sympy), **vars(functions)})
    return {symbol.name for symbol in read.free_symbols}


def check_number(number, union):
    tag, value = only(union)
    if tag != "as_expr":
        assert number == value
        return
    names = sorted(names_in(value["expr_str"]))
    for start in (2, 3, 7):
        bindings = {name: start + 3 * i for i, name in enumerate(names)}
        assert eval(str(number), dict(bindings)) == value_at(value["expr_str"], bindings)


def check_meta(meta, stored):
    assert meta["dtype"] == DTYPES[stored["dtype"]]
    assert meta["layout"] == LAYOUTS[stored["layout"]]
    assert meta["device"] == (stored["device"]["type"], stored["device"]["index"])
    assert meta["requires_grad"] == stored["requires_grad"]
    check_number(meta["storage_offset"], stored["storage_offset"])
    for key in ("sizes", "strides"):
        for number, union in zip(meta[key], stored[key], strict=True):
            check_number(number, union)


def check_node(node, stored):
    assert node.name == stored["name"]
    assert node.target == stored["target"]
    for (name, kind, argument), union in zip(node.inputs, stored["inputs"], strict=True):
        assert name == union["name"]
        assert kind == KINDS[union["kind"]]
        check_argument(argument, union["arg"])
    assert node.outputs == [expected_argument(union) for union in stored["outputs"]]


def check_graph(graph, stored):
    assert graph.inputs == [expected_argument(union) for union in stored["inputs"]]
    assert graph.outputs == [expected_argument(union) for union in stored["outputs"]]
    for node, expected in zip(graph.nodes, stored["nodes"], strict=True):
        check_node(node, expected)
    assert graph.tensors.keys() == stored["tensor_values"].keys()
    for name, meta in stored["tensor_values"].items():
        check_meta(graph.tensors[name], meta)
    for field, values in ((graph.sym_ints, "sym_int_values"), (graph.sym_bools, "sym_bool_values")):
        assert field.keys() == stored[values].keys()
        for name, union in stored[values].items():
            check_number(field[name], union)
    assert graph.sym_floats.keys() == stored["sym_float_values"].keys()


def expected_input(union):
    kind, spec = only(union)
    match kind:
        case "user_input":
            return kind, expected_argument(spec["arg"]), "", True
        case "constant_input":
            return kind, expected_argument(spec["value"]), spec["name"], True
    argument = ("as_tensor", spec["arg"]["name"])
    return kind, argument, spec.get(f"{kind}_name", ""), spec.get("persistent", True)


def expected_output(union):
    kind, spec = only(union)
    if kind == "user_output":
        return kind, expected_argument(spec["arg"]), ""
    targets = [value for name, value in spec.items() if name.endswith("_name")]
    return kind, ("as_tensor", spec["arg"]["name"]), targets[0] if targets else ""


def check_weights(program, exported):
    tensors = program.weights | program.constants
    stored = exported.state_dict | {n: t for n, t in exported.constants.items() if isinstance(t, torch.Tensor)}
    assert tensors.keys() == stored.keys()
    for name, tensor in stored.items():
        if isinstance(tensors[name], str):
            continue
        read = torch.from_dlpack(tensors[name])
        assert read.dtype == tensor.dtype
        assert read.stride() == tensor.stride()
        assert torch.equal(read, tensor.detach())


def check(exported, path):
    """Saves it, reads it, and compares all there is."""
    save(exported, path)
    program = tenon.read_pt2(str(path))
    with zipfile.ZipFile(path) as archive:
        stored = json.loads(archive.read(f"{path.stem}/models/model.json"))
    module = stored["graph_module"]
    assert program.name == "model"
    assert program.schema_version == (stored["schema_version"]["major"], stored["schema_version"]["minor"])
    assert program.torch_version == torch.__version__
    check_graph(program.graph, module["graph"])
    assert program.inputs == [expected_input(union) for union in module["signature"]["input_specs"]]
    assert program.outputs == [expected_output(union) for union in module["signature"]["output_specs"]]
    ranges = {name: (r["min_val"], r["max_val"]) for name, r in stored["range_constraints"].items()}
    assert program.ranges == ranges
    assert program.guards == stored["guards_code"]
    assert program.signature[2] == (module["module_call_graph"][0]["signature"]["forward_arg_names"] or [])
    check_weights(program, exported)
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            assert node.name in str(program)
    return program


# ---- models ---------------------------------------------------------------------------------------------------------


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())

    def forward(self, x):
        return self.body(x).mean((2, 3))


class Weights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
        self.tied = torch.nn.Linear(4, 3)
        self.tied.weight = self.fc.weight
        whole = torch.randn(6, 4)
        self.part = torch.nn.Parameter(whole.t()[1:3])
        self.expanded = torch.nn.Parameter(torch.randn(1, 4).expand(5, 4), requires_grad=False)
        self.register_buffer("row", whole[2])
        self.register_buffer("empty", torch.zeros(0, 3))
        self.register_buffer("number", torch.tensor(7))
        self.register_buffer("small", torch.randn(3).half())
        self.register_buffer("brain", torch.randn(3).bfloat16())
        self.register_buffer("mask", torch.tensor([True, False, True]), persistent=False)

    def forward(self, x):
        y = torch.where(self.mask, self.fc(x) + self.tied(x), torch.tensor([1.0, 2.0, 3.0]))
        others = (self.row, self.number, self.small.float().sum(), self.brain.float().sum())
        return y, self.part.sum() + self.expanded.sum(), torch.cat([self.empty, y]), others


class Mutating(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x, y):
        self.steps.add_(1)
        x.mul_(2)
        return x + y


class Symbols(torch.nn.Module):
    def forward(self, x, y, scale: float, flag: bool, name: str):
        joined = torch.cat([x, y])
        n = joined.shape[0]
        torch._check(n // 2 > 1)
        grid = torch.arange(n).reshape(-1, 1).expand(n, n // 2 + 1)
        return joined.reshape(n * 2, -1) * scale, grid[:, : x.shape[0]], n * 2, x.shape[0] / n, max(n, 7), flag


class Unbacked(torch.nn.Module):
    def forward(self, x):
        count = x.max().item()
        torch._check(count >= 2)
        torch._check(count <= 100)
        return torch.zeros(count), x.nonzero()


class Nested(torch.nn.Module):
    def forward(self, pair, table, *rest, extra=None, **named):
        total = pair.low + table["a"] + table["b"][0] + rest[0] + named["z"]
        return OrderedDict(total=total, pair=Pair(total, None)), [total, (extra,)]


class Lists(torch.nn.Module):
    def forward(self, x, i):
        a = torch.ops.aten.index.Tensor(x, [None, i])
        low, high = torch.split(x, [1, 2])
        up = torch.nn.functional.interpolate(x[None, None], scale_factor=[2.0, 1.5], mode="bilinear")
        values, _ = x.sort(1, descending=True)
        norm = torch.nn.functional.layer_norm(x, (4,))
        full = torch.full((2,), float("-inf"), dtype=torch.bfloat16, device="cpu")
        text = torch.div(x, 3, rounding_mode="floor")
        like = torch.empty_like(x, memory_format=torch.preserve_format).zero_()
        return a, low, high, up, values, norm, full, text, like, torch.stack([x, text])


class Complex(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("turn", torch.randn(3, dtype=torch.complex64))

    def forward(self, x):
        return torch.view_as_real(torch.view_as_complex(x) * self.turn * (1 + 2j))


class Cond(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x.sin(), (x,))


class While(torch.nn.Module):
    def forward(self, x):
        def ask(i, x):
            return i < 3

        def step(i, x):
            return i + 1, x * 2

        return torch._higher_order_ops.while_loop(ask, step, (torch.zeros((), dtype=torch.int64), x))


n, m = Dim("n", min=2, max=64), Dim("m", min=3)

CASES = {
    "plain": lambda: export(Plain().eval(), (torch.randn(2, 3, 8, 8),)),
    "training": lambda: export(Plain(), (torch.randn(2, 3, 8, 8),)),
    "decomposed": lambda: export(Plain(), (torch.randn(2, 3, 8, 8),)).run_decompositions(),
    "weights": lambda: export(Weights(), (torch.randn(2, 4),)),
    "mutating": lambda: export(Mutating(), (torch.randn(3), torch.randn(3))).run_decompositions({}),
    "dynamic": lambda: export(Plain().eval(), (torch.randn(4, 3, 8, 8),), dynamic_shapes=({0: n},)),
    "auto": lambda: export(Plain().eval(), (torch.randn(4, 3, 8, 8),), dynamic_shapes=({0: Dim.AUTO, 2: Dim.AUTO},)),
    "derived": lambda: export(Mutating(), (torch.randn(8), torch.randn(8)), dynamic_shapes=({0: 2 * m}, {0: 2 * m})),
    "symbols": lambda: export(
        Symbols(),
        (torch.ones(4, 6), torch.ones(5, 6), 0.5, True, "text"),
        dynamic_shapes=({0: n}, {0: m}, None, None, None),
    ),
    "unbacked": lambda: export(Unbacked(), (torch.tensor([3, 4, 5]),)),
    "nested": lambda: export(
        Nested(),
        (Pair(torch.ones(2), None), {"a": torch.ones(2), "b": [torch.ones(2)]}, torch.ones(2)),
        {"extra": 3, "z": torch.ones(2)},
    ),
    "lists": lambda: export(Lists(), (torch.randn(3, 4), torch.tensor([0, 2]))),
    "complex": lambda: export(Complex(), (torch.randn(3, 2),)),
    "cond": lambda: export(Cond(), (torch.ones(3),)),
    "while": lambda: export(While(), (torch.ones(3),)),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", CASES)
def test_reads_what_torch_writes(case, tmp_path):
    torch.manual_seed(0)
    check(CASES[case](), tmp_path / f"{case}.pt2")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_share_memory_as_the_model_does(tmp_path):
    program = check(CASES["weights"](), tmp_path / "shared.pt2")
    fc, tied = (torch.from_dlpack(program.weights[name]) for name in ("fc.weight", "tied.weight"))
    assert fc.data_ptr() == tied.data_ptr()
    part, row = (torch.from_dlpack(program.weights[name]) for name in ("part", "row"))
    assert row.data_ptr() - part.data_ptr() == (8 - 1) * 4
    fc[0, 0] = 42.0
    assert tied[0, 0] == 42.0
    untouched = torch.from_dlpack(tenon.read_pt2(str(tmp_path / "shared.pt2")).weights["fc.weight"])
    assert untouched[0, 0] != 42.0


def test_nodes_know_the_line_and_the_module(tmp_path):
    program = check(CASES["plain"](), tmp_path / "lines.pt2")
    source, first = inspect.getsourcelines(Plain.forward)
    line = next(i for i, text in enumerate(source) if "self.body" in text) + first
    convolution = next(node for node in program.graph.nodes if "conv2d" in node.target)
    assert convolution.location.file == __file__
    assert convolution.location.line == line
    assert convolution.module_path == "body.0"
    assert convolution.module_type == "torch.nn.modules.conv.Conv2d"


def test_the_signature_says_how_values_nest(tmp_path):
    program = check(CASES["nested"](), tmp_path / "nested.pt2")
    inputs, outputs, names = program.signature
    args, kwargs = inputs[2]
    assert names[:2] == ["pair", "table"]
    assert args[2][0] == ("collections.namedtuple", ["low", "high"], [None, None])
    assert args[2][1] == ("builtins.dict", ["a", "b"], [None, ("builtins.list", None, [None])])
    assert kwargs == ("builtins.dict", ["extra", "z"], [None, None])
    assert outputs[2][0][1] == ["total", "pair"]


def test_a_dtype_that_tenon_lacks_is_kept(tmp_path):
    program = check(CASES["complex"](), tmp_path / "complex.pt2")
    assert program.weights["turn"] == "'data/weights/weight_0' has the dtype complex64, which Tenon lacks"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_several_models_in_one_archive(tmp_path):
    from torch.export.pt2_archive._package import package_pt2

    path = str(tmp_path / "two.pt2")
    package_pt2(path, exported_programs={"a": CASES["plain"](), "b": CASES["cond"]()})
    with pytest.raises(tenon.Error, match="several models, say which one: a, b"):
        tenon.read_pt2(path)
    assert tenon.read_pt2(path, "b").name == "b"
    with pytest.raises(tenon.Error, match="no model 'c': it has a, b"):
        tenon.read_pt2(path, model="c")


def test_every_parameter_has_data(tmp_path):
    exported = CASES["plain"]()
    program = check(exported, tmp_path / "all.pt2")
    kinds = [spec.kind for spec in exported.graph_signature.input_specs]
    assert [kind for kind, *_ in program.inputs].count("parameter") == kinds.count(InputKind.PARAMETER)


def test_other_files_are_refused(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "saved.pt2")
    with pytest.raises(tenon.Error, match=r"saved\.pt2: error: not a \.pt2 archive, but what torch\.save"):
        tenon.read_pt2(str(tmp_path / "saved.pt2"))
