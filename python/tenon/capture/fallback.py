"""The fallback: PyTorch runs the `external` nodes of a graph, which stand for calls that the registry lacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tenon import _tenon, modes

with modes.outside():
    _TOKEN = torch.empty(0, dtype=torch.uint8)


@dataclass(frozen=True)
class Slot:
    """The position of an operand among the arguments. `convert` makes a number from a tensor of rank 0."""

    operand: int
    convert: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class TokenSlot:
    """The position of a tensor that the fallback keeps, because Tenon lacks its dtype."""

    key: str


@dataclass(frozen=True)
class Result:
    """A result of a call. The fallback keeps a result with a `token`; a number becomes a tensor of rank 0."""

    token: str | None = None
    number: torch.dtype | None = None


@dataclass(frozen=True)
class FallbackCall:
    function: Callable[..., Any]
    args: list[Any]  # with slots in the places of tensors and sizes
    kwargs: dict[str, Any]
    results: list[Result]
    device: torch.device | None = None  # a GPU that it runs on: operands and results are brought there and back

    @property
    def may_share_memory(self) -> bool:
        """Whether it may write to its operands, or give views of them."""
        if isinstance(self.function, torch._ops.OpOverload):
            schema = self.function._schema
            return any(value.alias_info is not None for value in (*schema.arguments, *schema.returns))
        return any(result.number is None for result in self.results)

    @property
    def tensor_operands(self) -> set[int]:
        """The operands that are passed as tensors; the others are passed as numbers."""
        slots = _slots_of([self.args, list(self.kwargs.values())])
        return {slot.operand for slot in slots if slot.convert is None}

    def results_of(self, operands: list[torch.Tensor], tokens: dict[str, torch.Tensor]) -> list[Any]:
        args = _filled(self.args, operands, tokens)
        kwargs = _filled(self.kwargs, operands, tokens)
        given = list(leaves_of(self.function(*args, **kwargs)))
        if len(given) != len(self.results):
            raise RuntimeError(f"{self.function} gave {len(given)} results, while tracing it gave {len(self.results)}")
        return given

    def run(self, operands: list[torch.Tensor], tokens: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        given = self.results_of(operands, tokens)
        if not given:
            return [_TOKEN]  # the call is made for its effect; the program sees it as a token
        borrowed = {operand.untyped_storage().data_ptr() for operand in operands}
        return [_kept(value, result, tokens, borrowed) for value, result in zip(given, self.results, strict=True)]


@dataclass(frozen=True)
class GradientCall:
    """The gradient of a call. Its operands are those of the call, then the gradients of floating results. It runs the
    call again, under autograd: the call must give the same results."""

    name: str
    call: FallbackCall
    operands: int  # of the call
    result_gradients: list[int | None]  # for each result of the call, the operand that is its gradient
    wanted: list[int | None]  # the operand that each gradient is of; None: nothing needs this gradient

    def run(self, operands: list[torch.Tensor], tokens: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        found: dict[int, torch.Tensor | None] = {}
        tensors = self.call.tensor_operands
        leaves = {i: operands[i].detach().requires_grad_() for i in self.wanted if i in tensors}
        if leaves:
            with torch.enable_grad():
                given = [leaves.get(i, operand) for i, operand in enumerate(operands)]
                found = dict(zip(leaves, self._gradients(list(leaves.values()), given, tokens), strict=True))
        return [_TOKEN if i is None else _or_zeros(found.get(i), operands[i]) for i in self.wanted]

    def _gradients(
        self, leaves: list[torch.Tensor], operands: list[torch.Tensor], tokens: dict[str, torch.Tensor]
    ) -> Sequence[torch.Tensor | None]:
        random_state = torch.get_rng_state()
        results = self.call.results_of(operands, tokens)
        if not torch.equal(random_state, torch.get_rng_state()):
            raise RuntimeError(f"{self.name} draws random numbers: its gradient would be that of other numbers")
        pairs = [
            (result, operands[gradient])
            for result, gradient in zip(results, self.result_gradients, strict=True)
            if gradient is not None and isinstance(result, torch.Tensor) and result.requires_grad
        ]
        if not pairs:
            raise RuntimeError(f"PyTorch has no gradient of {self.name}")
        outputs, gradients = zip(*pairs, strict=True)
        return torch.autograd.grad(outputs, leaves, gradients, allow_unused=True)


class _Running(threading.local):
    """The tensors that the run of a thread keeps, by key."""

    def __init__(self) -> None:
        self.tokens: dict[str, torch.Tensor] = {}


class Fallback:
    """Runs the external calls of one model in PyTorch. The tensors that it keeps belong to one run of one thread."""

    def __init__(self) -> None:
        self.calls: dict[int, FallbackCall] = {}
        self.gradients: dict[int, GradientCall] = {}  # of the calls with these numbers
        self._running = _Running()

    def __bool__(self) -> bool:
        return bool(self.calls)

    @modes.run_outside
    def __call__(self, call: int, operands: list[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad(), torch._C._DisableAutocast():  # the trace already has autocast's casts
            found = self.call_of(call)
            return _run_on(_device_of(found), lambda there: found.run(there, self._running.tokens), operands)

    def call_of(self, number: int) -> FallbackCall | GradientCall:
        """What an external node calls, by its attribute `call`: the gradient of call n is -1 - n."""
        return self.calls[number] if number >= 0 else self.gradients[-1 - number]

    def add_gradients(self, step: _tenon.Graph) -> None:
        """Adds the gradients that the step of a training calls."""
        operands = [operand for node in step.nodes for operand in node.operands]
        used = {value.id for value in (*operands, *(value for _, value in step.updates)) if value is not None}
        nodes = {node.attrs["call"]: node for node in external_nodes(step)}
        for number, call in self.calls.items():
            if -1 - number in nodes:
                self.gradients[number] = _gradient_call(nodes[number], nodes[-1 - number], call, used)

    def run(
        self,
        execute: Callable[[list[Any]], list[Any]],
        inputs: list[Any],
        tokens: dict[str, torch.Tensor],
        wanted: list[str],
    ) -> tuple[list[Any], list[torch.Tensor]]:
        """Runs the program with these tensors kept from the start. Returns its results, and the `wanted` kept
        tensors."""
        outer, self._running.tokens = self._running.tokens, tokens
        try:
            outputs = execute(inputs)
        finally:
            self._running.tokens = outer
        return outputs, [tokens[key] for key in wanted]


def _device_of(call: FallbackCall | GradientCall) -> torch.device | None:
    return call.device if isinstance(call, FallbackCall) else call.call.device


def _run_on(
    device: torch.device | None, run: Callable[[list[torch.Tensor]], list[torch.Tensor]], operands: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Tenon's operands and results are in the host's memory."""
    if device is None:
        return run(operands)
    return [result.cpu() for result in run([operand.to(device) for operand in operands])]


