"""Makes a Captured from a .pt2 file, without torch.export.load, which unpickles, imports and evaluates content of the
file.

The C++ library reads the file (src/capture/pt2), trusts nothing in it, and makes the graph. This module makes the calls
that PyTorch runs: the file names them, and only operators that are registered in this process are found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tenon import _tenon
from tenon._tenon import Expr, Imported, Location, Pt2Graph, Pt2Node, fail
from tenon.capture.captured import NO_FALLBACK, Assertion, Captured, Input, Output, Row, counted, type_text
from tenon.capture.fallback import Fallback, FallbackCall, Result, Slot, TokenSlot
from tenon.capture.operators import find_operator, may_share_memory, writes_arguments
from tenon.structure import Nesting, Tree, arguments_tree

_SYMBOLIC = {
    "as_sym_int": (torch.int64, int),
    "as_sym_float": (torch.float64, float),
    "as_sym_bool": (torch.bool, bool),
}
_NESTED_TENSORS = {"as_tensors", "as_optional_tensors", "as_nested_tensors"}
_PLAIN = {
    "as_none",
    "as_int",
    "as_ints",
    "as_float",
    "as_floats",
    "as_string",
    "as_strings",
    "as_bool",
    "as_bools",
    "as_complex",
    "as_int_lists",
    "as_float_lists",
}
_LAYOUTS = {name: getattr(torch, name) for name in ("strided", "sparse_coo", "sparse_csr", "sparse_csc")}
_MEMORY_FORMATS = {
    "contiguous": torch.contiguous_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
    "preserve": torch.preserve_format,
}
_SAVE_ANEW = "load it with torch.export.load where you trust it, and save exported.run_decompositions({})"


class FileModel:
    """An exported program in a file, and how it is called."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.program = _tenon.read_pt2(self.path)
        self._as_recorded: Imported | None = None
        self._as_recorded = self._imported(None)
        parameters, results = self._as_recorded.nesting
        arguments, names = arguments_tree(parameters)
        self.arguments = Nesting(arguments)
        self.argument_names = names
        self.results = Nesting(Tree.of(results))

    def captured(self, training: bool | None = None, fallback: bool = True, why: str = NO_FALLBACK) -> Captured:
        """The program as recorded, unless `training` sets the mode of dropout and batch norm. Without `fallback`, a
        call that PyTorch would have to run is an error; `why` is its reason."""
        imported = self._imported(training)
        if not fallback:
            imported.check_supported(why)
        return _Capture(self, imported).run()

    def _imported(self, training: bool | None) -> Imported:
        if training is None and self._as_recorded is not None:
            return self._as_recorded
        return _tenon.import_program(self.program, training, self.path)


