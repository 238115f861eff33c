"""Places that are computed: masks, gathers, scatters, embeddings, sorting, searching."""

import torch
from core_aten_samples import F64, I32, INF, NAN, b, call, distinct, f, i, perm
from core_aten_samples import SAMPLES as CORE

TIED = torch.tensor([[1.0, 3.0, 1.0, 2.0], [2.0, 2.0, 1.0, 1.0]])
SORTED = torch.tensor([-2.0, 0.0, 0.0, 1.5, 4.0])
SOUGHT = torch.tensor([[-3.0, 0.0, 1.0], [4.0, NAN, INF]])
BAGS = [(args[:8], kwargs) for args, kwargs in CORE["aten._embedding_bag.default"] if len(args) < 9 or args[8] < 0]
PADDED_BAGS = [((*args, -1)[:9], kwargs) for args, kwargs in CORE["aten._embedding_bag.default"]]
EXTREMES = torch.tensor([-(2**63), 5, 2**63 - 1])
SEARCHED = [
    call(SORTED, SOUGHT),
    call(SORTED, SOUGHT, right=True),
    call(SORTED, SOUGHT, out_int32=True, side="right"),
    call(torch.stack([SORTED, SORTED + 1]), SOUGHT),
    call(SORTED.flip(0), SOUGHT, sorter=torch.tensor([4, 3, 2, 1, 0])),
    call(i(5).sort()[0], i(3, 2)),
    call(f(200).sort()[0], f(3, 100)),
    call(f(3, 2, 40).sort()[0], f(3, 2, 7), right=True),
    call(torch.tensor([1.0, 2.0, NAN, NAN]), torch.tensor([1.5, 5.0, NAN, 2.0])),
    call(torch.tensor([3.0, 1.0, NAN, 2.0, -INF, 5.0]), torch.tensor([1.5, 5.0, NAN, INF])),
    call(f(3).sort()[0].to(torch.bfloat16), f(4).to(torch.bfloat16)),
    call(i(7, dtype=I32).sort()[0], i(3, dtype=I32), right=True, side="right"),
    call(f(0), f(3)),
    call(f(3, 0), f(3, 2)),
    call(f(5).sort()[0], f(0)),
    call(f(5).sort()[0], f()),
    call(EXTREMES, EXTREMES),
    call(EXTREMES, EXTREMES, right=True),
]

