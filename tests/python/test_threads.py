"""Threads as users meet them: their number, what they cost when idle, other pools, forks, processes, and the caller's
own threads over the C and the C++ interface."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import tenon
import torch
from torch import nn

ROOT = Path(__file__).parents[2]
LIBRARIES = ROOT / "build/lib"
CPUS = len(os.sched_getaffinity(0))
SIZE = 512


class Products(nn.Module):
    """Two products of matrices, each a parallel loop."""

    def forward(self, x):
        return x @ x @ x


def compiled(**options):
    return tenon.compile(Products(), (torch.ones(SIZE, SIZE),), **options)


@pytest.fixture(scope="module")
def program():
    return compiled()


def ones():
    return torch.ones(SIZE, SIZE)


def is_right(y):
    return bool((y == float(SIZE * SIZE)).all())


def run_python(code, **options):
    """What a fresh interpreter prints, which compiles Products first."""
    start = "import os, sys\nsys.path.insert(0, 'tests/python')\nimport torch, tenon\nfrom test_threads import *\n"
    done = subprocess.run(
        [*options.pop("prefix", []), sys.executable, "-W", "ignore", "-c", start + code],
        capture_output=True, text=True, timeout=1200, check=False, cwd=ROOT, **options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


# ---- how many -------------------------------------------------------------------------------------------------------


def quota():
    """Whole CPUs that a container may use: it sees its control group as the root."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except OSError:
        return CPUS
    return CPUS if limit == "max" else max(1, int(limit) // int(period))


def test_the_number_is_that_of_the_cpus():
    environment = {key: value for key, value in os.environ.items() if key != "TENON_THREADS"}
    assert run_python("print(tenon.threads())", env=environment) == [str(min(CPUS, quota()))]
    only = str(min(os.sched_getaffinity(0)))
    code = "assert is_right(compiled()(ones()))\nprint(tenon.threads(), len(os.listdir('/proc/self/task')))"
    on_one = run_python("torch.set_num_threads(1)\n" + code, env=environment, prefix=["taskset", "-c", only])
    assert on_one[0] == "1"


def test_set_threads_changes_it(program):
    before = tenon.threads()
    try:
        for count in (1, 3, 2, 5, 1):
            tenon.set_threads(count)
            assert tenon.threads() == count
            assert is_right(program(ones()))
    finally:
        tenon.set_threads(None)
    assert tenon.threads() == before
    with pytest.raises(tenon.Error, match=r"threads must be in \[1, 512\], got 0"):
        tenon.set_threads(0)


# How many threads of the process may run on one CPU only.
PINNED = """
assert is_right(compiled(threads=%d)(ones()))
def cpus_of(task):
    try:
        return len(os.sched_getaffinity(int(task)))
    except ProcessLookupError:  # a thread of the compiler has ended meanwhile
        return 0
print(sum(cpus_of(task) == 1 for task in os.listdir('/proc/self/task')))
"""


@pytest.mark.skipif(CPUS < 2, reason="one CPU has no place for a worker")
def test_workers_are_pinned_unless_told_otherwise():
    assert run_python(PINNED % CPUS) == [str(CPUS - 1)]
    assert run_python(PINNED % CPUS, env={**os.environ, "TENON_PIN_THREADS": "0"}) == ["0"]


@pytest.mark.skipif(CPUS < 3, reason="with two CPUs, two threads take all")
def test_workers_that_leave_cpus_free_are_not_pinned():
    assert run_python(PINNED % 2) == ["0"]


# ---- beside others --------------------------------------------------------------------------------------------------


def test_idle_threads_sleep(program):
    torch.set_num_threads(1)  # its own threads may spin
    assert is_right(program(ones()))
    least = 1.0
    for _ in range(10):  # others may wake this process meanwhile
        program(ones())
        time.sleep(0.01)
        before = time.process_time()
        time.sleep(0.2)
        least = min(least, (time.process_time() - before) / 0.2)
    assert least < 0.05


def test_calls_alternate_with_those_of_pytorch(program):
    x = ones()
    for _ in range(20):
        assert is_right(torch.mm(torch.mm(x, x), x))
        assert is_right(program(x))


def test_several_threads_call_at_once(program):
    wrong = []

    def work(own):
        for _ in range(10):
            if not is_right(own(ones())):
                wrong.append(own)

    programs = [program, program, compiled(threads=1), compiled(threads=3)]
    threads = [threading.Thread(target=work, args=(own,)) for own in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_two_processes_run_at_once():
    code = "program = compiled()\nprint(all(is_right(program(ones())) for _ in range(100)))"
    outputs = []
    threads = [threading.Thread(target=lambda: outputs.append(run_python(code))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == [["True"], ["True"]]


# ---- the ends of processes ------------------------------------------------------------------------------------------


def test_a_fork_has_threads_of_its_own():
    code = """
program, x = compiled(threads=2), ones()
assert is_right(program(x))
for _ in range(10):
    child = os.fork()
    if child == 0:  # where PyTorch's own parallel loops hang
        y = program(x)
        os._exit(0 if y[0, 0] == SIZE * SIZE and len(os.listdir('/proc/self/task')) >= 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert is_right(program(x))
print("done")
"""
    assert run_python(code) == ["done"]


class Rows(torch.utils.data.Dataset):
    """A program runs in the workers of a loader."""

    def __init__(self, program):
        self.program = program

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return self.program(ones())[0, 0] + i


def test_workers_of_a_data_loader_run_programs(program):
    assert is_right(program(ones()))
    loader = torch.utils.data.DataLoader(Rows(program), batch_size=4, num_workers=2)
    assert torch.cat(list(loader)).tolist() == [SIZE * SIZE + i for i in range(8)]


def test_a_process_may_end_while_others_run():
    """Others that run Tenon alone: PyTorch aborts where such a thread frees one of its tensors."""
    code = """
import threading, time
import numpy as np
import tenon.loops as tl
x = np.ones(1 << 16, np.float32)
kernel = tl.compile((-tl.Tensor(x, tl.Symbol("m"))).loop_tree)
def work():
    while True:
        kernel.run([x])
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("done")
"""
    for _ in range(3):
        assert run_python(code) == ["done"]


# ---- the caller's threads -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(program, tmp_path_factory):
    path = tmp_path_factory.mktemp("executors") / "products.tenon"
    program.save(path)
    return path


def built(source, folder, compiler, *flags):
    program = folder / source.stem
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"]
    link = ["-L", LIBRARIES, "-ltenon_runtime", f"-Wl,-rpath,{LIBRARIES}"]
    command = [compiler, *strict, *flags, "-I", ROOT / "include", source, "-o", program, *link]
    subprocess.run(command, check=True)
    return program


def test_threads_of_a_c_program(model, tmp_path):
    program = built(ROOT / "examples/own_threads.c", tmp_path, "cc", "-std=c11")
    for threads, loops in ((4, 2), (1, 0)):
        done = subprocess.run([program, model, str(threads)], capture_output=True, text=True, check=True)
        assert done.stdout == f"{float(SIZE * SIZE):g}, {loops} loops\n"


def test_executors_that_do_as_they_like(model, tmp_path):
    flags = ["-std=c++20", "-Wno-missing-field-initializers"]
    program = built(ROOT / "tests/python/executors.cpp", tmp_path, "c++", *flags)
    done = subprocess.run([program, model], capture_output=True, text=True, check=True)
    right = f"{float(SIZE * SIZE):g}"
    assert dict(line.split(": ", 1) for line in done.stdout.splitlines()) == {
        "threads": right,
        "nothing": right,
        "one": right,
        "twice": right,
        "wrong indices": right,
        "throws": "7, the executor threw: the pool is closed",
        "throws a number": "7, the executor threw: an object that is not a std::exception",
    }
