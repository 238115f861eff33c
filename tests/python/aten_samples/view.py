"""What shares memory with its first argument. What a write through it changes is tested in test_importer.py."""

import torch
from core_aten_samples import F32, I32, I64, b, call, f, i

MATRICES = [call(f(3, 4)), call(f(2, 3, 4)), call(i(3, 3))]
ALL = [call(f(2, 3)), call(f()), call(i(4)), call(f(0, 2))]


def split_samples(of_three, of_others):
    return [call(f(6, 3), *of_three), call(f(7, 2), *of_others), call(i(4, 5), *of_others, 1)]


def moved(*sources_and_destinations):
    return [call(f(2, 3, 4), *places) for places in sources_and_destinations]


SAMPLES = {
    **{f"aten.{name}.default": ALL for name in ("real", "conj", "resolve_conj", "resolve_neg", "ravel")},
    "aten._neg_view.default": [call(f(2, 3)), call(i(4))],
    "aten._reshape_alias.default": [call(f(2, 3), [3, 2], [2, 1]), call(f(4), [2, 2], [2, 1])],
    "aten.view_as.default": [call(f(2, 3), f(3, 2)), call(f(4), i(2, 2)), call(f(1), f())],
    "aten.reshape.default": [call(f(3, 4), [4, 3]), call(f(3, 4), [-1]), call(f(3, 2, 2), [3, -1]), call(f(0, 3), [3, 0])],
    "aten.reshape_as.default": [call(f(2, 3), f(3, 2)), call(f(4), i(2, 2)), call(f(1), f())],
    "aten.flatten.using_ints": [
        call(f(2, 3, 4)),
        call(f(2, 3, 4), 1),
        call(f(2, 3, 4), 0, 1),
        call(f(2, 3, 4), -2, -1),
        call(f(3), 0, 0),
        call(f()),
    ],
    "aten.unflatten.int": [call(f(6, 2), 0, [2, 3]), call(f(2, 6), -1, [-1, 2]), call(f(3, 4), 1, [2, 2])],
    "aten.squeeze.default": [call(f(1, 3, 1)), call(f(2, 3)), call(f(1, 1)), call(f())],
    "aten.atleast_1d.default": [call(f()), call(f(3)), call(f(2, 3))],
    "aten.atleast_2d.default": [call(f()), call(f(3)), call(f(2, 3))],
    "aten.atleast_3d.default": [call(f()), call(f(3)), call(f(2, 3)), call(f(1, 2, 3))],
    "aten.transpose.int": [call(f(3, 4), 0, 1), call(f(2, 3, 4), -1, 0), call(f(2, 3), 1, 1), call(f(), 0, -1)],
    "aten.swapdims.default": [call(f(3, 4), 0, 1), call(f(2, 3, 4), -1, 0)],
    "aten.swapaxes.default": [call(f(3, 4), 0, 1), call(f(2, 3, 4), -1, 0)],
    "aten.t.default": [call(f(3, 4)), call(f(3)), call(f()), call(i(2, 2))],
    "aten.numpy_T.default": [call(f(3, 4)), call(f(3)), call(f())],
    "aten.matrix_H.default": [call(f(3, 4)), call(i(2, 2))],
    **{f"aten.{name}.default": MATRICES for name in ("mT", "mH", "adjoint")},
    **{f"aten.{name}.int": moved((0, 2), (-1, 0), (1, 1)) for name in ("movedim", "moveaxis")},
    **{
        f"aten.{name}.intlist": moved(([0, 1], [1, 2]), ([2, 0], [0, -1]), ([], [])) for name in ("movedim", "moveaxis")
    },
    "aten.narrow.default": [call(f(5, 3), 0, 1, 3), call(f(5, 3), -1, -2, 2), call(f(3), 0, 3, 0)],
    "aten.narrow.Tensor": [call(f(5, 3), 0, torch.tensor(1), 3), call(f(3, 4), 1, torch.tensor(2), 2)],
    "aten.linalg_diagonal.default": [call(f(3, 4)), call(f(2, 3, 3), offset=1), call(f(2, 3, 4), offset=-1, dim1=0)],
    "aten.unfold.default": [call(f(7), 0, 3, 2), call(f(3, 4), 1, 2, 1), call(f(3, 5), 0, 3, 1), call(f(), 0, 1, 1)],
    "aten.expand_as.default": [call(f(3, 1), f(3, 4)), call(f(3), i(2, 3)), call(f(), f(2))],
    "aten.broadcast_to.default": [call(f(3, 1), [3, 4]), call(f(3), [2, 3]), call(f(), [0])],
    "aten.view.dtype": [call(f(2, 3), I32), call(i(3), I64), call(i(4, dtype=I32), F32), call(b(3), torch.uint8)],
    "aten.split.Tensor": split_samples([2], [3]),
    "aten.unsafe_split.Tensor": split_samples([2], [3]),
    "aten.split.sizes": [call(f(5, 3), [2, 3]), call(f(3, 4), [1, 0, 3], -1)],
    "aten.unsafe_split_with_sizes.default": [call(f(5, 3), [2, 3]), call(f(3, 4), [1, 0, 3], -1)],
    "aten.chunk.default": [*split_samples([2], [3]), call(f(5, 3), 4), call(f(0, 3), 2)],
    "aten.unsafe_chunk.default": split_samples([2], [3]),
    "aten.tensor_split.sections": [call(f(6, 3), 3), call(f(7, 2), 3), call(f(3, 5), 2, 1), call(f(3, 2), 5)],
    "aten.tensor_split.indices": [call(f(6, 3), [2, 4]), call(f(3, 5), [1, 9], -1), call(f(5, 3), [3, 2]), call(f(4), [])],
    "aten.hsplit.int": [call(f(3, 4), 2), call(f(6), 3)],
    "aten.hsplit.array": [call(f(3, 4), [1, 3]), call(f(6), [2])],
    "aten.vsplit.int": [call(f(4, 3), 2), call(f(6, 3), 3)],
    "aten.vsplit.array": [call(f(4, 3), [1, 3]), call(f(6, 3), [2])],
    "aten.dsplit.int": [call(f(3, 3, 4), 2), call(f(1, 3, 6), 3)],
    "aten.dsplit.array": [call(f(3, 3, 4), [1, 3]), call(f(1, 3, 6), [2])],
    "aten.unbind.int": [call(f(2, 3)), call(f(3, 2), 1), call(i(2, 3, 4), -2)],
}

STATIC = {
    "aten._reshape_alias.default": "the sizes are given",
    "aten.split.Tensor": "the number of parts is given",
    "aten.unsafe_split.Tensor": "the number of parts is given",
    "aten.split.sizes": "the sizes add up to a given one",
    "aten.unsafe_split_with_sizes.default": "the sizes add up to a given one",
    "aten.hsplit.int": "the size is a multiple",
    "aten.vsplit.int": "the size is a multiple",
    "aten.dsplit.int": "the size is a multiple",
    "aten.broadcast_to.default": "the sizes are given",
    "aten.unflatten.int": "the sizes are given",
    "aten.unsafe_chunk.default": "the number of parts depends on the size",
    "aten.tensor_split.sections": "the size is a multiple",
    "aten.unbind.int": "the number of parts is the size",
}
