"""PyTorch's own samples of its operators (op_db), each exported, compiled by Tenon and compared with PyTorch."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import tenon
import torch
import torch.utils._pytree as pytree
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)

# Their values are random, or whatever the memory held: types and shapes must be equal.
WITHOUT_VALUES = {
    "bernoulli",
    "cauchy",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "new_empty",
    "new_empty_strided",
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention",
    "normal",
    "pca_lowrank",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "svd_lowrank",
    "torch.ops.aten._flash_attention_forward",
    "torch.ops.aten._efficient_attention_forward",
    "uniform",
}

# They give positions of elements, and elements may be equal.
OF_EQUAL_ELEMENTS = {"argsort", "kthvalue", "median", "mode", "nanmedian", "sort", "topk"}

DIM_OF = {"kthvalue": 1, "topk": 1}  # where dim stands among the arguments after the input; else it is the first

# Vectors that are unique up to signs, or to a rotation: what the whole result must agree in.
SPECTRA = {
    "linalg.eigh": lambda values, vectors: [values, vectors * values.unsqueeze(-2) @ vectors.mT, gram(vectors)],
    "linalg.svd": lambda u, s, vh: [s, product(u, s, vh), gram(u), gram(vh.mT)],
    "svd": lambda u, s, v: [s, product(u, s, v.mT), gram(u), gram(v)],
}

# PyTorch's kernel gives NaN: its results in float64, rounded, say what is right.
NAN_IN_TORCH = {("matrix_exp", torch.bfloat16)}

# Sums of rounded numbers, in another order than PyTorch's.
TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 2e-5},
    torch.float64: {"rtol": 1e-7, "atol": 1e-7},
    torch.bfloat16: {"rtol": 4e-2, "atol": 4e-2},
}


# PyTorch's own error is larger than that: mpmath says so (tests/python/aten_samples/bessel.py).
ROUGH_IN_TORCH = {"special.airy_ai", "special.bessel_j0", "special.bessel_j1", "special.bessel_y0", "special.bessel_y1"}
ROUGH = {"rtol": 1e-5, "atol": 1e-6}


@dataclass
class Outcome:
    """Of one op: how many samples ran wholly on Tenon, and what went wrong with the others."""

    op: str
    native: int = 0
    fallback: int = 0
    not_exported: int = 0
    fallbacks: dict[str, str] = field(default_factory=dict)  # the reason of each target
    wrong: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        if self.crashed:
            return "crash"
        if self.wrong:
            return "wrong"
        if self.fallback:
            return "fallback"
        return "native" if self.native else "not exported"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def all_ops() -> dict[str, Any]:
    return {name_of(op): op for op in op_db}


def run_op(op: Any, dtypes: tuple[torch.dtype, ...] = DTYPES, cap: int = 4) -> Outcome:
    outcome = Outcome(name_of(op))
    for dtype in dtypes:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for number, sample in enumerate(samples_of(op, dtype, cap)):
            run_sample(op, sample, f"{dtype} sample {number}", outcome)
    return outcome


def samples_of(op: Any, dtype: torch.dtype, cap: int) -> Iterator[Any]:
    torch.manual_seed(0)
    return itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), cap)


class Case(torch.nn.Module):
    """An op with its sample: tensors are arguments, all else is part of the model."""

    def __init__(self, op: Any, sample: Any) -> None:
        super().__init__()
        leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.op = op.op
        self.fixed = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple(leaves[place].detach() for place in self.places)

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        leaves = list(self.fixed)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        x, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        results = pytree.tree_leaves(self.op(x, *args, **kwargs))
        return [result for result in results if isinstance(result, torch.Tensor)]


def run_sample(op: Any, sample: Any, label: str, outcome: Outcome) -> None:
    case = Case(op, sample)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = expected_of(op, case)
            program = torch.export.export(case, case.tensors, strict=False)
    except Exception:  # whatever PyTorch cannot do is no case
        outcome.not_exported += 1
        return
    try:
        compiled = tenon.compile(program)
        results = compiled(*copies(case.tensors))
    except Exception as error:  # all are failures
        if refuses(program, case.tensors):
            outcome.not_exported += 1
            return
        outcome.crashed.append(f"{label}: {type(error).__name__}: {str(error).splitlines()[0]}")
        return
    if problem := difference(op, sample, results, expected):
        outcome.wrong.append(f"{label}: {problem}")
    elif compiled.unsupported:
        outcome.fallback += 1
        outcome.fallbacks |= {target: reason for target, reason, _ in compiled.unsupported}
    else:
        outcome.native += 1


def expected_of(op: Any, case: Case) -> list[torch.Tensor]:
    dtype = case.tensors[0].dtype if case.tensors else None
    if (op.name, dtype) not in NAN_IN_TORCH:
        return case(*copies(case.tensors))
    return [result.to(dtype) for result in case(*map(widened, case.tensors))]


def refuses(program: torch.export.ExportedProgram, tensors: tuple[torch.Tensor, ...]) -> bool:
    """Whether the exported program does not run in PyTorch either: its own assertions may be wrong (those of
    masked_select count the elements before they are broadcast)."""
    try:
        program.module()(*copies(tensors))
    except Exception:
        return True
    return False


def copies(tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """In memory of their own, with the same strides: an op may write its arguments."""
    return tuple(tensor.clone() for tensor in tensors)


def difference(op: Any, sample: Any, results: list[torch.Tensor], expected: list[torch.Tensor]) -> str:
    """What is wrong with the results, in words; empty where nothing is."""
    if len(results) != len(expected):
        return f"{len(results)} results instead of {len(expected)}"
    for result, wanted in zip(results, expected, strict=True):
        if (result.dtype, result.shape) != (wanted.dtype, wanted.shape):
            return f"{result.dtype} {list(result.shape)} instead of {wanted.dtype} {list(wanted.shape)}"
    if op.name in WITHOUT_VALUES:
        return ""
    if op.name in SPECTRA:
        parts = zip(SPECTRA[op.name](*results), SPECTRA[op.name](*expected), strict=True)
        return next((problem for mine, theirs in parts if (problem := value_difference(mine, theirs))), "")
    for position, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        problem = value_difference(result, wanted, ROUGH if op.name in ROUGH_IN_TORCH else None)
        if problem and not (
            finds_equal_elements(op, sample, result, wanted) or is_exacter(op, sample, position, result, wanted)
        ):
            return problem
    return ""


def product(u: torch.Tensor, s: torch.Tensor, vh: torch.Tensor) -> torch.Tensor:
    count = s.shape[-1]
    return u[..., :count] * s.unsqueeze(-2) @ vh[..., :count, :]


def gram(columns: torch.Tensor) -> torch.Tensor:
    return columns.mT @ columns


def value_difference(result: torch.Tensor, wanted: torch.Tensor, tolerance: dict[str, float] | None = None) -> str:
    if tolerance is None or wanted.dtype is not torch.float64:
        tolerance = TOLERANCE.get(wanted.dtype, {})
    try:
        torch.testing.assert_close(result, wanted, equal_nan=True, check_stride=False, **tolerance)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""


def finds_equal_elements(op: Any, sample: Any, result: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Of positions: which of several equal elements an op finds is not said."""
    if op.name not in OF_EQUAL_ELEMENTS or wanted.dtype is not torch.int64:
        return False
    dim = next((value for value in (*sample.args[DIM_OF.get(op.name, 0) :], -1) if type(value) is int), -1)
    dim = sample.kwargs.get("dim", dim)
    x = sample.input
    found = []
    for given in (result, wanted):
        positions = given.unsqueeze(dim) if given.dim() < x.dim() else given
        if positions.numel() and (int(positions.min()) < 0 or int(positions.max()) >= x.shape[dim]):
            return False
        found.append(torch.take_along_dim(x, positions, dim))
    return torch.equal(*found)


def is_exacter(op: Any, sample: Any, position: int, result: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether the result is about as near to what 64 bits give as PyTorch's is: both round, each in its own order."""
    if wanted.dtype not in (torch.bfloat16, torch.float32):
        return False
    wide = pytree.tree_map_only(torch.Tensor, widened, (sample.input, sample.args, sample.kwargs))
    try:
        x, args, kwargs = wide
        exact = [leaf for leaf in pytree.tree_leaves(op.op(x, *args, **kwargs)) if isinstance(leaf, torch.Tensor)]
    except Exception:  # an op that has no such dtype
        return False
    if exact[position].shape != result.shape:
        return False
    errors = [(values.double() - exact[position].double()).abs().nan_to_num(0).max() for values in (result, wanted)]
    same_nans = torch.equal(result.isnan(), wanted.isnan())
    return same_nans and bool(errors[0] <= 2 * errors[1])


def widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
