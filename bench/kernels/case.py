"""What a row of the bench is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

Inputs = dict[str, torch.Tensor]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i8": torch.int8, "i32": torch.int32, "i64": torch.int64}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Case:
    """One kernel and its rival.

    `inputs` makes the tensors, which both sides read. `graph` computes with Tenon's ops, on values of the same names.
    `reference` does it with torch, in whatever precision it is given. `rivals` are ways to do it with torch as fast as
    it can: calls without arguments that give the result, written to `out` where torch lets them. The fastest is timed.
    """

    family: str
    name: str
    size: str  # what --size selects by
    dtype: str
    inputs: Callable[[], Inputs]
    graph: Callable[..., Any]
    reference: Callable[..., torch.Tensor]
    rivals: Callable[[Inputs, torch.Tensor], dict[str, Callable[[], torch.Tensor]]]
    constants: frozenset[str] = field(default_factory=frozenset)  # weights: known when the kernel is compiled
    flops: int = 0  # 0 where memory is what counts
    count: int = 1  # how often the model has this row
    quick: bool = False  # whether --quick measures it

    @property
    def title(self) -> str:
        return f"{self.family} {self.name}"


def random(*shape: int, dtype: str = "f32", scale: float = 1.0, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).mul_(scale).to(DTYPES[dtype])


def random_integers(high: int, *shape: int, low: int = 0, dtype: str = "i64", seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, shape, generator=generator, dtype=DTYPES[dtype])


def type_of(tensor: torch.Tensor) -> str:
    return f"{NAMES[tensor.dtype]}[{', '.join(str(size) for size in tensor.shape)}]"
