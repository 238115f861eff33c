"""Whether calls of a training stay within their budget: what the process holds, beside what it was allowed.

    make bench-training-budget ARGS="--model gpt2"

Each model trains by forward, backward and update with several budgets: all states, and a part of what the calls need
besides by nature. A process of its own compiles the programs, runs them, and then counts the memory that it takes when
it runs them again. A budget that cannot be kept must be an error that says so. bench/zoo_budget.py has more models.
"""

import argparse
import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import tenon
import torch
from torch import nn

from bench.memory import forget_peak, resident
from bench.training import MODELS as LARGE_MODELS
from tests.python import training_models as models

ROOT = Path(__file__).parents[1]
PARTS = (1.0, 0.7, 0.5, 0.3)
MOST = 1.05  # of the budget


def mlp() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.GELU(), nn.Dropout(0.2))]
    return nn.Sequential(*layers, nn.Linear(256, 10)), torch.randn(4096, 256), torch.randint(10, (4096,))


def lenet() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    return models.lenet(dropout=0.3), torch.randn(512, 1, 16, 16), torch.randint(10, (512,))


def encoder() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1, batch_first=True)
    model = nn.Sequential(
        nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Flatten(0, 1), nn.Linear(128, 10)
    )
    return model, torch.randn(32, 64, 128), torch.randint(10, (32 * 64,))


def norms() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    def block(width: int, channels: int) -> list[nn.Module]:
        return [nn.Conv2d(width, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2)]

    model = nn.Sequential(*block(3, 32), *block(32, 64), *block(64, 64), nn.Flatten(), nn.Linear(64 * 16, 10))
    return model, torch.randn(64, 3, 32, 32), torch.randint(10, (64,))


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor, torch.Tensor]]] = {
    **LARGE_MODELS, "mlp": mlp, "lenet": lenet, "encoder": encoder, "norms": norms
}  # fmt: skip


def trainer(name: str) -> tuple[tenon.LocalTrainingInstance, torch.Tensor, torch.Tensor]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, x, y = MODELS[name]()
    optimizer = tenon.AdamW(lr=1e-4)
    return (
        tenon.LocalTrainingInstance(model, loss="cross_entropy", optimizer=optimizer, example_inputs=(x,), threads=1),
        x,
        y,
    )


def three_steps(instance: tenon.LocalTrainingInstance, *args: torch.Tensor, **inputs: torch.Tensor) -> int:
    """The most that a call of three steps says it needs."""
    peak = 0
    for _ in range(3):
        outputs = instance.forward(*args, **inputs)
        peak = max(peak, instance.peak_bytes)
        instance.backward()
        peak = max(peak, instance.peak_bytes)
        instance.update()
        peak = max(peak, instance.peak_bytes)
        del outputs
    return peak


def need(name: str) -> dict[str, int]:
    instance, x, y = trainer(name)
    return {
        "peak": three_steps(instance, x, target=y),
        "states": sum(state.nbytes for state in instance.states.values()),
    }


def held(name: str, budget: int) -> dict[str, int | str]:
    instance, x, y = trainer(name)
    try:
        instance.initialize(budget)
        peak = three_steps(instance, x, target=y)  # compiles; all states are in memory then
    except tenon.Error as error:
        return {"error": str(error)}
    ctypes.CDLL(None).malloc_trim(0)
    before = resident("VmRSS") - sum(state.nbytes for state in instance.states.values())
    forget_peak()
    three_steps(instance, x, target=y)
    return {"peak": peak, "held": resident("VmHWM") - before}


def in_process(*arguments: object) -> dict:
    command = [sys.executable, "-W", "ignore", "-m", "bench.training_budget", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return json.loads(done.stdout.splitlines()[-1])


def report(name: str, parts: tuple[float, ...]) -> None:
    natural = in_process("--model", name, "--need")
    for part in parts:
        budget = natural["states"] + int(part * (natural["peak"] - natural["states"]))
        found = in_process("--model", name, "--held", budget)
        line = f"{name:<10} {part:4.0%} {budget / 2**20:8.1f} MiB"
        if "error" in found:
            print(f"{line}   refused: {found['error'].split('error: ')[-1][:120]}", flush=True)
            continue
        ratio = found["held"] / budget
        verdict = "PASS" if ratio <= MOST and found["peak"] <= budget else "MISS"
        print(f"{line}   held {found['held'] / 2**20:8.1f} MiB, {ratio:.2f} of it {verdict} (bar {MOST})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-training-budget", description=__doc__)
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("--part", type=float, action="append")
    parser.add_argument("--need", action="store_true", help="print what calls need by nature, and end")
    parser.add_argument("--held", type=int, help="print what the process holds with this budget, and end")
    options = parser.parse_args()
    if options.need:
        print(json.dumps(need(options.model[0])))
    elif options.held is not None:
        print(json.dumps(held(options.model[0], options.held)))
    else:
        for name in options.model or MODELS:
            report(name, tuple(options.part or PARTS))


if __name__ == "__main__":
    main()
