"""Every op of the table against its PyTorch peer: each sample of its record, in each dtype, on plain inputs, in other
memory layouts, on special values, and its gradient.

A record's `peer` is a Python expression over the operands and attributes by name. A new record needs no code here.
"""

import math
import re
import zlib
from pathlib import Path

import pytest
import tenon
import torch
import torch.nn.functional as F

ROOT = Path(__file__).parents[2]

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}

# Of these families the gradient is also checked at whole numbers, where most have their kinks and ties.
KINKED_FAMILIES = {"unary", "binary", "select", "activation"}

# Of these families the sign of a zero is checked too.
SIGNED_ZERO_FAMILIES = {"unary", "binary"}

# Ops whose peer gives another zero, and why.
UNSIGNED_ZEROS = dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), "its vectors and their tails choose differently")

HALVES = (torch.float16, torch.bfloat16)
LARGE = {torch.float64: 1e300, torch.float32: 1e30, torch.bfloat16: 1e30, torch.float16: 3e4}
SUBNORMAL = {torch.float64: 1e-310, torch.float32: 1e-40, torch.bfloat16: 1e-40, torch.float16: 1e-7}


# ---- inputs ----------------------------------------------------------------------------------------------------------


class Case:
    """A sample with everything concrete: sizes of symbols, attributes as Python and torch values, the peer's names."""

    def __init__(self, op, sample):
        self.op = op
        self.name = sample.name
        self.dtype = sample.dtype
        self.graph = sample.graph
        self.ranges = sample.ranges
        self.sizes = {}
        self.inputs = [
            (value.name, DTYPES[value.dtype], tuple(self.size(size) for size in value.shape))
            for value in self.graph.inputs
        ]
        node = self.graph.nodes[0]
        self.operands = [None if value is None else value.name for value in node.operands]
        self.attrs = {attr.name: self.attr(attr.kind, node.attrs[attr.name]) for attr in op.attrs}

    def size(self, expr):
        if not isinstance(expr, tenon.Expr):
            return expr
        for symbol in expr.symbols:
            self.sizes.setdefault(symbol, 3 + len(self.sizes))
        return expr.evaluate(self.sizes)

    def attr(self, kind, value):
        if kind == "dtype" and value is not None:
            return DTYPES[value]
        return [self.size(item) for item in value] if isinstance(value, list) else self.size(value)

    def generator(self, salt=""):
        return torch.Generator().manual_seed(zlib.crc32((self.name + salt).encode()))

    def plain(self):
        generator = self.generator()
        return [
            random_tensor(generator, dtype, shape, limits, self.op.domain)
            for (_, dtype, shape), limits in zip(self.inputs, self.ranges, strict=True)
        ]

    def special(self, plain):
        """The plain inputs with special values: every combination for an elementwise op, sprinkled for another."""
        generator = self.generator("special")
        result = []
        for position, (x, limits) in enumerate(zip(plain, self.ranges, strict=True)):
            if limits is not None or x.dtype == torch.bool or x.numel() == 0:
                result.append(x)
                continue
            elementwise = self.op.semantics == "elementwise"
            values = special_values(x.dtype, both_large=elementwise)
            count = x.numel()
            if elementwise:
                start = torch.randint(len(values), (), generator=generator)
                chosen = (torch.arange(count) // len(values) ** position + start) % len(values)
                result.append(values[chosen].reshape(x.shape))
            else:
                chosen = torch.randint(len(values), (count,), generator=generator)
                keep = torch.rand(count, generator=generator) < 0.8
                keep[torch.randint(count, (), generator=generator)] = False
                result.append(torch.where(keep, x.flatten(), values[chosen]).reshape(x.shape))
        return result

    def whole(self, plain):
        return [
            x.round() if x.dtype.is_floating_point and limits is None else x
            for x, limits in zip(plain, self.ranges, strict=True)
        ]

    def peer_names(self, inputs):
        """The names that the peer's expression may use."""
        by_name = {leaf: x for (leaf, _, _), x in zip(self.inputs, inputs, strict=True)}
        values = [None if name is None else by_name[name] for name in self.operands]
        names = {"torch": torch, "F": F, "math": math, "wide": wide, **self.attrs}
        for position, operand in enumerate(self.op.operands):
            if operand.arity.startswith("variadic"):
                names[operand.name] = values[position:]
            else:
                names[operand.name] = values[position] if position < len(values) else None
        return names


def random_tensor(generator, dtype, shape, limits, domain):
    if dtype == torch.bool:
        return torch.randint(2, shape, generator=generator).to(dtype)
    if dtype.is_floating_point:
        low, high = limits or domain
        return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)
    low, high = limits or ((0, 18) if dtype == torch.uint8 else (-9, 9))
    return torch.randint(math.ceil(low), math.floor(high) + 1, shape, generator=generator, dtype=dtype)


