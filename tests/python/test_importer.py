"""Tensors of a model are variables: what a write changes through views, and what it leaves.

A model here is a function over `aten`, which calls overloads by name. It runs twice: on PyTorch's own tensors, and
through the importer into a graph that the reference backend evaluates. Results agree, and so do the inputs afterwards.
"""

import aten_calls
import pytest
import tenon
import torch
from tenon import _tenon


class Eager:
    def __call__(self, name, *args, **kwargs):
        return aten_calls.overload_named(f"aten.{name}")(*args, **kwargs)


class Imported:
    def __init__(self):
        self.importer = _tenon.Importer("model")

    def __call__(self, name, *args, **kwargs):
        return self.importer.call(f"aten.{name}", list(args), kwargs)


def updated(model, *tensors):
    """Runs the model both ways, compares, and gives the positions of the inputs that its graph updates."""
    imported = Imported()
    inputs = [imported.importer.input(f"x{i}", (x.dtype, list(x.shape))) for i, x in enumerate(tensors)]
    graph = imported.importer.finish(aten_calls.listed(model(imported, *inputs)))
    graph.verify()
    assert imported.importer.unsupported == []
    mine_after, theirs_after = aten_calls.copied(list(tensors)), aten_calls.copied(list(tensors))
    mine = [torch.from_dlpack(x) for x in graph.evaluate(*mine_after)]
    torch.testing.assert_close(mine, aten_calls.listed(model(Eager(), *theirs_after)))
    torch.testing.assert_close(mine_after, theirs_after)
    return [i for i, x in enumerate(tensors) if not torch.equal(mine_after[i], x)]


def x(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)


# ---- a write through each view ---------------------------------------------------------------------------------------

VIEWS = {
    "alias": (x(3), "alias.default"),
    "view": (x(3, 4), "view.default", [2, 6]),
    "view_as": (x(3, 4), "view_as.default", x(6, 2)),
    "reshape": (x(3, 4), "reshape.default", [2, -1]),
    "flatten": (x(2, 3, 4), "flatten.using_ints", 1),
    "unflatten": (x(3, 4), "unflatten.int", 1, [2, 2]),
    "squeeze": (x(1, 3, 1), "squeeze.default"),
    "squeeze of one": (x(1, 3), "squeeze.dim", 0),
    "squeeze of some": (x(1, 3, 1), "squeeze.dims", [0, 2]),
    "unsqueeze": (x(3), "unsqueeze.default", 1),
    "permute": (x(2, 3, 4), "permute.default", [2, 0, 1]),
    "transpose": (x(2, 3, 4), "transpose.int", 0, -1),
    "t": (x(3, 4), "t.default"),
    "mT": (x(2, 3, 4), "mT.default"),
    "movedim": (x(2, 3, 4), "movedim.intlist", [0, 1], [2, 0]),
    "select": (x(3, 4), "select.int", 1, -2),
    "slice": (x(7), "slice.Tensor", 0, 1, 2**63 - 1, 2),
    "narrow": (x(3, 5), "narrow.default", 1, -3, 2),
    "narrow at run time": (x(3, 5), "narrow.Tensor", 1, torch.tensor(2), 2),
    "diagonal": (x(3, 4), "diagonal.default", 1),
    "unfold": (x(7), "unfold.default", 0, 2, 3),
    "as_strided": (x(3, 4), "as_strided.default", [2, 2], [5, 1], 1),
    "view of other dtype": (x(3), "view.dtype", torch.int32),
    "negated": (x(3), "_neg_view.default"),
}


def lifted(aten, argument):
    """A constant for a tensor among the arguments, where the model is imported."""
    is_imported = isinstance(aten, Imported) and isinstance(argument, torch.Tensor)
    return aten.importer.constant(argument) if is_imported else argument


@pytest.mark.parametrize("name", VIEWS)
def test_a_write_through_a_view_changes_what_it_is_a_view_of(name):
    base, view, *others = VIEWS[name]

    def model(aten, base):
        seen = aten(view, base, *(lifted(aten, argument) for argument in others))
        aten("add_.Tensor", seen, 10)
        return base, seen

    assert updated(model, base) == [0]


SPLITS = {
    "split": ("split.Tensor", 3, 1),
    "sizes": ("split_with_sizes.default", [1, 2, 4], 1),
    "chunk": ("chunk.default", 3, 1),
    "tensor_split": ("tensor_split.sections", 3, 1),
    "indices": ("tensor_split.indices", [2, 5], 1),
    "hsplit": ("hsplit.array", [2, 5]),
    "unbind": ("unbind.int", 0),
}


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_write_of_a_part_changes_that_part_only(name, position):
    view, *others = SPLITS[name]

    def model(aten, base):
        parts = aten(view, base, *others)
        aten("mul_.Tensor", parts[position], 10)
        return base, *parts

    assert updated(model, x(3, 7)) == [0]


