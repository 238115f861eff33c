"""Calls of each overload of the core set."""

import math

import torch

RANDOM = torch.Generator().manual_seed(193)
NAN, INF = math.nan, math.inf
F32, F64, I64, I32, BOOL = torch.float32, torch.float64, torch.int64, torch.int32, torch.bool


def f(*shape, low=-3.0, high=3.0, dtype=F32):
    return (torch.rand(shape, generator=RANDOM, dtype=F64) * (high - low) + low).to(dtype)


def i(*shape, low=-9, high=9, dtype=I64):
    return torch.randint(low, high + 1, shape, generator=RANDOM).to(dtype)


def b(*shape):
    return torch.randint(2, shape, generator=RANDOM).to(BOOL)


def distinct(*shape):
    """Without equal elements, whose order PyTorch leaves open."""
    return torch.randperm(math.prod(shape), generator=RANDOM).reshape(shape).to(F32)


def perm(size, count):
    """Different indices: where writes collide, PyTorch leaves open which one stays."""
    return torch.randperm(size, generator=RANDOM)[:count]


def call(*args, **kwargs):
    return args, kwargs


def max_pool2d_backward(x, *how):
    values, indices = torch.ops.aten.max_pool2d_with_indices(x, *how)
    return call(f(*values.shape), x, *how, indices)


def layer_norm_backward(x, rank, weight, bias, output_mask):
    shape = x.shape[x.ndim - rank :]
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, shape, weight, bias, 1e-5)
    return call(f(*x.shape), x, list(shape), mean, rstd, weight, bias, output_mask)


def group_norm(x, group):
    """The sizes that go with x."""
    return x.shape[0], x.shape[1], math.prod(x.shape[2:]), group


def group_norm_backward(x, weight, group, output_mask):
    _, mean, rstd = torch.ops.aten.native_group_norm(x, weight, None, *group_norm(x, group), 1e-5)
    return call(f(*x.shape), x, mean, rstd, weight, *group_norm(x, group), output_mask)


def unary(low=-3.0, high=3.0, others=()):
    specials = torch.tensor([NAN, INF, -INF, 0.0, -0.0])
    return [call(f(3, 4, low=low, high=high)), call(f(low=low, high=high)), call(f(0, 2)), call(specials), *others]


INTEGERS = [call(i(3, 4)), call(i(5, dtype=I32))]
BOOLS = [call(b(4)), call(b())]


def binary(*others, low=-3.0, high=3.0):
    return [
        call(f(3, 4), f(3, 4, low=low, high=high)),
        call(f(2, 1, 3), f(4, 1, low=low, high=high)),
        call(f(3), f(low=low, high=high)),
        *others,
    ]


def with_integers(low=-9, high=9):
    return [
        call(i(3, 4), i(4, low=low, high=high)),
        call(i(3, dtype=I32), i(3, low=low, high=high)),
        call(f(3), i(3, low=low, high=high)),
    ]


MIXED = with_integers()
SCALED = [
    call(f(2, 3), f(3), alpha=0.5),
    call(i(3), i(3), alpha=2),
    call(f(3), i(3), alpha=0.5),
    call(i(3), f(3), alpha=0.5),
]
LOGICAL = [call(b(3, 4), b(3, 4)), call(f(3), b(3)), call(i(2, 3, low=0, high=1), i(3, low=0, high=1))]
BITWISE = [call(i(3, 4), i(4)), call(b(3, 1), b(4)), call(i(3, dtype=I32), i(3))]
BITWISE_SCALAR = [call(i(3, 4), 5), call(i(3, dtype=I32), -2), call(b(3), True), call(b(3), 6)]
COMPARED = [call(i(20, low=0, high=3), 2), call(f(3, 4), 0.5), call(i(5, low=0, high=3), 1.5), call(f(3), 1)]
COMPARED_TENSORS = [call(i(20, low=0, high=3), i(20, low=0, high=3)), call(f(3, 1), f(4)), call(i(5), f())]
REMAINDERS = [
    call(f(3, 4), f(4, low=0.5)),
    call(i(20), i(20, low=1)),
    call(i(20), i(20, high=-1)),
    call(f(9), f(low=1)),
]
REMAINDER_SCALARS = [call(f(20), 1.25), call(f(20), -2), call(i(20), 4), call(i(20), -4), call(i(9), 2.5)]

