"""A process that measures, so that nothing of it is left for the next: python -m bench.models.worker JSON

Latency has all engines in one process, in turns. Cost and load have a process for each engine: what an engine keeps in
memory, and what it has imported, is its own. The answer is the last line of the output.
"""

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bench.kernels.harness import first_line, seconds_of
from bench.memory import forget_peak, resident
from bench.models.cases import CASES
from bench.models.engines import ENGINES, TENON, Call, Engine, Job, quantized_by_pt2e, results_of
from bench.models.rounds import Effort, compare, time_in_turns, typical

# Of the largest value. That of int8, of the norm, only tells a quantized model from nonsense: the tests judge its
# accuracy. Its rounding moves some values far, in a deep model with random weights.
TOLERANCES = {"f32": 1e-3, "bf16": 5e-2, "f16": 1e-2, "int8": 0.5}


@dataclass
class Latency:
    """One engine on one model. `ratio` is its time over Tenon's."""

    model: str
    engine: str
    threads: int
    dtype: str = "f32"
    batch: int = 1
    error: str = ""  # why there are no numbers
    seconds: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    is_disturbed: bool = False


@dataclass
class Cost:
    """Of one engine for one model; None is what it does not have."""

    model: str
    engine: str
    dtype: str = "f32"
    batch: int = 1
    error: str = ""
    compile_s: float | None = None  # from the module to the first results but for a call, with no cache on the disk
    compile_cpu_s: float | None = None  # the same in CPU time, of all processes that took part
    peak_bytes: int | None = None  # of memory meanwhile, beyond the module and its arguments
    load_s: float | None = None  # likewise from a file
    load_peak_bytes: int | None = None
    file_bytes: int | None = None


class WrongResultError(Exception):
    """Results that are not those of PyTorch eager."""


@dataclass(frozen=True)
class Work:
    """What is measured: a model, as it is run."""

    model: str
    threads: int
    small: bool
    dtype: str = "f32"
    batch: int = 1

    def job(self, folder: str) -> Job:
        torch.set_num_threads(self.threads)
        module, args = CASES[self.model].make_as(self.small, self.dtype, self.batch)
        if self.dtype != "int8":
            return Job(module, args, self.threads, Path(folder), self.dtype)
        return Job(quantized_by_pt2e(module, args), args, self.threads, Path(folder), self.dtype, floats=module)


def job_for(engine: str, job: Job) -> Job:
    """With a folder for its files alone."""
    own = job.folder / engine
    own.mkdir(exist_ok=True)
    return replace(job, folder=own)


def largest(values: torch.Tensor) -> torch.Tensor:
    return values.abs().max()


def check(results: Sequence[Any], expected: Sequence[torch.Tensor], dtype: str) -> None:
    if len(results) != len(expected):
        raise WrongResultError(f"{len(results)} results where eager has {len(expected)}")
    for mine, theirs in zip(results, expected, strict=True):
        size, of_what = (torch.linalg.vector_norm, "norm") if dtype == "int8" else (largest, "largest value")
        difference = float(size(torch.as_tensor(mine).float() - theirs) / size(theirs))
        if not difference <= TOLERANCES[dtype]:
            raise WrongResultError(f"a result differs from eager's by {difference:.2g} of the {of_what}")


def made(engine: Engine, job: Job, expected: Sequence[torch.Tensor]) -> Call:
    call = engine.make(job)
    check(results_of(call()), expected, job.dtype)
    return call


def expected_of(job: Job) -> list[torch.Tensor]:
    """What eager computes in f32 of the same weights and arguments."""
    exact = job.in_f32()
    return [result.clone() for result in results_of(exact.module(*exact.args))]


# ---- what is asked for ----------------------------------------------------------------------------------------------


def latency(work: Work, engines: list[str], folder: str, rounds: int, block_s: float) -> list[Latency]:
    job = work.job(folder)
    rows = {name: Latency(work.model, name, work.threads, work.dtype, work.batch) for name in engines}
    expected = expected_of(job)
    calls = {}
    for name in engines:
        try:
            calls[name] = made(ENGINES[name], job_for(name, job), expected)
        except Exception as error:
            rows[name].error = f"{type(error).__name__}: {first_line(error)}"
    blocks = time_in_turns(calls, work.threads, Effort(rounds, block_s))
    for name, own in blocks.items():
        rows[name].seconds = typical(own)
        if TENON.name in blocks:
            for field, value in asdict(compare(blocks[TENON.name], own)).items():
                setattr(rows[name], field, value)
    return list(rows.values())


def cost(work: Work, engine: str, folder: str) -> Cost:
    job = job_for(engine, work.job(folder))
    expected = expected_of(job)
    warm_up(engine, job)
    before = start_of_peak()
    start, cpu_start = time.perf_counter(), cpu_seconds()
    call = ENGINES[engine].make(job)
    results = results_of(call())
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu_start
    row = Cost(work.model, engine, work.dtype, work.batch, peak_bytes=resident("VmHWM") - before)
    row.compile_s, row.compile_cpu_s = without_a_call(seconds, call), without_a_call(cpu, call, time.process_time)
    check(results, expected, job.dtype)
    if ENGINES[engine].save:
        ENGINES[engine].save(job)
    files = [path for path in job.folder.iterdir() if path.name.endswith(ENGINES[engine].suffixes or ("/",))]
    row.file_bytes = sum(path.stat().st_size for path in files) or None
    return row


def load(work: Work, engine: str, folder: str) -> Cost:
    job = job_for(engine, replace(work.job(folder), module=torch.nn.Module()))
    warm_up(engine, job)
    before = start_of_peak()
    start = time.perf_counter()
    call = ENGINES[engine].load(job)
    call()
    seconds = time.perf_counter() - start
    peak = resident("VmHWM") - before
    return Cost(work.model, engine, work.dtype, work.batch, load_s=without_a_call(seconds, call), load_peak_bytes=peak)


def without_a_call(seconds: float, call: Call, clock: Callable[[], float] = time.perf_counter) -> float:
    """What came before the first results, and what the first call took longer than others."""
    return max(seconds - min(seconds_of(call, 1, clock=clock) for _ in range(3)), 0.0)


def cpu_seconds() -> float:
    """Of this process and all that it started: Inductor has others compile."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it may have ended
            values = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid], ticks[pid] = int(values[1]), sum(map(int, values[11:15]))  # with children that have ended
    family = [pid for pid in ticks if os.getpid() in ancestors_of(pid, parents)]
    return sum(ticks[pid] for pid in family) / os.sysconf("SC_CLK_TCK")


def ancestors_of(pid: int, parents: dict[int, int]) -> set[int]:
    """And itself."""
    found = set()
    while pid in parents and pid not in found:
        found.add(pid)
        pid = parents[pid]
    return found


class Increment(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def warm_up(engine: str, job: Job) -> None:
    """What an engine imports, starts and finds out when it is first used is no part of what a model costs."""
    with tempfile.TemporaryDirectory() as folder:
        cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", folder)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        ENGINES[engine].make(Job(Increment(), (torch.ones(2),), job.threads, Path(folder)))()
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    torch._dynamo.reset()


# ---- memory ---------------------------------------------------------------------------------------------------------


def start_of_peak() -> int:
    """Forgets the peak of memory so far; the bytes that are in use now."""
    forget_peak()
    return resident("VmRSS")


def answer(question: dict) -> list[dict]:
    asked = {"latency": latency, "cost": cost, "load": load}[question.pop("what")]
    with torch.no_grad():
        found = asked(Work(**question.pop("work")), **question)
    return [asdict(row) for row in (found if isinstance(found, list) else [found])]


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
