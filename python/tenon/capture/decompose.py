"""PyTorch's decompositions of calls that the registry lacks, one call at a time.

The recorded graph keeps the shapes and strides that PyTorch gave its values; only the body of one call is traced. So a
decomposition whose intermediate results have other strides cannot break a later `view`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch._higher_order_ops.flex_attention import flex_attention, math_attention
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from tenon._tenon import has_aten
from tenon.capture.names import target_name

Table = dict[Any, Callable[..., Any]]

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def decomposed(target: Any, args: Any, kwargs: Any) -> fx.GraphModule | None:
    """The call as a graph whose inputs are the tensors and symbolic numbers among the arguments, in order. The
    arguments are those of a trace: fake tensors. None if PyTorch has no decomposition, or cannot trace it."""
    body = _HIGHER_ORDER.get(target)
    function = _all_decompositions().get(target)
    if body is None and function is None:
        return None
    leaves, spec = pytree.tree_flatten((args, kwargs))
    places = [place for place, leaf in enumerate(leaves) if is_operand(leaf)]

    def call(*operands: Any) -> Any:
        filled = list(leaves)
        for place, operand in zip(places, operands, strict=True):
            filled[place] = operand
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return (body or target)(*args, **kwargs)

    table = missing_decompositions() | ({} if function is None else {target: function})
    try:
        mode = _fake_mode(leaves)
        examples = [_example(leaves[place], mode) for place in places]
        with torch.no_grad(), enable_python_dispatcher(), mode:
            module = make_fx(call, decomposition_table=table)(*examples)
    except (
        Exception
    ):  # the fallback runs what cannot be traced: sizes that depend on data, dtypes without a meta kernel
        return None
    return module if _is_usable(module, target) else None


# Calls that take graphs, which PyTorch writes as calls of tensors.
_HIGHER_ORDER: Table = {flex_attention: math_attention}


def takes_graphs(target: Any) -> bool:
    """Whether `decomposed` knows what the call makes of the graphs among its arguments."""
    return target in _HIGHER_ORDER


def is_operand(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, *_SYMBOLIC))


def missing_decompositions() -> Table:
    """PyTorch's decompositions of overloads that the registry lacks."""
    return {op: function for op, function in _all_decompositions().items() if not has_aten(target_name(op))}


def traced_decompositions() -> Table:
    """The decompositions that AOTAutograd applies while it traces."""
    return missing_decompositions() | {op: functools.partial(_mixed_norm, op) for op in _NORMS_WITH_STATISTICS}


_NORMS_WITH_STATISTICS = (torch.ops.aten.native_layer_norm.default, torch.ops.aten.native_group_norm.default)


def _mixed_norm(op: torch._ops.OpOverload, input: torch.Tensor, *args: Any) -> Any:
    """A norm of bf16 or f16 with f32 weights has f32 statistics. PyTorch's trace has another dtype, and a backward
    graph would round them."""
    weight = next((argument for argument in args if isinstance(argument, torch.Tensor)), None)
    if weight is None or weight.dtype == input.dtype:
        return NotImplemented
    output, mean, rstd = op(input.to(weight.dtype), *args)
    return output.to(input.dtype), mean, rstd


def _all_decompositions() -> Table:
    """The decompositions into ATen calls, including those that the user registered. PyTorch's references give prims,
    which the registry lacks."""
    table = {
        op: function
        for op, function in torch._decomp.decomposition_table.items()
        if isinstance(op, torch._ops.OpOverload) and not function.__module__.startswith("torch._refs")
    }
    return table | _core_decompositions()


@functools.cache
def _core_decompositions() -> Table:
    return torch.export.default_decompositions().materialize()


def _fake_mode(leaves: list[Any]) -> FakeTensorMode:
    mode = detect_fake_mode(leaves)
    if mode is not None:
        return mode
    symbols = [leaf.node.shape_env for leaf in leaves if isinstance(leaf, _SYMBOLIC)]
    return FakeTensorMode(shape_env=symbols[0] if symbols else None)


def _example(value: Any, mode: FakeTensorMode) -> Any:
    """A new fake tensor, which the trace may write or reshape."""
    if not isinstance(value, torch.Tensor):
        return value
    if not isinstance(value, FakeTensor):
        return mode.from_tensor(value.detach(), static_shapes=True)
    with torch.no_grad(), mode:
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)


def _is_usable(module: fx.GraphModule, target: Any) -> bool:
    """A trace is useless if it gives the call itself, if it reads memory by strides (PyTorch's layout is not Tenon's),
    or if its constants are fake (their values are lost)."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in (target, torch.ops.aten.as_strided.default):
            return False
        if node.op == "get_attr" and isinstance(getattr(module, node.target, None), FakeTensor):
            return False
    return True