def leaves_of(value: Any) -> Iterator[Any]:
    """The tensors and numbers that a call returns, in order, without None."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves_of(item)
    elif value is not None:
        yield value


def _or_zeros(gradient: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like) if gradient is None else gradient


def _slots_of(template: Any) -> Iterator[Slot]:
    if isinstance(template, Slot):
        yield template
    elif isinstance(template, (tuple, list)):
        for item in template:
            yield from _slots_of(item)


def _filled(template: Any, operands: list[torch.Tensor], tokens: dict[str, torch.Tensor]) -> Any:
    if isinstance(template, Slot):
        operand = operands[template.operand]
        return operand if template.convert is None else template.convert(operand.item())
    if isinstance(template, TokenSlot):
        return tokens[template.key]
    if isinstance(template, (tuple, list)):
        return type(template)(_filled(item, operands, tokens) for item in template)
    if isinstance(template, dict):
        return {key: _filled(item, operands, tokens) for key, item in template.items()}
    return template


def _kept(value: Any, result: Result, tokens: dict[str, torch.Tensor], borrowed: set[int]) -> torch.Tensor:
    if result.token is not None:
        # The program reuses the memory of its operands after the call.
        is_borrowed = value.layout is torch.strided and value.untyped_storage().data_ptr() in borrowed
        tokens[result.token] = value.clone() if is_borrowed else value
        return _TOKEN
    if result.number is not None:
        return torch.tensor(value, dtype=result.number)
    return value.detach().resolve_conj().resolve_neg()


# ---- training -------------------------------------------------------------------------------------------------------


def check_trainable(graph: _tenon.Graph, fallback: Fallback) -> None:
    """Raises a tenon.Error that lists the calls of a model that a training cannot leave to PyTorch."""
    problems = []
    for node in external_nodes(graph):
        call = fallback.calls[node.attrs["call"]]
        problem = ""
        if not call.results:
            problem = "it has no results, and a training makes no call for its effect alone"
        elif any(result.token for result in call.results):
            problem = "it gives a tensor of a dtype that Tenon lacks, whose gradient would be lost"
        if problem:
            where = f"{node.location}: " if node.location.line else ""
            problems.append(f"\n  {where}{node.attrs['target']}: {problem}")
    if problems:
        _tenon.fail(f"the model cannot be trained:{''.join(problems)}")


def external_nodes(graph: _tenon.Graph) -> Iterator[_tenon.Node]:
    return (node for node in graph.nodes if node.op.name == "external")


def _gradient_call(node: _tenon.Node, gradient: _tenon.Node, call: FallbackCall, used: set[int]) -> GradientCall:
    """Of a node and of the node that is its gradient; `used` are the values that something needs."""
    count = len(node.operands)
    given = iter(range(count, len(gradient.operands)))
    floating = [i for i, operand in enumerate(node.operands) if _is_float(operand)]
    return GradientCall(
        node.attrs["target"],
        call,
        count,
        [next(given) if _is_float(result) else None for result in node.results],
        [i if found.id in used else None for i, found in zip(floating, gradient.results, strict=True)],
    )


def _is_float(value: _tenon.Value) -> bool:
    return "f" in value.dtype
