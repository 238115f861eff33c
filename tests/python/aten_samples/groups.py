"""Equal elements, segments, the bins of histograms."""

import torch
from core_aten_samples import F64, INF, NAN, b, call, f, i

ROWS = torch.tensor([[1, 2], [0, 5], [1, 2], [1, 1], [0, 5], [0, 5]])
LENGTHS = torch.tensor([2, 0, 3, 1])
OFFSETS = torch.tensor([0, 2, 2, 5, 6])
ALL = {"return_inverse": True, "return_counts": True}


def segments(**options):
    calls = [call(f(6), "sum", **options), call(f(6, 2, dtype=F64), "prod", **options)]
    for reduce in ("mean", "max", "min"):
        calls += [call(f(6, 3), reduce, **options), call(f(6), reduce, initial=0.5, **options)]
    return [*calls, call(torch.tensor([1.0, NAN, 2.0, INF, 3.0, -INF]), "max", initial=-1, **options)]


def histograms(*bins):
    x = torch.tensor([-1.5, -1.0, -0.2, 0.0, 0.1, 0.6, 1.0, 3.0, NAN])
    return [call(x[:-1], *bins), call(x[:-1], *bins, weight=f(8), density=True), call(f(3, 4, dtype=F64), *bins)]


POINTS = f(9, 2)
EDGES = [torch.tensor([-2.0, 0.0, 1.0]), torch.tensor([-1.0, -0.5, 0.5, 3.0])]

SAMPLES = {
    "aten._unique2.default": [
        call(i(20, low=0, high=5), **ALL, sorted=True),
        call(f(3, 4)),
        call(b(7), return_inverse=True),
        call(i(3, 4, low=0, high=3), return_counts=True),
        call(i(0), **ALL),
        call(f(), **ALL),
    ],
    "aten.unique_consecutive.default": [
        call(torch.tensor([1, 1, 2, 2, 3, 1, 1, 2]), **ALL),
        call(i(3, 4, low=0, high=1), return_inverse=True),
        call(i(3, 4, low=0, high=1), return_counts=True),
        call(torch.tensor([[1, 1, 2], [1, 1, 2], [0, 0, 3]]), dim=0),
        call(torch.tensor([[1, 1, 2], [1, 1, 2], [0, 0, 3]]), dim=1, **ALL),
    ],
    "aten.unique_dim.default": [
        call(ROWS, 0, **ALL),
        call(ROWS, 1),
        call(i(3, 9, low=0, high=1), -1, return_counts=True),
        call(i(4, 2, 2, low=0, high=1).float(), 0, return_inverse=True),
    ],
    "aten.segment_reduce.default": [
        *segments(lengths=LENGTHS),
        *segments(offsets=OFFSETS),
        call(f(2, 6), "sum", lengths=torch.stack([LENGTHS, LENGTHS.flip(0)]), axis=1),
    ],
    "aten.histogram.bin_ct": [
        *histograms(),
        *histograms(5),
        call(f(50), 4, range=[-1.0, 2.0], density=True),
        call(torch.tensor([2.0, 2.0]), 3),
    ],
    "aten.histogram.bins_tensor": histograms(torch.tensor([-1.0, 0.0, 0.5, 1.0]))[:2],
    "aten._histogramdd_bin_edges.default": [
        call(POINTS, [3, 4]),
        call(POINTS.double(), [2, 5], range=[-1.0, 1.0, 0.0, 2.0]),
        call(f(3, 4, 1), [3]),
    ],
    "aten._histogramdd_from_bin_cts.default": [
        call(POINTS, [3, 4]),
        call(POINTS, [2, 5], range=[-1.0, 1.0, 0.0, 2.0], weight=f(9, low=0.1)),
        call(POINTS.double(), [2, 3], density=True),
        call(f(3, 4, 3), [2, 3, 2]),
    ],
    "aten._histogramdd_from_bin_tensors.default": [
        call(POINTS, EDGES),
        call(POINTS, EDGES, weight=f(9, low=0.1), density=True),
    ],
}

COORDINATES = "the number of coordinates must be known"
STATIC = {
    "aten._histogramdd_from_bin_cts.default": COORDINATES,
    "aten._histogramdd_from_bin_tensors.default": COORDINATES,
    "aten.unique_dim.default": "rows are sorted one column at a time",
}
