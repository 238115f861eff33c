"""The ops of the table express PyTorch's core ATen set: core_aten.py says how, and here each of its entries is called
as PyTorch's own overload is, evaluated with the reference backend, and compared with eager PyTorch.
"""

import functools

import pytest
import tenon
import torch
from core_aten import TABLE
from core_aten_samples import SAMPLES
from tenon import ops

# ---- what the core set is --------------------------------------------------------------------------------------------


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


def overload_named(name):
    _, packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def test_the_table_is_the_core_set():
    core = core_overloads()
    assert sorted(TABLE.keys() - core) == []
    assert sorted(core - TABLE.keys()) == []
    assert len(core) == 193


def test_every_overload_has_samples():
    assert sorted(SAMPLES.keys() ^ TABLE.keys()) == []
    assert [name for name, calls in SAMPLES.items() if len(calls) < 2] == []


# ---- an entry beside its overload ------------------------------------------------------------------------------------


class Call:
    """A sample call as a graph. Where `symbolic`, a size of 3 is the symbol S3."""

    def __init__(self, name, args, kwargs, symbolic=False):
        self.graph = tenon.Graph("call")
        self.tensors = []
        self.symbolic = symbolic
        args, kwargs = self.lift(list(args)), {key: self.lift(value) for key, value in kwargs.items()}
        results = TABLE[name](*args, **kwargs) if self.tensors else TABLE[name](self.graph, *args, **kwargs)
        self.results = [self.as_value(result) for result in listed(results)]
        self.graph.output(*(result for result in self.results if result is not None))
        self.graph.verify()
        assert tenon.parse(str(self.graph)) == self.graph

    def lift(self, argument):
        """The argument, with inputs of the graph for tensors."""
        if isinstance(argument, list):
            return [self.lift(item) for item in argument]
        if not isinstance(argument, torch.Tensor):
            return argument
        tensor = real(argument)
        name = f"x{len(self.tensors)}"
        self.tensors.append(tensor)
        shape = [f"S{size}" if self.symbolic and size > 1 else size for size in argument.shape]
        return self.graph.input(name, (tensor.dtype, shape + [2] * argument.is_complex()))

    def as_value(self, result):
        """A size becomes data."""
        if result is None or isinstance(result, tenon.Value):
            return result
        dtype = "bool" if isinstance(result, bool) else "i64"
        return ops.full(self.graph, value=result, shape=[], dtype=dtype)

    def evaluate(self, key=(193, 0)):
        keys = [torch.tensor(key)] * (len(self.graph.inputs) - len(self.tensors))
        outputs = iter(self.graph.evaluate(*self.tensors, *keys))
        return [None if result is None else torch.from_dlpack(next(outputs)) for result in self.results]


def real(tensor):
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def listed(results):
    return list(results) if isinstance(results, tuple | list) else [results]


def eager(name, args, kwargs):
    """What PyTorch gives, and then the arguments that it wrote without giving them."""
    overload = overload_named(name)
    args, kwargs = copied(list(args)), copied(kwargs)
    results = listed(overload(*args, **kwargs))
    for position, argument in enumerate(overload._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            written = kwargs[argument.name] if argument.kwarg_only else args[position]
            results += [written] if all(written is not result for result in results) else []
    return [torch.tensor(result) if isinstance(result, int | float) else result for result in results]


def copied(argument):
    if isinstance(argument, torch.Tensor):
        return argument.clone()
    if isinstance(argument, dict):
        return {key: copied(value) for key, value in argument.items()}
    return [copied(item) for item in argument] if isinstance(argument, list) else argument


# ---- judging ---------------------------------------------------------------------------------------------------------


def check_alike(mine, theirs):
    """Of the same dtype and shape."""
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert (a is None) == (b is None)
        assert a is None or (a.dtype, a.shape) == (real(b).dtype, real(b).shape)


def check_equal(call, name, args, kwargs):
    mine, theirs = call.evaluate(), eager(name, args, kwargs)
    check_alike(mine, theirs)
    for a, b in zip(mine, theirs, strict=True):
        if a is not None:
            torch.testing.assert_close(a, real(b), equal_nan=True)


def check_type_only(call, name, args, kwargs):
    check_alike(call.evaluate(), eager(name, args, kwargs))


def check_resized(call, name, args, kwargs):
    """What an enlarged tensor holds past its old elements is open."""
    (mine,), (theirs,) = call.evaluate(), eager(name, args, kwargs)
    check_alike([mine], [theirs])
    kept = min(mine.numel(), args[0].numel())
    torch.testing.assert_close(mine.flatten()[:kept], theirs.flatten()[:kept])


def check_random(is_plausible, call, name, args, kwargs):
    """The same key gives the same numbers, another one others."""
    mine, again, others = call.evaluate(), call.evaluate(), call.evaluate(key=(7, 5))
    check_alike(mine, eager(name, args, kwargs))
    torch.testing.assert_close(again, mine, rtol=0, atol=0)
    is_drawn = len(call.graph.inputs) > len(call.tensors) and mine[0].numel() > 1
    assert torch.equal(others[0], mine[0]) != is_drawn
    assert is_plausible(*mine, *args)


def is_uniform(x, size):
    return x.numel() == 0 or (
        x.min() >= 0 and x.max() < 1 and abs(x.mean() - 0.5) < 0.03 and abs(x.var() - 1 / 12) < 0.01
    )


def is_normal(x, size):
    return x.numel() == 0 or (abs(x.mean()) < 0.1 and abs(x.var() - 1) < 0.15)


def is_permutation(x, n):
    return sorted(x.tolist()) == list(range(n))


def is_dropped_out(out, mask, x, p, train):
    scale = 1 if train is False else 1 / (1 - p)
    share = 1 if train is False else 1 - p
    return torch.allclose(out, x * mask * scale) and abs(mask.float().mean() - share) < 0.05


CHECKS = {
    "aten.empty.memory_format": check_type_only,
    "aten.empty_strided.default": check_type_only,
    "aten.native_dropout.default": functools.partial(check_random, is_dropped_out),
    "aten.rand.default": functools.partial(check_random, is_uniform),
    "aten.randn.default": functools.partial(check_random, is_normal),
    "aten.randperm.default": functools.partial(check_random, is_permutation),
    "aten.resize_.default": check_resized,
}


@pytest.mark.parametrize("name", sorted(TABLE))
def test_overload_agrees_with_torch(name):
    check = CHECKS.get(name, check_equal)
    failures = []
    for position, (args, kwargs) in enumerate(SAMPLES[name]):
        try:
            check(Call(name, args, kwargs), name, args, kwargs)
        except (tenon.Error, tenon.InternalError, AssertionError) as error:
            failures.append(f"call {position}: {args} {kwargs}\n{type(error).__name__}: {error}")
    if failures:
        pytest.fail("\n\n".join(failures), pytrace=False)


# Overloads whose samples have no sizes, give them as numbers, or need to know more of them than which are equal.
STATIC = {
    "aten._local_scalar_dense.default": "there is one element",
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


def has_symbols(graph):
    return any(isinstance(size, tenon.Expr) for value in graph.inputs for size in value.shape)


@pytest.mark.parametrize("name", sorted(TABLE.keys() - CHECKS.keys()))
def test_overload_takes_symbolic_sizes(name):
    agreed = 0
    for args, kwargs in SAMPLES[name]:
        try:
            call = Call(name, args, kwargs, symbolic=True)
        except (tenon.Error, TypeError):
            continue  # it would not hold for all sizes
        check_equal(call, name, args, kwargs)
        agreed += has_symbols(call.graph)
    assert (agreed == 0) == (name in STATIC)
