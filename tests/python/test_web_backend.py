"""The backend `wasm` in programs: Node runs its kernels, and `make web` builds what it needs. test_loops_cases.py and
tests/named/exact_cases_test.cpp run their cases on it, too."""

import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import tenon
import tenon.loops as tl
import torch
from torch import nn

ROOT = Path(__file__).parents[2]

NEEDS_NODE = pytest.mark.skipif(
    shutil.which("node") is None or not (ROOT / "build/web/kernel_server.mjs").exists(),
    reason="there is no node, or no build/web: say make web",
)


def test_it_says_what_is_missing(tmp_path):
    """In other programs, since one starts its Node once."""
    graph = tmp_path / "g.tg"
    graph.write_text("graph g(%x: f32[4]) {\n  %y: f32[4] = relu(%x)\n  return %y\n}\n")
    np.save(tmp_path / "x.npy", np.zeros(4, np.float32))
    tool = ROOT / "build/bin/tenon"
    for environment, missing in [
        ({"TENON_WEB": str(tmp_path)}, "the package of `make web`"),
        ({"PATH": str(tmp_path)}, "Node"),
    ]:
        run = {"env": {**os.environ, **environment}, "capture_output": True, "text": True}
        listed = subprocess.run([tool, "backends"], check=True, **run).stdout
        [line] = [line for line in listed.splitlines() if line.startswith("wasm ")]
        assert "this machine lacks " + missing in line
        done = subprocess.run([tool, "run", graph, "-i", tmp_path / "x.npy", "--device", "wasm"], **run)
        assert done.returncode == 1
        assert missing in done.stderr


def add_one(x):
    """A kernel of `wasm` that is compiled already."""
    m = tl.Symbol("m")
    return (tl.Tensor(x).to(m) + 1).backend("wasm")


@NEEDS_NODE
def test_whole_models_run_in_node():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5), nn.Softmax(-1)).eval()
    x = torch.randn(2, 3, 8, 8)
    program = tenon.compile(model, (x,), device="wasm")
    assert "wasm runs" in str(tenon.explain(program))
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


@NEEDS_NODE
def test_the_command_line_runs_graphs_and_kernels_in_node(tmp_path):
    graph = tmp_path / "g.tg"
    graph.write_text("graph g(%x: f32[3, 4]) {\n  %y: f32[3, 4] = softmax(%x) {dim=-1}\n  return %y\n}\n")
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "x.npy", x)
    tool = ROOT / "build/bin/tenon"
    run = [tool, "run", graph, "-i", tmp_path / "x.npy", "-o", tmp_path / "out", "--device", "wasm"]
    subprocess.run(run, check=True, capture_output=True)
    wanted = torch.softmax(torch.from_numpy(x), -1).numpy()
    np.testing.assert_allclose(np.load(tmp_path / "out/y.npy"), wanted, rtol=1e-5)
    explained = subprocess.run([tool, "explain", graph, "--device", "wasm"], check=True, capture_output=True, text=True)
    assert "wasm runs 1 of 1 node" in explained.stdout
    tuned = [tool, "tune", ROOT / "examples/matmul.loops", "--backend", "wasm", "--search", "2"]
    assert subprocess.run(tuned, check=True, capture_output=True, text=True, timeout=300).stdout


@NEEDS_NODE
def test_sizes_and_errors_are_those_of_the_kernel():
    kernel = tl.IR.parse(
        """tenon loops 1
kernel gather {
  symbol N in [1, 100]
  var i = N
  var j = 3
  %x: f32[i] = read 0
  %at: i64[j] = read 1
  %y: f32[j] = view %x[r] with r = %at in N for j
  %o: f32[j] = write 0 (%y) for j
}
"""
    )
    compiled = tl.compile(kernel, "wasm")
    for size in (5, 9):
        x, at = np.arange(size, dtype=np.float32), np.array([size - 1, 0, 2])
        np.testing.assert_array_equal(compiled.run([x, at])[0], x[at])
    with pytest.raises(tenon.Error, match="index 9 is out of range for a size of 5"):
        compiled.run([np.zeros(5, np.float32), np.array([9, 0, 0])])
    assert "(module" in compiled.dump()


