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
from bench.models.engines import ENGINES, TENON, Call, Engine, Job, results_of
from bench.models.rounds import Effort, compare, time_in_turns, typical

TOLERANCE = 1e-3  # of the largest value


@dataclass
class Latency:
    """One engine on one model. `ratio` is its time over Tenon's."""

    model: str
    engine: str
    threads: int
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
    error: str = ""
    compile_s: float | None = None  # from the module to the first results but for a call, with no cache on the disk
    compile_cpu_s: float | None = None  # the same in CPU time, of all processes that took part
    peak_bytes: int | None = None  # of memory meanwhile, beyond the module and its arguments
    load_s: float | None = None  # likewise from a file
    load_peak_bytes: int | None = None
    file_bytes: int | None = None


class WrongResultError(Exception):
    """Results that are not those of PyTorch eager."""


def job_of(model: str, threads: int, small: bool, folder: str) -> Job:
    torch.set_num_threads(threads)
    module, args = CASES[model].make(small)
    return Job(module, args, threads, Path(folder))


def job_for(engine: str, job: Job) -> Job:
    """With a folder for its files alone."""
    own = job.folder / engine
    own.mkdir(exist_ok=True)
    return replace(job, folder=own)


def check(results: Sequence[Any], expected: Sequence[torch.Tensor]) -> None:
    if len(results) != len(expected):
        raise WrongResultError(f"{len(results)} results where eager has {len(expected)}")
    for mine, theirs in zip(results, expected, strict=True):
        difference = float((torch.as_tensor(mine) - theirs).abs().max() / theirs.abs().max())
        if not difference <= TOLERANCE:
            raise WrongResultError(f"a result differs from eager's by {difference:.2g} of the largest value")


def made(engine: Engine, job: Job, expected: Sequence[torch.Tensor]) -> Call:
    call = engine.make(job)
    check(results_of(call()), expected)
    return call


# ---- what is asked for ----------------------------------------------------------------------------------------------


def latency(
    model: str, engines: list[str], threads: int, small: bool, folder: str, rounds: int, block_s: float
) -> list[Latency]:
    job = job_of(model, threads, small, folder)
    rows = {name: Latency(model, name, threads) for name in engines}
    expected = [result.clone() for result in results_of(job.module(*job.args))]
    calls = {}
    for name in engines:
        try:
            calls[name] = made(ENGINES[name], job_for(name, job), expected)
        except Exception as error:
            rows[name].error = f"{type(error).__name__}: {first_line(error)}"
    blocks = time_in_turns(calls, threads, Effort(rounds, block_s))
    for name, own in blocks.items():
        rows[name].seconds = typical(own)
        if TENON.name in blocks:
            for field, value in asdict(compare(blocks[TENON.name], own)).items():
                setattr(rows[name], field, value)
    return list(rows.values())


def cost(model: str, engine: str, threads: int, small: bool, folder: str) -> Cost:
    job = job_for(engine, job_of(model, threads, small, folder))
    expected = [result.clone() for result in results_of(job.module(*job.args))]
    warm_up(engine, job)
    before = start_of_peak()
    start, cpu_start = time.perf_counter(), cpu_seconds()
    call = ENGINES[engine].make(job)
    results = results_of(call())
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu_start
    row = Cost(model, engine, peak_bytes=resident("VmHWM") - before)
    row.compile_s, row.compile_cpu_s = without_a_call(seconds, call), without_a_call(cpu, call, time.process_time)
    check(results, expected)
    if ENGINES[engine].save:
        ENGINES[engine].save(job)
    files = [path for path in job.folder.iterdir() if path.name.endswith(ENGINES[engine].suffixes or ("/",))]
    row.file_bytes = sum(path.stat().st_size for path in files) or None
    return row


def load(model: str, engine: str, threads: int, small: bool, folder: str) -> Cost:
    _, args = CASES[model].make(small)
    job = job_for(engine, Job(torch.nn.Module(), args, threads, Path(folder)))
    warm_up(engine, job)
    before = start_of_peak()
    start = time.perf_counter()
    call = ENGINES[engine].load(job)
    call()
    seconds = time.perf_counter() - start
    peak = resident("VmHWM") - before
    return Cost(model, engine, load_s=without_a_call(seconds, call), load_peak_bytes=peak)


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
        found = asked(**question)
    return [asdict(row) for row in (found if isinstance(found, list) else [found])]


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
