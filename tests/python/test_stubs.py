"""The stubs that the build makes know what the module has."""

import ast
import inspect
from pathlib import Path

import pytest
import tenon
from tenon import _tenon

PACKAGE = Path(_tenon.__file__).parent
LOOPS = {"NamedTensor", "Symbol", "IR", "KernelNode", "LoopTree", "Compiler", "Access", "Allocation", "Loop"}
LOOPS |= {"LoopSpec", "Stretch", "Fill"}


def stub(name):
    path = PACKAGE / name
    if not path.exists():
        pytest.skip(f"{name} is made by a full build")
    return ast.parse(path.read_text())


def names_of(body):
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").exists()


def test_the_stub_of_the_module_is_complete():
    tree = stub("_tenon.pyi")
    public = {name for name in dir(_tenon) if not name.startswith("_")}
    constants = {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign)}
    assert public <= names_of(tree.body) | constants
    for definition in tree.body:
        if not isinstance(definition, ast.ClassDef) or not hasattr(_tenon, definition.name):
            continue
        members = {name for name, _ in inspect.getmembers(getattr(_tenon, definition.name)) if name[0] != "_"}
        described = names_of(definition.body) | {n.target.id for n in definition.body if isinstance(n, ast.AnnAssign)}
        if not issubclass(getattr(_tenon, definition.name), Exception):
            assert members <= described


def test_nothing_of_the_loops_is_left_untyped():
    text = ast.unparse(ast.Module([c for c in stub("_tenon.pyi").body if getattr(c, "name", "") in LOOPS], []))
    assert "NamedTensor" in text
    assert ": object" not in text.replace("object | None", "")


def test_the_stub_of_the_ops_is_complete():
    tree = stub("ops.pyi")
    assert names_of(tree.body) == set(tenon.ops.__all__)
    for definition in tree.body:
        if isinstance(definition, ast.FunctionDef):
            arguments = definition.args
            named = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            assert named == list(inspect.signature(getattr(tenon.ops, definition.name)).parameters)
