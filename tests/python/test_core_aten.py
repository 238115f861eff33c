"""PyTorch's core ATen set: each of its overloads is called as PyTorch's own is, through the registry, evaluated with
the reference backend, and compared with eager PyTorch.
"""

import aten_calls
import pytest
import torch
from core_aten_samples import SAMPLES


def core_overloads():
    """The names of all overloads that PyTorch tags as core, from the dispatcher: dir() shows only what was used."""
    names = set()
    for qualified in torch._C._dispatch_get_all_op_names():
        namespace, _, name = qualified.partition("::")
        packet, _, overload = name.partition(".")
        if namespace != "aten":
            continue
        found = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
        if found is not None and torch.Tag.core in found.tags:
            names.add(str(found))
    return names


def test_the_samples_are_of_the_core_set():
    core = core_overloads()
    assert sorted(SAMPLES.keys() ^ core) == []
    assert len(core) == 193
    assert [name for name, calls in SAMPLES.items() if len(calls) < 2] == []


CHECKS = {
    "aten._local_scalar_dense.default": aten_calls.check_number,
    "aten.empty.memory_format": aten_calls.check_type_only,
    "aten.empty_strided.default": aten_calls.check_type_only,
    "aten.native_dropout.default": aten_calls.random(aten_calls.is_dropped_out),
    "aten.rand.default": aten_calls.random(aten_calls.is_uniform),
    "aten.randn.default": aten_calls.random(aten_calls.is_normal),
    "aten.randperm.default": aten_calls.random(aten_calls.is_permutation),
    "aten.resize_.default": aten_calls.check_resized,
}


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_overload_agrees_with_torch(name):
    failures = aten_calls.check_all(CHECKS.get(name, aten_calls.check_equal), name, SAMPLES[name])
    if failures:
        pytest.fail(failures, pytrace=False)


# Overloads whose samples have no sizes, give them as numbers, or need to know more of them than which are equal.
STATIC = {
    "aten.arange.start_step": "there is no tensor",
    "aten.avg_pool2d_backward.default": "the gradient's sizes follow from those of x",
    "aten.col2im.default": "the number of windows is given",
    "aten.full.default": "there is no tensor",
    "aten.grid_sampler_2d.default": "the last size of a grid is 2",
    "aten.native_group_norm_backward.default": "the sizes of x are given again",
    "aten.scalar_tensor.default": "there is no tensor",
    "aten.split_with_sizes.default": "the sizes add up to a given one",
    "aten.topk.default": "k is at most the size",
}


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - CHECKS.keys()))
def test_overload_takes_symbolic_sizes(name):
    agreed = aten_calls.symbolic_agreements(name, SAMPLES[name])
    assert (agreed == 0) == (name in STATIC)
