"""The zoo runs in slices, with a time limit, and their records merge into one report."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict

import torch

from . import __main__ as zoo
from .forks import Fork, run_all
from .modes import Record


def record(name, versions="transformers 1, PyTorch 2 and Python 3", not_made="", **modes):
    outcomes = {mode.replace("_", " "): {"kind": kind, "calls": 4} for mode, kind in modes.items()}
    return Record(name, not_made, model="BertModel", modes=outcomes, versions=versions)


def written(path, *records):
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in records))
    return path


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["zoo", *map(str, arguments)])
    return zoo.main()


def test_slices_are_merged(monkeypatch, tmp_path):
    first = written(tmp_path / "0.jsonl", record("bert", export="ok"), record("gpt2", not_made="no inputs"))
    second = written(tmp_path / "1.jsonl", record("bert", training="crash"), record("opt", compile="ok"))
    again = written(tmp_path / "2.jsonl", record("bert", training="ok"), record("gpt2", compile_dynamic="ok"))
    report, records = tmp_path / "models.md", tmp_path / "models.json"
    assert run(monkeypatch, "--merge", first, second) == 1  # a crash
    status = run(monkeypatch, "--merge", first, second, again, "--json", records, "--markdown", report)
    assert status == 0
    found = {each["architecture"]: each for each in json.loads(records.read_text())}
    kinds = {name: {mode: each["kind"] for mode, each in one["modes"].items()} for name, one in found.items()}
    assert kinds == {
        "bert": {"export": "ok", "training": "ok"},
        "gpt2": {"compile dynamic": "ok"},
        "opt": {"compile": "ok"},
    }
    text = report.read_text()
    assert "with transformers 1, PyTorch 2 and Python 3." in text
    assert "| bert | BertModel | ok 100.0% |  |  |  | ok 100.0% |" in text


def test_a_failure_to_make_does_not_replace_results(monkeypatch, tmp_path):
    first = written(tmp_path / "0.jsonl", record("bert", export="ok"))
    second = written(tmp_path / "1.jsonl", record("bert", not_made="timeout"))
    merged = zoo._merged_files([first, second])
    assert merged["bert"].not_made == ""
    assert list(merged["bert"].modes) == ["export"]


def test_slices_are_all_architectures(monkeypatch):
    chosen = []
    for index in range(3):
        monkeypatch.setattr(sys, "argv", ["zoo", "--shard", f"{index}/3"])
        chosen += zoo._chosen(zoo._options())
    assert sorted(chosen) == sorted(zoo.architectures())


def test_no_task_starts_after_the_end():
    now = time.monotonic()
    assert list(run_all(["a", "b"], str, jobs=1, seconds=5, end=now - 1)) == []
    assert [task for task, _ in run_all(["a", "b"], str, jobs=1, seconds=5, end=now + 60)] == ["a", "b"]


def test_a_fork_makes_its_pool_of_threads_first():
    """Later, threads of a backward pass race for it, and PyTorch aborts."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert Fork(torch.get_num_threads, seconds=60).answer().value == 1
    finally:
        torch.set_num_threads(before)


def test_pytorch_sees_no_gpu():
    """CUDA does not survive a fork."""
    code = "import os; import tests.python.architectures.__main__; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))"
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="0")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr("")
