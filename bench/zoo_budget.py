"""Whether trainings of the zoo's architectures stay within their budget.

    make bench-zoo-budget ARGS="--only bert,vit --part 0.7"

Each architecture of `transformers` (tests/python/architectures) trains by forward, backward and update. Its budget is
all states, and a part of what the calls need besides by nature. A process of its own compiles the programs, runs them,
and then counts the memory that it takes when it runs them again. A budget that cannot be kept must be an error that
names the least one. Records are kept in build/zoo/budget.jsonl as they come: a run goes on where the last one ended.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import tenon
import torch

from bench.memory import forget_peak, resident
from bench.training_budget import MOST, three_steps
from tests.python.architectures.forks import Answer, Fork, run_all
from tests.python.architectures.making import FIRST, Made, NotMadeError, architectures, first_line, make, tensors_of

RECORDS = Path("build/zoo/budget.jsonl")
PARTS = (1.0, 0.7)
BATCHES = (64, 16, 4)  # the first that the model accepts: a small model with a small batch would measure noise
SECONDS = 600  # of CPU time, for a training
NOISE = 128 << 10  # bytes: what Python and the C library take beside the calls
REFUSED = re.compile(r"its budget is \d+: the least is \d+")


class WithLoss(torch.nn.Module):
    """A model whose result is a loss: the mean squares of all its results."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, **inputs: Any) -> torch.Tensor:
        results = [result for result in tensors_of(self.module(**inputs)) if result.is_floating_point()]
        return torch.stack([result.pow(2).mean() for result in results]).sum()


def examine(name: str, parts: tuple[float, ...]) -> dict[str, Any]:
    """What was measured; or "skipped": why PyTorch or Tenon cannot train it at all."""
    try:
        made = make(name)
    except NotMadeError as error:
        return {"skipped": f"not made: {error}"}
    made.module.train()
    inputs = _inputs_of(made)
    try:
        exported = torch.export.export(WithLoss(made.module), (), inputs, strict=False)
    except Exception as error:
        return {"skipped": f"torch.export: {first_line(error)}"}
    del made
    instance = tenon.LocalTrainingInstance(exported, loss="output", optimizer=tenon.AdamW(lr=1e-4), threads=1)
    natural = _forked(lambda: _need(instance, inputs))
    if "failure" in natural:
        return natural
    budgets = {part: natural["states"] + int(part * (natural["peak"] - natural["states"])) for part in parts}
    return natural | {
        "parts": {str(part): _forked(lambda b=budget: _held(instance, inputs, b)) for part, budget in budgets.items()}
    }


def _inputs_of(made: Made) -> dict[str, torch.Tensor]:
    for batch in BATCHES:
        inputs = made.recipe(batch, FIRST[1])
        try:
            with torch.no_grad():
                made.module(**inputs)
            return inputs
        except Exception:  # something in it has another batch
            continue
    return made.inputs


def _forked(function: Any) -> dict[str, Any]:
    answer = Fork(function, SECONDS).answer()
    return {"failure": f"{answer.failure}: {answer.why}"} if answer.failure else answer.value


def _state_bytes(instance: tenon.LocalTrainingInstance) -> int:
    return sum(state.nbytes for state in instance.states.values())


def _need(instance: tenon.LocalTrainingInstance, inputs: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {"peak": three_steps(instance, **inputs), "states": _state_bytes(instance)}


def _held(instance: tenon.LocalTrainingInstance, inputs: dict[str, torch.Tensor], budget: int) -> dict[str, Any]:
    try:
        instance.initialize(budget)
        peak = three_steps(instance, **inputs)  # compiles; all states are in memory then
    except tenon.Error as error:
        return {"budget": budget, "error": str(error)}
    ctypes.CDLL(None).malloc_trim(0)
    before = resident("VmRSS") - _state_bytes(instance)
    forget_peak()
    three_steps(instance, **inputs)
    return {"budget": budget, "peak": peak, "held": resident("VmHWM") - before}


# ---- the report -----------------------------------------------------------------------------------------------------


def verdict(found: dict[str, Any]) -> str:
    """ "PASS", "refused", or what is wrong."""
    if "failure" in found:
        return f"FAILS: {found['failure']}"
    if "error" in found:
        return "refused" if REFUSED.search(found["error"]) else f"FAILS: {found['error']}"
    holds = found["held"] <= MOST * found["budget"] + NOISE and found["peak"] <= found["budget"]
    return "PASS" if holds else "MISS"


def shown(name: str, record: dict[str, Any]) -> str:
    if "skipped" in record or "failure" in record:
        return f"{name:<28} {record.get('skipped') or 'FAILS: ' + record['failure']}"
    parts = []
    for part, found in record["parts"].items():
        ratio = f" {found['held'] / found['budget']:.2f}" if "held" in found else ""
        parts.append(f"{float(part):.0%}: {verdict(found)}{ratio}")
    return f"{name:<28} {record['peak'] / 2**20:8.1f} MiB  {'  '.join(parts)}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-zoo-budget", description=__doc__)
    parser.add_argument("--only", default="", help="architectures by name, with commas")
    parser.add_argument("--part", type=float, action="append", help=f"of what calls need by nature; {PARTS}")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th architecture, from the i-th on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no further architecture starts")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--fresh", action="store_true", help="forget the records of earlier runs")
    return parser.parse_args()


def main() -> int:
    options = _options()
    names = options.only.split(",") if options.only else list(architectures())
    index, count = map(int, options.shard.split("/"))
    names = names[index::count]
    options.records.parent.mkdir(parents=True, exist_ok=True)
    records: dict[str, dict[str, Any]] = {}
    if options.records.exists() and not options.fresh:
        records = dict(json.loads(line) for line in options.records.read_text().splitlines())
    todo = [name for name in names if name not in records]
    parts = tuple(options.part or PARTS)
    end = time.monotonic() + 60 * options.minutes
    with options.records.open("w" if options.fresh else "a") as file:
        for name, answer in run_all(todo, lambda name: examine(name, parts), options.jobs, 4 * SECONDS, end):
            records[name] = _record(answer)
            print(json.dumps([name, records[name]]), file=file, flush=True)
            print(shown(name, records[name]), flush=True)
    found = {name: records[name] for name in names if name in records}
    print("\n" + "\n".join(shown(name, record) for name, record in found.items()))
    verdicts = [verdict(part) for record in found.values() for part in record.get("parts", {}).values()]
    bad = [text for text in verdicts if text not in ("PASS", "refused")]
    failed = sum("failure" in record for record in found.values())
    counts = Counter(text.partition(":")[0] for text in verdicts)
    print(f"{len(found)} architectures: {dict(counts)}; {failed} failed (bar: {MOST} of the budget, or a named error)")
    return int(bool(bad) or failed > 0)


def _record(answer: Answer) -> dict[str, Any]:
    return {"failure": f"{answer.failure}: {answer.why}"} if answer.failure else answer.value


if __name__ == "__main__":
    sys.exit(main())