@NEEDS_NODE
def test_threads_share_one_node():
    x = np.arange(1000, dtype=np.float32)
    results = [None] * 8

    def run(i):
        results[i] = add_one(x + i).numpy()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, x + i + 1)


def node_of_this_process():
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    threads = [Path(f"/proc/{os.getpid()}/task/{thread}/children") for thread in os.listdir("/proc/self/task")]
    children += [child for path in threads if path.exists() for child in path.read_text().split()]
    named = {int(child) for child in children if "kernel_server" in Path(f"/proc/{child}/cmdline").read_text()}
    [node] = named
    return node


@NEEDS_NODE
def test_a_node_that_ends_is_an_error_and_the_next_kernel_starts_another():
    x = np.arange(4, dtype=np.float32)
    kernel = tl.IR.parse(
        "tenon loops 1\nkernel k {\n  var i = 4\n  %x: f32[i] = read 0\n  %y: f32[i] = neg(%x)\n"
        "  %o: f32[i] = write 0 (%y)\n}\n"
    )
    compiled = tl.compile(kernel, "wasm")
    np.testing.assert_array_equal(compiled.run([x])[0], -x)
    os.kill(node_of_this_process(), signal.SIGKILL)
    with pytest.raises(tenon.Error, match="Node that runs kernels ended"):
        compiled.run([x])
    np.testing.assert_array_equal(tl.compile(kernel, "wasm").run([x])[0], -x)


@NEEDS_NODE
def test_node_ends_with_the_program(tmp_path):
    script = """
import numpy as np, os, tenon.loops as tl
m = tl.Symbol("m")
assert (tl.Tensor(np.ones(3, np.float32)).to(m) + 1).backend("wasm").numpy().tolist() == [2, 2, 2]
from tests.python.test_web_backend import node_of_this_process
print(node_of_this_process(), flush=True)
os._exit(0)
"""
    done = subprocess.run(
        [os.sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}/build/python:{ROOT}"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    node = int(done.stdout)
    for _ in range(100):
        path = Path(f"/proc/{node}/cmdline")
        if not path.exists() or b"kernel_server" not in path.read_bytes():
            return
        threading.Event().wait(0.05)
    raise AssertionError("Node runs on")


@NEEDS_NODE
def test_a_fork_leaves_the_node_of_its_parent_alone(tmp_path):
    """A fork inherits the connection: it may neither use it, nor free kernels in it, nor keep Node alive with it."""
    script = '''
import numpy as np, os, sys, time, tenon, tenon.loops as tl
text = """tenon loops 1
kernel k {
  var i = 4
  %x: f32[i] = read 0
  %y: f32[i] = neg(%x)
  %o: f32[i] = write 0 (%y)
}
"""
kernels = [tl.compile(tl.IR.parse(text), "wasm")]
x = np.ones(4, np.float32)
parent = os.getpid()
if os.fork() == 0:
    try:
        kernels[0].run([x])
    except tenon.Error as error:
        print(error, flush=True)
    kernels.clear()
    print(tl.compile(tl.IR.parse(text), "wasm").run([x])[0].tolist(), flush=True)
    print("done", file=sys.stderr, flush=True)
    os.close(1), os.close(2)
    while os.getppid() == parent:  # which ends only if it does not wait for this process
        time.sleep(0.05)
    os._exit(0)
while "done" not in open(sys.argv[1]).read():
    time.sleep(0.05)
print(kernels[0].run([x])[0].tolist())
'''
    errors = tmp_path / "errors"
    with errors.open("w") as stderr:
        done = subprocess.run(
            [os.sys.executable, "-c", script, errors], env={**os.environ, "PYTHONPATH": f"{ROOT}/build/python"},
            stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=300,
        )  # fmt: skip
    assert done.returncode == 0, errors.read_text()
    refused, own, parents = done.stdout.splitlines()
    assert "compile it after a fork" in refused
    assert own == parents == "[-1.0, -1.0, -1.0, -1.0]"