class _Capture:
    """Makes a Captured from what the C++ library imported."""

    def __init__(self, file: FileModel, imported: Imported) -> None:
        self._imported = imported
        self._graph = imported.graph
        self._tensors = file.program.graph.tensors
        self._nodes = list(_nodes_of(file.program.graph))
        self._path = file.path
        self._inputs = self._all_inputs()

    def run(self) -> Captured:
        imported = self._imported
        fallback = Fallback()
        fallback.calls = dict(enumerate(self._fallback_calls()))
        positions = [(number, i) for i, (_, number, _) in enumerate(imported.inputs) if number is not None]
        outputs = [*map(self._output, imported.outputs, imported.kept_outputs)]
        return Captured(
            graph=self._graph,
            inputs=self._inputs,
            outputs=outputs,
            fallback=fallback,
            graph_inputs=[position for _, position in sorted(positions)],
            has_key=bool(imported.key_input),
            assertions=[
                Assertion(message, _place(location), index, guard)
                for message, index, guard, location in imported.assertions
            ],
            rows=[*self._rows(), Row("output", "output", "output", counted(len(outputs), "value"))],
            unsupported=imported.unsupported,
            check_supported=imported.check_supported,
        )

    # -- inputs and outputs --

    def _all_inputs(self) -> list[Input]:
        sizes = self._imported.sizes
        shapes = [tuple(value.shape) for value in self._graph.inputs]
        return [
            self._input(name, kind, value, None if number is None else shapes[number], sizes.get(name))
            for name, number, (kind, value) in self._imported.inputs
        ]

    def _input(
        self, name: str, kind: str, value: Any, shape: tuple[int | Expr, ...] | None, size: int | Expr | None
    ) -> Input:
        if kind == "as_tensor":
            meta = self._tensors[value]
            dtype, device = _dtype(meta["dtype"]), _device(*meta["device"])
            if shape is None:
                return Input(name, "token", dtype=dtype, shape=tuple(meta["sizes"]), device=device)
            is_whole = name in self._imported.whole_inputs
            return Input(name, "tensor", dtype=dtype, shape=shape, device=device, is_whole=is_whole)
        if size is not None:
            return Input(name, "number", size=size)
        return Input(name, "constant", value=value)

    def _output(self, output: tuple[Any, ...], kept: tuple[str, Any] | None) -> Output:
        number, argument, weight, (kind, value) = output
        if number is not None:
            if kind in _SYMBOLIC:
                return Output("number", number, _SYMBOLIC[kind][1])
            return Output("result", number)
        if argument is not None:
            return Output("input", argument)
        if weight is not None:
            return Output("constant", value=torch.from_dlpack(weight))
        if kept is None:
            return Output("constant", value=value)
        where, data = kept
        return Output("token", value=data) if where == "kept" else Output("constant", value=_foreign(data))

    # -- reports --

    def _rows(self) -> Iterator[Row]:
        for given in self._inputs:
            yield Row("placeholder", given.name, given.name, given.type)
        reasons = {}
        for (node, _, _), (_, reason, _) in zip(self._imported.external, self._imported.unsupported, strict=True):
            reasons[node.name] = reason
        for node in self._nodes:
            is_number = all(kind in ("as_sym_int", "as_sym_bool") for kind, _ in node.outputs)
            reason = reasons.get(node.name)
            if (is_number or not node.outputs) and reason is None:
                continue
            types = [text for output in node.outputs for text in self._types_of(output)]
            text = types[0] if len(types) == 1 else f"({', '.join(types)})"
            yield Row("call_function", node.name, _target(node), text, _place(node.location), reason)

    def _types_of(self, output: tuple[str, Any]) -> Iterator[str]:
        kind, value = output
        names = [value] if kind == "as_tensor" else value if kind == "as_tensors" else []
        for name in names:
            meta = self._tensors.get(name)
            if meta is not None:
                yield type_text(_dtype(meta["dtype"]), meta["sizes"])

    # -- calls that PyTorch runs --

    def _fallback_calls(self) -> Iterator[FallbackCall]:
        writes = any(writes_arguments(_target(node)) for node in self._nodes) if self._imported.external else False
        for node, values, kept in self._imported.external:
            yield _FallbackCallMaker(node, values, kept, self._tensors, self._path).run(writes)


