"""Products, distances, attention and recurrent layers."""

import functools

import aten_calls
import torch
from core_aten_samples import F64, I32, INF, b, call, f, i

PAIRS = [
    call(f(3, 4), f(4, 2)),
    call(f(2, 3, 4), f(4, 3)),
    call(f(3), f(3)),
    call(i(2, 3), i(3, 2)),
    call(f(2, 0), f(0, 3)),
]
VECTORS = [call(f(3), f(3)), call(i(4), i(4)), call(f(0), f(0))]
OUTER = [call(f(3), f(4)), call(i(2), i(3)), call(b(2), b(3)), call(f(2), i(3))]
DTYPES = [
    call(f(3, 4).half(), f(4, 2).half(), torch.float32),
    call(f(2, 3).bfloat16(), f(3, 2).bfloat16(), torch.float32),
]
BATCHES = [call(f(2, *x.shape).half(), f(2, *y.shape).half(), torch.float32) for (x, y, _), _ in DTYPES]


def scaled(*tensors):
    """Of the add... overloads."""
    return [
        call(*tensors),
        call(*tensors, beta=0.5, alpha=2),
        call(torch.full_like(tensors[0], INF), *tensors[1:], beta=0),
    ]


def attention(*others, **options):
    return call(f(2, 3, 5, 4), f(2, 3, 7, 4), f(2, 3, 7, 4), *others, **options)


def mask(*shape):
    """Also a row that nothing is left of."""
    found = b(*shape)
    found[..., 1, :] = False
    return found


ATTENTION = [
    attention(),
    attention(None, 0.0, True),
    attention(mask(5, 7)),
    attention(f(2, 1, 5, 7)),
    attention(f(5, 7), scale=0.7),
    call(f(3, 4), f(5, 4), f(5, 2)),
    call(f(1, 4, 3, 2), f(1, 2, 5, 2), f(1, 2, 5, 2), enable_gqa=True),
]
KERNEL = [attention(), attention(0.0, True), attention(scale=0.5)]


def cpu_backward(is_causal=False, **options):
    query, key, value = f(1, 2, 5, 4), f(1, 2, 7, 4), f(1, 2, 7, 4)
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, sums = forward(query, key, value, 0.0, is_causal, **options)
    return call(f(*out.shape), query, key, value, out, sums, 0.0, is_causal, **options)


# ---- kernels that PyTorch has for other devices only: judged by its function for all ---------------------------------


def sums_of(query, key, is_causal, mask, scale):
    scores = query @ key.mT * (scale or query.shape[-1] ** -0.5)
    if is_causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -INF)
    return torch.logsumexp(scores if mask is None else scores + mask, -1)


def check_flash(call, name, args, kwargs):
    query, key, value, dropout, is_causal = [*args, 0.0, False][:5]
    mine = call.evaluate()
    theirs = torch.nn.functional.scaled_dot_product_attention(query, key, value, None, dropout, is_causal, **kwargs)
    torch.testing.assert_close(mine[0], theirs)
    torch.testing.assert_close(mine[1], sums_of(query, key, is_causal, None, kwargs.get("scale")))
    assert [None if x is None else x.tolist() for x in mine[2:6]] == [None, None, query.shape[-2], key.shape[-2]]


def check_efficient(call, name, args, kwargs):
    query, key, value, mask, wants_sums, dropout, is_causal = [*args, 0.0, False][:7]
    mine = call.evaluate()
    theirs = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, dropout, is_causal, **kwargs)
    torch.testing.assert_close(mine[0], theirs)
    sums = sums_of(query, key, is_causal, mask, kwargs.get("scale"))
    torch.testing.assert_close(mine[1], sums if wants_sums else sums[..., :0])


def gradients_of_attention(grad, query, key, value, mask, is_causal, scale):
    operands = [x.clone().requires_grad_() for x in (query, key, value, mask) if x is not None]
    function = torch.nn.functional.scaled_dot_product_attention
    out = function(*operands[:3], operands[3] if mask is not None else None, 0.0, is_causal, scale=scale)
    return torch.autograd.grad(out, operands, grad)


def check_flash_backward(call, name, args, kwargs):
    theirs = gradients_of_attention(*args[:4], None, args[11], kwargs.get("scale"))
    for mine, gradient in zip(call.evaluate(), theirs, strict=True):
        torch.testing.assert_close(mine, gradient)


def check_efficient_backward(call, name, args, kwargs):
    theirs = [*gradients_of_attention(*args[:5], args[11], kwargs.get("scale")), None][:4]
    for mine, gradient, wanted in zip(call.evaluate(), theirs, args[10], strict=True):
        assert (mine is not None) == wanted
        if wanted:
            torch.testing.assert_close(mine, gradient)


