"""Files that somebody made to do harm: nothing in them is run, imported or unpickled, and each is a clear error or does
no more than its numbers say. docs/security.md states the promises."""

import contextlib
import json
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import tenon
import torch
from torch.export import Dim, export, save

TENON = os.environ.get("TENON", "build/bin/tenon")
EVIL = "tenon_test_evil_module"


class Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, place):
        self.place = str(place)

    def __reduce__(self):
        return os.mkdir, (self.place,)


@torch.library.custom_op("tenon_hostile::halves", mutates_args=())
def halves(x: torch.Tensor) -> list[torch.Tensor]:
    return [x[:1].clone(), x[1:].clone()]


@halves.register_fake
def _(x):
    return [x[:1].clone(), x[1:].clone()]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 2)
        self.register_buffer("mask", torch.ones(2), persistent=False)

    def forward(self, x, table):
        low, high = halves(x.sin())
        return {"sum": self.line(x) * self.mask + table["bias"], "parts": [low, high.cos()]}


# ---- watching -------------------------------------------------------------------------------------------------------

_seen: list[str] | None = None


def _hook(event, args):
    if _seen is not None and event in ("pickle.find_class", "os.system", "subprocess.Popen", "os.mkdir", "import"):
        _seen.append(f"{event} {args[0]}")


sys.addaudithook(_hook)


@contextlib.contextmanager
def nothing_runs():
    """Fails where a pickle is loaded, a program is started, a folder is made, or the evil module is imported."""
    global _seen
    _seen = []
    try:
        yield
    finally:
        seen, _seen = _seen, None
    assert [event for event in seen if not event.startswith("import ")] == []
    assert [event for event in seen if EVIL in event] == []
    assert EVIL not in sys.modules


def refused(match, function, *args, **kwargs):
    with nothing_runs(), pytest.raises(tenon.Error, match=match):
        function(*args, **kwargs)


@pytest.fixture(autouse=True, scope="module")
def evil_module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evil")
    (folder / f"{EVIL}.py").write_text("raise SystemExit('imported')\n")
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))


# ---- .pt2 -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pt2(tmp_path_factory):
    path = tmp_path_factory.mktemp("pt2") / "model.pt2"
    rows = Dim("rows", min=3, max=64)
    shapes = {"x": {0: rows}, "table": {"bias": None}}
    save(export(Model(), (torch.randn(3, 4), {"bias": torch.randn(2)}), dynamic_shapes=shapes), path)
    return path


def rewritten(path, target, change):
    """The archive with what `change` makes of each (name, content); None leaves one out."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
    return target


def with_json(path, target, edit):
    """With another models/model.json."""

    def change(name, content):
        if not name.endswith("models/model.json"):
            return content
        program = json.loads(content)
        edit(program)
        return json.dumps(program)

    return rewritten(path, target, change)


def entry_names(path):
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def doors(path):
    """Whatever takes the path of a .pt2 file."""
    settings = {"loss": "mse", "optimizer": tenon.SGD(lr=0.1)}
    return [
        lambda: tenon.compile(path)(torch.randn(3, 4), {"bias": torch.randn(2)}),
        lambda: tenon.compile(path, fallback=False),
        lambda: tenon.compile(path, train=tenon.Training(**settings)),
        lambda: tenon.LocalTrainingInstance(path, **settings),
        lambda: tenon.import_pt2(str(path)),
    ]


def test_a_good_file_is_read_without_pickle(pt2):
    program = None
    with nothing_runs():
        program = tenon.compile(pt2)
    x, table = torch.randn(5, 4), {"bias": torch.randn(2)}
    assert set(program(x, table)) == {"sum", "parts"}


def test_no_entry_is_unpickled(pt2, tmp_path):
    """PyTorch's own loader unpickles the example inputs."""
    place = tmp_path / "made"
    names = entry_names(pt2)
    assert any("sample_inputs" in name for name in names)
    for name in names:
        path = rewritten(
            pt2, tmp_path / "bad.pt2", lambda n, c, bad=name: pickle.dumps(Payload(place)) if n == bad else c
        )
        for door in doors(path):
            with nothing_runs(), contextlib.suppress(tenon.Error):
                door()
        assert not place.exists()


def test_a_pickled_weight_is_refused(pt2, tmp_path):
    place = tmp_path / "made"

    def change(name, content):
        if "weights" in name and not name.endswith("json"):
            return pickle.dumps(Payload(place))
        if not name.endswith("weights_config.json"):
            return content
        config = json.loads(content)
        for entry in config["config"].values():
            entry["use_pickle"] = True
        return json.dumps(config)

    path = rewritten(pt2, tmp_path / "bad.pt2", change)
    for door in doors(path):
        refused("is pickled, and only Python can load it", door)
    assert not place.exists()


