"""External calls in files. A file says which operator of PyTorch a call needs, by name, and how it is called, in the
closed form of a model's call (src/capture/call_form.h); tenon.load finds the operator in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from tenon import _tenon, modes
from tenon._tenon import fail
from tenon.capture.fallback import Fallback, FallbackCall, GradientCall, Result, Slot, TokenSlot, external_nodes
from tenon.capture.operators import find_operator, writes_arguments
from tenon.structure import Tree, arguments_tree, parameters_of

_NUMBERS = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}
_CONVERSIONS = {"int": int, "float": float, "bool": bool}
_GRADIENT = "gradient."  # before the name of a call: its gradient
_GRADIENTS = "gradients"  # the argument of a gradient that has the gradients of the call's results
# What PyTorch has names for, written {"torch": "float32"}. A file can mean nothing else.
_NAMED = {
    str(value).removeprefix("torch."): value
    for value in vars(torch).values()
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format))
}


class _CallError(Exception):
    """Why a call cannot be in a file."""


def call_notes(graph: _tenon.Graph, fallback: Fallback) -> dict[str, str]:
    """The notes that describe the external calls of a graph. Raises a tenon.Error that lists those that no file can
    describe."""
    notes, problems = {}, []
    for node in external_nodes(graph):
        target, number = node.attrs["target"], node.attrs["call"]
        try:
            notes[f"external.{number}"] = _text_of(target, fallback.call_of(number))
        except _CallError as problem:
            where = f"{node.location}: " if node.location.line else ""
            problems.append(f"\n  {where}{target}: {problem}")
    if problems:
        fail(f"the program cannot be saved: these calls run only in the process that traced them:{''.join(problems)}")
    return notes


# ---- writing --------------------------------------------------------------------------------------------------------


def _text_of(target: str, call: FallbackCall | GradientCall) -> str:
    if isinstance(call, GradientCall):
        parameters = _parameters_of(target.removeprefix(_GRADIENT), call.call)
        if _GRADIENTS in call.call.kwargs:
            raise _CallError(f"it has an argument '{_GRADIENTS}'")
        given = [Tree("constant") if i is None else Tree("tensor", i) for i in call.result_gradients]
        parameters.append((_GRADIENTS, True, Tree("list", None, tuple(given)).plain()))
        results = [Tree("constant")] * call.operands
        for place, operand in enumerate(call.wanted):
            if operand is not None:
                results[operand] = Tree("tensor", place)
    else:
        parameters = _parameters_of(target, call)
        kinds = {dtype: kind for kind, dtype in _NUMBERS.items()}
        results = [Tree(kinds.get(result.number, "tensor"), i) for i, result in enumerate(call.results)]
    return _tenon.call_form_text(parameters, Tree("list", None, tuple(results)).plain())


def _parameters_of(target: str, call: FallbackCall) -> list[tuple[str, bool, Any]]:
    operator = find_operator(target)
    if operator is None or operator is not call.function:
        raise _CallError("it is not an operator that a file may call")
    if writes_arguments(target):
        raise _CallError("it writes its arguments")
    if not call.results:
        raise _CallError("it has no results")
    if any(result.token for result in call.results):
        raise _CallError("it gives a tensor of a dtype that Tenon lacks")
    schema = operator._schema if isinstance(operator, torch._ops.OpOverload) else None
    names = [argument.name for argument in schema.arguments] if schema else []
    positional = Tree("tuple", None, tuple(map(_tree_of, call.args)))
    keywords = Tree("dict", list(call.kwargs), tuple(map(_tree_of, call.kwargs.values())))
    return parameters_of(Tree("tuple", None, (positional, keywords)), names)


def _tree_of(value: Any) -> Tree:
    if isinstance(value, Slot):
        return Tree("tensor" if value.convert is None else value.convert.__name__, value.operand)
    if isinstance(value, (list, tuple)):
        return Tree("list", None, tuple(map(_tree_of, value)))
    if value is None or isinstance(value, (bool, int, float, str)):
        return Tree("constant", value)
    name = str(value).removeprefix("torch.")
    if _NAMED.get(name) is value or value == torch.device("cpu"):
        return Tree("dict", ["torch"], (Tree("constant", name),))
    kept = "a tensor of a dtype that Tenon lacks"
    raise _CallError(f"it takes {kept if isinstance(value, TokenSlot) else repr(value)}")


# ---- reading --------------------------------------------------------------------------------------------------------


def find_call(name: str, text: str, inputs: int, outputs: int) -> Callable[[list[Any]], list[Any]] | None:
    """The function from operands to results; None if this process has no such operator, or none that a file may
    call."""
    target = name.removeprefix(_GRADIENT) if name.count(".") == 3 else name
    operator = find_operator(target)
    if operator is None or writes_arguments(target):
        return None
    parameters, results = _tenon.parse_call_form(text)
    leaves = list(Tree.of(results).leaves())
    places = {leaf.data: i for i, leaf in enumerate(leaves) if leaf.kind != "constant"}
    if sorted(places) != list(range(outputs)):
        fail(f"the file calls {name} for {outputs} results, with the form {text}")
    args, kwargs = _arguments(parameters, inputs, lambda: _fail_form(name, text))
    wanted = [places[i] for i in range(outputs)]
    call: FallbackCall | GradientCall
    if target == name:
        call = FallbackCall(operator, args, kwargs, [Result(None, _NUMBERS.get(leaf.kind)) for leaf in leaves])
    else:
        gradients = kwargs.pop(_GRADIENTS, None)
        slots = [slot and slot.operand for slot in gradients] if _are_slots(gradients) else _fail_form(name, text)
        if any(operand >= inputs for operand in wanted):
            _fail_form(name, text)
        forward = FallbackCall(operator, args, kwargs, [Result()] * len(slots))
        call, wanted = GradientCall(target, forward, len(leaves), slots, wanted), list(range(outputs))

    @modes.run_outside
    def run(operands: list[Any]) -> list[Any]:
        with torch.no_grad(), torch._C._DisableAutocast():
            given = call.run(operands, {})
        return [given[place] for place in wanted]

    return run


def _arguments(
    parameters: list[tuple[str, bool, Any]], inputs: int, fail_form: Callable[[], NoReturn]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a form, with slots in the places of operands."""

    def value_of(tree: Tree) -> Any:
        if tree.kind == "list":
            return [value_of(child) for child in tree.children or ()]
        if tree.kind == "constant":
            return tree.data
        if tree.kind in ("tensor", *_CONVERSIONS) and tree.data < inputs:
            return Slot(tree.data, _CONVERSIONS.get(tree.kind))
        if tree.kind == "dict" and tree.data == ["torch"]:
            return _named(tree.children[0].data) if tree.children else None
        return fail_form()

    positional, keywords = arguments_tree(parameters)[0].children or ()
    args = [value_of(tree) for tree in positional.children or ()]
    return args, {key: value_of(tree) for key, tree in zip(keywords.data, keywords.children or (), strict=True)}


def _are_slots(values: Any) -> bool:
    return isinstance(values, list) and all(value is None or isinstance(value, Slot) for value in values)


def _named(name: Any) -> Any:
    if name == "cpu":
        return torch.device("cpu")
    if name not in _NAMED:
        fail(f"the file names torch.{name}, which is no dtype, layout or memory format")
    return _NAMED[name]


def _fail_form(name: str, text: str) -> NoReturn:
    fail(f"the file calls {name} in a form that is none: {text}")
