"""The functions that a file may make PyTorch run: operators that are registered in this process, found by name. Nothing
else is looked up, and nothing is imported."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

import torch

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATORS = "add sub mul truediv floordiv mod pow neg pos abs eq ne lt le gt ge and_ or_ not_ lshift rshift"
# Arithmetic of sizes and numbers, by its names in exported programs.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"_operator.{name}": getattr(operator, name) for name in _OPERATORS.split()},
    **{f"math.{name}": getattr(math, name) for name in ("ceil", "floor", "trunc", "sqrt")},
    **{
        f"torch.{name}": getattr(torch, name)
        for name in ("sym_float", "sym_int", "sym_max", "sym_min", "sym_not", "sym_ite", "sym_sum")
        if hasattr(torch, name)
    },
}
# Operators that reach beyond their tensors: to files, to other processes, to settings of this process.
_REFUSED_OPS = {"aten.from_file"}
_REFUSED_NAMESPACES = {
    "prim",
    "c10d",
    "_c10d_functional",
    "_c10d_functional_autograd",
    "_dtensor",
    "symm_mem",
    "rpc",
    "profiler",
    "inductor",
}
_OWN_NAMESPACES = {"aten", "prims"}  # PyTorch's own


def find_operator(target: str) -> Callable[..., Any] | None:
    """The operator of an exported program's "aten.sin.default", "mine.op.default" or "_operator.mul"; None if this
    process has no such operator, or if files may not call it."""
    if target in _FUNCTIONS:
        return _FUNCTIONS[target]
    return _overload(target)


def writes_arguments(target: str) -> bool:
    found = _overload(target)
    return found is not None and found._schema.is_mutable


def may_share_memory(target: str) -> bool:
    """Whether results may be views of arguments."""
    found = _overload(target)
    return found is not None and any(result.alias_info is not None for result in found._schema.returns)


def _overload(target: str) -> torch._ops.OpOverload | None:
    parts = target.split(".")
    if len(parts) != 3 or not all(map(_NAME.fullmatch, parts)):
        return None
    namespace, name, overload = parts
    if namespace in _REFUSED_NAMESPACES or f"{namespace}.{name}" in _REFUSED_OPS:
        return None
    known = torch._C._jit_get_schemas_for_operator(f"{namespace}::{name}")
    if not any((schema.overload_name or "default") == overload for schema in known):
        return None
    packet = getattr(getattr(torch.ops, namespace), name, None)
    found = getattr(packet, overload, None) if isinstance(packet, torch._ops.OpOverloadPacket) else None
    if not isinstance(found, torch._ops.OpOverload):
        return None
    return found if namespace in _OWN_NAMESPACES or not _takes_text(found._schema) else None


def _takes_text(schema: Any) -> bool:
    """Whether an argument is a string: it may name a file, as in torchvision's image.write_file."""
    return any("str" in str(argument.type) for argument in schema.arguments)
