"""Losses, with the three reductions, and their backward overloads."""

import torch
import torch.nn.modules.linear_cross_entropy  # it registers the overloads of torch_nn
from core_aten_samples import F64, INF, b, call, f, i

NONE, MEAN, SUM = 0, 1, 2
REDUCTIONS = (NONE, MEAN, SUM)
BF16 = torch.bfloat16


def signs(*shape):
    return torch.where(b(*shape), 1.0, -1.0)


def probabilities(*shape):
    return f(*shape, low=0.05, high=0.95)


PAIRS = [(f(3, 4), f(3, 4)), (f(5, dtype=F64), f(5, dtype=F64)), (f(), f()), (f(3, 4, dtype=BF16), f(3, 4, dtype=BF16))]
WITH_SIGNS = [(f(3, 4), signs(3, 4)), (f(5), signs(5)), (f(4, dtype=F64), signs(4).double())]


def of_pairs(pairs, *rest, **options):
    return [call(x, y, reduction, *rest, **options) for x, y in pairs for reduction in REDUCTIONS] + [call(*pairs[0])]


def grad_like(x, reduction):
    return f(*x.shape, dtype=x.dtype) if reduction == NONE else f(dtype=x.dtype)


def backward(pairs, *rest):
    return [call(grad_like(x, reduction), x, y, reduction, *rest) for x, y in pairs for reduction in REDUCTIONS]


# ---- classes ---------------------------------------------------------------------------------------------------------


def classes(*shape, ignored=None):
    target = i(*shape, low=0, high=4)
    if ignored is not None:
        target.view(-1)[::3] = ignored
    return target


BATCHES = [(f(3, 5), classes(3)), (f(5), classes()), (f(6, 5, dtype=F64), classes(6))]
IMAGES = [(f(2, 5, 3, 4), classes(2, 3, 4)), (f(2, 5, 3, 4, dtype=F64), classes(2, 3, 4))]
VOLUMES = [(f(2, 5, 3), classes(2, 3)), (f(2, 5, 3, 2, 2), classes(2, 3, 2, 2)), (f(5), classes())]


def likelihood(pairs, ignored_shape):
    """(self, target, weight, reduction, ignore_index)"""
    calls = []
    for reduction in REDUCTIONS:
        for x, target in pairs:
            calls.append(call(x, target, None, reduction, -100))
            calls.append(call(x, target, f(5, low=0.5, dtype=x.dtype), reduction, -100))
        shape = list(ignored_shape)
        calls.append(call(f(*shape[:1], 5, *shape[1:]), classes(*shape, ignored=-100), None, reduction, -100))
        calls.append(call(f(*shape[:1], 5, *shape[1:]), classes(*shape, ignored=2), f(5, low=0.5), reduction, 2))
    return calls


def likelihood_backward(forward, calls):
    results = []
    for (x, target, weight, reduction, ignored), _ in calls:
        loss, total = forward(x, target, weight, reduction, ignored)
        results.append(call(f(*loss.shape, dtype=x.dtype), x, target, weight, reduction, ignored, total))
    return results


NLL = likelihood(BATCHES, (6,))
NLL2D = likelihood(IMAGES, (2, 3, 4))
CROSS_ENTROPY = [
    *NLL,
    *NLL2D,
    *(call(*args, 0.1) for args, _ in NLL),
    *(call(*args, 0.2) for args, _ in NLL2D),
    *(
        call(x, torch.softmax(f(*x.shape), 1), weight, reduction, -100, smoothing)
        for x in (f(3, 5), f(2, 5, 3))
        for weight in (None, f(5, low=0.5))
        for reduction in REDUCTIONS
        for smoothing in (0.0, 0.1)
    ),
    call(f(5), torch.softmax(f(5), 0)),
    call(f(3, 5, dtype=BF16), classes(3)),
]

MARGINS = [(f(3, 5), classes(3)), (f(5), classes()), (f(5), classes(1)), (f(4, 5, dtype=F64), classes(4))]
LABELS = [
    (f(3, 4), torch.tensor([[1, 0, -1, 2], [3, 2, 1, 0], [-1, 1, 2, 3]])),
    (f(4), torch.tensor([2, -1, 0, 0])),
    (f(2, 3, dtype=F64), torch.tensor([[0, 0, -1], [2, -1, -1]])),
]


def multi_margin_backward(x, target, p, margin, weight, reduction):
    loss = torch.ops.aten.multi_margin_loss(x, target, p, margin, weight, reduction)
    return call(f(*loss.shape, dtype=x.dtype), x, target, p, margin, weight, reduction)


MULTI_MARGIN = [
    (x, target, p, margin, weight, reduction)
    for x, target in MARGINS
    for p, margin, weight in ((1, 1, None), (2, 0.5, f(5, low=0.5, dtype=x.dtype)))
    for reduction in REDUCTIONS
]

BITS = [(probabilities(3, 4), probabilities(3, 4)), (torch.tensor([0.0, 1.0, 0.5]), torch.tensor([1.0, 0.0, 1.0]))]
BITS += [(probabilities(5).double(), probabilities(5).double())]
BITS_WEIGHTED = [
    call(x, y, weight, reduction)
    for x, y in BITS
    for weight in (None, f(*x.shape, low=0.5, dtype=x.dtype))
    for reduction in REDUCTIONS
]
LOGITS = [
    call(f(3, 4), probabilities(3, 4), weight, pos_weight, reduction)
    for weight in (None, f(4))
    for pos_weight in (None, f(4, low=0.5))
    for reduction in REDUCTIONS
]
COUNTS = [(f(3, 4, low=0.1), i(3, 4, low=0, high=6).float()), (f(5, low=0.1), i(5, low=0, high=6).float())]

