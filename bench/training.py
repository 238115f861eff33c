"""Training steps beside PyTorch's: a GPT-2 of 4 layers (d=256, 128 tokens, batch 8) and ResNet-18 (64x64, batch 8).

    make bench-training ARGS="--model gpt2 --threads 1"

Speed: eager, torch.compile with Inductor and a LocalTrainingInstance do the same steps in turns, in one process;
ratios are medians over rounds. Memory: each in a process of its own, eager with the model, Tenon with the file that
`trainer.save` wrote; the most that it holds during steps above what it held when everything was imported.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from torch import nn

from bench.memory import forget_peak, resident
from tests.python import training_models as models

ROOT = Path(__file__).parents[1]
ENGINES = ("eager", "inductor", "tenon")
BARS = {"eager": 1.3, "inductor": 1.0}
MOST_MEMORY = 0.8  # of eager's
BUDGET, MOST_SLOWER = 0.6, 1.35


def gpt2() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    tokens, words = 128, 1024
    model = models.gpt2(width=256, positions=tokens, vocabulary=words)
    return model, torch.randint(words, (8, tokens)), torch.randint(words, (8 * tokens,))


def resnet18() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    config = transformers.ResNetConfig(
        embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", num_labels=1000
    )
    model = transformers.ResNetForImageClassification(config)
    return models.Logits(model), torch.randn(8, 3, 64, 64), torch.randint(1000, (8,))


MODELS = {"gpt2": gpt2, "resnet18": resnet18}


def stepper(engine: str, model: nn.Module, x: torch.Tensor, y: torch.Tensor, threads: int) -> Callable[[], float]:
    """A step of AdamW, and its loss."""
    if engine == "tenon":
        return tenon_stepper(model, x, y, threads)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    forward = torch.compile(model) if engine == "inductor" else model

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def tenon_stepper(model, x, y, threads, budget: float | None = None) -> Callable[[], float]:
    """`budget` is a part of what a step needs by nature."""
    import tenon

    def trainer() -> tenon.LocalTrainingInstance:
        return tenon.LocalTrainingInstance(
            model, loss="cross_entropy", optimizer=tenon.AdamW(lr=1e-4), example_inputs=(x,), threads=threads
        )

    instance = trainer()
    if budget is not None:
        instance.step(x, target=y)
        states = sum(data.nbytes for name, data in instance.states.items() if not name.startswith("gradient."))
        natural = instance.peak_bytes - states
        instance = trainer()
        instance.initialize(states + int(natural * budget))
    return lambda: instance.step(x, target=y).item()


def speed(name: str, engines: list[str], threads: int, rounds: int) -> dict[str, list[float]]:
    """Seconds a step, of each round. The three start from the same weights, and must agree on the losses."""
    torch.set_num_threads(threads)
    steps, losses = {}, {}
    for engine in engines:
        torch.manual_seed(0)
        model, x, y = MODELS[name]()
        steps[engine] = (
            tenon_stepper(model, x, y, threads, BUDGET)
            if engine == "tenon, budget"
            else stepper(engine, model, x, y, threads)
        )
        losses[engine] = [steps[engine]() for _ in range(3)]
    for engine in engines[1:]:
        torch.testing.assert_close(losses[engine], losses[engines[0]], rtol=1e-3, atol=1e-3)
    times: dict[str, list[float]] = {engine: [] for engine in engines}
    for _ in range(rounds):
        for engine, step in steps.items():
            start = time.perf_counter()
            step()
            times[engine].append(time.perf_counter() - start)
    return times


# ---- memory ---------------------------------------------------------------------------------------------------------


def memory_here(name: str, engine: str, path: str) -> int:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, x, y = MODELS[name]()  # which imports what it needs
    if engine == "tenon":
        import tenon

        del model
        before = resident("VmRSS")
        program = tenon.load(path).entry("step")

        def step() -> None:
            program(x, y)
    else:
        before = resident("VmRSS") - sum(p.numel() * p.element_size() for p in model.parameters())
        step = stepper(engine, model, x, y, 1)
    for _ in range(2):
        step()
    forget_peak()
    for _ in range(3):
        step()
    return resident("VmHWM") - before


def memory(name: str, engine: str, path: str) -> int:
    command = [sys.executable, "-W", "ignore", "-m", "bench.training", "--model", name, "--memory-of", engine, path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return json.loads(done.stdout.splitlines()[-1])


def write_training(name: str, path: str) -> None:
    import tenon

    model, x, _ = MODELS[name]()
    trainer = tenon.LocalTrainingInstance(
        model, loss="cross_entropy", optimizer=tenon.AdamW(lr=1e-4), example_inputs=(x,), threads=1
    )
    trainer.save(path)


# ---- the table ------------------------------------------------------------------------------------------------------


def verdict(value: float, passes: bool) -> str:
    return f"{value:5.2f}x {'PASS' if passes else 'MISS'}"


def report(name: str, options: argparse.Namespace) -> dict:
    engines = [*(options.engine or ENGINES), *(["tenon, budget"] if options.budget else [])]
    result = {"model": name, "speed": {}, "memory": {}}
    for threads in options.threads or (1, 2):
        times = speed(name, engines, threads, options.rounds)
        result["speed"][threads] = times
        print(f"{name}, {threads} thread{'s' if threads > 1 else ''}")
        for engine in engines:
            line = f"  {engine:<14} {statistics.median(times[engine]) * 1e3:8.1f} ms a step"
            if engine != "tenon" and "tenon" in times:
                ratio = statistics.median(a / b for a, b in zip(times[engine], times["tenon"], strict=True))
                bar = BARS.get(engine)
                line += f"   tenon is {verdict(ratio, ratio >= bar)} (bar {bar})" if bar else f"   {ratio:.2f}x"
                if engine == "tenon, budget":
                    line += f" {'PASS' if ratio <= MOST_SLOWER else 'MISS'} (bar {MOST_SLOWER})"
            print(line, flush=True)
    if not options.no_memory:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/{name}.tenon"
            write_training(name, path)
            held = {engine: memory(name, engine, path) for engine in ("eager", "tenon")}
        result["memory"] = held
        ratio = held["tenon"] / held["eager"]
        sizes = ", ".join(f"{engine} {bytes_ / 2**20:.0f} MiB" for engine, bytes_ in held.items())
        print(f"  memory: {sizes}: {verdict(ratio, ratio <= MOST_MEMORY)} (bar {MOST_MEMORY})")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-training", description=__doc__)
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--threads", type=int, action="append", help="1 and 2 unless given")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", action="store_true", help="also at 60% of the memory that a step needs by nature")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--memory-of", nargs=2, help="print what this engine holds, with this file, and end")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.memory_of:
        print(memory_here(options.model[0], *options.memory_of))
        return
    results = [report(name, options) for name in options.model or MODELS]
    if options.json:
        options.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
