"""Convolution, pooling, resampling."""

import torch
from core_aten_samples import SAMPLES as CORE
from core_aten_samples import call, f

CONV = {
    1: [
        call(f(2, 3, 6), f(4, 3, 3), f(4)),
        call(f(1, 4, 7), f(6, 2, 3), None, [2], [1], [2], 2),
        call(f(3, 6), f(4, 3, 2)),
    ],
    2: [
        call(f(1, 3, 5, 6), f(4, 3, 3, 2), f(4)),
        call(f(1, 4, 7, 6), f(6, 2, 3, 2), None, [2, 1], [1, 0], [1, 2], 2),
        call(f(3, 5, 6), f(4, 3, 3, 2), None, [2]),
    ],
    3: [
        call(f(1, 2, 3, 4, 4), f(3, 2, 2, 2, 2), f(3)),
        call(f(1, 2, 3, 4, 4), f(2, 1, 2, 2, 2), None, [1, 2, 1], [0, 1, 1], [1, 1, 1], 2),
    ],
}
SAME = {
    1: [
        call(f(1, 2, 6), f(3, 2, 3), f(3), [1], "same"),
        call(f(1, 2, 6), f(3, 2, 4), None, [1], "same", [2]),
        call(f(2, 6), f(3, 2, 2), None, [1], "same"),
        call(f(1, 2, 6), f(3, 2, 3), None, [2], "valid"),
    ],
    2: [
        call(f(1, 2, 5, 6), f(3, 2, 3, 2), f(3), [1, 1], "same"),
        call(f(1, 2, 5, 6), f(2, 1, 3, 3), None, [1], "same", [1, 2], 2),
        call(f(1, 2, 5, 6), f(3, 2, 3, 2)),
    ],
    3: [call(f(1, 2, 3, 4, 4), f(3, 2, 2, 3, 2), f(3), [1, 1, 1], "same"), call(f(1, 1, 3, 3, 3), f(1, 1, 2, 2, 2))],
}
TRANSPOSED = {
    1: [
        call(f(1, 4, 3), f(4, 2, 3), f(2)),
        call(f(1, 4, 3), f(4, 2, 3), f(4), [2], [1], [1], 2, [2]),
        call(f(4, 3), f(4, 2, 3)),
    ],
    2: [
        call(f(1, 4, 3, 4), f(4, 2, 3, 2), f(4), [2, 1], [1, 0], [1, 0], 2),
        call(f(4, 3, 4), f(4, 2, 3, 2), None, [2]),
    ],
    3: [
        call(f(1, 2, 2, 3, 2), f(2, 3, 2, 2, 2), f(3)),
        call(f(1, 2, 2, 3, 2), f(2, 3, 2, 2, 2), None, [2, 1, 2], [1, 0, 0]),
    ],
}
OUTPUT_SIZES = {1: [[3], [5]], 2: [[2, 3], [1, 1]], 3: [[1, 2, 3], [2, 1, 2]]}
IMAGES = {1: [(2, 6), (1, 2, 7)], 2: [(2, 4, 6), (1, 2, 5, 7)], 3: [(1, 4, 4, 6), (1, 2, 3, 5, 4)]}
POOLED = {
    1: [call(f(2, 6), [2]), call(f(1, 2, 7), [3], [2], [1], [1], True), call(f(1, 2, 8), [2], [3], [0], [2])],
    2: CORE["aten.max_pool2d_with_indices.default"],
    3: CORE["aten.max_pool3d_with_indices.default"],
}
TARGETS = {1: [8, 3], 2: [[6, 5], [2, 7]], 3: [[4, 3, 5], [1, 6, 2]]}
SCALES = {1: [1.5, 0.6], 2: [[1.5, 2.5], [0.6, 0.5]], 3: [[2.0, 1.5, 0.5], [3.0, 1.0, 2.0]]}
LINEAR = ["linear1d", "bilinear2d", "trilinear3d"]


def adaptive(rank):
    return [call(f(*shape), size) for shape in IMAGES[rank] for size in OUTPUT_SIZES[rank]]


def indexed_backward(forward, x, *how):
    values, indices = forward(x, *how)
    return call(f(*values.shape), x, *how, indices)