# ---- several views ---------------------------------------------------------------------------------------------------


def test_a_chain_of_views():
    def model(aten, base):
        row = aten("select.int", aten("transpose.int", aten("slice.Tensor", base, 0, 1), 0, 1), 0, 2)
        aten("fill_.Scalar", row, 0)
        return base, row

    assert updated(model, x(3, 4)) == [0]


def test_two_views_of_one_tensor_see_each_others_writes():
    def model(aten, base):
        rows, columns = aten("slice.Tensor", base, 0, 0, 2), aten("slice.Tensor", base, 1, 1, 3)
        aten("add_.Tensor", rows, 10)
        aten("mul_.Tensor", columns, 2)
        return rows, columns, base

    assert updated(model, x(3, 4)) == [0]


def test_views_made_before_a_write_of_the_tensor_itself():
    def model(aten, base):
        row = aten("select.int", base, 0, 1)
        aten("mul_.Tensor", base, 2)
        return aten("add.Tensor", row, 1)

    assert updated(model, x(3, 4)) == [0]


def test_a_write_takes_values_from_before_it():
    def model(aten, base):
        tail = aten("slice.Tensor", base, 0, 1)
        aten("add_.Tensor", aten("slice.Tensor", base, 0, 0, 3), aten("clone.default", tail))
        return base

    assert updated(model, x(4)) == [0]


# ---- what is no view -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copy", ["clone.default", "view_copy.default", "relu.default"])
def test_a_write_of_a_copy_leaves_the_tensor(copy):
    def model(aten, base):
        copied = aten(copy, base, [4, 3]) if "view" in copy else aten(copy, base)
        aten("add_.Tensor", copied, 10)
        return base, copied

    assert updated(model, x(3, 4)) == []


RESHAPED = {
    "of a transposed tensor": ("t.default", [12], []),
    "of a transposed tensor, same shape": ("t.default", [4, 3], [0]),
    "splitting a dimension of a transposed tensor": ("t.default", [2, 2, 3], [0]),
    "of columns": ("slice.Tensor", [6], [], 1, 0, 2),
    "of rows": ("slice.Tensor", [8], [0], 0, 1),
    "of an expanded tensor": ("select.int", [2, 2], [0], 0, 1),
}


@pytest.mark.parametrize("name", RESHAPED)
def test_a_reshape_shares_memory_where_strides_allow_it(name):
    view, shape, expected, *others = RESHAPED[name]

    def model(aten, base):
        reshaped = aten("reshape.default", aten(view, base, *others), shape)
        aten("add_.Tensor", reshaped, 10)
        return base, reshaped

    assert updated(model, x(3, 4)) == expected


def test_contiguous_copies_what_is_not():
    def model(aten, base):
        aten("add_.Tensor", aten("contiguous.default", aten("t.default", base)), 10)
        aten("mul_.Tensor", aten("contiguous.default", aten("slice.Tensor", base, 0, 0, 1)), 2)
        return base

    assert updated(model, x(3, 4)) == [0]


# ---- in-place views --------------------------------------------------------------------------------------------------

