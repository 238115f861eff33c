"""PyTorch's samples of the operators that its lazy device records, run on that device with Tenon behind it.

`make lazy-ops` runs them all in worker processes, because PyTorch's own part of the lazy device ends the process for
some samples. What goes wrong is tried again with PyTorch's TorchScript backend: what goes wrong there too is PyTorch's.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._lazy
import torch._lazy.metrics
import torch._lazy.ts_backend

from . import workers
from .cases import WITHOUT_VALUES, Case, all_ops, copies, difference, samples_of, value_difference

MODULE = "tests.python.opinfo.lazy"
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)

# Recorded for every tensor that comes and goes, and tested by every sample.
TRANSFERS = {"_copy_from", "_copy_from_and_resize", "_to_copy", "lift", "lift_fresh"}


# OpInfos of other names, for the recorded operators that they call, and how many samples it takes to see all of those.
CALLERS = {
    "isclose": 2,
    "nn.functional.adaptive_avg_pool2d": 2,
    "nn.functional.batch_norm": 4,
    "nn.functional.bilinear": 2,
    "nn.functional.conv1d": 2,
    "nn.functional.conv2d": 4,
    "nn.functional.conv3d": 2,
    "nn.functional.conv_transpose2d": 2,
    "nn.functional.cross_entropy": 4,
    "nn.functional.dropout": 6,
    "nn.functional.interpolate.bilinear": 2,
    "nn.functional.interpolate.nearest": 8,
    "nn.functional.max_pool3d": 2,
    "nn.functional.nll_loss": 8,
    "nn.functional.pairwise_distance": 2,
    "nn.functional.upsample_bilinear": 2,
    "nn.functional.upsample_nearest": 4,
    "zero_": 1,
}


@functools.cache
def recorded_ops() -> frozenset[str]:
    """What PyTorch's lazy device records, without overloads. Another process asks, for the device is there only once a
    backend is, and then for good."""
    command = [sys.executable, "-m", MODULE, "--recorded"]
    return frozenset(
        subprocess.run(command, cwd=workers.ROOT, capture_output=True, text=True, check=True).stdout.split()
    )


def kernels() -> set[str]:
    """What the dispatcher has kernels for."""
    torch._lazy.ts_backend.init()
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    return {plain_name(name) for name in names if has_kernel(name, "Lazy")}


def plain_name(name: str) -> str:
    """ "aten::add_.Tensor" and "lazy::add" as "add"."""
    packet = name.partition("::")[2].partition(".")[0]
    for suffix in ("_symint", "_out"):
        packet = packet.removesuffix(suffix)
    return packet[:-1] if packet.endswith("_") and not packet.endswith("__") else packet


# ---- which samples ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    op: str
    dtype: str
    number: int
    backward: bool = False

    def __str__(self) -> str:
        return f"{self.op}|{self.dtype}|{self.number}|{'backward' if self.backward else 'forward'}"

    @staticmethod
    def parse(text: str) -> Task:
        op, dtype, number, direction = text.split("|")
        return Task(op, dtype, int(number), direction == "backward")


def names_of(op: Any) -> set[str]:
    """What an OpInfo may call its operator in ATen."""
    names = {op.name, op.aten_name, *(alias.name for alias in op.aliases), op.aten_backward_name or ""}
    return {name.removeprefix("nn.functional.") for name in names}


def relevant_ops() -> dict[str, Any]:
    """The OpInfos of operators that the lazy device records, and those that only call them."""
    recorded = recorded_ops()
    return {name: op for name, op in all_ops().items() if names_of(op) & recorded or name in CALLERS}


def tasks_of(name: str, op: Any, dtypes: tuple[torch.dtype, ...], cap: int) -> Iterator[Task]:
    for dtype in dtypes:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        label = str(dtype).removeprefix("torch.")
        for number, _ in enumerate(samples_of(op, dtype, max(cap, CALLERS.get(name, 0)))):
            yield Task(name, label, number)
            if dtype is torch.float32 and op.supports_autograd:
                yield Task(name, label, number, backward=True)


Run = Callable[[Case, str], list[torch.Tensor]]


# ---- one sample, in a worker -----------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """Of one sample. It is none at all where PyTorch's CPU refuses it, or where nothing of it is on the device."""

    is_case: bool = True
    problem: str = ""  # what is wrong with the results, or what was raised
    recorded: list[str] = field(default_factory=list)
    fallbacks: dict[str, int] = field(default_factory=dict)  # what PyTorch ran
    refused: list[str] = field(default_factory=list)  # why PyTorch ran a whole graph


