"""Which calls are recorded besides those that PyTorch's lazy device records itself."""

from __future__ import annotations

import torch

from tenon._tenon import aten_entries

_BY_THEMSELVES = ("Lazy", "CompositeImplicitAutograd", "CompositeExplicitAutograd")  # a kernel of these is enough
_DEPENDS_ON_DATA = {torch.Tag.nondeterministic_seeded, torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
_RESULTS = ("Tensor", "List[Tensor]")


def overloads() -> list[str]:
    """Those of the registry that the lazy device would run one by one on the CPU, though a graph can hold them:
    "where.self", "sin"."""
    return [name for name in map(_name, aten_entries()) if (op := _overload(name)) is not None and _is_recorded(op)]


def _name(target: str) -> str:
    return target.removeprefix("aten.").removesuffix(".default")


def _overload(name: str) -> torch._ops.OpOverload | None:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)


def _is_recorded(op: torch._ops.OpOverload) -> bool:
    if any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key) for key in _BY_THEMSELVES):
        return False
    return _is_functional(op._schema) and _DEPENDS_ON_DATA.isdisjoint(op.tags)


def _is_functional(schema: torch._C.FunctionSchema) -> bool:
    values = [*schema.arguments, *schema.returns]
    results = [str(value.type) for value in schema.returns]
    is_one_list = len(results) == 1 or "List[Tensor]" not in results
    return all(value.alias_info is None for value in values) and set(results) <= set(_RESULTS) and is_one_list