def listed(sizes):
    return sizes if isinstance(sizes, list) else [sizes]


def image(rank):
    return f(1, 2, *[3, 4, 2][:rank])


def resized(rank, corners):
    """By sizes, and by sizes with the factors that they come from."""
    samples = []
    for align in corners:
        samples += [call(image(rank), listed(target), *align) for target in TARGETS[rank]]
        for scales in SCALES[rank]:
            x = image(rank)
            sizes = [int(n * scale) for n, scale in zip(x.shape[2:], listed(scales), strict=True)]
            samples.append(call(x, sizes, *align, *listed(scales)))
    return samples


def scaled(rank, corners):
    samples = []
    for align in corners:
        samples.append(call(image(rank), listed(TARGETS[rank][0]), *align, None))
        samples += [call(image(rank), None, *align, listed(scales)) for scales in SCALES[rank]]
    return samples


def resize_backward(samples):
    return [call(f(1, 2, *args[1]), args[1], list(args[0].shape), *args[2:]) for args, _ in samples]


def upsample(name, rank, corners):
    samples = resized(rank, corners)
    vectors = {} if f"aten.{name}.vec" in CORE else {f"aten.{name}.vec": scaled(rank, corners)}
    return {f"aten.{name}.default": samples, f"aten.{name}_backward.default": resize_backward(samples), **vectors}


NO_CORNERS, CORNERS = [()], [(False,), (True,)]

VOLUMES = [
    call(f(2, 3, 4, 5, 3), f(2, 3, 2, 4, 3, low=-1.6, high=1.6), mode, padding, corners)
    for mode in (0, 1)
    for padding in (0, 1, 2)
    for corners in (False, True)
]
VOLUMES.append(
    call(f(1, 2, 1, 3, 2, dtype=torch.float64), f(1, 2, 2, 2, 3, low=-9, high=9, dtype=torch.float64), 0, 2, True)
)

