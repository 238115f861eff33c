import torch
from aten_calls import check_resized
from core_aten_samples import b, call, f, i

JOINED = [call([f(2, 3), f(1, 3)]), call([f(2, 3), f(2, 1), f(2, 2)], -1), call([f(2), i(3)]), call([f(0), f(2, 3)], 1)]
STACKED = [call([f(2, 3), f(2, 3)]), call([f(3), f(3), f(3)], -1), call([f(2), i(2)], 1), call([f(), f()])]
OF_ANY_RANK = [call([f(), f(3), f(2, 3)]), call([f(1, 2, 3, 4)])]
PADDED_1D = [call(f(2, 4), [1, 2]), call(f(1, 2, 4), [3, 0]), call(f(2, 5), [-1, 2])]


def backward(shape, padding):
    """The gradient has the shape of the padded tensor."""
    padded = list(shape)
    for dim in range(len(padding) // 2):
        padded[-1 - dim] += padding[2 * dim] + padding[2 * dim + 1]
    return call(f(*padded), f(*shape), padding)


BACKWARD = {
    1: [backward((2, 4), [1, 2]), backward((1, 2, 4), [2, 0])],
    2: [backward((2, 3, 4), [1, 2, 2, 0]), backward((1, 2, 3, 4), [0, 3, 1, 1])],
    3: [backward((1, 2, 3, 4), [1, 0, 2, 1, 1, 1]), backward((1, 1, 2, 3, 4), [3, 1, 0, 2, 1, 0])],
}

SAMPLES = {
    "aten.concat.default": JOINED,
    "aten.concatenate.default": JOINED,
    "aten.stack.default": STACKED,
    "aten._stack.default": [samples for samples in STACKED if samples[0][0][0].dtype == samples[0][0][1].dtype],
    "aten.hstack.default": [call([f(2, 3), f(2, 1)]), call([f(3), i(2)]), call([f(), f()])],
    "aten.vstack.default": [call([f(2, 3), f(1, 3)]), call([f(3), f(3)]), call([f(3), f(2, 3)]), call([f(), f()])],
    "aten.row_stack.default": [call([f(2, 3), f(1, 3)]), call([f(3), f(3)])],
    "aten.dstack.default": [
        call([f(2, 3), f(2, 3)]),
        call([f(3), f(3)]),
        call([f(1, 2, 3), f(1, 2, 1)]),
        call([f(), f()]),
    ],
    "aten.column_stack.default": [
        call([f(3), f(3, 2)]),
        call([f(2), i(2)]),
        call([f(), f()]),
        call([f(2, 3), f(2, 1)]),
    ],
    "aten.atleast_1d.Sequence": OF_ANY_RANK,
    "aten.atleast_2d.Sequence": OF_ANY_RANK,
    "aten.atleast_3d.Sequence": OF_ANY_RANK,
    "aten.block_diag.default": [
        call([f(2, 3), f(3, 1)]),
        call([f(3), f(), f(2, 2)]),
        call([f(2, 3), i(1, 2)]),
        call([f(2, 2)]),
    ],
    "aten.meshgrid.default": [call([f(2), f(3)]), call([i(3), i(2), i(4)]), call([f(), f(2)])],
    "aten.meshgrid.indexing": [call([f(2), f(3), f(4)], indexing=indexing) for indexing in ("ij", "xy")]
    + [call([f(3)], indexing="xy")],
    "aten.cartesian_prod.default": [call([f(2), f(3)]), call([i(3), i(2), i(2)]), call([f(3)])],
    "aten.combinations.default": [call(f(4)), call(f(4), 3), call(i(3), 2, True), call(f(1)), call(f(3), 1)],
    "aten.pad_sequence.default": [
        call([f(2, 3), f(4, 3)]),
        call([f(3), f(1), f(2)], True, 1.5),
        call([f(2, 3), f(4, 3)], False, 0.0, "left"),
    ],
    "aten.broadcast_tensors.default": [call([f(3, 1), f(4)]), call([f(), i(2, 3)]), call([f(2, 2)])],
    "aten.pad.default": [
        call(f(3, 4), [1, 2]),
        call(f(3, 4), [1, 2, 0, 1], "constant", 1.5),
        call(b(3), [1, 1]),
        call(i(3), [1, 1], "constant", 7.0),
        call(f(1, 2, 4), [1, 2], "reflect"),
        call(f(1, 2, 4), [1, 5], "replicate"),
        call(f(1, 2, 3, 4), [1, 2, 0, 3], "circular"),
    ],
    "aten._pad_enum.default": [
        call(f(1, 2, 4), [1, 2], 0),
        call(f(1, 2, 4), [1, 5], 1),
        call(f(1, 2, 4), [1, 2], 2),
        call(f(3, 4), [1, 2], 3, 0.5),
    ],
    "aten._pad_circular.default": [call(f(1, 2, 4), [1, 2]), call(f(1, 2, 3, 4), [0, 1, 3, 2])],
    "aten.replication_pad1d.default": PADDED_1D,
    **{
        f"aten.{kind}_pad{rank}d_backward.default": BACKWARD[rank]
        for kind in ("reflection", "replication")
        for rank in BACKWARD
    },
    "aten.tile.default": [call(f(2, 3), [2]), call(f(3), [2, 2]), call(f(2, 2), [1, 0, 3]), call(f(), [2])],
    "aten.repeat_interleave.self_int": [
        call(f(2, 3), 2),
        call(f(2, 3), 3, 1),
        call(f(3), 1, 0),
        call(f(), 2),
        call(f(2, 3), 0, -1),
    ],
    "aten.repeat_interleave.self_Tensor": [
        call(f(3, 2), torch.tensor([1, 0, 2]), 0, output_size=3),
        call(f(2, 2), torch.tensor([2, 0, 1, 3]), output_size=6),
        call(f(3, 2), torch.tensor([2]), 1, output_size=4),
    ],
    "aten.repeat_interleave.Tensor": [
        call(torch.tensor([1, 0, 2]), output_size=3),
        call(torch.tensor([0, 3]), output_size=3),
    ],
    "aten.roll.default": [
        call(f(3, 4), [1]),
        call(f(3, 4), [1, -2], [0, 1]),
        call(f(5), [7], [0]),
        call(f(2, 3), [4], [-1]),
    ],
    "aten.rot90.default": [call(f(2, 3), turns) for turns in (0, 1, 2, 3, -1)] + [call(f(2, 3, 4), 1, [2, 0])],
    "aten.fliplr.default": [call(f(2, 3)), call(i(3, 2, 2))],
    "aten.flipud.default": [call(f(2, 3)), call(i(3))],
    "aten.tril.default": [call(f(3, 4)), call(f(2, 3, 3), 1), call(i(4, 2), -1), call(b(3, 3))],
    "aten.triu.default": [call(f(3, 4)), call(f(2, 3, 3), 1), call(i(4, 2), -1), call(b(3, 3))],
    "aten.diag_embed.default": [call(f(3)), call(f(2, 3), 1), call(f(2, 3), -1, 0, 2), call(i(2))],
    "aten.diag.default": [call(f(3)), call(f(3), -1), call(f(3, 4)), call(f(3, 4), 2)],
    "aten.diagflat.default": [call(f(3)), call(f(2, 2), 1), call(f())],
    "aten.channel_shuffle.default": [call(f(1, 4, 2, 3), 2), call(f(2, 6, 3), 3)],
    "aten.native_channel_shuffle.default": [call(f(1, 4, 2, 3), 2), call(f(2, 6, 3), 3)],
    "aten.pixel_shuffle.default": [call(f(4, 2, 3), 2), call(f(2, 9, 1, 2), 3)],
    "aten.pixel_unshuffle.default": [call(f(1, 2, 4), 2), call(f(2, 1, 3, 6), 3)],
    "aten._unsafe_view.default": [call(f(3, 4), [4, 3]), call(f(3, 4), [2, -1])],
    "aten._reshape_copy.default": [call(f(3, 4), [4, 3]), call(f(3, 4), [3, 2, -1])],
    "aten.fft_fftshift.default": [call(f(5)), call(f(3, 4)), call(f(3, 4, 5), [0, -1]), call(i(2, 3), [1])],
    "aten.fft_ifftshift.default": [call(f(5)), call(f(3, 4)), call(f(3, 4, 5), [0, -1]), call(i(2, 3), [1])],
    "aten._chunk_cat.default": [
        call([f(4, 3), f(6, 3)], 0, 2),
        call([f(5, 3), f(3, 2, 2)], 0, 2),
        call([f(2, 3), f(2, 5)], 1, 3),
    ],
    "aten.resize_as_.default": [call(f(2, 3), i(3, 2)), call(f(6), f(2, 2)), call(f(2, 2), f(3, 2))],
    "aten.resize.default": [call(f(2, 3), [3, 2]), call(f(6), [2, 2]), call(f(2, 2), [3, 2])],
    "aten.diagonal_scatter.default": [call(f(3, 3), f(3)), call(f(3, 4), f(3), 1), call(f(2, 3, 4), f(3, 2), 0, 0, -1)],
    "aten.as_strided_scatter.default": [call(f(3, 4), f(2, 2), [2, 2], [4, 1], 1), call(f(5), f(2), [2], [2])],
    "aten.slice_backward.default": [call(f(2, 3), [5, 3], 0, 1, 3, 1), call(f(3, 2), [3, 4], 1, 0, 2**63 - 1, 2)],
    "aten.select_backward.default": [call(f(3), [5, 3], 0, 1), call(f(3), [3, 4], -1, -2)],
    "aten.diagonal_backward.default": [call(f(3), [3, 4], 0, 0, 1), call(f(2, 3), [2, 3, 4], 1, 1, 2)],
    "aten.unfold_backward.default": [
        call(f(3, 3), [7], 0, 3, 2),
        call(f(3, 3, 2), [3, 4], 1, 2, 1),
        call(f(2, 4, 2), [3, 4], 0, 2, 1),
    ],
    "aten.im2col.default": [
        call(f(1, 2, 3, 4), [2, 2], [1, 1], [0, 0], [1, 1]),
        call(f(2, 5, 4), [3, 2], [1, 2], [1, 0], [2, 1]),
    ],
}

CHECKS = {"aten.resize.default": check_resized, "aten.resize_as_.default": check_resized}

GIVEN = "sizes are given"
STATIC = {
    "aten._reshape_copy.default": GIVEN,
    "aten._unsafe_view.default": GIVEN,
    "aten.as_strided_scatter.default": GIVEN,
    "aten.diagonal_backward.default": GIVEN,
    "aten.select_backward.default": GIVEN,
    "aten.slice_backward.default": GIVEN,
    "aten.unfold_backward.default": GIVEN,
    "aten.channel_shuffle.default": "the channels are a multiple",
    "aten.native_channel_shuffle.default": "the channels are a multiple",
    "aten.pixel_shuffle.default": "the channels are a multiple",
    "aten.pixel_unshuffle.default": "the sizes are multiples",
    "aten.combinations.default": "the number of combinations depends on the size",
    **{
        f"aten.{kind}_pad{rank}d_backward.default": "the gradient's sizes follow from those of x"
        for kind in ("reflection", "replication")
        for rank in BACKWARD
    },
}
