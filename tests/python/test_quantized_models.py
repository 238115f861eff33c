"""Quantized models (PT2E) run in integers, and are at least as close to exact sums as PyTorch's simulation, in f32."""

import pt2e
import pytest
import tenon
import torch
from tenon.capture.fx import import_exported_program


def error(result, exact):
    return (result.double() - exact).abs().max().item()


def check(result, module, *inputs):
    """As close as PyTorch to the model in exact arithmetic. A sum that PyTorch rounds to another side of a half is one
    step of the quantization off: so both are compared with the exact model, which rounds by the same rule."""
    with torch.no_grad():
        eager, exact = module(*inputs), pt2e.exact(module, *inputs)
    assert result.dtype == eager.dtype
    scale = exact.abs().max().item()
    assert error(result, exact) <= max(2 * error(eager, exact), 1e-5 * scale), (error(eager, exact), scale)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", pt2e.MODELS)
def test_model_agrees_with_its_simulation(name, dynamic):
    module, x = pt2e.made(name, dynamic)
    program = tenon.compile(module, (x,), fallback=False)
    check(program(x), module, x)
    other = torch.randn_like(x)
    check(program(other), module, other)


@pytest.mark.parametrize("name", pt2e.MODELS)
def test_no_product_is_left_in_floats(name):
    module, x = pt2e.made(name)
    ep = torch.export.export(module, (x,))
    graph = tenon.run_passes(import_exported_program(ep).graph, ["canonicalize", "quantized"])
    products = [node for node in graph.nodes if str(node.op.name) in ("linear", "matmul", "addmm", "conv", "contract")]
    assert products
    assert {str(node.results[0].dtype) for node in products} == {"i32"}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", pt2e.MODELS)
def test_torch_compile(name, dynamic):
    torch._dynamo.reset()
    module, x = pt2e.made(name, dynamic)
    with torch.no_grad():
        check(torch.compile(module, backend="tenon", options={"fallback": False})(x), module, x)


@pytest.mark.parametrize("name", pt2e.MODELS)
def test_file_of_a_quantized_model(name, tmp_path):
    """Read without Python; weights are bytes."""
    module, x = pt2e.made(name)
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "model.pt2")
    program = tenon.compile(str(tmp_path / "model.pt2"))
    check(program(x), module, x)
    program.save(str(tmp_path / "model.tenon"))
    check(tenon.load(str(tmp_path / "model.tenon"))(x), module, x)


def test_weights_are_stored_as_bytes(tmp_path):
    torch.manual_seed(0)
    wide = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
    x = torch.randn(32, 512)
    tenon.compile(pt2e.quantized(wide, x), (x,)).save(str(tmp_path / "wide.tenon"))
    count = sum(p.numel() for p in wide.parameters())
    assert (tmp_path / "wide.tenon").stat().st_size < 1.2 * count


def test_symbolic_sizes():
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=2, max=64)
    x = torch.randn(8, 20)
    module = pt2e.quantized(pt2e.mlp(), x, dynamic_shapes=({0: batch},))
    program = tenon.compile(module, (x,), dynamic_shapes=({0: batch},), fallback=False)
    for rows in (2, 17, 64):
        check(program(torch.ones(rows, 20)), module, torch.ones(rows, 20))