CHUNKED = (f(6, 4), f(5, 4), classes(6), f(5), f(5, low=0.5))
POLICY = (2, "accurate", torch.float32)  # rows at a time, and how PyTorch sums over them

SAMPLES = {
    "aten.binary_cross_entropy.default": [call(*BITS[0]), *BITS_WEIGHTED],
    "aten.binary_cross_entropy_backward.default": [
        call(grad_like(x, reduction), x, y, weight, reduction) for (x, y, weight, reduction), _ in BITS_WEIGHTED
    ],
    "aten.binary_cross_entropy_with_logits.default": [call(f(5), probabilities(5)), *LOGITS],
    "aten.cosine_embedding_loss.default": [
        *(call(f(3, 4), f(3, 4), signs(3), 0.2, reduction) for reduction in REDUCTIONS),
        call(f(4), f(4), torch.tensor(1.0)),
        call(f(3, 4), f(3, 4), signs(3)),
    ],
    "aten.cross_entropy_loss.default": CROSS_ENTROPY,
    "aten.hinge_embedding_loss.default": [
        *(call(f(3, 4), signs(3, 4), margin, reduction) for margin in (1.0, 0.5) for reduction in REDUCTIONS),
        call(f(5), signs(5)),
    ],
    "aten.huber_loss.default": of_pairs(PAIRS) + of_pairs(PAIRS, 0.5),
    "aten.huber_loss_backward.default": backward(PAIRS, 1.0) + backward(PAIRS, 0.5),
    "aten.kl_div.default": [
        *of_pairs([(f(3, 4), probabilities(3, 4)), (f(3), torch.tensor([0.0, 0.5, 1.0]))]),
        *of_pairs([(f(3, 4), f(3, 4))], log_target=True),
    ],
    "aten.l1_loss.default": of_pairs([*PAIRS, (f(3, 4), f(4))]),
    "aten.margin_ranking_loss.default": [
        *(call(f(5), f(5), signs(5), 0.3, reduction) for reduction in REDUCTIONS),
        call(f(3, 4), f(3, 4), signs(3, 4)),
    ],
    "aten.mse_loss.default": of_pairs([*PAIRS, (f(3, 4), f(4))]),
    "aten.mse_loss_backward.default": backward(PAIRS),
    "aten.multi_margin_loss.default": [call(*args) for args in MULTI_MARGIN],
    "aten.multi_margin_loss_backward.default": [multi_margin_backward(*args) for args in MULTI_MARGIN],
    "aten.multilabel_margin_loss.default": of_pairs(LABELS),
    "aten.multilabel_margin_loss_forward.default": [
        call(*pair, reduction) for pair in LABELS for reduction in REDUCTIONS
    ],
    "aten.nll_loss.default": NLL,
    "aten.nll_loss2d.default": NLL2D,
    "aten.nll_loss2d_backward.default": likelihood_backward(torch.ops.aten.nll_loss2d_forward, NLL2D),
    "aten.nll_loss2d_forward.default": NLL2D,
    "aten.nll_loss_backward.default": likelihood_backward(torch.ops.aten.nll_loss_forward, NLL),
    "aten.nll_loss_forward.default": NLL,
    "aten.nll_loss_nd.default": [*NLL, *NLL2D, *likelihood(VOLUMES, (2, 3))],
    "aten.poisson_nll_loss.default": [
        call(x, y, log_input, full, 1e-8, reduction)
        for x, y in COUNTS
        for log_input in (True, False)
        for full in (True, False)
        for reduction in REDUCTIONS
    ],
    "aten.smooth_l1_loss.default": of_pairs(PAIRS) + of_pairs(PAIRS, 0.5) + of_pairs(PAIRS, 0.0),
    "aten.smooth_l1_loss_backward.default": backward(PAIRS, 1.0) + backward(PAIRS, 0.5),
    "aten.soft_margin_loss.default": of_pairs(WITH_SIGNS),
    "aten.soft_margin_loss_backward.default": backward(WITH_SIGNS),
    "aten.triplet_margin_loss.default": [
        call(f(3, 4), f(3, 4), f(3, 4), 1.0, p, 1e-6, swap, reduction)
        for p in (2.0, 1.0, INF)
        for swap in (False, True)
        for reduction in REDUCTIONS
    ],
    "torch_nn._linear_cross_entropy_batch_chunked.default": [
        call(*CHUNKED, "mean", -100, 0.0, *POLICY, False, False, False, False),
        call(*CHUNKED, "sum", 2, 0.0, *POLICY, False, False, False, False),
        call(f(6, 4), f(5, 4), classes(6), None, None, "mean", -100, 0.0, *POLICY, False, False, False, False),
    ],
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default": [
        call(*CHUNKED, -100, *POLICY),
        call(f(6, 4), f(5, 4), classes(6, ignored=-100), f(5), None, -100, *POLICY),
    ],
}