SAMPLES = {
    "aten._convolution.default": [
        call(*args, False, False, False, False) for args, _ in CORE["aten.convolution.default"]
    ],
    "aten._convolution.deprecated": [call(*args, False, False, False) for args, _ in CORE["aten.convolution.default"]],
    "aten._convolution_mode.default": [
        call(f(1, 2, 5, 6), f(3, 2, 3, 2), f(3), [1, 1], "same", [1, 1], 1),
        call(f(1, 2, 6), f(2, 1, 3), None, [2], "valid", [1], 2),
    ],
    **{f"aten.conv{rank}d.default": samples for rank, samples in CONV.items()},
    **{f"aten.conv{rank}d.padding": samples for rank, samples in SAME.items()},
    "aten.conv_transpose1d.default": TRANSPOSED[1],
    "aten.conv_transpose2d.input": TRANSPOSED[2],
    "aten.conv_transpose3d.input": TRANSPOSED[3],
    "aten.conv_tbc.default": [call(f(5, 2, 3), f(3, 3, 4), f(4)), call(f(4, 1, 2), f(2, 2, 3), f(3), 1)],
    "aten.thnn_conv2d.default": [
        call(f(1, 3, 5, 6), f(4, 3, 3, 2), [3, 2], f(4)),
        call(f(1, 3, 5, 6), f(4, 3, 3, 2), [3, 2], None, [2, 1], [1, 0]),
    ],
    "aten._slow_conv2d_forward.default": [
        call(f(1, 3, 5, 6), f(4, 3, 3, 2), [3, 2], f(4), [1, 1], [0, 0]),
        call(f(1, 3, 5, 6), f(4, 3, 3, 2), [3, 2], None, [2, 1], [1, 0]),
    ],
    "aten.slow_conv3d.default": [
        call(f(1, 2, 3, 4, 4), f(3, 2, 2, 2, 2), [2, 2, 2], f(3)),
        call(f(1, 2, 3, 4, 4), f(3, 2, 2, 2, 2), [2, 2, 2], None, [2, 1, 1], [1, 0, 1]),
    ],
    "aten.slow_conv3d_forward.default": [
        call(f(1, 2, 3, 4, 4), f(3, 2, 2, 2, 2), [2, 2, 2], f(3), [1, 1, 1], [0, 0, 0]),
        call(f(1, 2, 3, 4, 4), f(3, 2, 2, 2, 2), [2, 2, 2], None, [2, 1, 1], [1, 0, 1]),
    ],
    "aten.slow_conv_dilated2d.default": [
        call(f(1, 3, 5, 6), f(4, 3, 3, 2), [3, 2], f(4), [1, 1], [0, 1], [2, 2]),
        call(f(1, 3, 5, 6), f(4, 3, 3, 2), [3, 2]),
    ],
    "aten.slow_conv_dilated3d.default": [
        call(f(1, 2, 3, 4, 4), f(3, 2, 2, 2, 2), [2, 2, 2], f(3), [1, 1, 1], [0, 0, 0], [1, 2, 2]),
        call(f(1, 2, 3, 4, 4), f(3, 2, 2, 2, 2), [2, 2, 2]),
    ],
    "aten.slow_conv_transpose2d.default": [
        call(f(1, 4, 3, 4), f(4, 2, 3, 2), [3, 2], f(2), [2, 1], [1, 0], [1, 0]),
        call(f(1, 4, 3, 4), f(4, 2, 3, 2), [3, 2]),
    ],
    "aten.slow_conv_transpose3d.default": [
        call(f(1, 2, 2, 3, 2), f(2, 3, 2, 2, 2), [2, 2, 2], f(3), [2, 1, 1]),
        call(f(1, 2, 2, 3, 2), f(2, 3, 2, 2, 2), [2, 2, 2]),
    ],
    "aten.mkldnn_convolution.default": [
        call(f(1, 3, 5, 6), f(4, 3, 3, 2), f(4), [1, 0], [2, 1], [1, 1], 1),
        call(f(1, 4, 7, 6), f(6, 2, 3, 2), None, [0, 0], [1, 1], [1, 2], 2),
    ],
    **{f"aten.max_pool{rank}d.default": samples for rank, samples in POOLED.items()},
    "aten.max_pool1d_with_indices.default": POOLED[1],
    **{f"aten.adaptive_max_pool{rank}d.default": adaptive(rank) for rank in IMAGES},
    **{f"aten.adaptive_avg_pool{rank}d.default": adaptive(rank) for rank in (2, 3)},
    "aten.adaptive_max_pool2d_backward.default": [
        indexed_backward(lambda x: torch.ops.aten.adaptive_max_pool2d(x, [2, 3]), f(*shape)) for shape in IMAGES[2]
    ],
    "aten.adaptive_max_pool3d_backward.default": [
        indexed_backward(lambda x: torch.ops.aten.adaptive_max_pool3d(x, [1, 2, 3]), f(*shape)) for shape in IMAGES[3]
    ],
    "aten.max_pool3d_with_indices_backward.default": [
        indexed_backward(torch.ops.aten.max_pool3d_with_indices, f(1, 4, 4, 6), [2], [2], [0], [1], False),
        indexed_backward(
            torch.ops.aten.max_pool3d_with_indices,
            f(1, 2, 3, 5, 4),
            [2, 3, 2],
            [1, 2, 1],
            [1, 1, 0],
            [1, 1, 2],
            True,
        ),
    ],
    "aten.avg_pool3d_backward.default": [
        call(f(1, 2, 2, 3), f(1, 4, 4, 6), [2], [], [0], False, True, None),
        call(f(1, 2, 4, 3, 3), f(1, 2, 3, 5, 4), [2, 3, 2], [1, 2, 1], [1, 1, 0], False, False, None),
    ],
    "aten._adaptive_avg_pool3d_backward.default": [
        call(f(1, 1, 2, 3), f(1, 4, 4, 6)),
        call(f(1, 2, 2, 3, 3), f(1, 2, 3, 5, 4)),
    ],
    "aten.max_unpool2d.default": [
        call(*torch.nn.functional.max_pool2d(f(*shape), 2, return_indices=True), list(shape[-2:]))
        for shape in IMAGES[2]
    ],
    "aten.max_unpool3d.default": [
        call(*torch.nn.functional.max_pool3d(f(*shape), 2, return_indices=True), list(shape[-3:]), [2, 2, 2], [0, 0, 0])
        for shape in IMAGES[3]
    ],
    **{
        key: samples
        for rank in (1, 2, 3)
        for name, corners in (
            (f"upsample_nearest{rank}d", NO_CORNERS),
            (f"_upsample_nearest_exact{rank}d", NO_CORNERS),
            ("upsample_" + LINEAR[rank - 1], CORNERS),
        )
        for key, samples in upsample(name, rank, corners).items()
    },
    **upsample("upsample_bicubic2d", 2, CORNERS),
    **upsample("_upsample_bilinear2d_aa", 2, CORNERS),
    **upsample("_upsample_bicubic2d_aa", 2, CORNERS),
    "aten.grid_sampler.default": [*CORE["aten.grid_sampler_2d.default"], VOLUMES[0]],
    "aten.grid_sampler_3d.default": VOLUMES,
    "aten.fractional_max_pool2d.default": [
        call(f(2, 3, 7, 8), [2, 3], [3, 4], f(2, 3, 2, low=0, high=1)),
        call(f(3, 9, 6, dtype=torch.float64), [2, 2], [1, 5], f(1, 3, 2, low=0, high=1, dtype=torch.float64)),
    ],
    "aten.fractional_max_pool3d.default": [
        call(f(2, 3, 5, 7, 6), [2, 3, 2], [3, 4, 1], f(2, 3, 3, low=0, high=1)),
        call(f(3, 5, 5, 5), [1, 2, 2], [4, 3, 3], f(1, 3, 3, low=0, high=1)),
    ],
    "aten._grid_sampler_2d_cpu_fallback.default": [
        (args, kwargs) for args, kwargs in CORE["aten.grid_sampler_2d.default"] if args[2] != 2
    ],
    "aten.grid_sampler_2d_backward.default": [
        call(f(1, 2, 2, 3), *args, mask)
        for args, _ in CORE["aten.grid_sampler_2d.default"]
        for mask in ([True, True], [False, True])
        if args[3] == 0
    ],
    "aten.affine_grid_generator.default": [
        call(f(2, 2, 3), [2, 1, 3, 4], False),
        call(f(1, 2, 3), [1, 3, 1, 4], True),
        call(f(2, 3, 4), [2, 1, 2, 3, 4], False),
    ],
    "aten.affine_grid_generator_backward.default": [
        call(f(2, 3, 4, 2), [2, 1, 3, 4], False),
        call(f(2, 2, 3, 4, 3), [2, 1, 2, 3, 4], True),
    ],
}