class _FallbackCallMaker:
    """Makes the call of a node: a registered operator, with plain arguments."""

    def __init__(
        self, node: Pt2Node, values: dict[str, tuple[str, Any]], kept: list[str], metas: dict[str, Any], path: str
    ) -> None:
        self._node = node
        self._values = values
        self._kept = kept
        self._metas = metas  # of the file's tensors, by name
        self._path = path

    def run(self, program_writes: bool) -> FallbackCall:
        target = _target(self._node)
        operator = find_operator(target)
        if operator is None:
            self._fail("this process has no such operator, or none that a file may call (docs/security.md)")
        if writes_arguments(target):
            self._fail(f"it writes its arguments in place, which PyTorch cannot do here: {_SAVE_ANEW}")
        if program_writes and may_share_memory(target):
            self._fail(f"it may give a view of its argument, and the model writes in place: {_SAVE_ANEW}")
        named = [(name, kind != "positional" and name != "", value) for name, kind, value in self._node.inputs]
        args = [self._argument(*value) for _, is_named, value in named if not is_named]
        kwargs = {name: self._argument(*value) for name, is_named, value in named if is_named}
        results = [
            Result(key or None, _SYMBOLIC[kind][0] if kind in _SYMBOLIC else None)
            for kind, key in zip(_result_kinds(self._node), self._kept, strict=True)
        ]
        return FallbackCall(operator, args, kwargs, results)

    def _argument(self, kind: str, value: Any) -> Any:
        if kind in ("as_tensor", "as_optional_tensor"):
            return None if value is None else self._named(value, None)
        if kind in _NESTED_TENSORS:
            return self._tensors(value)
        if kind in _SYMBOLIC:
            return self._named(value, _SYMBOLIC[kind][1]) if isinstance(value, str) else value
        if kind.removesuffix("s") in _SYMBOLIC:
            return [self._argument(kind.removesuffix("s"), item) for item in value]
        if kind in _PLAIN:
            return value
        if kind == "as_scalar_type":
            return _dtype(value)
        if kind == "as_device":
            return _device(*value)
        if kind == "as_layout" and value in _LAYOUTS:
            return _LAYOUTS[value]
        if kind == "as_memory_format" and value in _MEMORY_FORMATS:
            return _MEMORY_FORMATS[value]
        if kind == "as_string_to_argument":
            return {name: self._argument(*item) for name, item in value.items()}
        what = "a graph" if kind == "as_graph" else kind.removeprefix("as_").replace("_", " ")
        return self._fail(f"it takes {what}, and a file can give PyTorch only tensors, numbers and texts")

    def _tensors(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._tensors(item) for item in value]
        return None if value is None else self._named(value, None)

    def _named(self, name: str, convert: Callable[[Any], Any] | None) -> Any:
        where, data = self._values[name]
        if where == "operand":
            return Slot(data, convert)
        if where == "kept":
            return TokenSlot(data)
        if where == "foreign":
            return _foreign(data)
        if where == "constant":
            return data if convert is None else convert(data)
        return self._fail(f"it takes '{name}', which cannot be read from the file")

    def _fail(self, why: str) -> Any:
        location = self._node.location
        place = (location.file, location.line) if location.file else (self._path,)
        return fail(f"{_target(self._node)} cannot be left to PyTorch: {why}", *place)


def _nodes_of(graph: Pt2Graph) -> Iterator[Pt2Node]:
    """With the nodes of graphs that a node merely calls."""
    for node in graph.nodes:
        inner = [value for _, _, (kind, value) in node.inputs if kind == "as_graph"]
        if _target(node).startswith("higher_order.wrap_with_") and inner:
            for _, body in inner:
                yield from _nodes_of(body)
        else:
            yield node


def _target(node: Pt2Node) -> str:
    """ "aten.relu.default", "_operator.mul". A call with ordered effects has its target among its arguments."""
    target = node.target.removeprefix("torch.ops.")
    if target != "higher_order.with_effects":
        return target
    operators = (value for _, _, (kind, value) in node.inputs if kind == "as_operator")
    return next(operators, target).removeprefix("torch.ops.")


def _result_kinds(node: Pt2Node) -> Iterator[str]:
    for kind, value in node.outputs:
        if kind == "as_tensors":
            yield from ["as_tensor"] * len(value)
        elif kind != "as_none":
            yield kind


def _place(location: Location | None) -> tuple[str, int] | None:
    return (location.file, location.line) if location is not None and location.file else None


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None) if name.isidentifier() else None
    if not isinstance(dtype, torch.dtype):
        fail(f"PyTorch has no dtype '{name}'")
    return dtype


def _device(kind: str, index: int | None) -> torch.device:
    try:
        return torch.device(kind) if index is None else torch.device(kind, index)
    except RuntimeError:
        return fail(f"PyTorch has no device '{kind}'")


def _foreign(data: tuple[torch.Tensor, str, list[int], list[int], int]) -> torch.Tensor:
    """A tensor of a dtype that Tenon lacks. PyTorch checks that it lies within the storage."""
    storage, dtype, sizes, strides, offset = data
    try:
        return storage.view(_dtype(dtype)).as_strided(sizes, strides, offset)
    except RuntimeError as error:
        return fail(f"a tensor of {dtype} does not fit its data: {error}")