SAMPLES = {
    # From nothing
    "aten.arange.start_step": [
        call(0, 5),
        call(5, -3, -2),
        call(0.5, 4, 1.25),
        call(1, 4, 1, dtype=F32),
        call(0, 7.5, 2, dtype=I64),
    ],
    "aten.empty.memory_format": [call([2, 3]), call([0], dtype=I64), call([], dtype=BOOL)],
    "aten.empty_strided.default": [call([2, 3], [3, 1]), call([2, 3], [1, 2], dtype=I32)],
    "aten.fill.Scalar": [call(f(2, 3), 1.5), call(i(3), 2), call(f(2), 7), call(b(2), True)],
    "aten.full.default": [call([2, 3], 1.5), call([2], 3), call([], True), call([2], 3, dtype=F64), call([0], 1)],
    "aten.full_like.default": [call(f(2, 3), 2), call(f(2), 1.5, dtype=F64), call(i(3), -1), call(b(2), True)],
    "aten.scalar_tensor.default": [call(3), call(2.5), call(True), call(2.5, dtype=I64), call(-1, dtype=I32)],
    # One tensor, element by element
    "aten._to_copy.default": [
        call(f(2, 3)),
        call(f(2, 3), dtype=F64),
        call(f(9), dtype=I64),
        call(i(3), dtype=F32),
        call(i(9, low=-1, high=1), dtype=BOOL),
        call(f(2, 2, 2, 2), memory_format=torch.channels_last),
    ],
    "aten.abs.default": unary(others=INTEGERS),
    "aten.acos.default": unary(-1.5, 1.5, INTEGERS),
    "aten.acosh.default": unary(0.5, 4, INTEGERS),
    "aten.alias.default": unary(others=INTEGERS),
    "aten.asin.default": unary(-1.5, 1.5, INTEGERS),
    "aten.asinh.default": unary(others=INTEGERS),
    "aten.atan.default": unary(others=INTEGERS + BOOLS),
    "aten.atanh.default": unary(-1.5, 1.5, INTEGERS),
    "aten.bitwise_not.default": INTEGERS + BOOLS,
    "aten.ceil.default": unary(others=INTEGERS),
    "aten.clone.default": [call(f(2, 3)), call(i(3)), call(f(1, 2, 2, 2), memory_format=torch.channels_last)],
    "aten.copy.default": [call(f(2, 3), f(2, 3)), call(f(2, 3), f(3)), call(f(2, 3), i(2, 1)), call(i(3), f(3))],
    "aten.cos.default": unary(others=INTEGERS),
    "aten.cosh.default": unary(others=INTEGERS),
    "aten.elu.default": [*unary(), call(f(9), 0.5), call(f(9), 1.5, 2.0, 0.25)],
    "aten.erf.default": unary(others=INTEGERS),
    "aten.exp.default": unary(others=INTEGERS + BOOLS),
    "aten.expm1.default": unary(others=INTEGERS),
    "aten.floor.default": unary(others=INTEGERS),
    "aten.gelu.default": [call(f(3, 4)), call(f()), call(f(9), approximate="none"), call(f(9), approximate="tanh")],
    "aten.hardtanh.default": [*unary(), call(f(9), 0.0, 6.0), call(i(9)), call(i(9), -3, 2)],
    "aten.isinf.default": unary(others=INTEGERS),
    "aten.isnan.default": unary(others=INTEGERS),
    "aten.leaky_relu.default": [*unary(), call(f(9), 0.2)],
    "aten.log.default": unary(0, 5, INTEGERS),
    "aten.log10.default": unary(0, 5, INTEGERS),
    "aten.log1p.default": unary(-1, 5, INTEGERS),
    "aten.log2.default": unary(0, 5, INTEGERS),
    "aten.logical_not.default": unary(others=[*BOOLS, call(i(20, low=-1, high=1))]),
    "aten.neg.default": unary(others=INTEGERS),
    "aten.reciprocal.default": unary(0.2, 5, INTEGERS),
    "aten.relu.default": unary(others=INTEGERS),
    "aten.round.default": unary(others=[*INTEGERS, call(torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5]))]),
    "aten.rsqrt.default": unary(0, 5, INTEGERS),
    "aten.sigmoid.default": unary(others=INTEGERS),
    "aten.sign.default": unary(others=INTEGERS + BOOLS),
    "aten.sin.default": unary(others=INTEGERS),
    "aten.sinh.default": unary(others=INTEGERS),
    "aten.sqrt.default": unary(0, 5, INTEGERS),
    "aten.tan.default": unary(-1, 1, INTEGERS),
    "aten.tanh.default": unary(others=INTEGERS),
    "aten.trunc.default": unary(others=INTEGERS),
    # Several, element by element
    "aten.add.Scalar": [call(f(2, 3), 2), call(f(3), 0.5, 2), call(i(3), 2), call(i(3), 1.5), call(b(3), 1, 3)],
    "aten.add.Tensor": [*binary(*MIXED), *SCALED, call(i(3), b(3), alpha=3), call(b(3), i(3))],
    "aten.atan2.default": binary(*MIXED),
    "aten.atan2.out": [
        call(f(2, 3), f(3), out=f(2, 3)),
        call(i(3), i(3), out=f(3)),
        call(f(3), f(3), out=f(3, dtype=F64)),
    ],
    "aten.bitwise_and.Scalar": BITWISE_SCALAR,
    "aten.bitwise_and.Tensor": BITWISE,
    "aten.bitwise_or.Scalar": BITWISE_SCALAR,
    "aten.bitwise_or.Tensor": BITWISE,
    "aten.bitwise_xor.Scalar": BITWISE_SCALAR,
    "aten.bitwise_xor.Tensor": BITWISE,
    "aten.clamp.Tensor": [
        call(f(3, 4), f(4, high=0), f(4, low=0)),
        call(f(3, 4), f(3, 1)),
        call(f(9), None, f()),
        call(i(9), i(9, high=0), i(9, low=0)),
        call(f(9), torch.tensor(1.0), torch.tensor(-1.0)),
    ],
    "aten.clamp.default": [
        call(f(3, 4), -1, 1.5),
        call(f(9), 0.5),
        call(f(9), None, 0),
        call(i(9), -2, 3),
        call(i(9), -1.5, 2),
        call(f(9), 1, -1),
    ],
    "aten.div.Scalar": [call(f(2, 3), 2), call(f(3), 0.3), call(i(3), 4), call(i(3), 0.5), call(b(3), 2)],
    "aten.div.Scalar_mode": [
        call(x, y, rounding_mode=mode)
        for mode in (None, "floor", "trunc")
        for x, y in [(f(20), 0.7), (f(20), -2), (i(20), 4), (i(20), -4), (i(20), 2.5)]
    ],
    "aten.div.Tensor": binary(*with_integers(1), low=0.5),
    "aten.div.Tensor_mode": [
        call(x, y, rounding_mode=mode)
        for mode in (None, "floor", "trunc")
        for x, y in [(f(3, 4), f(4, low=0.5)), (i(20), i(20, low=1)), (i(20), i(20, high=-1)), (i(9), f(9, low=0.5))]
    ],
    "aten.eq.Scalar": COMPARED,
    "aten.eq.Tensor": COMPARED_TENSORS,
    "aten.fmod.Scalar": REMAINDER_SCALARS,
    "aten.fmod.Tensor": REMAINDERS,
    "aten.ge.Scalar": COMPARED,
    "aten.ge.Tensor": COMPARED_TENSORS,
    "aten.gt.Scalar": COMPARED,
    "aten.gt.Tensor": COMPARED_TENSORS,
    "aten.le.Scalar": COMPARED,
    "aten.le.Tensor": COMPARED_TENSORS,
    "aten.logical_and.default": LOGICAL,
    "aten.logical_or.default": LOGICAL,
    "aten.logical_xor.default": LOGICAL,
    "aten.lt.Scalar": COMPARED,
    "aten.lt.Tensor": COMPARED_TENSORS,
    "aten.maximum.default": binary(*MIXED, call(torch.tensor([NAN, 1.0]), torch.tensor([2.0, NAN]))),
    "aten.minimum.default": binary(*MIXED, call(torch.tensor([NAN, 1.0]), torch.tensor([2.0, NAN]))),
    "aten.mul.Scalar": [call(f(2, 3), 2), call(f(3), 0.5), call(i(3), 3), call(i(3), 0.5), call(b(3), 3)],
    "aten.mul.Tensor": binary(*MIXED, call(b(3), f(3)), call(b(3), b(3))),
    "aten.ne.Scalar": COMPARED,
    "aten.ne.Tensor": COMPARED_TENSORS,
    "aten.pow.Scalar": [call(2, f(9)), call(0.5, f(3, 3)), call(2, i(5, low=0)), call(-1.5, i(5)), call(1, f())],
    "aten.pow.Tensor_Scalar": [
        call(f(9, low=0), 0.5),
        call(f(9), 2),
        call(f(9), -3),
        call(i(9), 3),
        call(i(9, low=1), 0.5),
        call(f(3), 0),
    ],
    "aten.pow.Tensor_Tensor": [
        call(f(3, 4, low=0), f(4)),
        call(i(9), i(9, low=0, high=4)),
        call(f(9), i(9)),
        call(f(3, low=0), f()),
    ],
    "aten.remainder.Scalar": REMAINDER_SCALARS,
    "aten.remainder.Tensor": REMAINDERS,
    "aten.sub.Scalar": [call(f(2, 3), 2), call(f(3), 0.5, 2), call(i(3), 2), call(i(3), 1.5)],
    "aten.sub.Tensor": [*binary(*MIXED), *SCALED],
    "aten.where.self": [
        call(b(3, 4), f(3, 4), f(3, 4)),
        call(b(3, 1), f(4), f()),
        call(b(3), i(3), f(3)),
        call(b(3), i(3), i(3)),
    ],
    # Reductions and scans
    "aten._log_softmax.default": [call(f(3, 4), 1, False), call(f(2, 3, 4), -2, False), call(f(), 0, False)],
    "aten._softmax.default": [call(f(3, 4), 1, False), call(f(2, 3, 4), -2, False), call(f(), 0, False)],
    "aten.amax.default": [call(f(3, 4)), call(f(2, 3, 4), [0, -1]), call(f(3, 4), [1], True), call(i(3, 4), 0)],
    "aten.amin.default": [call(f(3, 4)), call(f(2, 3, 4), [0, -1]), call(f(3, 4), [1], True), call(i(3, 4), 0)],
    "aten.any.default": [
        call(b(3, 4)),
        call(torch.zeros(3)),
        call(i(3)),
        call(b(0)),
        call(i(3, low=0, dtype=torch.uint8)),
    ],
    "aten.any.dim": [call(b(3, 4), 0), call(b(3, 4), -1, True), call(i(3, 4, low=0, high=1), 1), call(b(2, 0), 1)],
    "aten.any.dims": [call(b(3, 4, 2), [0, 2]), call(b(3, 4), None, True), call(f(2, 3), []), call(b(3, 4), [1], True)],
    "aten.argmax.default": [call(distinct(3, 4)), call(f(3, 4), 0), call(f(3, 4), -1, True), call(torch.ones(4), 0)],
    "aten.argmin.default": [call(distinct(3, 4)), call(f(3, 4), 0), call(f(3, 4), -1, True), call(torch.ones(4), 0)],
    "aten.cumsum.default": [
        call(f(3, 4), 0),
        call(f(3, 4), -1),
        call(i(3, 4), 1),
        call(i(5), 0, dtype=F32),
        call(b(4), 0),
    ],
    "aten.max.dim": [call(f(3, 4), 0), call(f(3, 4), -1, True), call(i(3, 4), 1), call(f(), 0)],
    "aten.mean.default": [call(f(3, 4)), call(f()), call(i(3, 4), dtype=F32), call(f(0))],
    "aten.mean.dim": [
        call(f(3, 4), [0]),
        call(f(2, 3, 4), [0, -1], True),
        call(f(3, 4), None),
        call(i(3, 4), 1, dtype=F32),
    ],
    "aten.min.dim": [call(f(3, 4), 0), call(f(3, 4), -1, True), call(i(3, 4), 1), call(f(), 0)],
    "aten.prod.default": [call(f(2, 3)), call(i(2, 2)), call(f(0)), call(i(3), dtype=F32)],
    "aten.prod.dim_int": [call(f(3, 4), 0), call(f(3, 4), -1, True), call(i(3, 4), 1), call(i(3), 0, dtype=F32)],
    "aten.sum.dim_IntList": [
        call(f(3, 4), [0]),
        call(f(2, 3, 4), [0, -1], True),
        call(f(3, 4), None),
        call(f(3, 4), []),
        call(i(3, 4, dtype=I32), [1]),
        call(b(3, 4), 1),
        call(i(3, 4), [1], dtype=F32),
    ],
    "aten.var.correction": [
        call(f(3, 4)),
        call(f(3, 4), [0], correction=0),
        call(f(2, 3, 4), [0, 2], correction=2, keepdim=True),
        call(f(5), correction=0.5),
    ],
    "aten.var.dim": [
        call(f(3, 4), [0]),
        call(f(3, 4), [1], False, True),
        call(f(3, 4), None),
        call(f(2, 3, 4), [0, 2]),
    ],
    # Products and distances
    "aten._cdist_forward.default": [
        call(f(3, 4), f(5, 4), p, mode)
        for p, mode in [(0.0, None), (1.0, 1), (2.0, 2), (2.0, 1), (3.0, 0), (INF, None)]
    ]
    + [call(f(2, 3, 4), f(2, 2, 4), 2.0, None), call(f(2, 1, 3, 4), f(3, 2, 4), 1.0, None)],
    "aten._pdist_forward.default": [
        call(f(4, 3)),
        *(call(f(5, 2), p) for p in (0.0, 1.0, 2.0, 3.0, INF)),
        call(f(1, 2)),
    ],
    "aten.addmm.default": [
        call(f(4), f(2, 3), f(3, 4)),
        call(f(2, 4), f(2, 3), f(3, 4), beta=0.5, alpha=2),
        call(torch.full((2, 4), NAN), f(2, 3), f(3, 4), beta=0),
        call(i(2, 4), i(2, 3), i(3, 4), beta=2),
    ],
    "aten.bmm.default": [call(f(2, 3, 4), f(2, 4, 5)), call(f(1, 2, 0), f(1, 0, 3)), call(i(2, 2, 3), i(2, 3, 2))],
    "aten.mm.default": [call(f(3, 4), f(4, 5)), call(f(2, 0), f(0, 3)), call(i(2, 3), i(3, 2))],
    # Views
    "aten.as_strided.default": [
        call(f(3, 4), [2, 2], [4, 1], 1),
        call(f(5), [3, 3], [1, 1]),
        call(f(2, 3), [3, 2], [1, 3]),
        call(f(4), [2], [0], 3),
    ],
    "aten.diagonal.default": [call(f(3, 3)), call(f(3, 4), 1), call(f(2, 3, 4), -1, 2, 1), call(f(2, 3, 4), 0, 0, -1)],
    "aten.expand.default": [call(f(3, 1), [3, 4]), call(f(3, 1), [2, -1, 4]), call(f(), [2]), call(f(1), [0])],
    "aten.flip.default": [call(f(3, 4), [0]), call(f(2, 3, 2), [0, -1]), call(f(3), [])],
    "aten.permute.default": [call(f(3, 4), [1, 0]), call(f(2, 3, 4), [-1, 0, 1]), call(f(), [])],
    "aten.repeat.default": [call(f(2, 3), [2, 1]), call(f(3), [2, 2]), call(f(2, 2), [1, 0, 3])],
    "aten.resize_.default": [call(f(2, 3), [3, 2]), call(f(6), [2, 2]), call(f(2, 2), [3, 2]), call(i(3), [0])],
    "aten.select.int": [call(f(3, 4), 0, 1), call(f(3, 4), -1, -2), call(f(5), 0, 4)],
    "aten.slice.Tensor": [
        call(f(5, 3)),
        call(f(5, 3), 0, 1, 4),
        call(f(5, 3), 1, -2),
        call(f(7), 0, None, -1, 2),
        call(f(3), 0, 2, 1),
        call(f(3, 4), -1, 1, 2**63 - 1, 3),
        call(f(3), 0, 5, 9),
    ],
    "aten.split_with_sizes.default": [call(f(5, 2), [2, 3]), call(f(2, 4), [1, 0, 3], -1), call(f(3), [3])],
    "aten.squeeze.dim": [call(f(1, 3, 1), 0), call(f(1, 3, 1), -1), call(f(1, 3), 1), call(f(), 0)],
    "aten.squeeze.dims": [call(f(1, 3, 1), [0, 2]), call(f(1, 3, 1), [1, -1]), call(f(1, 3), [])],
    "aten.unsqueeze.default": [call(f(3, 4), 0), call(f(3, 4), -1), call(f(3, 4), 1), call(f(), 0)],
    "aten.view.default": [call(f(3, 4), [4, 3]), call(f(3, 4), [2, -1]), call(f(1), []), call(f(0, 3), [3, 0])],
    # Joining and padding
    "aten.cat.default": [
        call([f(2, 3), f(1, 3)]),
        call([f(2, 3), f(2, 1), f(2, 2)], -1),
        call([f(2), i(3)]),
        call([f(0), f(2, 3)], 1),
        call([f(0), f(0)]),
    ],
    "aten.constant_pad_nd.default": [
        call(f(3, 4), [1, 2]),
        call(f(3, 4), [1, 2, 0, 1], 1.5),
        call(f(2, 3), [-1, 1]),
        call(i(3), [1, 1], 7),
        call(f(3), []),
    ],
    "aten.reflection_pad1d.default": [call(f(2, 4), [1, 2]), call(f(1, 2, 4), [3, 0]), call(f(2, 5), [-1, 2])],
    "aten.reflection_pad2d.default": [call(f(2, 3, 4), [1, 2, 2, 0]), call(f(1, 2, 3, 4), [0, 3, 1, 1])],
    "aten.reflection_pad3d.default": [
        call(f(1, 2, 3, 4), [1, 0, 2, 1, 1, 1]),
        call(f(1, 2, 2, 3, 4), [3, 1, 0, 2, 1, 0]),
    ],
    "aten.replication_pad2d.default": [call(f(2, 3, 4), [1, 5, 2, 0]), call(f(1, 2, 3, 4), [0, 3, -1, 4])],
    "aten.replication_pad3d.default": [
        call(f(1, 2, 3, 4), [1, 0, 5, 1, 1, 3]),
        call(f(1, 2, 2, 3, 4), [3, 1, 0, 2, 1, 0]),
    ],
    # Reading and writing at computed places
    "aten._embedding_bag.default": [
        call(f(5, 3), i(6, low=0, high=4), torch.tensor([0, 2, 2, 5]), False, mode, False, weights, False, padding)
        for mode, weights, padding in [
            (0, None, -1),
            (0, f(6), -1),
            (0, None, 2),
            (1, None, -1),
            (1, None, 2),
            (2, None, -1),
        ]
    ]
    + [
        call(f(5, 3), torch.tensor([0, 1, 2, 4, 2, 2]), torch.tensor([0, 2, 5]), False, 2, False, None, False, 2),
        call(f(5, 3), i(6, low=0, high=4), torch.tensor([0, 4, 6]), False, 0, False, None, True),
        call(f(5, 3), i(6, low=0, high=4), torch.tensor([0, 4, 6]), False, 1, False, None, True),
        call(f(5, 3), i(6, low=0, high=4), torch.tensor([0, 4, 6]), False, 2, False, None, True),
    ],
    "aten.embedding.default": [
        call(f(5, 3), i(4, low=0, high=4)),
        call(f(5, 3), i(2, 3, low=0, high=4, dtype=I32), 2),
        call(f(5, 3), i(low=0, high=4), -1, True),
    ],
    "aten.embedding_dense_backward.default": [
        call(f(4, 3), i(4, low=0, high=4), 5, -1, False),
        call(f(2, 6, 3), i(2, 6, low=0, high=2), 4, 1, False),
        call(f(6, 3), i(6, low=0, high=2), 4, -1, True),
        call(f(6, 3), i(6, low=0, high=2), 4, 2, True),
    ],
    "aten.gather.default": [
        call(f(3, 4), 0, i(2, 4, low=0, high=2)),
        call(f(3, 4), -1, i(3, 6, low=0, high=3)),
        call(f(), 0, i(low=0, high=0)),
    ],
    "aten.index.Tensor": [
        call(f(5), [i(3, low=-5, high=4)]),
        call(f(3, 4), [None, i(2, 2, low=0, high=3)]),
        call(f(2, 3, 4), [i(2, low=0, high=1), None, i(2, low=0, high=3)]),
        call(f(3, 4), [i(2, 1, low=0, high=2), i(3, low=0, high=3)]),
        call(f(3, 4), [b(3, 4)]),
        call(f(3, 4), [torch.tensor([True, False, True])]),
        call(f(3, 4), [torch.tensor([True, False, True]), torch.tensor([0, 3])]),
        call(f(2, 3, 4), [None, torch.tensor([False, True, True])]),
    ],
    "aten.index_put.default": [
        call(f(5), [perm(5, 3)], f(3)),
        call(f(5), [i(6, low=-5, high=4)], f(6), True),
        call(f(3, 4), [None, perm(4, 2)], f(3, 2)),
        call(f(3, 4), [i(5, low=0, high=2)], f(4), True),
        call(f(3, 4), [b(3, 4)], f()),
        call(f(3, 4), [torch.tensor([True, False, True])], f(2, 4)),
        call(i(4), [torch.tensor([-1])], i(1)),
    ],
    "aten.index_select.default": [
        call(f(4, 3), 0, i(5, low=0, high=3)),
        call(f(4, 3), -1, i(2, low=0, high=2, dtype=I32)),
        call(f(4, 3), 1, i(low=0, high=2)),
    ],
    "aten.masked_scatter.default": [
        call(f(3, 4), b(3, 4), f(12)),
        call(f(3, 4), b(4), f(3, 4)),
        call(i(4), b(4), i(5)),
    ],
    "aten.nonzero.default": [call(i(3, 4, low=0, high=1)), call(b(5)), call(f(2, 0)), call(f()), call(b(2, 3, 2))],
    "aten.scatter.src": [
        call(f(3, 4), 0, torch.tensor([[0, 1, 2, 0]]), f(1, 4)),
        call(f(3, 4), -1, torch.tensor([[3, 0], [1, 2]]), f(3, 3)),
        call(i(3), 0, torch.tensor([2]), i(1)),
    ],
    "aten.scatter.value": [
        call(f(3, 4), 0, i(2, 4, low=0, high=2), 1.5),
        call(f(3, 4), 1, i(3, 2, low=0, high=3), 2),
        call(i(3), 0, i(2, low=0, high=2), 7),
    ],
    "aten.scatter_add.default": [
        call(f(3, 4), 0, i(2, 4, low=0, high=2), f(2, 4)),
        call(f(3, 4), -1, i(3, 6, low=0, high=3), f(3, 6)),
        call(i(3), 0, i(5, low=0, high=2), i(5)),
    ],
    "aten.scatter_reduce.two": [
        call(f(4), 0, i(6, low=0, high=3), f(6), reduce, include_self=include_self)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include_self in (True, False)
    ]
    + [call(f(3, 4), 1, i(3, 2, low=0, high=3), f(3, 2), "amax"), call(i(3), 0, i(5, low=0, high=2), i(5), "sum")],
    "aten.select_scatter.default": [call(f(3, 4), f(4), 0, 1), call(f(3, 4), f(3), -1, -1)],
    "aten.slice_scatter.default": [
        call(f(5), f(2), 0, 1, 3),
        call(f(2, 6), f(2, 3), 1, 1, None, 2),
        call(f(3, 2), f(3, 2)),
        call(f(7), f(3), 0, -3),
    ],
    "aten.sort.default": [
        call(distinct(3, 4)),
        call(distinct(3, 4), 0, True),
        call(distinct(20)),
        call(f()),
        call(torch.tensor([1.0, NAN, -INF, 3.0])),
    ],
    "aten.topk.default": [
        call(distinct(3, 4), 2),
        call(distinct(3, 4), 3, 0, False),
        call(distinct(9), 9, 0, True, True),
        call(f(), 1),
    ],
    # Convolution, pooling, resampling
    "aten._adaptive_avg_pool2d.default": [
        call(f(2, 4, 6), [2, 3]),
        call(f(1, 2, 5, 7), [3, 4]),
        call(f(1, 3, 3), [1, 1]),
    ],
    "aten._adaptive_avg_pool2d_backward.default": [
        call(f(2, 2, 3), f(2, 4, 6)),
        call(f(1, 2, 3, 4), f(1, 2, 5, 7)),
        call(f(1, 1, 1), f(1, 3, 3)),
    ],
    "aten._adaptive_avg_pool3d.default": [call(f(1, 2, 4, 6), [1, 2, 3]), call(f(1, 2, 3, 5, 4), [2, 3, 3])],
    "aten.adaptive_avg_pool1d.default": [call(f(2, 6), [3]), call(f(1, 2, 7), [3]), call(f(2, 3), [5])],
    "aten.avg_pool1d.default": [
        call(f(2, 6), [2]),
        call(f(1, 2, 7), [3], [2], [1]),
        call(f(1, 2, 6), [3], [2], [1], True, False),
    ],
    "aten.avg_pool2d.default": [
        call(f(2, 4, 6), [2]),
        call(f(1, 2, 5, 6), [3, 2], [2, 1], [1, 0]),
        call(f(1, 1, 6, 5), [3, 2], [2, 2], [1, 1], True),
        call(f(1, 1, 6, 5), [3, 2], [2, 2], [1, 1], True, False),
        call(f(1, 1, 6, 5), [3, 2], [2, 2], [1, 1], False, True, 5),
    ],
    "aten.avg_pool2d_backward.default": [
        call(f(2, 2, 3), f(2, 4, 6), [2], [], [0], False, True, None),
        call(f(1, 2, 3, 5), f(1, 2, 5, 6), [3, 2], [2, 1], [1, 0], False, True, None),
        call(f(1, 1, 4, 3), f(1, 1, 6, 5), [3, 2], [2, 2], [1, 1], True, True, None),
        call(f(1, 1, 4, 3), f(1, 1, 6, 5), [3, 2], [2, 2], [1, 1], True, False, None),
        call(f(1, 1, 3, 3), f(1, 1, 6, 5), [3, 2], [2, 2], [1, 1], False, True, 5),
    ],
    "aten.avg_pool3d.default": [
        call(f(1, 4, 4, 6), [2]),
        call(f(1, 2, 3, 5, 4), [2, 3, 2], [1, 2, 1], [1, 1, 0], False, False),
        call(f(1, 1, 3, 5, 4), [2, 3, 2], [2, 2, 2], [1, 1, 0], True, True, 3),
    ],
    "aten.col2im.default": [
        call(f(1, 8, 6), [3, 4], [2, 2], [1, 1], [0, 0], [1, 1]),
        call(f(12, 16), [4, 5], [3, 2], [1, 1], [1, 2], [2, 1]),
        call(f(2, 4, 4), [5, 4], [2, 2], [3, 1], [0, 0], [1, 2]),
    ],
    "aten.convolution.default": [
        call(f(2, 3, 5), f(4, 3, 3), f(4), [1], [0], [1], False, [0], 1),
        call(f(1, 4, 7, 6), f(6, 2, 3, 2), None, [2, 1], [1, 0], [1, 2], False, [0, 0], 2),
        call(f(1, 2, 3, 4, 4), f(2, 2, 2, 2, 2), f(2), [1, 2, 1], [0, 1, 1], [1, 1, 1], False, [0, 0, 0], 1),
        call(f(1, 4, 3, 4), f(4, 2, 3, 2), f(4), [2, 1], [1, 0], [1, 1], True, [1, 0], 2),
    ],
    "aten.convolution_backward.default": [
        call(f(2, 4, 3), f(2, 3, 5), f(4, 3, 3), [4], [1], [0], [1], False, [0], 1, [True, True, True]),
        call(
            f(1, 6, 4, 4),
            f(1, 4, 7, 6),
            f(6, 2, 3, 2),
            [0],
            [2, 1],
            [1, 0],
            [1, 2],
            False,
            [0, 0],
            2,
            [True, True, False],
        ),
        call(
            f(1, 4, 6, 5),
            f(1, 4, 3, 4),
            f(4, 2, 3, 2),
            [4],
            [2, 1],
            [1, 0],
            [1, 1],
            True,
            [1, 0],
            2,
            [True, True, True],
        ),
        call(f(1, 2, 3), f(1, 2, 5), f(2, 2, 3), None, [1], [0], [1], False, [0], 1, [False, True, False]),
    ],
    "aten.grid_sampler_2d.default": [
        call(f(1, 2, 3, 4), f(1, 2, 3, 2, low=-1.4, high=1.4), mode, padding, align)
        for mode in (0, 1, 2)
        for padding in (0, 1, 2)
        for align in (False, True)
    ],
    "aten.max_pool2d_with_indices.default": [
        call(f(2, 4, 6), [2]),
        call(f(1, 2, 5, 6), [3, 2], [2, 1], [1, 0]),
        call(f(1, 1, 6, 5), [3, 2], [2, 2], [1, 1], [1, 2], True),
    ],
    "aten.max_pool2d_with_indices_backward.default": [
        max_pool2d_backward(f(2, 4, 6), [2], [], [0], [1], False),
        max_pool2d_backward(f(1, 2, 5, 6), [3, 2], [2, 1], [1, 0], [1, 1], False),
        max_pool2d_backward(f(1, 1, 6, 5), [3, 2], [2, 2], [1, 1], [1, 2], True),
    ],
    "aten.max_pool3d_with_indices.default": [
        call(f(1, 4, 4, 6), [2]),
        call(f(1, 2, 3, 5, 4), [2, 3, 2], [1, 2, 1], [1, 1, 0], [1, 1, 2], True),
    ],
    "aten.upsample_bilinear2d.vec": [
        call(f(1, 2, 3, 4), [6, 5], False, None),
        call(f(1, 2, 3, 4), [6, 5], True, None),
        call(f(1, 1, 4, 3), None, False, [1.5, 2.5]),
        call(f(1, 1, 5, 6), None, True, [0.6, 0.5]),
    ],
    "aten.upsample_nearest2d.vec": [
        call(f(1, 2, 3, 4), [6, 5], None),
        call(f(1, 1, 4, 3), None, [1.5, 2.5]),
        call(f(1, 1, 5, 6), None, [0.6, 0.5]),
        call(f(1, 1, 3, 2), None, [2.0, 3.0]),
    ],
    # Normalization
    "aten._native_batch_norm_legit.default": [
        call(f(3, 2), f(2), f(2), f(2), f(2, low=0.1), True, 0.1, 1e-5),
        call(f(2, 3, 4), None, None, f(3), f(3, low=0.1), True, 0.25, 1e-3),
        call(f(2, 3, 2, 2), f(3), f(3), f(3), f(3, low=0.1), False, 0.1, 1e-5),
    ],
    "aten._native_batch_norm_legit.no_stats": [
        call(f(3, 2), f(2), f(2), True, 0.1, 1e-5),
        call(f(2, 3, 4), None, None, True, 0.25, 1e-3),
    ],
    "aten._native_batch_norm_legit_no_training.default": [
        call(f(3, 2), f(2), f(2), f(2), f(2, low=0.1), 0.1, 1e-5),
        call(f(2, 3, 4), None, None, f(3), f(3, low=0.1), 0.1, 1e-3),
    ],
    "aten.native_group_norm.default": [
        call(x := f(2, 4, 3), f(4), f(4), *group_norm(x, 2), 1e-5),
        call(x := f(2, 4, 2, 3), None, None, *group_norm(x, 4), 1e-3),
        call(x := f(2, 6), f(6), None, *group_norm(x, 1), 1e-5),
    ],
    "aten.native_group_norm_backward.default": [
        group_norm_backward(f(2, 4, 3), f(4), 2, [True, True, True]),
        group_norm_backward(f(2, 4, 2, 3), None, 4, [True, False, False]),
        group_norm_backward(f(1, 6, 5), f(6), 1, [False, True, True]),
    ],
    "aten.native_layer_norm.default": [
        call(f(3, 4), [4], f(4), f(4), 1e-5),
        call(f(2, 3, 4), [3, 4], None, None, 1e-3),
        call(f(2, 4), [2, 4], f(2, 4), None, 1e-5),
    ],
    "aten.native_layer_norm_backward.default": [
        layer_norm_backward(f(3, 4), 1, f(4), f(4), [True, True, True]),
        layer_norm_backward(f(2, 3, 4), 2, f(3, 4), f(3, 4), [True, True, True]),
        layer_norm_backward(f(2, 3, 4), 2, None, None, [True, False, False]),
        layer_norm_backward(f(5), 1, f(5), f(5), [False, True, True]),
    ],
    # Fourier transforms
    "aten._fft_c2r.default": [
        call(torch.complex(f(3, 4), f(3, 4)), [1], normalization, size)
        for normalization in (0, 1, 2)
        for size in (6, 7)
    ]
    + [
        call(torch.complex(f(2, 3, 4), f(2, 3, 4)), [0, 2], 0, 6),
        call(torch.complex(f(4, 3), f(4, 3)), [1, 0], 2, 7),
    ],
    "aten._fft_r2c.default": [
        call(f(3, 8), [1], normalization, onesided) for normalization in (0, 1, 2) for onesided in (True, False)
    ]
    + [call(f(2, 3, 5), [0, 2], 0, True), call(f(4, 3), [1, 0], 2, True), call(f(4, 3), [0, 1], 1, False)],
    # Random numbers
    "aten.native_dropout.default": [
        call(f(40, 50), 0.25, True),
        call(f(40, 50), 0.5, None),
        call(f(3, 4), 0.5, False),
    ],
    "aten.rand.default": [call([40, 50]), call([2000], dtype=F64), call([0, 2])],
    "aten.randn.default": [call([40, 50]), call([2000], dtype=F64), call([0, 2])],
    "aten.randperm.default": [call(20), call(50, dtype=I32), call(0), call(1)],
    # No tensors
    "aten._local_scalar_dense.default": [call(f()), call(i(1, 1)), call(b())],
    "aten.sym_is_contiguous.default": [call(f(2, 3)), call(f())],
    "aten.sym_numel.default": [call(f(2, 3)), call(f()), call(f(4, 0))],
    "aten.sym_size.int": [call(f(2, 3), 0), call(f(2, 3), -1)],
    "aten.sym_storage_offset.default": [call(f(2, 3)), call(f())],
    "aten.sym_stride.int": [call(f(2, 3, 4), 0), call(f(2, 3, 4), -1), call(f(2, 3, 4), -2)],
}