def check_wide(call, name, args, kwargs):
    """Of a dtype overload: PyTorch's plain one, with operands of that dtype."""
    tensors = [x.to(torch.float32) for x in args if isinstance(x, torch.Tensor)]
    theirs = aten_calls.overload_named(name.replace(".dtype", ".default"))(*tensors, **kwargs)
    (mine,) = call.evaluate()
    torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)


SEED = torch.tensor(0)
QKV = [f(1, 2, 5, 4), f(1, 2, 7, 4), f(1, 2, 7, 4)]
OUT = [f(1, 2, 5, 4), f(1, 2, 5)]

# ---- recurrent layers ------------------------------------------------------------------------------------------------


def cell(gates, states, bias=True):
    hidden = [f(2, 5) for _ in range(states)]
    biases = [f(5 * gates), f(5 * gates)] if bias else []
    return call(f(2, 3), hidden if states == 2 else hidden[0], f(5 * gates, 3), f(5 * gates, 5), *biases)


def layers(gates, states, bias=True, count=1, bidirectional=False, batch_first=False, projection=None):
    """Weights are small, so that what grows without bounds does not grow much."""
    directions = 2 if bidirectional else 1
    w = functools.partial(f, low=-0.5, high=0.5)
    out = projection or 5
    parameters = []
    for layer in range(count):
        for _ in range(directions):
            features = 3 if layer == 0 else out * directions
            parameters += [w(5 * gates, features), w(5 * gates, out)]
            parameters += [f(5 * gates), f(5 * gates)] if bias else []
            parameters += [f(out, 5)] if projection else []
    hidden = [f(count * directions, 2, out), f(count * directions, 2, 5)][:states]
    x = f(2, 4, 3) if batch_first else f(4, 2, 3)
    state = hidden if states == 2 else hidden[0]
    return call(x, state, parameters, bias, count, 0.0, False, bidirectional, batch_first)


def network(gates, states):
    return [
        layers(gates, states),
        layers(gates, states, bias=False, count=2, batch_first=True),
        layers(gates, states, count=2, bidirectional=True),
    ]


def recurrent(name, gates, states):
    return {
        f"aten.{name}_cell.default": [cell(gates, states), cell(gates, states, bias=False)],
        f"aten.{name}.input": network(gates, states),
    }


# ---- by groups of rows -----------------------------------------------------------------------------------------------

ENDS = torch.tensor([3, 3, 8], dtype=I32)  # of rows, the second group has none
HALVES = (torch.float16, torch.bfloat16)
GROUPED = [
    call(f(8, 3), f(3, 3, 4), ENDS),
    call(f(9, 3), f(3, 4, 3).mT, ENDS),
    call(f(9, 2, dtype=F64), f(4, 2, 3, dtype=F64), torch.tensor([0, 2, 2, 7])),
    *(call(f(8, 3, dtype=dtype), f(3, 3, 4, dtype=dtype), ENDS) for dtype in HALVES),
    call(f(0, 3), f(3, 3, 4), torch.tensor([0, 0, 0])),
]