TARGETS = [
    "torch.os.system",
    "torch.ops.aten.from_file.default",
    "torch.ops.load_library.default",
    "torch.ops.aten.__class__.default",
    "torch.ops.aten.sin.__class__",
    "torch.ops.aten.sin.__init_subclass__",
    "torch.ops.__class__.mro.default",
    "torch.ops.no_such.operator.default",
    "torch._dynamo.config.sys.modules",
    "_operator.attrgetter",
    "_operator.methodcaller",
    "_operator.getitem",
    "builtins.eval",
    "os.system",
    f"{EVIL}.run",
    "math.__loader__",
    "torch.sym_float.__globals__",
    "",
    ".",
    "torch.ops.aten.sin.default.__call__",
]


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_is_the_name_of_a_registered_operator_or_refused(pt2, tmp_path, target):
    def edit(program):
        nodes = program["graph_module"]["graph"]["nodes"]
        next(node for node in nodes if "halves" in node["target"])["target"] = target

    path = with_json(pt2, tmp_path / "bad.pt2", edit)
    refused("cannot be left to PyTorch|not supported|does not fit|not a known kind of|gives", tenon.compile, path)


def test_a_custom_operator_that_takes_a_text_is_not_called(pt2, tmp_path):
    with torch.library._scoped_library("tenon_hostile", "FRAGMENT") as library:
        library.define("write(Tensor x, str path) -> Tensor[]")
        library.impl("write", lambda x, path: os.mkdir(path), "CompositeExplicitAutograd")

        def edit(program):
            nodes = program["graph_module"]["graph"]["nodes"]
            node = next(node for node in nodes if "halves" in node["target"])
            node["target"] = "torch.ops.tenon_hostile.write.default"
            node["inputs"].append({"name": "path", "arg": {"as_string": str(tmp_path / "made")}, "kind": 1})

        path = with_json(pt2, tmp_path / "bad.pt2", edit)
        refused("tenon_hostile.write.default cannot be left to PyTorch", tenon.compile, path)


def treespec(text):
    """Puts it in place of how results nest."""

    def edit(program):
        entry = program["graph_module"]["module_call_graph"][0]
        entry["signature"]["out_spec"] = text

    return edit


def leaf():
    return {"type": None, "context": None, "children_spec": []}


def evil_spec(type_=f"{EVIL}.Evil", context="null", leaves=3):
    return json.dumps([1, {"type": type_, "context": context, "children_spec": [leaf() for _ in range(leaves)]}])


@pytest.mark.parametrize(
    ("type_", "context"),
    [
        (f"{EVIL}.Evil", "null"),
        (f"{EVIL}.Evil", '["a", "b", "c"]'),
        ("collections.namedtuple", f'"{EVIL}.Evil"'),
        ("collections.defaultdict", {"default_factory_module": EVIL, "default_factory_name": "x", "dict_context": []}),
        ("collections.deque", "null"),
        ("torch.return_types.max", "null"),
    ],
)
def test_classes_of_a_tree_spec_are_not_imported(pt2, tmp_path, type_, context):
    path = with_json(pt2, tmp_path / "bad.pt2", treespec(evil_spec(type_, context)))
    with nothing_runs(), contextlib.suppress(tenon.Error):
        results = tenon.compile(path)(torch.randn(3, 4), {"bias": torch.randn(2)})
        assert type(results) in (tuple, list, dict)


def nested(depth, open_, close, middle):
    return open_ * depth + middle + close * depth


@pytest.mark.parametrize("depth", [300, 100_000])
def test_a_deep_tree_spec_is_refused(pt2, tmp_path, depth):
    deep = nested(depth, '{"type": "builtins.list", "context": "null", "children_spec": [', "]}", json.dumps(leaf()))
    path = with_json(pt2, tmp_path / "bad.pt2", treespec(f"[1, {deep}]"))
    refused("nests deeper than", tenon.compile, path)


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "[]",
        "null",
        "[2, null]",
        "[1]",
        "__import__('os').system('true')",
        json.dumps([1, {"type": "builtins.tuple", "context": "null"}]),
        json.dumps([1, {"type": "builtins.dict", "context": '["a"]', "children_spec": [leaf(), leaf(), leaf()]}]),
        json.dumps([1, {"type": "builtins.dict", "context": '["a", "a", "b"]', "children_spec": [leaf()] * 3}]),
        evil_spec(leaves=2),
        evil_spec(leaves=4),
    ],
)
def test_a_malformed_tree_spec_is_refused(pt2, tmp_path, spec):
    path = with_json(pt2, tmp_path / "bad.pt2", treespec(spec))
    refused("", tenon.compile, path)


