"""Calls of ATen overloads as graphs, and how their results are judged: by eager PyTorch.

A sample is (args, kwargs), as PyTorch's own overload takes them. It goes through the importer into a graph, which the
reference backend evaluates. Besides:

  - One that writes an argument gives the argument's new value, after its results unless that is its result.
  - A complex tensor is a real one with a last dimension of 2.
  - Random numbers come from the graph's last input, a key.
"""

import functools
import importlib

import tenon
import tenon.capture.grouped
import torch
import transformers.integrations.moe
from complex_aten import TABLE
from tenon import _tenon

OPERATORS = (tenon.capture.grouped, transformers.integrations.moe)  # what else registers operators


def overload_named(name):
    """The overload, or the Python function, of that name."""
    namespace, _, rest = name.partition(".")
    is_overload = namespace in ("aten", "prims", "torch_nn", "tenon", "transformers", "quantized_decomposed")
    found = getattr(torch.ops, namespace) if is_overload else importlib.import_module(namespace)
    for part in rest.split("."):
        found = getattr(found, part)
    return found


def schema_of(name):
    return getattr(overload_named(name), "_schema", None)


def only_written(name):
    """The positions and names of the arguments that the overload writes and does not return."""
    schema = schema_of(name)
    if schema is None:
        return []
    returned = {alias for result in schema.returns if result.alias_info for alias in result.alias_info.before_set}
    return [
        (position, argument)
        for position, argument in enumerate(schema.arguments)
        if argument.alias_info is not None
        and argument.alias_info.is_write
        and not argument.alias_info.before_set & returned
    ]


def listed(results):
    return list(results) if isinstance(results, tuple | list) else [results]


def real(tensor):
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


# ---- the call as a graph ---------------------------------------------------------------------------------------------


class Call:
    """A sample call as a graph. Where `symbolic`, a size of 3 is the symbol S3."""

    def __init__(self, name, args, kwargs, symbolic=False):
        self.tensors = []
        self.symbolic = symbolic
        self.importer = _tenon.Importer("call")
        if _tenon.has_aten(name):
            self.results, self.graph = self.imported(name, args, kwargs)
        else:
            self.results, self.graph = self.tabled(name, args, kwargs)
        self.graph.verify()
        assert tenon.parse(str(self.graph)) == self.graph

    def imported(self, name, args, kwargs):
        args, kwargs = self.lift(list(args)), {key: self.lift(value) for key, value in kwargs.items()}
        results = listed(self.importer.call(name, args, kwargs))
        for position, argument in only_written(name):
            results.append(kwargs[argument.name] if argument.kwarg_only else args[position])
        return results, self.importer.finish([result for result in results if result is not None])

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
        return self.importer.input(name, (tensor.dtype, shape + [2] * argument.is_complex()))

    def tabled(self, name, args, kwargs):
        """Likewise, by the table of complex_aten.py."""
        graph = tenon.Graph("call")
        self.importer = graph
        args, kwargs = self.lift(list(args)), {key: self.lift(value) for key, value in kwargs.items()}
        results = listed(TABLE[name](*args, **kwargs))
        graph.output(*results)
        return results, graph

    def evaluate(self, key=(193, 0)):
        keys = [torch.tensor(key)] * (len(self.graph.inputs) - len(self.tensors))
        outputs = iter(self.graph.evaluate(*copied(self.tensors), *keys))  # updates write the inputs
        return [None if result is None else torch.from_dlpack(next(outputs)) for result in self.results]


def eager(name, args, kwargs):
    """What PyTorch gives, and then the arguments that it wrote without giving them."""
    args, kwargs = copied(list(args)), copied(kwargs)
    results = listed(overload_named(name)(*args, **kwargs))
    for position, argument in only_written(name):
        results.append(kwargs[argument.name] if argument.kwarg_only else args[position])
    return [as_tensor(result) for result in results]


def as_tensor(result):
    """A number alone is exact: a Python float has 64 bits."""
    if isinstance(result, float):
        return torch.tensor(result, dtype=torch.float64)
    return torch.tensor(result) if isinstance(result, int) else result


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


def check_number(call, name, args, kwargs):
    """A number that is only known at run time: a tensor of rank 0, of the dtype that the number was read from."""
    (mine,), (theirs,) = call.evaluate(), eager(name, args, kwargs)
    assert mine.shape == ()
    torch.testing.assert_close(mine.to(theirs.dtype), theirs)


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
    assert is_plausible(*mine, *args, **kwargs)


def check_all(check, name, samples):
    """Every sample of an overload; gives what went wrong."""
    failures = []
    for position, (args, kwargs) in enumerate(samples):
        try:
            check(Call(name, args, kwargs), name, args, kwargs)
        except (tenon.Error, tenon.InternalError, AssertionError, RuntimeError) as error:
            failures.append(f"call {position}: {args} {kwargs}\n{type(error).__name__}: {error}")
    return "\n\n".join(failures)


def symbolic_agreements(name, samples):
    """How many samples agree with symbolic sizes. One that would not hold for all sizes is an error of the import."""
    agreed = 0
    for args, kwargs in samples:
        try:
            call = Call(name, args, kwargs, symbolic=True)
        except (tenon.Error, TypeError):
            continue
        check_equal(call, name, args, kwargs)
        agreed += any(isinstance(size, tenon.Expr) for value in call.graph.inputs for size in value.shape)
    return agreed


# ---- random numbers --------------------------------------------------------------------------------------------------


def is_uniform(x, size, **_):
    return x.numel() == 0 or (
        x.min() >= 0 and x.max() < 1 and abs(x.mean() - 0.5) < 0.03 and abs(x.var() - 1 / 12) < 0.01
    )


def is_normal(x, size, **_):
    return x.numel() == 0 or (abs(x.mean()) < 0.1 and abs(x.var() - 1) < 0.15)


def is_permutation(x, n, **_):
    return sorted(x.tolist()) == list(range(n))


def is_dropped_out(out, mask, x, p, train):
    scale = 1 if train is False else 1 / (1 - p)
    share = 1 if train is False else 1 - p
    return torch.allclose(out, x * mask * scale) and abs(mask.float().mean() - share) < 0.05


def random(is_plausible):
    return functools.partial(check_random, is_plausible)