SAMPLES = {
    "aten.argwhere.default": [call(i(3, 4, low=0, high=1)), call(b(5)), call(f())],
    "aten.nonzero_numpy.default": [call(i(3, 4, low=0, high=1)), call(b(5)), call(f())],
    "aten.where.default": [call(b(3, 4)), call(b(5)), call(i(2, 3, low=0, high=1))],
    "aten.nonzero_static.default": [
        call(i(3, 4, low=0, high=1), size=5),
        call(b(5), size=8),
        call(b(2, 3), size=2, fill_value=7),
        call(f(3), size=0),
    ],
    "aten.masked_select.default": [call(f(3, 4), b(3, 4)), call(f(3, 4), b(4)), call(i(4), b(3, 1)), call(f(), b(3))],
    "aten.masked_select_backward.default": [
        call(f(int(mask.sum())), f(3, 4), mask) for mask in (b(3, 4), torch.ones(3, 4, dtype=torch.bool))
    ],
    "aten.masked_scatter_backward.default": [
        call(f(3, 4), b(3, 4), [12]),
        call(f(3, 4), b(3, 4), [3, 4]),
    ],
    "aten._unsafe_index.Tensor": CORE["aten.index.Tensor"][1:4],
    "aten._unsafe_index_put.default": CORE["aten.index_put.default"][:4],
    "aten._index_put_impl.default": [
        call(f(5), [perm(5, 3)], f(3)),
        call(f(3, 4), [i(5, low=0, high=2)], f(4), True, True),
    ],
    "aten._unsafe_masked_index.default": [
        call(f(3, 4), b(2), [i(2, low=0, high=2), i(2, low=0, high=3)], 1.5),
        call(f(5), torch.tensor([True, False]), [torch.tensor([4, 9])], 0),
        call(f(3, 4), b(3, 2), [None, i(2, low=0, high=3)], 7),
    ],
    "aten._unsafe_masked_index_put_accumulate.default": [
        call(f(3, 4), b(2), [i(2, low=0, high=2), i(2, low=0, high=3)], f(2)),
        call(f(5), torch.tensor([True, False]), [torch.tensor([4, 9])], f(2)),
    ],
    "aten.put.default": [
        call(f(3, 4), torch.tensor([[0, 5], [-1, 3]]), f(2, 2)),
        call(i(4), i(6, low=0, high=3), i(6), True),
    ],
    "aten.take.default": [call(f(3, 4), i(2, 3, low=-12, high=11)), call(i(5), i(low=0, high=4)), call(f(3), i(0))],
    "aten.index_select_backward.default": [
        call(f(5, 3), [4, 3], 0, i(5, low=0, high=3)),
        call(f(4, 2), [4, 3], 1, i(2, low=0, high=2)),
    ],
    "aten.index_add.default": [
        call(f(4, 3), 0, i(5, low=0, high=3), f(5, 3)),
        call(f(4, 3), -1, i(2, low=0, high=2, dtype=I32), f(4, 2), alpha=0.5),
        call(i(3), 0, i(4, low=0, high=2), i(4), alpha=2),
        call(f(), 0, i(1, low=0, high=0), f()),
    ],
    "aten.index_copy.default": [
        call(f(4, 3), 0, perm(4, 2), f(2, 3)),
        call(f(4, 3), -1, perm(3, 2), f(4, 2)),
        call(i(3), 0, perm(3, 1), i(1)),
    ],
    "aten.index_fill.int_Scalar": [
        call(f(4, 3), 0, perm(4, 2), 1.5),
        call(i(4, 3), -1, perm(3, 2), 2),
        call(f(3), 0, i(low=0, high=2), 7),
    ],
    "aten.index_fill.int_Tensor": [call(f(4, 3), 0, perm(4, 2), f()), call(i(4, 3), -1, perm(3, 2), i())],
    "aten.index_reduce.default": [
        call(f(4, 3), 0, i(5, low=0, high=3), f(5, 3), reduce, include_self=include_self)
        for reduce in ("prod", "mean", "amax", "amin")
        for include_self in (True, False)
    ]
    + [call(f(3, 4), 1, i(2, low=0, high=3), f(3, 2), "amax")],
    "aten.gather_backward.default": [
        call(f(2, 4), f(3, 4), 0, i(2, 4, low=0, high=2), False),
        call(f(3, 6), f(3, 4), -1, i(3, 6, low=0, high=3), False),
    ],
    "aten.scatter.reduce": [
        call(f(3, 4), 0, i(2, 4, low=0, high=2), f(2, 4), reduce="add"),
        call(f(3, 4), -1, i(3, 6, low=0, high=3), f(3, 6), reduce="multiply"),
    ],
    "aten.scatter.value_reduce": [
        call(f(3, 4), 0, i(2, 4, low=0, high=2), 1.5, reduce="add"),
        call(i(3), 0, i(5, low=0, high=2), 2, reduce="multiply"),
    ],
    "aten.take_along_dim.default": [
        call(f(3, 4), i(3, 2, low=0, high=3), 1),
        call(f(3, 4), i(2, 1, low=0, high=2), 0),
        call(f(3, 4), i(5, low=0, high=11)),
    ],
    "aten._embedding_bag_forward_only.default": [(args, kwargs) for args, kwargs in PADDED_BAGS if args[4] != 2],
    "aten.embedding_bag.default": BAGS,
    "aten.embedding_bag.padding_idx": [
        *((args, kwargs) for args, kwargs in PADDED_BAGS if args[8] >= 0),
        ((*PADDED_BAGS[0][0][:8], None), {}),
    ],
    "aten.embedding_backward.default": [
        ((*args, False), kwargs) for args, kwargs in CORE["aten.embedding_dense_backward.default"]
    ],
    "aten.one_hot.default": [call(i(3, low=0, high=4), 5), call(i(2, 3, low=0, high=2), 3), call(i(low=0, high=1), 2)],
    "aten.sort.stable": [
        call(TIED, stable=True),
        call(TIED, stable=True, dim=0, descending=True),
        call(distinct(3, 4), stable=False, dim=1),
    ],
    "aten.argsort.default": [call(distinct(3, 4)), call(distinct(3, 4), 0, True), call(f())],
    "aten.argsort.stable": [call(TIED, stable=True), call(TIED, stable=True, dim=0, descending=True)],
    "aten.msort.default": [call(distinct(3, 4)), call(i(20)), call(torch.tensor([1.0, NAN, -INF, 3.0]))],
    "aten.kthvalue.default": [call(distinct(3, 4), 2), call(distinct(3, 4), 1, 0, True), call(distinct(7), 7)],
    "aten.mode.default": [
        call(TIED),
        call(TIED, 0, True),
        call(i(3, 9, low=0, high=3)),
        call(f()),
        call(torch.tensor([NAN, NAN])),
        call(torch.tensor([0.0, 1.0, -0.0, 1.0, 0.0])),
        call(i(2, 3, 8, low=0, high=2), 1),
        call(b(7)),
    ],
    "aten.bucketize.Tensor": [
        call(SOUGHT, SORTED),
        call(SOUGHT, SORTED, right=True),
        call(SOUGHT, SORTED, out_int32=True),
        call(i(3), torch.tensor([0, 2, 5])),
        call(f(3), f(0)),
    ],
    "aten.bucketize.Scalar": [call(0.0, SORTED), call(0, SORTED, right=True), call(7, torch.tensor([0, 2, 5]))],
    "aten.searchsorted.Tensor": SEARCHED,
    "aten.searchsorted.Scalar": [call(SORTED, 0.0), call(SORTED, 0, right=True), call(SORTED, 9, side="right")],
    "aten.isin.Tensor_Tensor": [
        call(i(3, 4, low=0, high=5), i(3, low=0, high=5)),
        call(i(9, low=0, high=5), i(2, 2, low=0, high=5), invert=True),
        call(f(3), f(0)),
        call(i(3, 40), i(50)),
        call(i(3, 40, low=-90, high=90), i(5, 20, low=-90, high=90), invert=True),
        call(torch.tensor([NAN, 1.0, 50.0]), torch.tensor([NAN, *range(40)])),
        call(i(9, low=0, high=40), torch.arange(0, 60).to(F64)),
    ],
    "aten.isin.Tensor_Scalar": [call(i(9, low=0, high=3), 2), call(i(3, 4, low=0, high=3), 1, invert=True)],
    "aten.isin.Scalar_Tensor": [call(2, i(9, low=0, high=3)), call(7, i(9, low=0, high=3), invert=True)],
    "aten.histc.default": [
        call(f(50)),
        call(f(50, 2), 10, -2, 2),
        call(f(50, dtype=F64), 7),
        call(torch.tensor([1.0, 1.0]), 4),
        call(torch.tensor([-2.0, -1.0, 0.5, 2.0, 9.0]), 3, -2, 2),
        call(torch.tensor([1.0, 1.0, 2.5]), 4, 7, 7),
        call(torch.tensor([1.0, 2.0]), 4, INF, INF),
        call(torch.tensor([1.0, NAN, INF, -INF, 3.0]), 4, 0, 3),
        call(f(0), 4),
        call(f(0), 4, 0, 1),
    ],
    "aten.bincount.default": [
        call(i(20, low=0, high=6)),
        call(i(20, low=0, high=6), minlength=4),
        call(i(5, low=0, high=3), minlength=9),
        call(i(9, low=0, high=4), f(9)),
        call(i(9, low=0, high=4), f(9, dtype=F64), 7),
        call(i(9, low=0, high=4), i(9)),
        call(i(9, low=0, high=4), b(9)),
        call(i(9, low=0, high=4, dtype=I32)),
        call(i(9, low=0, high=4).to(torch.uint8), f(9).to(torch.float16)),
        call(i(0)),
        call(i(0), minlength=3),
        call(i(0), f(0)),
    ],
}

STATIC = {
    "aten.index_select_backward.default": "the sizes are given",
    "aten.kthvalue.default": "k is at most the size",
}
