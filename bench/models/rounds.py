"""Times several calls in turns, and compares them.

In a round each has its block, in an order that turns from round to round: a pause, in which the others' threads fall
asleep, a call to warm up, and calls for a while, of which the median counts. What is compared is the ratio of a round;
what is told is the median of the rounds.

One thread is timed by the CPU time of the process, which stands still while others run. Several are timed by the clock;
a block in which our threads waited for a CPU then says little, and a comparison that has too few other rounds is
disturbed: it is between the fastest of each.
"""

import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.kernels.harness import FEWEST_ROUNDS, MOST_WAITING, Block, seconds_of, waited

PAUSE_S = 0.02  # idle threads of OpenMP and of ONNX Runtime spin for some milliseconds
SAMPLES = 15  # at most, of a block


@dataclass(frozen=True)
class Effort:
    rounds: int = 7
    block_s: float = 0.2
    fewest_calls: int = 3  # of a block


@dataclass(frozen=True)
class Comparison:
    ratio: float  # their time over ours
    low: float  # of the rounds
    high: float
    rounds: int
    is_disturbed: bool


def time_in_turns(calls: dict[str, Callable[[], object]], threads: int, effort: Effort) -> dict[str, list[Block]]:
    names = list(calls)
    blocks: dict[str, list[Block]] = {name: [] for name in names}
    if not names:
        return blocks
    gc.collect()
    gc.disable()
    try:
        for turn in range(effort.rounds):
            first = turn % len(names)
            for name in (*names[first:], *names[:first]):
                blocks[name].append(block(calls[name], threads, effort))
    finally:
        gc.enable()
    return blocks


def block(call: Callable[[], object], threads: int, effort: Effort) -> Block:
    time.sleep(PAUSE_S)
    once = seconds_of(call, 1)
    calls = max(effort.fewest_calls, math.ceil(effort.block_s / once))
    clock = time.process_time if threads == 1 else time.perf_counter
    sample = math.ceil(calls / SAMPLES)
    start, waited_before = time.perf_counter(), waited()
    seconds = [seconds_of(call, sample, clock=clock) for _ in range(math.ceil(calls / sample))]
    is_quiet = threads == 1 or waited() - waited_before <= MOST_WAITING * (time.perf_counter() - start)
    return Block(statistics.median(seconds), is_quiet)


def compare(ours: list[Block], theirs: list[Block]) -> Comparison:
    both = list(zip(ours, theirs, strict=True))
    quiet = [(mine, other) for mine, other in both if mine.quiet and other.quiet]
    is_disturbed = len(quiet) < min(FEWEST_ROUNDS, len(both))
    counted = both if is_disturbed else quiet
    ratios = [other.seconds / mine.seconds for mine, other in counted]
    fastest = min(other.seconds for _, other in counted) / min(mine.seconds for mine, _ in counted)
    ratio = fastest if is_disturbed else statistics.median(ratios)
    return Comparison(ratio, min(ratios), max(ratios), len(counted), is_disturbed)


def typical(blocks: list[Block]) -> float:
    """The seconds of a call."""
    quiet = [each.seconds for each in blocks if each.quiet]
    if len(quiet) < min(FEWEST_ROUNDS, len(blocks)):
        return min(each.seconds for each in blocks)
    return statistics.median(quiet)
