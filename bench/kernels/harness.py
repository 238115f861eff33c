"""Compiles, checks and times one row, Tenon and torch interleaved.

A round times both, in turns of who is first: after a pause, in which the other's threads fall asleep, and calls to
warm up, as many calls as take BLOCK_S. What is compared is the ratio of a round; the row has the median of the rounds.
"""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat

import tenon
import tenon.loops as tl
import torch

from bench.kernels.case import Case, Inputs, type_of

BLOCK_S = 0.006
WARM_UP_S = 0.002
PAUSE_S = {1: 0.001}  # by threads: a lone thread leaves no other to fall asleep
PAUSE_OF_POOLS_S = 0.012  # idle threads of OpenMP spin for some milliseconds
HOPELESS_S = 5.0  # a kernel that takes so long is run once
PRECISE_FLOPS = 1e9  # up to here the reference is f64
TOLERANCES = {torch.float32: (1e-4, 2e-5), torch.bfloat16: (2e-2, 1e-2)}  # relative; of the largest value


@dataclass
class Effort:
    rounds: int = 9
    seconds: float = 2.0  # of a row: fewer rounds where they take long, but at least 3


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
    flops: int = 0
    bytes: int = 0
    error: float | None = None  # the largest difference, in tolerances
    compile_s: float | None = None  # lower, schedule and compile


class Wrong(Exception):
    """A result that is not what the reference says."""


def set_threads(threads: int) -> None:
    torch.set_num_threads(threads)
    tl.set_threads(threads)


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
            row.bytes = sum(tensor.nbytes for tensor in (*inputs.values(), expected_like(case, expected)))
            try:
                measure_row(row, case, inputs, expected, effort)
            except Wrong as wrong:
                row.status, row.message = "wrong", str(wrong)
            except (tenon.Error, tenon.InternalError, RuntimeError) as error:
                row.status, row.message = "error", str(error).strip().split("\n")[0]
    return rows


def measure_row(row: Row, case: Case, inputs: Inputs, expected: torch.Tensor, effort: Effort) -> None:
    output, rival_output = (poisoned(expected_like(case, expected)) for _ in range(2))
    rivals = case.rivals(inputs, rival_output)
    for name, rival in rivals.items():
        if difference(rival(), expected) > 1:
            raise RuntimeError(f"torch's {name} is not what the reference says: the row is not fair")
    start = time.perf_counter()
    run = compile_kernel(case, inputs, output)
    row.compile_s = time.perf_counter() - start
    first = seconds_of(run, 1)
    row.error = difference(output, expected)
    if not row.error <= 1:
        raise Wrong(f"a result differs from torch's by {row.error:.3g} times what is allowed")
    row.rival, rival = fastest(rivals)
    time_rounds(row, run, rival, first, effort)


# ---- one kernel ------------------------------------------------------------------------------------------------------


def compile_kernel(case: Case, inputs: Inputs, output: torch.Tensor) -> Callable[[], None]:
    """A call that reads the inputs and writes the output. The one place that knows how Tenon is used."""
    graph = tenon.Graph(case.family)
    values = {name: graph.input(name, type_of(tensor)) for name, tensor in inputs.items()}
    graph.output(case.graph(*values.values()))
    kernel = tl.compile(tl.schedule(tl.lower(graph), "cpu"), "cpu")
    return kernel.prepare([*inputs.values(), output])


def reference(case: Case, inputs: Inputs) -> torch.Tensor:
    precision = torch.float64 if case.flops <= PRECISE_FLOPS else torch.float32
    if case.dtype == "i8":
        precision = torch.int32
    return case.reference(*(widened(tensor, precision) for tensor in inputs.values()))


def widened(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    is_index = tensor.dtype == torch.int64
    return tensor if is_index else tensor.to(dtype)


def expected_like(case: Case, expected: torch.Tensor) -> torch.Tensor:
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "i8": torch.int32}[case.dtype]
    return torch.empty(0, dtype=dtype).new_empty(expected.shape)


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


def seconds_of(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in repeat(None, calls):
        call()
    return (time.perf_counter() - start) / calls


def calls_for(call: Callable[[], object], seconds: float) -> int:
    """How many calls take so long, after a few to warm up."""
    once = seconds_of(call, 1)
    if once < seconds:
        once = min(once, seconds_of(call, max(1, min(100, int(seconds / 4 / once)))))
    return max(1, round(seconds / once))


def fastest(rivals: dict[str, Callable[[], object]]) -> tuple[str, Callable[[], object]]:
    if len(rivals) == 1:
        return next(iter(rivals.items()))
    calls = {name: calls_for(rival, WARM_UP_S) for name, rival in rivals.items()}
    best = {name: min(seconds_of(rivals[name], calls[name]) for _ in range(5)) for name in rivals}
    name = min(best, key=best.__getitem__)
    return name, rivals[name]


def block(call: Callable[[], object], calls: int, threads: int) -> float:
    time.sleep(PAUSE_S.get(threads, PAUSE_OF_POOLS_S))
    seconds_of(call, max(1, round(calls * WARM_UP_S / BLOCK_S)))
    return seconds_of(call, calls)


def time_rounds(row: Row, ours: Callable, theirs: Callable, first: float, effort: Effort) -> None:
    if first > HOPELESS_S:
        return keep(row, [first], [block(theirs, 1, row.threads)])
    calls = (calls_for(ours, BLOCK_S), calls_for(theirs, BLOCK_S))
    times: tuple[list[float], list[float]] = ([], [])
    gc.disable()
    try:
        deadline = time.perf_counter() + effort.seconds
        for turn in range(effort.rounds):
            if turn >= 3 and time.perf_counter() > deadline:
                break
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                times[side].append(block((ours, theirs)[side], calls[side], row.threads))
    finally:
        gc.enable()
    return keep(row, *times)


def keep(row: Row, ours: list[float], theirs: list[float]) -> None:
    ratios = [torch_s / tenon_s for tenon_s, torch_s in zip(ours, theirs, strict=True)]
    row.rounds, row.ratio = len(ratios), statistics.median(ratios)
    row.ratio_low, row.ratio_high = min(ratios), max(ratios)
    row.tenon_s, row.torch_s = statistics.median(ours), statistics.median(theirs)