def special_values(dtype, both_large):
    """`both_large`: what a sum of the large value and its negative leaves of other terms depends on the order."""
    if dtype.is_floating_point:
        large, small = LARGE[dtype], SUBNORMAL[dtype]
        values = [math.nan, math.inf, -math.inf, -0.0, 0.0, large, small, -large]
        return torch.tensor(values if both_large else values[:-1], dtype=dtype)
    info = torch.iinfo(dtype)
    return torch.tensor([info.min, info.max, 0, -1 if info.min < 0 else 1], dtype=dtype)


def transposed(x):
    order = list(reversed(range(x.dim())))
    return x.permute(order).contiguous().permute(order)


def strided(x):
    room = x.new_zeros([2 * size + 1 for size in x.shape])
    view = room[tuple(slice(1, 2 * size, 2) for size in x.shape)]
    view.copy_(x)
    return view


def expanded(x):
    """One row again and again, by a stride of zero. Other values than x has."""
    return x if x.dim() == 0 or x.shape[0] < 2 else x[:1].expand(x.shape)


# ---- the peer --------------------------------------------------------------------------------------------------------


class Peer:
    def __init__(self, expression):
        self.code = compile(expression, "<peer>", "eval")

    def __call__(self, case, inputs):
        """The peer's results as a list; where PyTorch lacks the dtype, computed in a wider one."""
        try:
            return self.run(case, inputs), False
        except (NotImplementedError, RuntimeError) as error:
            if not isinstance(error, NotImplementedError) and "not implemented for" not in str(error):
                raise
        try:
            return self.run(case, [widened(x, torch.float32) for x in inputs]), True
        except (NotImplementedError, RuntimeError):
            return self.run(case, [widened(x, torch.float64) for x in inputs]), True

    def rounded_once(self, case, inputs, direct):
        """Computed in f32 and rounded to the dtypes that the peer gave: PyTorch rounds f16 and bf16 on the way."""
        wide = self.run(case, [widened(x, torch.float32) for x in inputs])
        return [w.to(d.dtype) for w, d in zip(wide, direct, strict=True)]

    def run(self, case, inputs):
        results = eval(self.code, case.peer_names(inputs))
        return list(results) if isinstance(results, tuple | list) else [results]


def wide(x):
    """For peers of what comes in at least f32."""
    return x if x is None else x.to(torch.promote_types(x.dtype, torch.float32))


def widened(x, floating):
    if x.dtype.is_floating_point:
        return x.to(torch.promote_types(x.dtype, floating))
    return x.to(torch.int64 if floating == torch.float32 else torch.float64)


def compare(mine, theirs, was_widened, signed_zeros):
    """None, or what differs."""
    if len(mine) != len(theirs):
        return f"{len(mine)} results, PyTorch has {len(theirs)}"
    for position, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        which = f"result {position}: " if len(mine) > 1 else ""
        if not isinstance(b, torch.Tensor):
            return f"{which}the peer gives a {type(b).__name__}"
        if was_widened:
            b = b.to(a.dtype)
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{which}{a.dtype} {list(a.shape)}, PyTorch has {b.dtype} {list(b.shape)}"
        b = b.detach().resolve_conj().resolve_neg()
        try:
            torch.testing.assert_close(a, b, equal_nan=True)
        except AssertionError as error:
            return f"{which}{error}\n  ours    {brief(a)}\n  PyTorch {brief(b)}"
        if signed_zeros and a.dtype.is_floating_point:
            wrong = (a == 0) & (b == 0) & (torch.signbit(a) != torch.signbit(b))
            if wrong.any():
                where = wrong.nonzero()[0].tolist()
                return f"{which}the sign of the zero at {where}\n  ours    {brief(a)}\n  PyTorch {brief(b)}"
    return None


def brief(x):
    text = str(x.flatten().tolist())
    return text if len(text) < 300 else text[:300] + "..."


# ---- the checks ------------------------------------------------------------------------------------------------------


