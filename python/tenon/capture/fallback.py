"""The fallback: PyTorch runs the `external` nodes of a graph, which stand for calls that the registry lacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tenon import modes

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

    @property
    def may_share_memory(self) -> bool:
        """Whether it may write to its operands, or give views of them."""
        if isinstance(self.function, torch._ops.OpOverload):
            schema = self.function._schema
            return any(value.alias_info is not None for value in (*schema.arguments, *schema.returns))
        return any(result.number is None for result in self.results)

    def run(self, operands: list[torch.Tensor], tokens: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        args = _filled(self.args, operands, tokens)
        kwargs = _filled(self.kwargs, operands, tokens)
        given = list(leaves_of(self.function(*args, **kwargs)))
        if len(given) != len(self.results):
            raise RuntimeError(f"{self.function} gave {len(given)} results, while tracing it gave {len(self.results)}")
        if not given:
            return [_TOKEN]  # the call is made for its effect; the program sees it as a token
        borrowed = {operand.untyped_storage().data_ptr() for operand in operands}
        return [_kept(value, result, tokens, borrowed) for value, result in zip(given, self.results, strict=True)]


class _Running(threading.local):
    """The tensors that the run of a thread keeps, by key."""

    def __init__(self) -> None:
        self.tokens: dict[str, torch.Tensor] = {}


class Fallback:
    """Runs the external calls of one model in PyTorch. The tensors that it keeps belong to one run of one thread."""

    def __init__(self) -> None:
        self.calls: dict[int, FallbackCall] = {}
        self._running = _Running()

    @modes.run_outside
    def __call__(self, call: int, operands: list[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad(), torch._C._DisableAutocast():  # the trace already has autocast's casts
            return self.calls[call].run(operands, self._running.tokens)

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


def leaves_of(value: Any) -> Iterator[Any]:
    """The tensors and numbers that a call returns, in order, without None."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves_of(item)
    elif value is not None:
        yield value


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