EXPRESSIONS = [
    "__import__('os').system('true')",
    "Integer(2) if __import__('os') else 1",
    f"__import__('{EVIL}')",
    "Symbol('s0').__class__",
    "Lambda(Symbol('x'), Symbol('x'))",
    "Function('f')(Symbol('x'))",
    "Pow(Integer(9), Pow(Integer(9), Integer(9)))",
    "Add(" * 50_000 + "1" + ")" * 50_000,
    "sympify('1')",
    "",
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda text: text[:30])
def test_expressions_are_not_evaluated(pt2, tmp_path, expression):
    def edit(program):
        for meta in program["graph_module"]["graph"]["tensor_values"].values():
            for size in meta["sizes"]:
                if "as_expr" in size:
                    size["as_expr"]["expr_str"] = expression

    refused("", tenon.compile, with_json(pt2, tmp_path / "bad.pt2", edit))


def test_guards_and_meta_data_are_not_evaluated(pt2, tmp_path):
    code = f"__import__('{EVIL}')"

    def edit(program):
        program["guards_code"] = [code]
        for node in program["graph_module"]["graph"]["nodes"]:
            meta = {"stack_trace": f'File "x\n{code}", line 1\n{code}', "nn_module_stack": f"{EVIL},{code},{EVIL}.Evil"}
            node["metadata"] = {**meta, "source_fn_stack": f"{EVIL},{EVIL}.run", "custom": code}

    path = with_json(pt2, tmp_path / "bad.pt2", edit)
    with nothing_runs():
        tenon.compile(path)(torch.randn(3, 4), {"bias": torch.randn(2)})


def test_names_are_no_code(pt2, tmp_path):
    """PyTorch makes Python source of the names of nodes."""
    name = f"x, y=__import__('{EVIL}')"

    def change(entry, content):
        return content.replace(b'"x"', json.dumps(name).encode()) if entry.endswith("models/model.json") else content

    path = rewritten(pt2, tmp_path / "bad.pt2", change)
    with nothing_runs(), contextlib.suppress(tenon.Error):
        tenon.compile(path)(torch.randn(3, 4), {"bias": torch.randn(2)})


def test_a_result_of_pytorch_that_is_not_as_the_file_says_is_an_error(pt2, tmp_path):
    def edit(program):
        graph = program["graph_module"]["graph"]
        node = next(node for node in graph["nodes"] if "halves" in node["target"])
        for tensor in node["outputs"][0]["as_tensors"]:
            sizes = graph["tensor_values"][tensor["name"]]["sizes"]
            sizes[:] = [{"as_int": 1 << 20}, {"as_int": 4}]
        for name in ("cos", "cos_1"):
            if name in graph["tensor_values"]:
                graph["tensor_values"][name]["sizes"] = [{"as_int": 1 << 20}, {"as_int": 4}]

    path = with_json(pt2, tmp_path / "bad.pt2", edit)
    refused("", lambda: tenon.compile(path)(torch.randn(3, 4), {"bias": torch.randn(2)}))


# ---- .tenon ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def executable():
    return tenon.compile(lambda x: (x * 2, x + 1), (torch.ones(3),))._executable


GOOD_SPEC = '[1, {"type": "builtins.tuple", "context": "null", "children_spec": [%s]}]'
PLAIN = '{"type": "builtins.tuple", "context": "null", "children_spec": [%s]}'
LEAF = json.dumps(leaf())
ARGUMENTS = GOOD_SPEC % (PLAIN % LEAF + ', {"type": "builtins.dict", "context": "[]", "children_spec": []}')
RESULTS = GOOD_SPEC % f"{LEAF}, {LEAF}"


def opened(path):
    loaded = tenon.load(path, native=False)
    return loaded(torch.ones(3))


def verified(path):
    return subprocess.run([TENON, "verify", path], capture_output=True, text=True, timeout=300, check=False)


def test_notes_of_earlier_files_still_say_how_results_nest(executable, tmp_path):
    path = tmp_path / "model.tenon"
    nested_results = GOOD_SPEC % f"{LEAF}, {PLAIN % LEAF}"
    executable.save(str(path), {"in_spec": ARGUMENTS, "out_spec": nested_results})
    with nothing_runs():
        results = opened(path)
    assert results[0].tolist() == [2, 2, 2]
    assert results[1][0].tolist() == [2, 2, 2]
    assert verified(path).returncode == 0


