"""The calls that are recorded in addition to those of PyTorch's lazy device, or instead of them."""

from __future__ import annotations

import functools

import torch
from torch.utils._pytree import tree_leaves

from tenon._tenon import aten_entries

# PyTorch's own kernels of these calls are wrong, with every backend: pixels are read from unwritten memory, a selection
# must have a dimension, gradients of integers are integers. Pooling in three dimensions runs on the CPU.
_IN_PLACE_OF_PYTORCHS = {
    "index_select",
    "max_pool3d_with_indices",
    "max_pool3d_with_indices_backward",
    "native_dropout_backward",
    "pixel_shuffle",
    "pixel_unshuffle",
}
_ELSEWHERE = {"copy", "resize"}  # extension/kernels.h has copy; a resize returns a tensor of other memory


def overloads() -> list[str]:
    """The registry's overloads that the lazy device would run one by one on the CPU, although a graph can hold them:
    "where.self", "sin". Also those whose random numbers PyTorch would draw when the graph runs."""
    found = [name for name in map(_name, aten_entries()) if (op := _overload(name)) is not None and _is_recorded(op)]
    return [*found, *sorted(name for name in _IN_PLACE_OF_PYTORCHS if _overload(name) is not None)]


def decompose_composites() -> None:
    """PyTorch differentiates a composite through its parts, unless a device has a kernel for it. The lazy device has
    such kernels, without a gradient (`std`, `logdet`, `svd`). This makes them composites again, until the process
    ends."""
    global _composites
    _composites = torch.library.Library("aten", "IMPL")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("Lazy"):
        op = _overload(name.removeprefix("aten::"))
        if op is None or not has_kernel(name, "CompositeImplicitAutograd"):
            continue
        if not op._schema.is_mutable:
            _composites.impl(name.removeprefix("aten::"), functools.partial(_by_its_parts, op), "AutogradLazy")


_composites: torch.library.Library | None = None


def _by_its_parts(op: torch._ops.OpOverload, *args: object, **kwargs: object) -> object:
    """If a gradient may be needed; otherwise the whole is one call of the graph."""
    tensors = (leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor))
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return op.decompose(*args, **kwargs)
    with torch._C._AutoDispatchBelowAutograd():
        return op(*args, **kwargs)


def _name(target: str) -> str:
    return target.removeprefix("aten.").removesuffix(".default")


def _overload(name: str) -> torch._ops.OpOverload | None:
    """None if this PyTorch lacks it, or if only TorchScript has it."""
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    return op if op is not None and _has_schema(op.name()) else None


def _has_schema(name: str) -> bool:
    return name in _names_in_dispatcher()


@functools.cache
def _names_in_dispatcher() -> frozenset[str]:
    return frozenset(torch._C._dispatch_get_all_op_names())


def _is_recorded(op: torch._ops.OpOverload) -> bool:
    has_kernel = functools.partial(torch._C._dispatch_has_kernel_for_dispatch_key, op.name())
    is_random = torch.Tag.nondeterministic_seeded in op.tags
    if has_kernel("CompositeImplicitAutograd") or (has_kernel("Lazy") and not is_random):
        return False  # PyTorch records its parts, or the call itself
    return op._schema.name.removeprefix("aten::") not in _ELSEWHERE and _is_function(op._schema)


def _is_function(schema: torch._C.FunctionSchema) -> bool:
    """Whether the call takes and returns only tensors, on their device."""
    given = [str(argument.real_type) for argument in schema.arguments]
    results = [str(result.type) for result in schema.returns]
    is_pure = all(value.alias_info is None for value in [*schema.arguments, *schema.returns])
    gives_tensors = results == ["List[Tensor]"] or (results and set(results) == {"Tensor"})
    takes_tensors = any("Tensor" in kind for kind in given) and not any("Device" in kind for kind in given)
    return bool(is_pure and gives_tensors and takes_tensors)
