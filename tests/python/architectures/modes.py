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
    except _Differs as error:
        outcome.kind, outcome.why = "wrong", str(error)
    except Exception as error:
        outcome.kind, outcome.why = "exception", first_line(error)
    return outcome


class _PyTorchFails(Exception):  # noqa: N818
    pass


class _Differs(Exception):  # noqa: N818
    pass


# ---- tenon.compile --------------------------------------------------------------------------------------------------


def _exported(made: Made, outcome: Outcome, is_dynamic: bool) -> None:
    try:
        exported = torch.export.export(
            made.module, (), made.inputs, dynamic_shapes=_dynamic_shapes(made) if is_dynamic else None, strict=False
        )
    except Exception as error:
        raise _PyTorchFails(first_line(error)) from error
    program = tenon.compile(exported, threads=1)
    _count(outcome, GraphReport.of("exported", program._captured))
    for inputs in (made.inputs, made.other_inputs) if is_dynamic else (made.inputs,):
        try:
            _compare(made, inputs, run(program, inputs))
        except _Differs as error:
            _blame(error, lambda inputs=inputs: _compare(made, inputs, run(exported.module(), inputs)))
        except Exception as error:
            _blame(error, lambda inputs=inputs: run(exported.module(), inputs))


def _dynamic_shapes(made: Made) -> dict[str, Any]:
    """The sizes that differ between the two examples are dynamic."""
    others = made.other_inputs
    return {
        name: {dim: torch.export.Dim.AUTO for dim, size in enumerate(value.shape) if size != others[name].shape[dim]}
        for name, value in made.inputs.items()
    }


# ---- torch.compile --------------------------------------------------------------------------------------------------


def _compiled(made: Made, outcome: Outcome, is_dynamic: bool) -> None:
    def check(**options: Any) -> None:
        torch._dynamo.reset()
        function = torch.compile(made.module, dynamic=is_dynamic or None, **options)
        for inputs in (made.inputs, made.other_inputs) if is_dynamic else (made.inputs,):
            _compare(made, inputs, run(function, inputs))

    _with_tenon(outcome, check)


def _trained(made: Made, outcome: Outcome) -> None:
    made.module.train()
    for module in made.module.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0
    try:
        expected = _gradients(copy.deepcopy(made.module), made.inputs)
    except Exception as error:
        raise _PyTorchFails(f"eager: {first_line(error)}") from error

    def check(**options: Any) -> None:
        torch._dynamo.reset()
        module = copy.deepcopy(made.module)
        actual = _gradients(module, made.inputs, torch.compile(module, **options))
        exact = lambda: _gradients(copy.deepcopy(made.module).double(), _in_double(made.inputs))  # noqa: E731
        _assert_equal(actual, expected, exact, made.is_random or _is_random_in_training(made, expected))

    _with_tenon(outcome, check)


def _is_random_in_training(made: Made, expected: dict[str, torch.Tensor]) -> bool:
    again = _gradients(copy.deepcopy(made.module), made.inputs, seed=1)
    return any(not torch.equal(again[name].nan_to_num(), value.nan_to_num()) for name, value in expected.items())


def _gradients(
    module: torch.nn.Module, inputs: dict[str, Any], function: Any = None, seed: int = 0
) -> dict[str, torch.Tensor]:
    """The results of a step of training, and its gradients by parameter, and the buffers that it leaves."""
    results = run(module if function is None else function, inputs, seed, grad=True)
    losses = [result.pow(2).mean() for result in results if result.requires_grad]
    if not losses:
        raise RuntimeError("no result depends on a parameter")
    torch.stack(losses).sum().backward()
    found = {f"result {i}": result.detach() for i, result in enumerate(results)}
    for name, parameter in module.named_parameters():
        unused = parameter.grad is None  # a compiled graph gives zeros
        found[f"gradient of {name}"] = torch.zeros_like(parameter) if unused else parameter.grad
    return found | {f"buffer {name}": buffer for name, buffer in module.named_buffers()}


def _with_tenon(outcome: Outcome, check: Callable[..., None]) -> None:
    """Runs the check with Tenon. If it fails, and fails with PyTorch's own backend too, that is PyTorch's failure."""
    reports.clear()
    try:
        check(backend="tenon", options={"threads": 1})
    except Exception as error:
        _blame(error, lambda: check(backend="aot_eager"))
    finally:
        for report in reports:
            _count(outcome, report)
    if outcome.kind == "fallback":  # whose failure is it?
        _tried(lambda: check(backend="aot_eager"))


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


# ---- comparison -----------------------------------------------------------------------------------------------------


def _compare(made: Made, inputs: dict[str, Any], actual: list[torch.Tensor]) -> None:
    expected = run(made.module, inputs)
    exact = lambda: _named(run(copy.deepcopy(made.module).double(), _in_double(inputs)))  # noqa: E731
    _assert_equal(_named(actual), _named(expected), exact, made.is_random)


def _named(tensors: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"result {i}": tensor.detach() for i, tensor in enumerate(tensors)}


def _in_double(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}


def _assert_equal(
    actual: dict[str, torch.Tensor],
    expected: dict[str, torch.Tensor],
    exact: Callable[[], dict[str, torch.Tensor]],
    is_random: bool,
) -> None:
    """Equal as torch.testing has it; or no more than twice as far from double precision as eager is, the largest
    difference or the mean."""
    if actual.keys() != expected.keys():
        raise _Differs(f"without {sorted(expected.keys() ^ actual.keys())[:3]}, or with")
    far = []
    for name, mine in actual.items():
        theirs = expected[name]
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            raise _Differs(f"{name}: {mine.dtype}{list(mine.shape)}, eager {theirs.dtype}{list(theirs.shape)}")
        if not is_random and not _is_close(mine, theirs):
            far.append(name)
    if far:
        _assert_as_good(far, actual, expected, exact)


def _is_close(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    try:
        torch.testing.assert_close(mine, theirs, equal_nan=True)
    except AssertionError:
        return False
    return True


def _assert_as_good(
    names: list[str],
    actual: dict[str, torch.Tensor],
    expected: dict[str, torch.Tensor],
    exact: Callable[[], dict[str, torch.Tensor]],
) -> None:
    try:
        right = exact()
    except Exception as error:
        right = {}
        why = f"; no double precision: {first_line(error)}"
    else:
        why = ""
    for name in names:
        mine, theirs = actual[name], expected[name]
        if name not in right or right[name].shape != mine.shape:
            raise _Differs(f"{name}: differs from eager by {_distances(mine, theirs)[0]:.2g}{why}")
        error, own = _distances(mine, right[name]), _distances(theirs, right[name])
        if error[0] > 2 * own[0] and error[1] > 2 * own[1]:
            raise _Differs(f"{name}: is {error[0]:.2g} from double precision, eager is {own[0]:.2g}")


def _distances(a: torch.Tensor, b: torch.Tensor) -> tuple[float, float]:
    """The largest difference, and the root of the mean square of all: one element alone may be off by bad luck. There
    is none where both are the same infinity, or not a number."""
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    if not torch.equal(a.isnan(), b.isnan()):
        return float("inf"), float("inf")
    difference = torch.where((a == b) | a.isnan(), 0.0, (a - b).abs())
    return difference.max().item(), difference.pow(2).mean().sqrt().item()
