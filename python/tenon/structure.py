"""How the arguments and results of a model nest.

A Tree is a closed form: tuples, lists, dictionaries, named tuples and leaves. A file has this form; reading it imports
and calls nothing that the file names. The C++ library reads and checks its text (src/capture/call_form.h). A model
traced in this process nests by PyTorch's pytree, with classes of the user. A Nesting is either of the two.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch.utils._pytree as pytree

from tenon._tenon import fail

_MAPPINGS = {"dict": dict, "ordered": collections.OrderedDict}
_KINDS_OF_CLASSES = {list: "list", collections.deque: "list", dict: "dict", collections.OrderedDict: "ordered"}


@dataclass(frozen=True)
class Tree:
    """A leaf has no children (None), and its data describes it. The data of a dictionary are its keys; those of a named
    tuple, its name and its fields."""

    kind: str  # "tuple", "list", "dict", "ordered", "named", or the kind of a leaf
    data: Any = None
    children: tuple[Tree, ...] | None = None

    @classmethod
    def of(cls, plain: tuple[Any, Any, list[Any] | None]) -> Tree:
        """From the form of the C++ library."""
        kind, data, children = plain
        return cls(kind, data, None if children is None else tuple(map(cls.of, children)))

    def plain(self) -> tuple[Any, Any, list[Any] | None]:
        children = None if self.children is None else [child.plain() for child in self.children]
        return self.kind, self.data, children

    def leaves(self) -> Iterator[Tree]:
        if self.children is None:
            yield self
        for child in self.children or ():
            yield from child.leaves()

    def with_leaves(self, leaves: Iterator[Tree]) -> Tree:
        if self.children is None:
            return next(leaves)
        return Tree(self.kind, self.data, tuple([child.with_leaves(leaves) for child in self.children]))

    def flatten(self, value: Any, path: str = "") -> list[Any]:
        """The leaves of a value that nests in this way. Raises a ValueError that says where it does not."""
        if self.children is None:
            return [value]
        parts = self._parts(value, path)
        steps = self._steps()
        return [
            leaf
            for child, part, step in zip(self.children, parts, steps, strict=True)
            for leaf in child.flatten(part, path + step)
        ]

    def unflatten(self, leaves: Iterator[Any]) -> Any:
        if self.children is None:
            return next(leaves)
        parts = [child.unflatten(leaves) for child in self.children]
        if self.kind in _MAPPINGS:
            return _MAPPINGS[self.kind](zip(self.data, parts, strict=True))
        if self.kind == "named":
            return _named_tuple(self.data[0], tuple(self.data[1]))(*parts)
        return parts if self.kind == "list" else tuple(parts)

    def paths(self, path: str = "") -> Iterator[str]:
        """The path of each leaf: "[0]['mask']"."""
        if self.children is None:
            yield path
        for child, step in zip(self.children or (), self._steps(), strict=True):
            yield from child.paths(path + step)

    def _steps(self) -> list[str]:
        if self.kind in _MAPPINGS:
            return [f"[{key!r}]" for key in self.data]
        if self.kind == "named":
            return [f".{field}" for field in self.data[1]]
        return [f"[{position}]" for position in range(len(self.children or ()))]

    def _parts(self, value: Any, path: str) -> Iterable[Any]:
        children = self.children or ()
        if self.kind in _MAPPINGS and isinstance(value, Mapping):
            if value.keys() != set(self.data):
                expected, got = (", ".join(map(repr, keys)) or "none" for keys in (self.data, value))
                raise ValueError(f"{path or 'the value'} must have the keys {expected}, got {got}")
            return [value[key] for key in self.data]
        is_sequence = isinstance(value, list if self.kind == "list" else tuple)
        if self.kind not in _MAPPINGS and is_sequence and len(value) == len(children):
            return value
        parts = _parts_of_class(value)
        if parts is not None and len(parts) == len(children):
            return parts
        what = "dictionary" if self.kind in _MAPPINGS else "list" if self.kind == "list" else "tuple"
        size = f" of {len(value)}" if isinstance(value, (tuple, list, Mapping)) else ""
        got = f"a {type(value).__qualname__}{size}"
        raise ValueError(f"{path or 'the value'} must be a {what} of {len(children)}, got {got}")


def _parts_of_class(value: Any) -> list[Any] | None:
    """The parts of an object whose class is registered with pytree in this process: a caller may pass such an object,
    although a file cannot name its class."""
    registered = pytree.SUPPORTED_NODES.get(type(value))
    builtin = isinstance(value, (tuple, list, Mapping)) and type(value) in _KINDS_OF_CLASSES
    return None if registered is None or builtin else list(registered.flatten_fn(value)[0])


@functools.cache
def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    try:
        return collections.namedtuple(name, fields)
    except ValueError as error:
        return fail(f"a file has a named tuple that Python cannot have: {error}")


class Nesting:
    """How values nest: a Tree, or a pytree, which may have classes of the user."""

    def __init__(self, tree: Tree, spec: pytree.TreeSpec | None = None) -> None:
        self.tree = tree
        self.flatten: Callable[[Any], list[Any]] = spec.flatten_up_to if spec else tree.flatten
        self._spec = spec

    @classmethod
    def of_spec(cls, spec: pytree.TreeSpec) -> Nesting:
        return cls(_tree_of_spec(spec), spec)

    def unflatten(self, leaves: list[Any]) -> Any:
        return pytree.tree_unflatten(leaves, self._spec) if self._spec else self.tree.unflatten(iter(leaves))


def _tree_of_spec(spec: pytree.TreeSpec) -> Tree:
    """The closed form of it. A class that the form lacks becomes a dictionary if its parts have names, else a tuple."""
    if spec.is_leaf():
        return Tree("tensor", 0)
    specs = spec.children() if hasattr(spec, "children") else spec.children_specs  # the latter in PyTorch 2.9
    children = tuple(map(_tree_of_spec, specs))
    if spec.type is collections.namedtuple:
        return Tree("named", (spec.context.__name__, list(spec.context._fields)), children)
    keys = spec.context[1] if spec.type is collections.defaultdict else spec.context
    has_keys = isinstance(keys, list) and len(keys) == len(children) and all(isinstance(key, str) for key in keys)
    kind = _KINDS_OF_CLASSES.get(spec.type, "dict" if has_keys and children else "tuple")
    return Tree(kind, list(keys) if kind in _MAPPINGS else None, children)


def arguments_tree(parameters: list[tuple[str, bool, Any]]) -> tuple[Tree, list[str]]:
    """((args...), {kwargs...}) of a form's parameters, and the names of the positional parameters."""
    positional = [Tree.of(tree) for _, is_keyword, tree in parameters if not is_keyword]
    keywords = {name: Tree.of(tree) for name, is_keyword, tree in parameters if is_keyword}
    names = [name for name, is_keyword, _ in parameters if not is_keyword]
    given = (Tree("tuple", None, tuple(positional)), Tree("dict", list(keywords), tuple(keywords.values())))
    return Tree("tuple", None, given), names


def parameters_of(arguments: Tree, names: list[str]) -> list[tuple[str, bool, Any]]:
    """The inverse."""
    positional, keywords = arguments.children or ()
    given = positional.children or ()
    padded = [*names, *[""] * len(given)]
    return [
        *((name, False, tree.plain()) for name, tree in zip(padded, given, strict=False)),
        *((name, True, tree.plain()) for name, tree in zip(keywords.data, keywords.children or (), strict=True)),
    ]
