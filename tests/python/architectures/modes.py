"""Runs a small model in each mode, beside eager PyTorch, and says how that went."""

from __future__ import annotations

import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
import transformers
from tenon.graph_reports import GraphReport

from .forks import Fork
from .judging import DiffersError, Results, in_dtype, judge
from .making import Made, NotMadeError, first_line, make
from .ways import MODES, Mode, modes_on

MODE_SECONDS = 300
VERSIONS = (
    f"transformers {transformers.__version__}, PyTorch {torch.__version__.split('+')[0]} and Python "
    f"{platform.python_version()}"
)
WHOLE_GRAPH = "a whole graph"  # counted with all its calls
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@dataclass
class Outcome:
    """What a mode gave. The kinds: "ok"; "fallback": right, but a whole graph runs in PyTorch; "wrong", "exception",
    "crash", "timeout"; "PyTorch": PyTorch's own tools (torch.export, the aot_eager backend) cannot do it either, or
    not in time."""

    kind: str = "ok"
    why: str = ""
    calls: int = 0  # calls of the graphs
    host: dict[str, int] = field(default_factory=dict)  # those that PyTorch runs
    seconds: float = 0.0


@dataclass
class Record:
    """What is known of an architecture."""

    architecture: str
    not_made: str = ""
    model: str = ""  # the class
    parameters: int = 0
    inputs: dict[str, list[int]] = field(default_factory=dict)
    is_random: bool = False
    modes: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    versions: str = ""  # of what ran it

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return {mode: Outcome(**outcome) for mode, outcome in self.modes.items()}


def examine(
    architecture: str,
    modes: tuple[str, ...] = tuple(MODES),
    dtype: str = "f32",
    seconds: int = MODE_SECONDS,
    device: str = "",
) -> dict[str, Any]:
    """Makes the model, then runs each mode in a process of its own, which may take so many seconds of CPU time."""
    start = time.monotonic()
    record = Record(architecture, versions=VERSIONS)
    warnings.filterwarnings("ignore")
    try:
        made = make(architecture)
    except NotMadeError as error:
        record.not_made = str(error)
    else:
        record.model = type(made.module).__name__
        record.parameters = sum(parameter.numel() for parameter in made.module.parameters())
        record.inputs = {name: list(value.shape) for name, value in made.inputs.items()}
        record.is_random = made.is_random
        made = made if dtype == "f32" else in_dtype(made, DTYPES[dtype])
        for mode in modes:
            record.modes[mode] = asdict(_forked(made, modes_on(device)[mode], seconds))
    record.seconds = round(time.monotonic() - start, 1)
    return asdict(record)


def _forked(made: Made, mode: Mode, seconds: int) -> Outcome:
    start = time.monotonic()
    answer = Fork(lambda: asdict(run_mode(made, mode)), seconds).answer()
    if answer.failure == "timeout":
        outcome = _out_of_time(made, mode, seconds)
    else:
        outcome = Outcome(answer.failure, answer.why) if answer.failure else Outcome(**answer.value)
    outcome.seconds = round(time.monotonic() - start, 1)
    return outcome


def _out_of_time(made: Made, mode: Mode, seconds: int) -> Outcome:
    """Whose failure is it? PyTorch alone gets the same time."""
    alone = Fork(lambda: pytorch_seconds(made, mode), seconds).answer()
    if alone.failure == "timeout":
        return Outcome("PyTorch", f"PyTorch alone takes more than {seconds} s")
    if alone.failure:
        return Outcome("PyTorch", f"{alone.failure}: {alone.why}")
    return Outcome("timeout", f"more than {seconds} s of CPU time; PyTorch alone takes {alone.value:.0f} s")


def pytorch_seconds(made: Made, mode: Mode) -> float:
    """The CPU time of PyTorch's own compiler, and of a run of what it made."""
    mode.prepare(made)
    start = time.process_time()
    mode.pytorch(made)
    return time.process_time() - start


def run_mode(made: Made, mode: Mode) -> Outcome:
    outcome = Outcome()
    try:
        _run(made, mode, outcome)
    except _PyTorchFails as error:
        outcome.kind, outcome.why = "PyTorch", str(error)
    except DiffersError as error:
        outcome.kind, outcome.why = "wrong", str(error)
    except Exception as error:
        outcome.kind, outcome.why = "exception", first_line(error)
    return outcome


class _PyTorchFails(Exception):  # noqa: N818
    pass


def _run(made: Made, mode: Mode, outcome: Outcome) -> None:
    """Judges what Tenon gives. If it is bad, and PyTorch's own compiler is no better, that is PyTorch's failure."""

    def tenon(own: Made) -> Results:
        results, reports = mode.tenon(own)
        if own is made:
            _count(outcome, reports)
        elif outcome.kind == "ok":  # the judge asks for a proof, which must not come from PyTorch
            _assert_native(reports)
        return results

    _tried("eager", lambda: mode.prepare(made))
    try:
        judge(made, tenon, mode.eager, made.is_random)
    except Exception:
        _tried("PyTorch alone", lambda: judge(made, mode.pytorch, mode.eager, made.is_random))
        raise
    if outcome.kind == "fallback":
        _tried("PyTorch alone", lambda: judge(made, mode.pytorch, mode.eager, made.is_random))


def _tried(who: str, action: Callable[[], Any]) -> None:
    try:
        action()
    except Exception as error:
        raise _PyTorchFails(f"{who}: {first_line(error)}") from error


def _count(outcome: Outcome, reports: list[GraphReport]) -> None:
    for report in reports:
        outcome.calls += report.calls
        if report.failure:
            outcome.kind, outcome.why = "fallback", report.failure
        host = {WHOLE_GRAPH: report.calls} if report.failure else report.fallback_calls
        outcome.host = dict(Counter(outcome.host) + Counter(host))


def _assert_native(reports: list[GraphReport]) -> None:
    for report in reports:
        if report.failure:
            raise RuntimeError(report.failure)