IN_PLACE = {
    "t_": ("t_.default",),
    "transpose_": ("transpose_.default", 0, 1),
    "unsqueeze_": ("unsqueeze_.default", 1),
    "squeeze_": ("squeeze_.default",),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_in_place_view_is_the_tensor_from_there_on(name):
    view, *others = IN_PLACE[name]

    def model(aten, base):
        tensor = aten("clone.default", base)
        earlier = aten("select.int", tensor, 0, 0)
        aten(view, tensor, *others)
        aten("add_.Tensor", aten("select.int", tensor, 0, 0), 10)
        return tensor, earlier, aten("mul.Tensor", tensor, 2)

    assert updated(model, x(1, 3) if name == "squeeze_" else x(3, 3)) == []


def test_resize_changes_the_tensor_itself():
    def model(aten, base):
        tensor = aten("clone.default", base)
        aten("resize_.default", tensor, [2, 2])
        return aten("mul.Tensor", tensor, 2)

    assert updated(model, x(2, 3)) == []


# ---- buffers ---------------------------------------------------------------------------------------------------------


def test_a_buffer_that_is_written_is_updated():
    importer = _tenon.Importer("model")
    data = torch.zeros(3)
    state = importer.buffer("state", (data.dtype, [3]), data)
    step = importer.input("x", (torch.float32, []))
    importer.call("aten.add_.Tensor", [importer.call("aten.slice.Tensor", [state, 0, 1]), step])
    graph = importer.finish([state])
    for _ in range(2):
        graph.evaluate(torch.tensor(2.0))
    torch.testing.assert_close(data, torch.tensor([0.0, 4.0, 4.0]))


def test_batch_norm_moves_its_buffers():
    importer = _tenon.Importer("model")
    module = torch.nn.BatchNorm1d(3)
    names = ("running_mean", "running_var")
    buffers = [importer.buffer(name, (torch.float32, [3]), getattr(module, name).clone()) for name in names]
    batch = importer.input("x", (torch.float32, [4, 3]))
    out = importer.call("aten.batch_norm.default", [batch, None, None, *buffers, True, 0.1, 1e-5, False])
    graph = importer.finish([out, *buffers])
    for _ in range(3):
        data = torch.randn(4, 3)
        mine = [torch.from_dlpack(result) for result in graph.evaluate(data)]
        torch.testing.assert_close(mine[0], module(data))
        torch.testing.assert_close(mine[1:], [module.running_mean, module.running_var])


# ---- shapes that are known later -------------------------------------------------------------------------------------


def test_a_recurrent_layer_takes_batches_of_any_size():
    importer = _tenon.Importer("model")
    module = torch.nn.LSTM(3, 4, batch_first=True)
    importer.symbol("N", 1)
    batch = importer.input("x", (torch.float32, ["N", 5, 3]))
    states = [importer.input(name, (torch.float32, [1, "N", 4])) for name in ("h", "c")]
    weights = [importer.constant(weight.detach()) for weight in module.parameters()]
    results = importer.call("aten.lstm.input", [batch, states, weights, True, 1, 0.0, False, False, True])
    graph = importer.finish(list(results))
    assert importer.unsupported == []
    data, h, c = torch.randn(2, 5, 3), torch.randn(1, 2, 4), torch.randn(1, 2, 4)
    mine = [torch.from_dlpack(result) for result in graph.evaluate(data, h, c)]
    with torch.no_grad():
        out, (h, c) = module(data, (h, c))
    torch.testing.assert_close(mine, [out, h, c])


def test_a_view_infers_a_size_beside_symbols():
    importer = _tenon.Importer("model")
    importer.symbol("N", 1)
    batch = importer.input("x", (torch.float32, ["N", 4, 6]))
    heads = importer.call("aten.view.default", [batch, [-1, 4, 2, 3]])
    merged = importer.call("aten.reshape.default", [importer.call("aten.transpose.int", [heads, 1, 2]), [-1, 12]])
    graph = importer.finish([merged])
    data = torch.randn(3, 4, 6)
    (mine,) = (torch.from_dlpack(result) for result in graph.evaluate(data))
    torch.testing.assert_close(mine, data.view(3, 4, 2, 3).transpose(1, 2).reshape(-1, 12))


# ---- numbers that are known later ------------------------------------------------------------------------------------


def numbers(importer):
    """A number that each run gives, one that is read from a tensor, and one that is computed from both."""
    given = importer.number("n", torch.float64)
    read = importer.call("aten.item.default", [importer.input("t", (torch.float32, []))])
    return given, read, importer.call("_operator.add", [given, read])


@pytest.mark.parametrize("which", range(3), ids=["given", "read", "computed"])
@pytest.mark.parametrize("tensor", [torch.tensor([2, 3]), torch.tensor(2.0), torch.tensor(2, dtype=torch.int32)])
def test_a_number_beside_a_tensor_is_promoted_as_a_number(which, tensor):
    importer = _tenon.Importer("model")
    left = importer.input("x", (tensor.dtype, list(tensor.shape)))
    number = numbers(importer)[which]
    assert number.is_number
    assert not left.is_number
    graph = importer.finish([importer.call("aten.mul.Tensor", [left, number])])
    given = {"x": tensor, "n": torch.tensor(2.5, dtype=torch.float64), "t": torch.tensor(0.25)}
    values = [2.5, 0.25, 2.75]
    (mine,) = graph.evaluate(*(given[leaf.name] for leaf in graph.leaves if leaf.kind == "input"))
    torch.testing.assert_close(torch.from_dlpack(mine), tensor * values[which])


def test_a_number_has_the_precision_of_pythons():
    with pytest.raises(tenon.Error, match="a number is f64, i64 or bool, got f32"):
        _tenon.Importer("model").number("n", torch.float32)
