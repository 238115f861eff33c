"""Runs a small model in each of the ways that Tenon runs one, beside eager PyTorch."""

from __future__ import annotations

import copy
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import tenon
import torch
from tenon.graph_reports import GraphReport
from tenon.torch_backend import reports

from .forks import Fork
from .judging import DiffersError, Results, Way, judge
from .making import Made, NotMadeError, first_line, make, run

MODES = ("export", "export dynamic", "compile", "compile dynamic", "training")
MODE_SECONDS = 90
WHOLE_GRAPH = "a whole graph"  # counted with all its calls


@dataclass
class Outcome:
    """What a mode gave. The kinds: "ok"; "fallback": right, but a whole graph runs in PyTorch; "wrong", "exception",
    "crash", "timeout"; "PyTorch": PyTorch's own tools (torch.export, the aot_eager backend) cannot do it either."""

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

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return {mode: Outcome(**outcome) for mode, outcome in self.modes.items()}


def examine(architecture: str, modes: tuple[str, ...] = MODES) -> dict[str, Any]:
    """Makes the model, then runs each mode in a process of its own."""
    start = time.monotonic()
    record = Record(architecture)
    _be_quiet()
    try:
        made = make(architecture)
    except NotMadeError as error:
        record.not_made = str(error)
    else:
        record.model = type(made.module).__name__
        record.parameters = sum(parameter.numel() for parameter in made.module.parameters())
        record.inputs = {name: list(value.shape) for name, value in made.inputs.items()}
        record.is_random = made.is_random
        for mode in modes:
            record.modes[mode] = asdict(_forked(made, mode))
    record.seconds = round(time.monotonic() - start, 1)
    return asdict(record)


def _be_quiet() -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)


def _forked(made: Made, mode: str) -> Outcome:
    start = time.monotonic()
    answer = Fork(lambda: asdict(run_mode(made, mode)), MODE_SECONDS).answer()
    outcome = Outcome(answer.failure, answer.why) if answer.failure else Outcome(**answer.value)
    outcome.seconds = round(time.monotonic() - start, 1)
    return outcome


def run_mode(made: Made, mode: str) -> Outcome:
    outcome = Outcome()
    try:
        if mode.startswith("export"):
            _exported(made, outcome, is_dynamic="dynamic" in mode)
        elif mode == "training":
            _trained(made, outcome)
        else:
            _compiled(made, outcome, is_dynamic="dynamic" in mode)
    except _PyTorchFails as error:
        outcome.kind, outcome.why = "PyTorch", str(error)
    except DiffersError as error:
        outcome.kind, outcome.why = "wrong", str(error)
    except Exception as error:
        outcome.kind, outcome.why = "exception", first_line(error)
    return outcome


class _PyTorchFails(Exception):  # noqa: N818
    pass


# ---- tenon.compile --------------------------------------------------------------------------------------------------


def _exported(made: Made, outcome: Outcome, is_dynamic: bool) -> None:
    def export(made: Made) -> torch.export.ExportedProgram:
        shapes = _dynamic_shapes(made) if is_dynamic else None
        try:
            return torch.export.export(made.module, (), made.inputs, dynamic_shapes=shapes, strict=False)
        except Exception as error:
            raise _PyTorchFails(first_line(error)) from error

    def by_tenon(own: Made) -> Results:
        program = tenon.compile(export(own), threads=1)
        if own is made:
            _count(outcome, GraphReport.of("exported", program._captured))
        return _results(program, own, is_dynamic)

    def by_pytorch(own: Made) -> Results:
        return _results(export(own).module(), own, is_dynamic)

    try:
        _judge(made, by_tenon, is_dynamic)
    except Exception as error:
        _blame(error, lambda: _judge(made, by_pytorch, is_dynamic))


def _dynamic_shapes(made: Made) -> dict[str, Any]:
    """The sizes that differ between the two examples are dynamic."""
    others = made.other_inputs
    return {
        name: {dim: torch.export.Dim.AUTO for dim, size in enumerate(value.shape) if size != others[name].shape[dim]}
        for name, value in made.inputs.items()
    }


def _judge(made: Made, way: Way, is_dynamic: bool) -> None:
    judge(made, way, lambda made: _results(made.module, made, is_dynamic), made.is_random)


