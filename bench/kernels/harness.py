"""Compiles, checks and times one row, Tenon and torch interleaved.

A round times both, in turns of who is first: after a pause, in which the other's threads fall asleep, and calls to
warm up, as many calls as take BLOCK_S. What is compared is the ratio of a round; the row has the median of the rounds.

One thread is timed by the CPU time of the process, which does not count while others run. Several are timed by the
clock, and a round in which our threads waited for a CPU then says nothing: OpenMP's threads, which spin, take 50 times
as long. Such rounds are dropped and repeated. A row that has too few others is disturbed: it compares the fastest of
each, and no bar counts it.

Nothing is allocated in what is timed. Where torch has no out=, its result takes the place of the one before: freed
memory is kept.
"""

import contextlib
import ctypes
import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import tenon
import tenon.loops as tl
import torch

from bench.kernels.case import Case, Inputs, type_of

BLOCK_S = 0.002  # less than a busy system lets run in one go
WARM_UP_S = 0.0005
MOST_WAITING = 0.05  # of a block, in a round that counts
FEWEST_ROUNDS = 3
CHUNKS = 32  # of a block, after which it looks at the time
PAUSE_S = 0.001
PAUSE_OF_POOLS_S = 0.012  # idle threads of OpenMP spin for some milliseconds
LONG_S = 0.05  # a call that takes so long needs none to warm up
HOPELESS_S = 5.0  # a kernel that takes so long is run once
PRECISE_FLOPS = 1e9  # up to here the reference is f64
TOLERANCES = {torch.float32: (1e-4, 2e-5), torch.bfloat16: (2e-2, 1e-2)}  # relative; of the largest value


@dataclass
class Effort:
    rounds: int = 9
    seconds: float = 1.5  # of a row: fewer rounds where they take long or are disturbed


@dataclass
class Row:
    family: str
    name: str
    size: str
    dtype: str
    threads: int
    count: int
    status: str = "ok"  # or "wrong" (not what torch computes) or "error" (no kernel)
    message: str = ""
    rival: str = ""
    ratio: float | None = None  # torch's time over Tenon's
    ratio_low: float | None = None  # of the rounds
    ratio_high: float | None = None
    tenon_s: float | None = None
    torch_s: float | None = None
    rounds: int = 0
    disturbed: bool = False  # other processes ran in most rounds
    flops: int = 0
    bytes: int = 0
    error: float | None = None  # the largest difference, in tolerances
    compile_s: float | None = None  # lower, schedule and compile


class Block(NamedTuple):
    seconds: float  # of one call
    quiet: bool  # nothing else wanted our CPUs


class WrongResultError(Exception):
    """A result that is not what the reference says."""


def set_threads(threads: int) -> None:
    torch.set_num_threads(threads)
    tl.set_threads(threads)
    time.sleep(PAUSE_OF_POOLS_S)


def keep_freed_memory() -> None:
    """Large arrays are not given back to the system when they are freed, to be cleared and mapped again."""
    trim_threshold, mmap_max = -1, -4  # of mallopt, in glibc
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, 2**31 - 1)


def measure(case: Case, thread_counts: list[int], effort: Effort) -> list[Row]:
    """One row for each number of threads. What goes wrong is a row, too."""
    rows = [
        Row(case.family, case.name, case.size, case.dtype, threads, case.count, flops=case.flops)
        for threads in thread_counts
    ]
    inputs = case.inputs()
    with torch.inference_mode():
        expected = reference(case, inputs)
        for row in rows:
            set_threads(row.threads)
            row.bytes = sum(tensor.nbytes for tensor in (*inputs.values(), empty_output(case, expected)))
            try:
                measure_row(row, case, inputs, expected, effort)
            except WrongResultError as wrong:
                row.status, row.message = "wrong", str(wrong)
            except Exception as error:
                row.status, row.message = "error", first_line(error)
    return rows


def first_line(error: Exception) -> str:
    line = str(error).strip().split("\n")[0]
    return line.split(": error: ", 1)[-1] or type(error).__name__  # without our own source location


def measure_row(row: Row, case: Case, inputs: Inputs, expected: torch.Tensor, effort: Effort) -> None:
    output, rival_output = (poisoned(empty_output(case, expected)) for _ in range(2))
    start = time.perf_counter()
    run = compile_kernel(case, inputs, output)
    row.compile_s = time.perf_counter() - start  # before torch's threads are awake
    rivals = case.rivals(inputs, rival_output)
    for name, rival in rivals.items():
        if difference(rival(), expected) > 1:
            raise RuntimeError(f"torch's {name} is not what the reference says: the row is not fair")
    first = seconds_of(run, 1)
    row.error = difference(output, expected)
    if not row.error <= 1:
        raise WrongResultError(f"a result differs from torch's by {row.error:.3g} times what is allowed")
    row.rival, rival = fastest(rivals)
    time_rounds(row, run, rival, first, effort)


# ---- one kernel ------------------------------------------------------------------------------------------------------


def compile_kernel(case: Case, inputs: Inputs, output: torch.Tensor) -> Callable[[], None]:
    """A call that reads the inputs and writes the output. The one place that knows how Tenon is used."""
    graph = tenon.Graph(case.family)
    values = {name: graph.input(name, type_of(tensor)) for name, tensor in inputs.items()}
    graph.output(case.graph(*values.values()))
    constants = {slot: tensor for slot, (name, tensor) in enumerate(inputs.items()) if name in case.constants}
    kernel = tl.compile(tl.schedule(tl.lower(graph), "cpu"), "cpu", constants)
    return kernel.prepare([*(tensor for name, tensor in inputs.items() if name not in case.constants), output])


