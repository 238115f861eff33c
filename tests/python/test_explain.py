"""tenon.explain, the registry's public face, and the examples."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import tenon
import torch

ROOT = Path(__file__).parents[2]


@torch.library.custom_op("tenon_explain::negated", mutates_args=())
def negated(x: torch.Tensor) -> torch.Tensor:
    return -x


@negated.register_fake
def _(x):
    return torch.empty_like(x)


def with_fallback(x):
    return torch.relu(torch.ops.tenon_explain.negated(torch.exp(x)))


def test_the_node_table():
    program = tenon.compile(with_fallback, (torch.randn(3),))
    lines = [line.split() for line in tenon.explain(program).splitlines()]
    where = inspect.getsourcelines(with_fallback)[1] + 1
    assert ["placeholder", "x", "x", "f32[3]"] in lines
    assert any(line[:5] == ["call_function", "exp", "aten.exp.default", "f32[3]", "tenon"] for line in lines)
    row = next(line for line in lines if "tenon_explain.negated.default" in line)
    assert row[4] == "pytorch"
    assert row[5].endswith(f"test_explain.py:{where}")
    assert lines[2][0] == "placeholder"
    assert any(line[:1] == ["output"] for line in lines)


def test_segments_and_totals():
    text = str(tenon.compile(with_fallback, (torch.randn(3),)))
    assert "Segment 0: cpu (1 op)" in text
    assert "Segment 1: fallback (1 op)" in text
    assert "not in the registry" in text
    assert "program length: 3 calls" in text
    assert "artifact: " in text
    assert "artifact: none" not in text


def test_all_is_compiled():
    text = tenon.explain(tenon.compile(torch.nn.Linear(4, 2), (torch.randn(3, 4),)))
    assert "every call is compiled" in text
    assert "weights: 40 bytes" in text


def test_how_large_the_file_is(tmp_path):
    program = tenon.compile(torch.nn.Linear(40, 20), (torch.randn(3, 40),))
    program.save(tmp_path / "linear.tenon")
    size = program.artifact_bytes()
    assert size["file"] == (tmp_path / "linear.tenon").stat().st_size
    assert size["weights"] >= 4 * 820
    assert size["code"] > 0
    rest = size["file"] - size["weights"] - size["code"]
    line = f"artifact: {size['file']} bytes (weights {size['weights']}, code {size['code']}, the rest {rest})"
    assert line in tenon.explain(program)


def test_counts():
    def model(x):
        return torch.ops.tenon_explain.negated(x)

    text = tenon.explain(tenon.compile(model, (torch.randn(3),)))
    assert "program length: 1 call, 1 node, 0 kernels" in text
    assert "1 of the calls runs in PyTorch:" in text
    assert "output" in text
    assert "1 value" in text
    assert "1 values" not in text


def test_calls_of_unknown_lines_have_no_place():
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = make_fx(torch.ops.tenon_explain.negated)(torch.ones(3))
    for node in traced.graph.nodes:
        node.stack_trace = None
    program = tenon.compile(torch.export.export(traced, (torch.ones(3),)))
    for node in program.nodes:
        node.location = None
    assert "<text>" not in tenon.explain(program)


@pytest.mark.parametrize("form", [torch.relu, torch.nn.ReLU(), torch.export.export(torch.nn.ReLU(), (torch.ones(3),))])
def test_what_is_not_compiled(form):
    with pytest.raises(tenon.Error, match=r"explain takes a compiled program, got a .*: give it what tenon.compile"):
        tenon.explain(form)


def test_an_entry_that_raises_is_named():
    def entry(x):
        raise KeyError("no such thing")

    tenon.aten.register("tenon_explain.negated.default(x)", entry)
    try:
        with pytest.raises(
            tenon.Error, match=r"the entry of tenon_explain.negated.default raised KeyError: 'no such"
        ) as info:
            tenon.compile(with_fallback, (torch.ones(3),))
        assert isinstance(info.value.__context__, KeyError)
    finally:
        tenon.aten.unregister("tenon_explain.negated.default")


def test_unregister_what_is_not_there():
    with pytest.raises(tenon.Error, match=r"there is no entry 'aten.no_such.default'"):
        tenon.aten.unregister("aten.no_such.default")


def test_register_an_entry():
    program = tenon.compile(with_fallback, (torch.ones(3),))
    assert len(program.unsupported) == 1
    tenon.aten.register("tenon_explain.negated.default(x)", lambda x: -x)
    try:
        program = tenon.compile(with_fallback, (torch.ones(3),), fallback=False)
        torch.testing.assert_close(program(-torch.ones(3)), with_fallback(-torch.ones(3)))
    finally:
        tenon.aten.unregister("tenon_explain.negated.default")
    assert not tenon.aten.has("tenon_explain.negated.default")


def test_entries():
    entries = tenon.aten.entries()
    assert str(entries["aten.add.Tensor"]) == "aten.add.Tensor(self, other, *, alpha=1)"
    assert entries["aten.add.Tensor"].kind == "composite"
    assert entries["aten.tanh.default"].kind == "native"
    assert entries["aten.view.default"].is_view
    assert tenon.aten.has("aten.add_.Tensor")


@pytest.mark.parametrize("name", ["capture_basics.py", "explore_fx.py", "own_backend.py"])
def test_examples(name):
    result = subprocess.run([sys.executable, ROOT / "examples" / name], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "Segment 0: " in result.stdout
