"""The calls of a recorded graph: the target of a node, and the types of its results in PyTorch's trace."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from tenon.capture.names import target_name

_WITH_EFFECTS = "higher_order.with_effects"


@dataclass(frozen=True)
class Call:
    """The call of a node: its own target, or the target that it runs in order with other effects."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    value: Any  # the results in the trace
    has_effects: bool = False

    @property
    def name(self) -> str:
        return target_name(self.target)

    def given(self, position: int, name: str) -> Any:
        return self.args[position] if position < len(self.args) else self.kwargs.get(name)


def is_effect_token(node: fx.Node) -> bool:
    """Whether a placeholder only keeps effects in order: a caller passes None for it."""
    return bool(node.users) and all(
        user.op == "call_function" and target_name(user.target) == _WITH_EFFECTS and user.args[0] is node
        for user in node.users
    )


def _value_of(node: fx.Node) -> Any:
    """The results in the trace; if the trace has none, those of their parts."""
    if "val" in node.meta or not node.users or any(user.target is not operator.getitem for user in node.users):
        return node.meta.get("val")
    parts = {user.args[1]: user.meta.get("val") for user in node.users}
    is_whole = set(parts) == set(range(len(parts))) and None not in parts.values()
    return tuple(parts[index] for index in range(len(parts))) if is_whole else None


def call_of(node: fx.Node) -> Call:
    value = _value_of(node)
    if target_name(node.target) != _WITH_EFFECTS:
        return Call(node.target, node.args, node.kwargs, value)
    results = value[1:]  # the first is the token that keeps effects in order
    return Call(node.args[1], node.args[2:], node.kwargs, results[0] if len(results) == 1 else results, True)


def gives(module: fx.GraphModule, value: Any) -> bool:
    """Whether a decomposition gives the results of the trace: some of PyTorch's decompositions are wrong."""
    results = listed(fx.node.map_arg(module.graph.output_node().args[0], lambda node: node.meta.get("val")))
    recorded = listed(value)
    return len(results) == len(recorded) and all(map(_have_same_type, results, recorded))


def _have_same_type(result: Any, recorded: Any) -> bool:
    if not isinstance(recorded, torch.Tensor):
        return True
    is_same = isinstance(result, torch.Tensor) and (result.dtype, result.dim()) == (recorded.dtype, recorded.dim())
    return is_same and all(
        a == b for a, b in zip(result.shape, recorded.shape, strict=True) if type(a) is int and type(b) is int
    )


def listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def read_parts(node: fx.Node, value: Any) -> Any:
    """The node's results in the trace, without results that nothing reads: traces are often wrong about these (the
    sizes of an embedding's empty bags, the dtype of saved statistics)."""
    if (
        not isinstance(value, (tuple, list))
        or value is not node.meta.get("val")
        or any(user.target is not operator.getitem for user in node.users)
    ):
        return value
    read = {user.args[1] for user in node.users}
    return [part if position in read else None for position, part in enumerate(value)]


def gives_nothing(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and not target._schema.returns


def is_mutable(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


_QUANTIZERS = ("quantize_per_", "_make_per_", "_empty_affine_quantized", "_empty_per_channel_affine_quantized")
_READ_QUANTIZED = ("dequantize", "int_repr", "q_")  # their results are plain


def gives_quantized(target: Any, takes_quantized: bool) -> bool:
    """Whether the results are quantized tensors. PyTorch's fake tensors have another dtype than they."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    namespace, _, name = target._schema.name.partition("::")
    if namespace == "quantized_decomposed":  # its tensors of bytes are plain
        return False
    return name.startswith(_QUANTIZERS) or (takes_quantized and not name.startswith(_READ_QUANTIZED))