class OnLazy(Case):
    """A sample whose tensors are made on the lazy device where it names the CPU."""

    def __init__(self, op: Any, sample: Any) -> None:
        super().__init__(op, sample)
        self.fixed = ["lazy" if str(leaf) == "cpu" else leaf for leaf in self.fixed]


@functools.cache
def ops() -> dict[str, Any]:
    return all_ops()


def run_task(task: Task, fallbacks_of: Any) -> Outcome:
    op = ops()[task.op]
    dtype = getattr(torch, task.dtype)
    sample = list(samples_of(op, dtype, task.number + 1))[task.number]
    found = expected_of(op, sample, task.backward)
    if found is None:
        return Outcome(is_case=False)
    run, expected = found
    before = recorded_calls()
    torch.manual_seed(0)
    try:
        results = run(OnLazy(op, sample), "lazy")
        problem = (
            gradient_difference(op, results, expected) if task.backward else difference(op, sample, results, expected)
        )
    except Exception as error:
        problem = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        forget_failure()
    recorded = set(recorded_calls() - before)
    return Outcome(bool(recorded), problem, sorted(recorded), **fallbacks_of())


def forget_failure() -> None:
    """The lazy device raises what went wrong in a run once more when it is waited for."""
    with contextlib.suppress(Exception):
        torch._lazy.wait_device_ops()


def expected_of(op: Any, sample: Any, backward: bool) -> tuple[Run, list[torch.Tensor]] | None:
    """How to run the sample, and what PyTorch's CPU gives; None where it gives nothing: that is no case. Where not all
    arguments have gradients, that of the first is taken."""
    ways: list[Run] = [run_backward, functools.partial(run_backward, most=1)] if backward else [run_forward]
    for run in ways:
        with contextlib.suppress(Exception):
            return run, run(Case(op, sample), "cpu")
    return None


def run_forward(case: Case, device: str) -> list[torch.Tensor]:
    return on_cpu(case(*(tensor.to(device) for tensor in copies(case.tensors))))


def run_backward(case: Case, device: str, most: int | None = None) -> list[torch.Tensor]:
    """The gradients by the real arguments, of results that are weighted so that each counts."""
    leaves = [tensor.to(device) for tensor in copies(case.tensors)]
    for leaf in [leaf for leaf in leaves if leaf.is_floating_point()][:most]:
        leaf.requires_grad_()
    results = [result for result in case(*(leaf.clone() for leaf in leaves)) if result.requires_grad]
    weights = [torch.arange(1.0, 1 + result.numel()).reshape(result.shape).cos() for result in results]
    total = sum((result * weight.to(device)).sum() for result, weight in zip(results, weights, strict=True))
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    return on_cpu(
        [gradient for gradient in torch.autograd.grad(total, wanted, allow_unused=True) if gradient is not None]
    )


def gradient_difference(op: Any, results: list[torch.Tensor], expected: list[torch.Tensor]) -> str:
    if len(results) != len(expected):
        return f"{len(results)} gradients instead of {len(expected)}"
    if op.name in WITHOUT_VALUES:
        return ""
    pairs = zip(results, expected, strict=True)
    return next((problem for mine, theirs in pairs if (problem := value_difference(mine, theirs))), "")


def on_cpu(results: list[torch.Tensor]) -> list[torch.Tensor]:
    if any(result.device.type == "lazy" for result in results):
        torch._lazy.mark_step()
    return [result.detach().cpu() for result in results]


def recorded_calls() -> Counter[str]:
    names = torch._lazy.metrics.counter_names()
    counts: Counter[str] = Counter()
    for name in names:
        if name.startswith("lazy::"):
            counts[plain_name(name)] += torch._lazy.metrics.counter_value(name)
    return counts


def tenons_fallbacks() -> dict[str, Any]:
    import tenon.lazy

    metrics = tenon.lazy.metrics()
    tenon.lazy.reset_metrics()
    fallbacks: Counter[str] = Counter()
    for name, count in metrics["fallbacks"].items():
        fallbacks[plain_name(name)] += count
    return {"fallbacks": dict(fallbacks), "refused": list(metrics["refused"])}


def work(stock: bool) -> None:
    if stock:
        torch._lazy.ts_backend.init()
    else:
        from tests.python import lazy_device

        lazy_device.start()
    fallbacks_of = dict if stock else tenons_fallbacks
    workers.serve(lambda line: asdict(run_task(Task.parse(line), fallbacks_of)))