def _results(function: Any, made: Made, is_dynamic: bool) -> Results:
    """Those of the inputs, and where shapes are dynamic also those of the other inputs."""
    found = _named("result", run(function, made.inputs))
    return found | (_named("other result", run(function, made.other_inputs)) if is_dynamic else {})


def _named(what: str, tensors: list[torch.Tensor]) -> Results:
    return {f"{what} {i}": tensor.detach() for i, tensor in enumerate(tensors)}


# ---- torch.compile --------------------------------------------------------------------------------------------------


def _compiled(made: Made, outcome: Outcome, is_dynamic: bool) -> None:
    def way(made: Made, **options: Any) -> Results:
        torch._dynamo.reset()
        return _results(torch.compile(made.module, dynamic=is_dynamic or None, **options), made, is_dynamic)

    _with_tenon(made, outcome, way, lambda way: _judge(made, way, is_dynamic))


def _trained(made: Made, outcome: Outcome) -> None:
    made.module.train()
    for module in made.module.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0
    try:
        is_random = made.is_random or _is_random_in_training(made)
    except Exception as error:
        raise _PyTorchFails(f"eager: {first_line(error)}") from error

    def way(made: Made, **options: Any) -> Results:
        torch._dynamo.reset()
        module = copy.deepcopy(made.module)
        return _gradients(module, made.inputs, torch.compile(module, **options))

    _with_tenon(made, outcome, way, lambda way: judge(made, way, _step, is_random))


def _step(made: Made, seed: int = 0) -> Results:
    return _gradients(copy.deepcopy(made.module), made.inputs, seed=seed)


def _is_random_in_training(made: Made) -> bool:
    first, second = (_step(made, seed) for seed in (0, 1))
    return any(not torch.equal(second[name].nan_to_num(), value.nan_to_num()) for name, value in first.items())


def _gradients(module: torch.nn.Module, inputs: dict[str, Any], function: Any = None, seed: int = 0) -> Results:
    """The results of a step of training, and its gradients by parameter, and the buffers that it leaves."""
    results = run(module if function is None else function, inputs, seed, grad=True)
    losses = [result.pow(2).mean() for result in results if result.requires_grad]
    if not losses:
        raise RuntimeError("no result depends on a parameter")
    torch.stack(losses).sum().backward()
    found = _named("result", results)
    for name, parameter in module.named_parameters():
        unused = parameter.grad is None  # a compiled graph gives zeros
        found[f"gradient of {name}"] = torch.zeros_like(parameter) if unused else parameter.grad
    return found | {f"buffer {name}": buffer for name, buffer in module.named_buffers()}


def _with_tenon(made: Made, outcome: Outcome, way: Callable[..., Results], check: Callable[[Way], None]) -> None:
    """Checks the way with Tenon. If it fails, and fails with PyTorch's own backend too, that is PyTorch's failure."""

    def by_tenon(own: Made) -> Results:
        reports.clear()
        results = way(own, backend="tenon", options={"threads": 1})
        if own is made:
            for report in reports:
                _count(outcome, report)
        elif outcome.kind == "ok" and any(report.failure for report in reports):
            raise RuntimeError(next(report.failure for report in reports if report.failure))
        return results

    def by_pytorch(own: Made) -> Results:
        return way(own, backend="aot_eager")

    try:
        check(by_tenon)
    except Exception as error:
        _blame(error, lambda: check(by_pytorch))
    if outcome.kind == "fallback":  # whose failure is it?
        _tried(lambda: check(by_pytorch))


def _count(outcome: Outcome, report: GraphReport) -> None:
    outcome.calls += report.calls
    if report.failure:
        outcome.kind, outcome.why = "fallback", report.failure
    host = {WHOLE_GRAPH: report.calls} if report.failure else report.host_calls
    outcome.host = dict(Counter(outcome.host) + Counter(host))


def _blame(error: Exception, check: Callable[[], Any]) -> None:
    _tried(check)
    raise error


def _tried(check: Callable[[], Any]) -> None:
    try:
        check()
    except Exception as own:
        raise _PyTorchFails(f"aot_eager: {first_line(own)}") from own