class Checker:
    def __init__(self, op):
        self.op = op
        self.peer = Peer(op.peer)
        self.signed_zeros = op.family in SIGNED_ZERO_FAMILIES and op.name not in UNSIGNED_ZEROS
        self.failures = []

    def check(self, case):
        plain = case.plain()
        expected = self.expect(case, "plain", plain)
        if expected is None:
            return
        self.judge(case, "plain", plain, expected)
        layouts = [transposed, strided]
        for first in (0, 1):
            moved = [layouts[(first + i) % 2](x) for i, x in enumerate(plain)]
            self.judge(case, f"layouts {first}", moved, expected)
        repeated = [expanded(x) for x in plain]
        if any(a is not b for a, b in zip(plain, repeated, strict=True)):
            contiguous = [x.contiguous() for x in repeated]
            self.judge(case, "stride 0", repeated, self.expect(case, "stride 0", contiguous))
        if self.op.special_values:
            self.check_special(case, case.special(plain))
        if self.op.differentiable and case.dtype in ("f64", None):
            self.check_gradient(case, "gradient", plain)
            if self.op.family in KINKED_FAMILIES:
                self.check_gradient(case, "gradient at whole numbers", case.whole(plain))

    def expect(self, case, what, inputs):
        try:
            return self.peer(case, inputs)
        except Exception as error:
            self.fail(case, what, f"the peer raised {type(error).__name__}: {error}", inputs)
            return None

    def judge(self, case, what, inputs, expected):
        if expected is None:
            return
        try:
            mine = case.graph.evaluate(*inputs)
        except (tenon.Error, tenon.InternalError) as error:
            self.fail(case, what, str(error), inputs)
            return
        mine = as_torch(mine)
        difference = compare(mine, *expected, self.signed_zeros)
        if difference and any(x.dtype in HALVES for x in inputs):
            direct, was_widened = expected
            difference = compare(mine, self.peer.rounded_once(case, inputs, direct), was_widened, self.signed_zeros)
        if difference:
            self.fail(case, what, difference, inputs)

    def check_special(self, case, inputs):
        try:
            expected = self.peer(case, inputs)
        except Exception as error:
            # What PyTorch refuses (an integer division by zero), Tenon refuses too.
            try:
                case.graph.evaluate(*inputs)
            except tenon.Error:
                return
            self.fail(case, "special values", f"only the peer raised {type(error).__name__}: {error}", inputs)
            return
        self.judge(case, "special values", inputs, expected)

    def check_gradient(self, case, what, plain):
        names = [leaf for leaf, dtype, _ in case.inputs if dtype.is_floating_point]
        if not names or any(x.dtype in HALVES for x in plain):
            return
        leaves = [x.clone().requires_grad_(x.dtype.is_floating_point) for x in plain]
        wrt = [x for x in leaves if x.requires_grad]
        try:
            results = [y for y in self.peer.run(case, leaves) if y.dtype.is_floating_point]
        except Exception as error:
            self.fail(case, what, f"the peer raised {type(error).__name__}: {error}", plain)
            return
        generator = case.generator("cotangents")
        cotangents = [torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.dtype) for y in results]
        expected = torch_gradients(results, wrt, cotangents)
        try:
            mine = tenon.differentiate(case.graph, names).evaluate(*plain, *cotangents)
        except (tenon.Error, tenon.InternalError) as error:
            self.fail(case, what, str(error), plain)
            return
        difference = compare(as_torch(mine), expected, False, False)
        if difference:
            self.fail(case, what, difference, plain)

    def fail(self, case, what, message, inputs):
        names = [leaf for leaf, _, _ in case.inputs]
        shown = "".join(f"\n  {name:7} {brief(x)}" for name, x in zip(names, inputs, strict=True))
        self.failures.append(f"{case.name} [{what}]\n  {message}{shown}")


def torch_gradients(results, wrt, cotangents):
    tracked = [(y, c) for y, c in zip(results, cotangents, strict=True) if y.requires_grad]
    if not tracked:
        return [torch.zeros_like(x) for x in wrt]
    outputs, seeds = zip(*tracked, strict=True)
    gradients = torch.autograd.grad(outputs, wrt, seeds, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wrt, gradients, strict=True)]


def as_torch(results):
    return [torch.from_dlpack(x) for x in results]


OPS = tenon.op_table()


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in OPS if op.peer])
def test_op_agrees_with_torch(op):
    checker = Checker(op)
    samples = op.samples()
    assert samples, f"{op.name} has no samples"
    for sample in samples:
        checker.check(Case(op, sample))
    if checker.failures:
        shown = checker.failures[:8]
        title = f"{len(checker.failures)} checks of {op.name} failed, {len(shown)} shown"
        pytest.fail("\n\n".join([title, *shown]), pytrace=False)


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in OPS if not op.peer])
def test_op_without_peer_has_a_test_of_its_own(op):
    assert op.why_no_peer
    word = re.compile(rf"\"{re.escape(op.name)}\"|\b{re.escape(op.name)}\(")  # as a name in quotes, or called
    tests = [path for path in ROOT.glob("tests/**/*_test.cpp") if word.search(path.read_text())]
    assert tests, f"{op.name} has no PyTorch peer ({op.why_no_peer}): test it in tests/ops/"