# ---- all of them -----------------------------------------------------------------------------------------------------


def run_tasks(tasks: list[Task], jobs: int, stock: bool = False) -> dict[Task, Outcome]:
    options = ["--worker", *(["--stock"] if stock else [])]
    answers = workers.run_all([str(task) for task in tasks], MODULE, options, jobs, show_problem)
    return {Task.parse(text): outcome_of(answer) for text, answer in answers.items()}


def outcome_of(answer: workers.Answer) -> Outcome:
    return Outcome(problem=answer) if isinstance(answer, str) else Outcome(**answer)


def show_problem(task: str, answer: workers.Answer) -> None:
    if problem := outcome_of(answer).problem:
        print(f"{task}: {problem}", flush=True)


@dataclass
class Report:
    outcomes: dict[Task, Outcome]
    of_torch: dict[Task, str]  # problems that PyTorch's own backend has with the same samples

    @property
    def problems(self) -> dict[Task, str]:
        found = {task: outcome.problem for task, outcome in self.outcomes.items() if outcome.problem}
        return {task: problem for task, problem in found.items() if task not in self.of_torch}

    def rows(self) -> dict[str, tuple[int, int]]:
        """In how many samples Tenon ran each recorded operator, and in how many PyTorch did: the operator itself, or
        any part of a sample that is the operator's own."""
        rows: dict[str, list[int]] = {}
        for task, outcome in self.outcomes.items():
            own = names_of(ops()[task.op]) if outcome.is_case else set()
            for name in (own | set(outcome.recorded)) & recorded_ops() - TRANSFERS:
                is_left = name in outcome.fallbacks or (name in own and outcome.fallbacks)
                rows.setdefault(name, [0, 0])[bool(is_left or outcome.refused)] += 1
        return {name: (native, fallback) for name, (native, fallback) in sorted(rows.items())}

    def text(self, is_whole: bool) -> str:
        rows = self.rows()
        unseen = sorted(recorded_ops() - set(rows) - TRANSFERS)
        native = [name for name, (_, fallback) in rows.items() if fallback == 0]
        lines = [f"{name:36} {ran:5} {left:5}" for name, (ran, left) in rows.items()]
        return "\n".join(
            [
                f"{'operator':36} {'Tenon':>5} {'PyTorch':>5}",
                *lines,
                "",
                *([f"in no sample: {', '.join(unseen) or 'none'}"] if is_whole else []),
                f"left to PyTorch: {', '.join(sorted(set(rows) - set(native))) or 'none'}",
                *(f"PyTorch's own problem: {task}: {problem}" for task, problem in self.of_torch.items()),
                *(f"PROBLEM: {task}: {problem}" for task, problem in self.problems.items()),
                f"{len(self.outcomes)} samples of {len(rows)} recorded operators: {len(self.problems)} problems, "
                f"{100 * len(native) / max(len(rows), 1):.1f}% of the operators run by Tenon alone",
            ]
        )


def run(tasks: list[Task], jobs: int) -> Report:
    outcomes = run_tasks(tasks, jobs)
    failed = [task for task, outcome in outcomes.items() if outcome.problem]
    of_torch = run_tasks(failed, jobs, stock=True) if failed else {}
    return Report(outcomes, {task: outcome.problem for task, outcome in of_torch.items() if outcome.problem})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", action="store_true", help="read tasks, write an outcome each")
    parser.add_argument("--stock", action="store_true", help="with PyTorch's own backend")
    parser.add_argument("--cap", type=int, default=2, help="samples of each operator and dtype")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="operators whose name contains this")
    parser.add_argument("--json", type=Path, help="where to write the outcomes")
    parser.add_argument("--recorded", action="store_true", help="write the names of what PyTorch's lazy device records")
    options = parser.parse_args()
    if options.recorded:
        print("\n".join(sorted(kernels())))
        return 0
    if options.worker:
        work(options.stock)
        return 0
    found = {name: op for name, op in relevant_ops().items() if options.only in name}
    tasks = [task for name, op in found.items() for task in tasks_of(name, op, DTYPES, options.cap)]
    report = run(tasks, options.jobs)
    if options.json:
        entries = [{"task": str(task), **asdict(outcome)} for task, outcome in report.outcomes.items()]
        options.json.write_text(json.dumps(entries, indent=1))
    print(report.text(is_whole=not options.only))
    return int(bool(report.problems))


if __name__ == "__main__":
    sys.exit(main())
