"""The result of capture: a graph with everything that a caller needs to run it and to report about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from tenon._tenon import Error, Expr, Graph, fail
from tenon.capture.fallback import Fallback

DTYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}

NO_FALLBACK = "fallback=False leaves nothing to PyTorch"  # the reason, if a call that Tenon lacks is an error


@dataclass
class Input:
    """A value that the caller passes."""

    name: str
    kind: str  # "tensor", "number" (an int, or a float), "constant" (it must equal `value`), "token" (the fallback's)
    value: Any = None
    dtype: torch.dtype | None = None
    shape: tuple[int | Expr, ...] = ()
    size: int | Expr | None = None  # the value of a number that is a size
    device: torch.device | None = None
    is_whole: bool = False  # the tensor must cover its memory, in order, because the model reads it by as_strided

    @property
    def type(self) -> str:
        if self.kind == "number":
            return "a float" if self.size is None else f"an int, {self.size}"
        return type_text(self.dtype, self.shape) if self.kind != "constant" else repr(self.value)


@dataclass
class Output:
    """A value that the caller gets: result `index` of the graph, input `index` of the caller, or `value`."""

    kind: str  # "result", "permuted", "view", "number", "input", "view of input", "constant", "token"
    index: int = 0
    # The value of a constant; the key of a token; the function that makes a Python number; the order of a permuted
    # result's dimensions; the Layout of a view.
    value: Any = None
    device: torch.device | None = None  # of a result that is a tensor


@dataclass(frozen=True)
class Layout:
    """The memory layout of a view. `places` says where a call finds each symbol: in which of the caller's values, and
    in which of its dimensions (None: the number is the size itself)."""

    sizes: list[int | Expr]
    strides: list[int | Expr]
    offset: int | Expr
    places: dict[str, tuple[int, int | None]]


@dataclass(frozen=True)
class Window:
    """An input of the graph that is read from the memory of a caller's tensor: `as_strided` of an argument. The offset
    counts from the start of that memory, wherever the argument begins in it."""

    position: int  # of the argument
    layout: Layout


@dataclass(frozen=True)
class DerivedSize:
    """An input of the graph, u8[size], whose size no Expr says: int(n ** 0.5). A call computes it from sizes of the
    caller's values, at `places` as in a Layout."""

    name: str
    expression: Any  # of sympy
    places: list[tuple[int, int | None]]
    compute: Callable[..., int]


@dataclass
class Assertion:
    """An assertion of the model: a result of the graph must not be zero, or a size must be true."""

    message: str
    location: tuple[str, int] | None
    index: int | None = None  # of the graph's result
    guard: Expr | None = None


@dataclass(frozen=True)
class Assumptions:
    """Pairs of sizes that the graph takes to be equal. `places` is as in a Layout."""

    pairs: list[tuple[int | Expr, int | Expr]]
    places: dict[str, tuple[int, int | None]]

    def hold(self, sizes: Iterable[int]) -> bool:
        """Whether they do for these sizes, in the order of `places`."""
        known = dict(zip(self.places, sizes, strict=True))
        try:
            return all(_evaluated(a, known) == _evaluated(b, known) for a, b in self.pairs)
        except Error:  # a division by zero
            return False


def _evaluated(size: int | Expr, known: dict[str, int]) -> int:
    return size if isinstance(size, int) else size.evaluate(known)


@dataclass
class Row:
    """A node of the FX graph, for reports."""

    op: str
    name: str
    target: str
    type: str
    location: tuple[str, int] | None = None
    reason: str | None = None  # why Tenon does not run it


@dataclass
class Captured:
    graph: Graph
    inputs: list[Input]
    outputs: list[Output]
    fallback: Fallback
    # The inputs of the graph, in order. A number is the position of a caller's value.
    graph_inputs: list[int | Window | DerivedSize]
    has_key: bool  # the last input of the graph is the key of its random numbers
    assertions: list[Assertion] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    unsupported: list[tuple[str, str, Any]] = field(default_factory=list)
    check_supported: Callable[[str], None] = lambda why: None
    assumptions: Assumptions | None = None
    weight_devices: set[torch.device] = field(default_factory=set)

    @property
    def gpu(self) -> int | None:
        """The number of the GPU that the model's tensors are on; None if they are on the CPU."""
        places = [given.device for given in (*self.inputs, *self.outputs)] + [*self.weight_devices]
        numbers = {place.index or 0 for place in places if place is not None and place.type == "cuda"}
        if len(numbers) > 1:
            fail(f"the model is on several GPUs: {', '.join(f'cuda:{number}' for number in sorted(numbers))}")
        return min(numbers, default=None)


def type_text(dtype: torch.dtype | None, shape: Iterable[int | Expr]) -> str:
    name = DTYPES.get(dtype, str(dtype).removeprefix("torch."))
    return f"{name}[{', '.join(map(str, shape))}]"


def counted(number: int, noun: str) -> str:
    """ "1 value", "2 values"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
