"""Whole programs come from the cache on disk in another process, through every front door."""

import json
import subprocess
import sys

import pytest

from tests.python import warm

SCRIPT = """
import json, sys, torch, tenon
import tenon.torch_backend

def model(x, w):
    return torch.softmax(torch.relu(x) @ w, dim=-1) * {scale}

@torch.library.custom_op("mine::half", mutates_args=())
def half(x: torch.Tensor) -> torch.Tensor:
    return x / 2

@half.register_fake
def _(x):
    return torch.empty_like(x)

x, w = torch.ones({rows}, 8) / 3, torch.arange(128.0).reshape(8, 16) / 100
found = []
compile_graph = tenon.torch_backend.compile_program

def noted(*args, **kwargs):
    executable = compile_graph(*args, **kwargs)
    found.append(executable.is_from_cache)
    return executable

tenon.torch_backend.compile_program = noted
result = torch.compile(model, backend="tenon")(x, w)
torch.testing.assert_close(result, model(x, w))

class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(w)
    def forward(self, x):
        y = model(x, self.w)
        return {last}

program = tenon.compile(Module(), (x,))
torch.testing.assert_close(program(x), Module()(x).detach())
found.append(program.is_from_cache)
lines = tenon.explain(program).splitlines()
print(json.dumps(dict(found=found, lines=lines, result=result.tolist())))
"""


QUIET = "import warnings; warnings.simplefilter('ignore')\n"


def script(rows=4, scale=2.0, last="y + 1"):
    return SCRIPT.replace("{rows}", str(rows)).replace("{scale}", str(scale)).replace("{last}", last)


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.setenv("TENON_CACHE", str(tmp_path / "cache"))

    return lambda **options: warm.Process(QUIET + script(**options))


def finish(process):
    return outcome(process.finish())


def outcome(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) | {"warnings": done.stderr.splitlines()}


def in_a_new_interpreter():
    """With hashes of its own, too."""
    command = [sys.executable, "-c", QUIET + script()]
    return outcome(subprocess.run(command, capture_output=True, text=True, timeout=120, check=False))


def kernels_in(cache):
    return [path for path in cache.iterdir() if not path.read_bytes()[40:].startswith(b"program\n")]


def test_another_process_compiles_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TENON_CACHE", str(tmp_path / "cache"))
    first = in_a_new_interpreter()
    assert first["found"] == [False, False]
    assert "compiled: in this process" in first["lines"]
    assert first["warnings"] == []
    for kernel in kernels_in(tmp_path / "cache"):
        kernel.unlink()
    second = in_a_new_interpreter()
    assert second["found"] == [True, True]
    assert "compiled: from the cache" in second["lines"]
    assert second["result"] == first["result"]
    assert kernels_in(tmp_path / "cache") == []


@pytest.mark.parametrize("other", [{"rows": 5}, {"scale": 2.5}], ids=str)
def test_another_size_or_constant_is_another_entry(start, other):
    finish(start())
    assert finish(start(**other))["found"] == [False, False]
    assert finish(start(**other))["found"] == [True, True]
    assert finish(start())["found"] == [True, True]


def test_processes_at_once(start, tmp_path):
    results = [finish(process) for process in [start(), start(), start()]]
    assert all(result["result"] == results[0]["result"] for result in results)
    assert finish(start())["found"] == [True, True]
    assert all(path.suffix == ".tenon" for path in (tmp_path / "cache").iterdir())


def test_damaged_entries_are_misses(start, tmp_path):
    first = finish(start())
    for number, path in enumerate(sorted((tmp_path / "cache").iterdir())):
        whole = path.read_bytes()
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] if number % 2 else whole[:middle] + b"?" + whole[middle + 1 :])
    again = finish(start())
    assert again["found"] == [False, False]
    assert again["result"] == first["result"]
    assert finish(start())["found"] == [True, True]


def test_calls_that_pytorch_runs_still_do(start):
    fallback = {"last": "half(y) + y"}
    assert finish(start(**fallback))["found"] == [False, False]
    assert finish(start(**fallback))["found"] == [True, True]  # the script compares the results with eager's


def test_off_is_off(start, monkeypatch):
    monkeypatch.setenv("TENON_CACHE", "off")
    for _ in range(2):
        assert finish(start())["found"] == [False, False]


def test_a_folder_that_others_can_write_is_not_used(start, tmp_path):
    finish(start())
    (tmp_path / "cache").chmod(0o777)
    (warning,) = (again := finish(start()))["warnings"]
    assert again["found"] == [False, False]
    assert f"other users can write to {tmp_path / 'cache'} (its mode is 0777): `chmod go-w" in warning
    assert any(line.startswith("warning in this process (") and warning[16:] in line for line in again["lines"])