def reference(case: Case, inputs: Inputs) -> torch.Tensor:
    is_precise = case.flops <= PRECISE_FLOPS or case.dtype == "i8"  # f64 adds integers exactly
    precision = torch.float64 if is_precise else torch.float32
    return case.reference(*(widened(tensor, precision) for tensor in inputs.values()))


def widened(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    is_index = tensor.dtype == torch.int64
    return tensor if is_index else tensor.to(dtype)


def empty_output(case: Case, expected: torch.Tensor) -> torch.Tensor:
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "i8": torch.int32}[case.dtype]
    return torch.empty(expected.shape, dtype=dtype)


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """What no kernel leaves behind, so that an element that is not written shows."""
    return tensor.fill_(float("nan") if tensor.is_floating_point() else -123456789)


def difference(result: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest, in units of what is allowed; infinite for a NaN."""
    if not result.is_floating_point():
        return 0.0 if torch.equal(result.long(), expected.long()) else float("inf")
    relative, absolute = TOLERANCES[result.dtype]
    allowed = expected.abs().mul_(relative).add_(absolute * float(expected.abs().max()))
    worst = float(result.to(expected.dtype).sub_(expected).abs_().div_(allowed).max())
    return worst if worst == worst else float("inf")


# ---- time ------------------------------------------------------------------------------------------------------------


def seconds_of(
    call: Callable[[], object], calls: int, most: float = math.inf, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Of one call. Takes no more than `most` seconds in all, or little more."""
    chunk, done = math.ceil(calls / CHUNKS), 0
    deadline = time.perf_counter() + most
    start = clock()
    while done < calls and (done == 0 or time.perf_counter() < deadline):
        for _ in repeat(None, chunk):
            call()
        done += chunk
    return (clock() - start) / done


class Side(NamedTuple):
    call: Callable[[], object]
    calls: int  # of a block
    warm_up: int  # calls before it


def calibrated(call: Callable[[], object]) -> Side:
    """As many calls as take BLOCK_S where nothing disturbs them."""
    once = min(seconds_of(call, 1), seconds_of(call, 1))
    for _ in range(2):
        if once < LONG_S:
            once = min(once, seconds_of(call, math.ceil(BLOCK_S / 4 / once), most=BLOCK_S))
    warm_up = math.ceil(WARM_UP_S / once) if once < LONG_S else 0
    return Side(call, max(1, round(BLOCK_S / once)), warm_up)


def fastest(rivals: dict[str, Callable[[], object]]) -> tuple[str, Callable[[], object]]:
    best = dict.fromkeys(rivals, math.inf)
    deadline = time.perf_counter() + LONG_S
    for turn in range(20 if len(rivals) > 1 else 0):
        if turn > 0 and time.perf_counter() > deadline:
            break
        for name, rival in rivals.items():
            best[name] = min(best[name], seconds_of(rival, 10, most=WARM_UP_S))
    name = min(best, key=best.__getitem__)
    return name, rivals[name]


def waited() -> float:
    """The seconds that our threads waited for a CPU, as Linux counts them."""
    total = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # a thread may end
            total += int(task.read_text().split()[1])
    return total / 1e9


def block(side: Side, threads: int) -> Block:
    time.sleep(PAUSE_S if threads == 1 else PAUSE_OF_POOLS_S)
    if side.warm_up > 0:
        seconds_of(side.call, side.warm_up, most=BLOCK_S)
    if threads == 1:
        return Block(seconds_of(side.call, side.calls, clock=time.process_time), quiet=True)
    start, waited_before = time.perf_counter(), waited()
    seconds = seconds_of(side.call, side.calls, most=4 * BLOCK_S)
    return Block(seconds, quiet=waited() - waited_before <= MOST_WAITING * (time.perf_counter() - start))


def time_rounds(row: Row, ours: Callable, theirs: Callable, first: float, effort: Effort) -> None:
    if first > HOPELESS_S:
        return keep(row, [(Block(first, True), block(calibrated(theirs), row.threads))])
    sides = (calibrated(ours), calibrated(theirs))
    rounds: list[tuple[Block, Block]] = []
    deadline = time.perf_counter() + effort.seconds
    gc.disable()
    try:
        while sum(map(is_quiet, rounds)) < effort.rounds and (
            len(rounds) < FEWEST_ROUNDS or time.perf_counter() < deadline
        ):
            rounds.append(one_round(*sides, row.threads, ours_first=len(rounds) % 2 == 0))
    finally:
        gc.enable()
    return keep(row, rounds)


def one_round(ours: Side, theirs: Side, threads: int, ours_first: bool) -> tuple[Block, Block]:
    if ours_first:
        return block(ours, threads), block(theirs, threads)
    theirs_block = block(theirs, threads)
    return block(ours, threads), theirs_block


def is_quiet(both: tuple[Block, Block]) -> bool:
    return both[0].quiet and both[1].quiet


def keep(row: Row, rounds: list[tuple[Block, Block]]) -> None:
    quiet = list(filter(is_quiet, rounds))
    row.disturbed = len(quiet) < min(FEWEST_ROUNDS, len(rounds))
    rounds = rounds if row.disturbed else quiet
    ours, theirs = ([both[side].seconds for both in rounds] for side in (0, 1))
    ratios = [torch_s / tenon_s for tenon_s, torch_s in zip(ours, theirs, strict=True)]
    typical = min if row.disturbed else statistics.median
    row.rounds, row.tenon_s, row.torch_s = len(rounds), typical(ours), typical(theirs)
    row.ratio = row.torch_s / row.tenon_s if row.disturbed else typical(ratios)
    row.ratio_low, row.ratio_high = min(ratios), max(ratios)
