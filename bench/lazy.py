"""Training on device "lazy": Tenon beside PyTorch's own TorchScript backend, and beside eager.

    make bench-lazy ARGS="--width 128 --optimizer sgd"

A transformer of 2 layers. Each engine is a process of its own, for a process has one lazy device; they take turns, a
few steps each, and ratios are medians over rounds. Memory is the most that a process holds from the first step on,
above what it held after a few steps of a narrow model, when everything was imported and warm. With AdamW, whose numbers
change from step to step, PyTorch's backend compiles at each step; with SGD it does not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

OPTIMIZERS = ("sgd", "adamw")
ENGINES = ("eager", "torchscript", "tenon")
LEAST_SPEED = 1.5  # of TorchScript's
MOST_MEMORY = 1.1  # of eager's
STEPS = 3  # of a turn
WORDS = 1000


# ---- an engine, in its process --------------------------------------------------------------------------------------


def stepper(engine: str, options: argparse.Namespace, width: int) -> Callable[[], None]:
    import torch

    from tests.python import lazy_models

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    device = "cpu" if engine == "eager" else "lazy"
    model = lazy_models.Transformer(WORDS, width, 4, options.length).to(device)
    x = torch.randint(WORDS, (options.batch, options.length)).to(device)
    y = torch.randint(WORDS, (options.batch * options.length,)).to(device)
    optimizer = lazy_models.OPTIMIZERS[options.optimizer](model.parameters())

    def one() -> None:
        lazy_models.step(model, optimizer, x, y)
        if engine != "eager":
            torch._lazy.mark_step(wait=True)

    return one


def start(engine: str) -> None:
    import torch._lazy.ts_backend

    if engine == "torchscript":
        torch._lazy.ts_backend.init()
    if engine == "tenon":
        import tenon.lazy

        tenon.lazy.init()


def serve(engine: str, options: argparse.Namespace) -> None:
    """Answers each line of the input: with the seconds of a turn, or the most bytes held so far."""
    from bench.memory import forget_peak, resident

    start(engine)
    warm = stepper(engine, options, 32)
    for _ in range(4):
        warm()
    before = resident("VmRSS")
    forget_peak()
    step = stepper(engine, options, options.width)
    for _ in range(12):
        step()
    for request in sys.stdin:
        print(json.dumps(seconds_of(step) if request.strip() == "time" else resident("VmHWM") - before), flush=True)


def seconds_of(step: Callable[[], object]) -> float:
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    return (time.perf_counter() - begin) / STEPS


# ---- the comparison -------------------------------------------------------------------------------------------------


class Engine:
    def __init__(self, name: str, optimizer: str) -> None:
        command = [sys.executable, "-W", "ignore", __file__, *sys.argv[1:], "--optimizer", optimizer, "--serve", name]
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what: str) -> float:
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def verdict(ratio: float, passes: bool, bar: float) -> str:
    return f"{ratio:.2f}x {'PASS' if passes else 'MISS'} (bar {bar})"


def compare(options: argparse.Namespace, optimizer: str) -> None:
    engines = [Engine(name, optimizer) for name in ENGINES]
    for engine in engines:
        engine.ask("time")  # one after the other: none starts while another is measured
    times = {engine.name: [] for engine in engines}
    for _ in range(options.rounds):
        for engine in engines:
            times[engine.name].append(engine.ask("time"))
    held = {engine.name: engine.ask("memory") for engine in engines}
    for engine in engines:
        engine.end()
    print(f"{optimizer}, {options.threads} thread{'s' if options.threads > 1 else ''}")
    for name in ENGINES:
        ratio = statistics.median(other / ours for other, ours in zip(times[name], times["tenon"], strict=True))
        line = f"  {name:<12} {statistics.median(times[name]) * 1e3:8.1f} ms a step  {held[name] / 2**20:8.1f} MiB"
        if name == "torchscript":
            line += f"   tenon is {verdict(ratio, ratio >= LEAST_SPEED, LEAST_SPEED)} as fast"
        if name == "eager":
            memory = held["tenon"] / held["eager"]
            line += f"   tenon is {ratio:.2f}x as fast, and holds {verdict(memory, memory <= MOST_MEMORY, MOST_MEMORY)}"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-lazy", description=__doc__)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, help="both unless given")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options)
    else:
        for optimizer in [options.optimizer] if options.optimizer else OPTIMIZERS:
            compare(options, optimizer)


if __name__ == "__main__":
    main()
