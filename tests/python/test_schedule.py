"""Default schedules of the CPU backend, constants, and what a search keeps."""

import numpy as np
import pytest
import tenon
import tenon.loops as tl
import torch

LINEAR = """
graph g(%x: f32[N, 40], %w: f32[70, 40], %b: f32[70]) {
  symbol N in [1, 64]
  %h: f32[N, 70] = linear(%x, %w, %b)
  %y: f32[N, 70] = relu(%h)
  return %y
}
"""


@pytest.fixture
def kernel():
    return tl.lower(tenon.parse(LINEAR))


@pytest.fixture
def arrays():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(*shape, generator=generator) for shape in ((13, 40), (70, 40), (70,))]


def expected(x, w, b):
    return torch.relu(torch.nn.functional.linear(x, w, b))


def test_constants_are_given_once(kernel, arrays):
    x, w, b = arrays
    compiled = tl.compile(tl.schedule(kernel), "cpu", constants={1: w, 2: b})
    (y,) = compiled.run([x])
    torch.testing.assert_close(y, expected(*arrays))
    out = torch.empty(13, 70)
    compiled.prepare([x, out])()
    torch.testing.assert_close(out, y)


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({3: np.zeros(70, np.float32)}, "kernel g has no input 3: it has 3"),
        ({1: np.zeros((40, 70), np.float32)}, r"constant 1 of kernel g must be f32\[70, 40\], got f32\[40, 70\]"),
    ],
)
def test_constants_must_fit(kernel, constants, message):
    with pytest.raises(tenon.Error, match=message):
        tl.compile(tl.schedule(kernel), "cpu", constants=constants)


def test_runs_of_a_bound_kernel_take_the_other_inputs(kernel, arrays):
    compiled = tl.compile(tl.schedule(kernel), "cpu", constants={1: arrays[1]})
    with pytest.raises(tenon.Error, match="kernel g takes 2 inputs, or them and 1 outputs, got 4 arrays"):
        compiled.run([arrays[0]] * 4)


def test_a_search_is_kept(kernel, arrays, tmp_path, monkeypatch):
    monkeypatch.setenv("TENON_CACHE", str(tmp_path))
    calls = []
    tree = tl.schedule(kernel, tune=0.3, sizes={"N": 13}, progress=lambda *now: calls.append(now))
    assert calls
    assert all(speedup >= 1 for _, _, speedup in calls)
    assert str(tl.schedule(kernel)) == str(tree)
    torch.testing.assert_close(tl.compile(tree, "cpu").run(arrays)[0], expected(*arrays))


def test_without_a_cache_nothing_is_kept(kernel, monkeypatch):
    monkeypatch.setenv("TENON_CACHE", "off")
    before = str(tl.schedule(kernel))
    tl.schedule(kernel, tune=0.1, sizes={"N": 13})
    assert str(tl.schedule(kernel)) == before


def test_a_search_takes_time(kernel):
    with pytest.raises(tenon.Error, match="takes more than -1 seconds"):
        tl.schedule(kernel, tune=-1)


@pytest.mark.parametrize("depth", [64, 1000, 4096])
def test_long_sums_are_as_exact_as_those_of_torch(depth):
    x, w = torch.randn(24, depth), torch.randn(depth, 80)
    graph = tenon.Graph("g")
    graph.output(tenon.ops.matmul(graph.input("x", f"f32[24, {depth}]"), graph.input("w", f"f32[{depth}, 80]")))
    (y,) = tl.compile(tl.schedule(tl.lower(graph)), "cpu").run([x, w])
    exact = x.double() @ w.double()
    ours, theirs = ((result - exact).square().mean().sqrt() for result in (y, x @ w))
    assert ours <= 2 * theirs