@pytest.mark.parametrize("key", ["in_spec", "out_spec"])
@pytest.mark.parametrize("context", ["null", '["a", "b"]'])
def test_classes_that_notes_name_are_not_imported(executable, tmp_path, key, context):
    path = tmp_path / "bad.tenon"
    executable.save(str(path), {"in_spec": ARGUMENTS, "out_spec": RESULTS, key: evil_spec(context=context, leaves=2)})
    with nothing_runs(), contextlib.suppress(tenon.Error):
        assert type(opened(path)) in (tuple, dict)


FORMS = {
    "": "expected '\\('",
    "(": "expected",
    "(x=%0)": "expected '->'",
    "(x=%0) -> (%0, %1) more": "the end of the form",
    "(x=%0) -> (%0, %2)": "output 2, but there are 2",
    "(x=%1) -> %0": "an argument is input 1, but the program has 1",
    "(x=%0, y=%0) -> %0": "input 0 is given twice",
    "() -> %0": "input 0 is not given",
    "(x=%0, x=1) -> %0": "twice",
    "(x=%0) -> argument 1": "argument 1, but there are 1",
    "(x=%0) -> int(N)": "cannot be a result",
    "(x=argument 0) -> %0": "cannot be an argument",
    "(x=%0) -> {1: %0, 1: %1}": "the key 1 appears twice",
    '(x=%0) -> named os{"a b": %0}': "is not a name of a field",
    '(x=%0) -> named a.b{"c": %0}': "is not a name",
    "(x=%0) -> __import__": "neither a number nor a value",
    "(x=%99999999999999999999) -> %0": "does not fit 64 bits",
    "(x=%-1) -> %0": "not a position",
    "(x=%0) -> " + "(" * 100_000: "nests deeper than",
    "(x=%0, y=int(" + "(" * 100_000 + ")) -> %0": "nests deeper than|expected",
    '(x=%0) -> "unclosed': "closing quote",
    "(x=%0) -> 1e999999": "neither a number nor a value",
}


@pytest.mark.parametrize("form", FORMS, ids=lambda text: text[:40])
def test_a_malformed_form_is_refused_by_every_door(executable, tmp_path, form):
    path = tmp_path / "bad.tenon"
    executable.save(str(path), {"call": form})
    refused(
        r"bad\.tenon: .*the note call, how the model is called, is malformed: .*(" + FORMS[form] + ")", opened, path
    )
    told = verified(path)
    assert told.returncode == 1
    assert "the note call" in told.stderr


@pytest.mark.parametrize("field", ["class", "def", "_x", "None"])
def test_a_named_tuple_that_python_cannot_have_is_refused(executable, tmp_path, field):
    path = tmp_path / "bad.tenon"
    executable.save(str(path), {"call": f'(x=%0) -> named Fields{{"{field}": %0}}'})
    refused("a named tuple that Python cannot have", opened, path)


def test_unknown_notes_do_not_matter(executable, tmp_path):
    path = tmp_path / "model.tenon"
    executable.save(str(path), {"future": f"__import__('{EVIL}')"})
    with nothing_runs():
        assert len(opened(path)) == 2
    assert verified(path).returncode == 0


# ---- arrays and checkpoints -----------------------------------------------------------------------------------------


def test_arrays_of_objects_are_not_unpickled(executable, tmp_path):
    place, path = tmp_path / "made", tmp_path / "model.tenon"
    executable.save(str(path))
    np.save(tmp_path / "bad.npy", np.array([Payload(place)], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "bad.npz", x=np.array([Payload(place)], dtype=object), allow_pickle=True)
    for name in ("bad.npy", "bad.npz"):
        command = [TENON, "run", path, "--input", tmp_path / name]
        told = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert told.returncode == 1
        assert "bad.np" in told.stderr
    assert not place.exists()


def test_a_pickle_is_no_checkpoint(tmp_path):
    place = tmp_path / "made"
    counter = torch.nn.BatchNorm1d(2)
    tenon.compile(counter.train(), (torch.randn(3, 2),)).save(tmp_path / "model.tenon")
    states = tenon.load(tmp_path / "model.tenon").states
    for name in ("bad.states", "bad.safetensors"):
        (tmp_path / name).write_bytes(pickle.dumps(Payload(place)))
        refused("bad", states.load, tmp_path / name)
    assert not place.exists()


@pytest.mark.parametrize("loader", [tenon.load, tenon.compile, tenon.read_pt2, tenon.import_pt2])
def test_a_pickle_under_any_name_is_refused(tmp_path, loader):
    place = tmp_path / "made"
    for name in ("bad.pt2", "bad.tenon"):
        (tmp_path / name).write_bytes(pickle.dumps(Payload(place)))
        refused("bad", loader, str(tmp_path / name))
    assert not place.exists()