WINDOWS = "the windows depend on the sizes"
GRIDS = "the last size of a grid is 2 or 3"
FOLLOWS = "the gradient's sizes follow from given ones"
STATIC = {
    "aten._convolution_mode.default": "the size of the window is part of the padding",
    "aten._grid_sampler_2d_cpu_fallback.default": GRIDS,
    "aten.grid_sampler.default": GRIDS,
    "aten.grid_sampler_3d.default": GRIDS,
    "aten.grid_sampler_2d_backward.default": GRIDS,
    "aten.fractional_max_pool2d.default": WINDOWS,
    "aten.fractional_max_pool3d.default": WINDOWS,
    "aten.affine_grid_generator.default": "the sizes of a matrix are 2 and 3",
    "aten.affine_grid_generator_backward.default": GRIDS,
    "aten.avg_pool3d_backward.default": FOLLOWS,
    "aten.upsample_bicubic2d_backward.default": FOLLOWS,
    "aten.upsample_bilinear2d_backward.default": FOLLOWS,
    "aten.upsample_trilinear3d_backward.default": FOLLOWS,
    "aten.upsample_nearest2d_backward.default": FOLLOWS,
    "aten.upsample_nearest3d_backward.default": FOLLOWS,
    **{
        f"aten._upsample_{kind}2d_aa{overload}": "the weights of a filter need the sizes"
        for kind in ("bilinear", "bicubic")
        for overload in (".default", ".vec", "_backward.default")
    },
    **{f"aten._upsample_nearest_exact{rank}d_backward.default": FOLLOWS for rank in (1, 2, 3)},
}
