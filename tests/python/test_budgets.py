"""Budgets of tenon.compile: what a call really takes, for functions that need much scratch, or sizes of the data."""

from pathlib import Path

import pytest

from tests.python import warm

# The least budget that a call gets along with; what the process took for that call, but for its results; an error.
MEASURED = """
import re, sys, tenon, torch

def kib(name):
    return int(re.search(rf"{name}:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

def compiled(budget):
    return tenon.compile(function, example, budget=budget, threads=2)

def least(error):
    return int(re.search(r"(?:the least is|needs at least) (\\d+)", str(error))[1])

torch.manual_seed(0)
function = eval(sys.argv[1])
example = tuple(eval(sys.argv[2]))
budget = 1
while True:
    try:
        program = compiled(budget)
        program(*example)  # loads code, wakes threads; sizes of the data may need more
        break
    except tenon.Error as error:
        assert least(error) > budget, error
        budget = least(error)
try:
    compiled(budget - 1)(*example)
    refused = "nothing"
except tenon.Error as error:
    refused = str(error).splitlines()[0]
program._executable.free_memory()
open("/proc/self/clear_refs", "w").write("5")
before = kib("VmRSS")
results = program(*example)
taken = 1024 * (kib("VmHWM") - before)
results = results if isinstance(results, (tuple, list)) else (results,)
print(budget, taken - sum(result.nbytes for result in results))
print(refused)
"""

NOISE = 1 << 20

CASES = {
    "sort": ("lambda x: x.sort()", "[torch.rand(1_000_000)]"),
    "argsort": ("lambda x: x.argsort()", "[torch.randint(1 << 60, (500_000,))]"),
    "unique": ("lambda x: x.unique()", "[torch.rand(500_000)]"),
    "inv": ("torch.inverse", "[torch.rand(500, 500) + 50 * torch.eye(500)]"),
    "topk": ("lambda x: x.topk(400_000)", "[torch.rand(1_000_000)]"),
    "nonzero": ("lambda x: x.nonzero()", "[torch.rand(1_000_000) - 0.5]"),
    "cholesky": ("torch.linalg.cholesky", "[torch.rand(600, 600) + 600 * torch.eye(600)]"),
    "solve": ("torch.linalg.solve", "[torch.rand(500, 500) + 50 * torch.eye(500), torch.rand(500, 200)]"),
    "eigh": ("torch.linalg.eigh", "[torch.rand(400, 400) + 400 * torch.eye(400)]"),
    "mode": ("lambda x: x.mode()", "[torch.randint(100, (4, 200_000))]"),
    "median": ("lambda x: x.median()", "[torch.rand(1_000_001)]"),
}


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux to tell the peak of a process")
@pytest.mark.parametrize("name", CASES)
def test_a_call_takes_no_more_memory_than_its_budget(name):
    done = warm.run(MEASURED, *CASES[name], check=True)
    numbers, refused = done.stdout.splitlines()
    budget, taken = map(int, numbers.split())
    assert taken <= 1.05 * budget + NOISE
    assert f"budget is {budget - 1}" in refused