SAMPLES = {
    # PyTorch wants strides of 16 bytes, and leaves rows after the last group open.
    "aten._grouped_mm.default": [
        call(f(8, 4), f(3, 4, 8), ENDS),
        call(f(8, 4), f(3, 12, 4).mT, ENDS),
        call(f(8, 4).mT, f(8, 12), ENDS),
        call(f(4, 8), f(12, 8).mT, ENDS),
        call(f(3, 4, 8), f(8, 8), ENDS),
        call(f(3, 8, 4).mT, f(8, 8).mT, ENDS),
        call(f(3, 4, 8), f(3, 8, 4)),
        *(call(f(8, 8, dtype=dtype), f(3, 8, 16, dtype=dtype), ENDS, out_dtype=dtype) for dtype in HALVES),
    ],
    "transformers.grouped_mm_fallback.default": GROUPED,
    "tenon.grouped_matmul.default": GROUPED,
    "tenon.grouped_outer.default": [call(args[0], f(len(args[0]), 5).to(args[0]), args[2]) for args, _ in GROUPED],
    "aten.matmul.default": PAIRS,
    "aten.linalg_matmul.default": PAIRS,
    "aten.mv.default": [call(f(3, 4), f(4)), call(i(2, 3), i(3))],
    "aten.dot.default": VECTORS,
    "aten.vdot.default": VECTORS,
    "aten.inner.default": [call(f(3), f(3)), call(f(2, 3), f(4, 3)), call(f(2, 2, 3), f(3)), call(f(), f(2))],
    "aten.outer.default": OUTER,
    "aten.ger.default": OUTER,
    "aten.mm.dtype": DTYPES,
    "aten.bmm.dtype": BATCHES,
    "aten.addmm.dtype": [call(f(2).half(), *args) for args, _ in DTYPES if args[0].dtype == torch.half],
    "aten.baddbmm.dtype": [call(f(2, 1, 2).half(), *args, beta=0.5) for args, _ in BATCHES],
    "aten.baddbmm.default": [
        *scaled(f(2, 3, 2), f(2, 3, 4), f(2, 4, 2)),
        call(f(2), f(1, 3, 4), f(1, 4, 2)),
        call(i(1, 2, 2), i(1, 2, 3), i(1, 3, 2), beta=2, alpha=3),
        call(i(1, 2, 2), i(1, 2, 3), i(1, 3, 2), beta=0.5, alpha=1.5),
    ],
    "aten.addbmm.default": [*scaled(f(3, 2), f(2, 3, 4), f(2, 4, 2)), call(f(2), f(1, 3, 4), f(1, 4, 2))],
    "aten.addmv.default": [*scaled(f(3), f(3, 4), f(4)), call(f(), f(3, 2), f(2))],
    "aten.addr.default": [*scaled(f(3, 4), f(3), f(4)), call(f(4), f(3), f(4)), call(i(2, 2), i(2), i(2), alpha=2)],
    "aten.linear.default": [
        call(f(3, 4), f(2, 4), f(2)),
        call(f(2, 3, 4), f(5, 4)),
        call(f(4), f(2, 4), f(2)),
        call(f(3, 4), f(4)),
    ],
    "aten.einsum.default": [
        call("ij,jk->ik", [f(3, 4), f(4, 2)]),
        call("ij,jk", [f(3, 4), f(4, 2)]),
        call("bij,bjk->bik", [f(2, 3, 4), f(2, 4, 2)]),
        call("bhqd,bhkd->bhqk", [f(2, 2, 3, 4), f(2, 2, 5, 4)]),
        call("...ij,...jk->...ik", [f(2, 3, 4), f(4, 2)]),
        call("ii->i", [f(3, 3)]),
        call("ii", [f(3, 3)]),
        call("ij->ji", [f(3, 4)]),
        call("ij->", [f(3, 4)]),
        call("i,j->ij", [f(3), f(4)]),
        call("i,i", [f(3), f(3)]),
        call("ij,kj,lj->ikl", [f(2, 3), f(4, 3), f(5, 3)]),
        call("bn,anm,bm->ba", [f(2, 3), f(5, 3, 4), f(2, 4)]),
        call("i j , j k -> k i", [f(3, 4), f(4, 2)]),
        call("ij,jk->ik", [f(3, 1), f(4, 2)]),
        call("b...,b...->...", [f(2, 3), f(2, 1)]),
        call("aib,bjc->aijc", [f(2, 3, 4), f(4, 2, 3)]),
    ],
    "aten.tensordot.default": [
        call(f(3, 4), f(4, 2), [1], [0]),
        call(f(2, 3, 4), f(4, 3, 5), [2, 1], [0, 1]),
        call(f(2, 3), f(4), [], []),
        call(f(3, 2), f(3, 2), [0, 1], [0, 1]),
    ],
    "aten.bilinear.default": [call(f(2, 3), f(2, 4), f(5, 3, 4), f(5)), call(f(2, 3, 3), f(2, 3, 4), f(2, 3, 4))],
    "aten.chain_matmul.default": [call([f(2, 3), f(3, 4), f(4, 2)]), call([f(2, 3)])],
    "aten.linalg_multi_dot.default": [call([f(2, 3), f(3, 4), f(4, 2)]), call([f(3), f(3, 4), f(4)])],
    "aten.matrix_power.default": [call(f(3, 3), n) for n in (0, 1, 2, 3, 5, -1, -3)] + [call(f(2, 3, 3), 0)],
    "aten.linalg_matrix_power.default": [call(f(3, 3), n) for n in (0, 1, 2, 6)],
    "aten.trace_backward.default": [call(f(), [3, 4]), call(f(), [3, 2])],
    "aten.cross.default": [call(f(2, 3), f(2, 3)), call(f(3, 4), f(3, 4), 0), call(f(2, 3, 2), f(1, 3, 2))],
    "aten.linalg_cross.default": [call(f(2, 3), f(2, 3)), call(f(3, 4), f(3, 1), dim=0), call(i(3), i(3))],
    "aten.kron.default": [call(f(2, 3), f(3, 2)), call(f(2), f(2, 3)), call(i(2), i(3)), call(f(), f(2))],
    "aten.vander.default": [call(f(3)), call(f(3), 2), call(i(3), 4, True), call(f(2), 1)],
    "aten.linalg_vander.default": [call(f(3)), call(f(), N=2), call(f(2, 3), N=4), call(f(2), N=2)],
    "aten.linalg_vecdot.default": [call(f(2, 3), f(2, 3)), call(f(3, 1), f(3, 4), dim=0)],
    "aten.cdist.default": [
        call(f(3, 4), f(2, 4)),
        call(f(2, 3, 4), f(2, 2, 4), 1.0),
        call(f(3, 2), f(3, 2), INF),
        call(f(2, 3), f(3, 3), 3.0),
    ],
    "aten._euclidean_dist.default": [
        call(f(3, 4, dtype=F64), f(2, 4, dtype=F64)),
        call(f(2, 3, 4, dtype=F64), f(2, 2, 4, dtype=F64)),
    ],
    "aten._cdist_backward.default": [
        call(f(3, 2), x := f(3, 4), y := f(2, 4), p, torch.cdist(x, y, p)) for p in (1.0, 2.0, 3.0, INF)
    ],
    "aten.pdist.default": [call(f(4, 3)), call(f(3, 2), 1.0), call(f(1, 3))],
    "aten._pdist_backward.default": [call(f(3), x := f(3, 4), p, torch.pdist(x, p)) for p in (1.0, 2.0, 3.0)],
    "aten.pairwise_distance.default": [
        call(f(3, 4), f(3, 4)),
        call(f(3, 4), f(4), 1.0, 1e-3, True),
        call(f(4), f(4), INF),
    ],
    "aten.scaled_dot_product_attention.default": ATTENTION,
    "aten._scaled_dot_product_attention_math.default": ATTENTION,
    "aten._scaled_dot_product_flash_attention_for_cpu.default": [
        *KERNEL,
        attention(attn_mask=f(2, 3, 5, 7)),
        attention(attn_mask=f(2, 1, 5, 7), scale=0.3),
    ],
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": [
        cpu_backward(),
        cpu_backward(True),
        cpu_backward(scale=0.5),
        cpu_backward(attn_mask=f(1, 1, 5, 7)),
    ],
    "aten._scaled_dot_product_flash_attention.default": KERNEL,
    "aten._scaled_dot_product_efficient_attention.default": [
        attention(None, True),
        attention(None, False, 0.0, True),
        attention(f(2, 3, 5, 7), True, scale=0.5),
    ],
    "aten._scaled_dot_product_flash_attention_backward.default": [
        call(f(1, 2, 5, 4), *QKV, *OUT, None, None, 5, 7, 0.0, is_causal, SEED, SEED, scale=scale)
        for is_causal, scale in ((False, None), (True, 0.5))
    ],
    "aten._scaled_dot_product_efficient_attention_backward.default": [
        call(f(1, 2, 5, 4), *QKV, None, *OUT, SEED, SEED, 0.0, [True, True, True, False], True),
        call(f(1, 2, 5, 4), *QKV, f(1, 2, 5, 7), *OUT, SEED, SEED, 0.0, [True, False, True, True], False, scale=0.5),
    ],
    **recurrent("lstm", 4, 2),
    **recurrent("gru", 3, 1),
    **recurrent("rnn_tanh", 1, 1),
    **recurrent("rnn_relu", 1, 1),
}
SAMPLES["aten.lstm.input"] += [
    layers(4, 2, projection=2),
    layers(4, 2, bias=False, count=2, projection=2, bidirectional=True),
]

CHECKS = {
    **{f"aten.{name}.dtype": check_wide for name in ("mm", "bmm", "addmm", "baddbmm")},
    "aten._scaled_dot_product_flash_attention.default": check_flash,
    "aten._scaled_dot_product_efficient_attention.default": check_efficient,
    "aten._scaled_dot_product_flash_attention_backward.default": check_flash_backward,
    "aten._scaled_dot_product_efficient_attention_backward.default": check_efficient_backward,
}

STATIC = {
    "aten._pdist_backward.default": "the gradient's size follows from that of x",
    "aten.trace_backward.default": "the sizes are given",
    "aten.lstm_cell.default": "the sizes of gates are multiples",
    "aten.gru_cell.default": "the sizes of gates are multiples",
    **{f"aten.{name}.input": "steps are written out" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
}
