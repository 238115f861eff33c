"""Which calls are recorded besides those that PyTorch's lazy device records itself."""

from __future__ import annotations

import torch

from tenon._tenon import aten_entries

_BY_THEMSELVES = ("Lazy", "CompositeImplicitAutograd")  # with a kernel of these, the lazy device records them
_ACROSS_DEVICES = {"copy", "resize"}  # not of one tensor's values alone


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
    is_random = torch.Tag.nondeterministic_seeded in op.tags  # a second run would give other numbers
    return not is_random and op._schema.name.removeprefix("aten::") not in _ACROSS_DEVICES and _is_function(op._schema)


def _is_function(schema: torch._C.FunctionSchema) -> bool:
    """From tensors to tensors, on their device, and nothing else."""
    given = [str(argument.real_type) for argument in schema.arguments]
    results = [str(result.type) for result in schema.returns]
    is_pure = all(value.alias_info is None for value in [*schema.arguments, *schema.returns])
    gives_tensors = results == ["List[Tensor]"] or (results and set(results) == {"Tensor"})
    takes_tensors = any("Tensor" in kind for kind in given) and not any("Device" in kind for kind in given)
    return bool(is_pure and gives_tensors and takes_tensors)
