"""A device that is no array: a vector unit (accelerators/vector), with memory of its own and cycles."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tenon
import torch
from torch import nn

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "build/accelerators/vector.so"
TENON = Path(os.environ.get("TENON_CLI", ROOT / "build/bin/tenon"))
MOST_LINES = 200


@pytest.fixture(scope="module", autouse=True)
def vector():
    assert tenon.load_plugin(str(LIBRARY)) == "vector"


def test_it_is_small():
    files = [path for path in (ROOT / "accelerators/vector").rglob("*") if path.is_file()]
    assert sum(len(path.read_text().splitlines()) for path in files) <= MOST_LINES


MODEL = """graph mlp(%x: f32[9, 4]) {
  %w: f32[8, 4] = parameter "w"
  %b: f32[8] = parameter "b"
  %v: f32[8, 3] = parameter "v"
  %hidden = linear(%x, %w, %b)
  %active = relu(%hidden)
  %logits = matmul(%active, %v)
  %y = softmax(%logits) {dim=-1}
  return %y
}"""


def test_check(tmp_path):
    (tmp_path / "mlp.tg").write_text(MODEL)
    command = [TENON, "device", "check", LIBRARY, "--random", "0", "--model", "mlp.tg"]
    done = subprocess.run(
        list(map(str, command)), cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    agreed = {line.split()[0] for line in done.stdout.splitlines() if "graphs agree" in line}
    assert {"relu", "maximum", "add", "sub", "mul", "sum", "matmul", "linear", "mlp.tg"} <= agreed
    assert " 0 differ" in done.stdout


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(33, 70), nn.Linear(70, 5)

    def forward(self, x):
        y = torch.relu(self.first(x)) * 0.5 - 1
        y = torch.maximum(y, y * y).sum(-1, keepdim=True) + self.second(torch.relu(y))
        return torch.softmax(y, -1)


def test_model():
    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(7, 33)
    program = tenon.compile(model, (x,), device="vector")
    with torch.no_grad():
        torch.testing.assert_close(program(x), model(x))
    on_device = [op for task in program.kernels if task["kind"] == "device" for op in task["ops"]]
    assert set(on_device) == {"linear", "relu", "mul", "sub", "maximum", "sum"}  # the add repeats a column


def cycles(lanes, folder):
    graph = "graph g(%x: f32[4, 100], %w: f32[100, 64]) {\n  %y = matmul(%x, %w)\n  return %y\n}"
    (folder / "g.tg").write_text(graph)
    np.savez(folder / "in.npz", x=np.ones((4, 100), np.float32), w=np.ones((100, 64), np.float32))
    device = ("--plugin", str(LIBRARY), "--device", f"vector:lanes={lanes}")
    command = [str(TENON), "run", "g.tg", "--input", "in.npz", "--profile", "t.json", "--output", "out", *device]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    assert (np.load(folder / "out/y.npy") == 100).all()
    events = json.loads((folder / "t.json").read_text())["traceEvents"]
    return next(round(event["dur"] * 1000) for event in events if event.get("cat") == "device")


def test_lanes_are_time(tmp_path):
    """4 rows of 100 products with a vector of 64: a cycle for each strip of as many numbers as there are lanes."""
    assert [cycles(lanes, tmp_path) for lanes in (16, 32, 64, 128)] == [1600, 800, 400, 400]


@pytest.mark.parametrize("options", ["lanes=0", "lanes=many", "lanes=8x", "speed=3"])
def test_options(options):
    with pytest.raises(tenon.Error, match="device vector: the option is lanes=N, at least 1"):
        tenon.compile(nn.ReLU(), (torch.ones(3),), device=f"vector:{options}")
