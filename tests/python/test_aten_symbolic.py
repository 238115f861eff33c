"""Arithmetic on symbolic sizes, as the front doors see it: SymInt, SymFloat and SymBool."""

import pytest
import tenon
import torch
from aten_calls import overload_named
from tenon import _tenon

SIZES = [(1, 4), (3, 4), (8, 5)]


def imported(importer, term, symbols):
    """A term is a symbol's name, a number, or (target, *terms)."""
    if isinstance(term, str):
        return symbols[term]
    if not isinstance(term, tuple):
        return term
    target, *terms = term
    return importer.call(target, [imported(importer, part, symbols) for part in terms])


def computed(term, sizes):
    if isinstance(term, str):
        return sizes[term]
    if not isinstance(term, tuple):
        return term
    target, *terms = term
    return overload_named(target)(*(computed(part, sizes) for part in terms))


def graph_of(term):
    importer = _tenon.Importer("sizes")
    importer.symbol("N", 1)
    importer.symbol("M", 1)
    x = importer.input("x", "f32[N, M]")
    symbols = {"n": importer.call("aten.sym_size.int", [x, 0]), "m": importer.call("aten.sym_size.int", [x, 1])}
    result = imported(importer, term, symbols)
    return result, importer.finish([result])


def check(term):
    result, graph = graph_of(term)
    for n, m in SIZES:
        (mine,) = graph.evaluate(torch.zeros(n, m))
        theirs = torch.tensor(computed(term, {"n": n, "m": m}), dtype=torch.float64)
        torch.testing.assert_close(torch.from_dlpack(mine).double(), theirs)
    return result


HALF = ("_operator.truediv", "n", 2)

INTEGERS = [
    ("_operator.add", "n", 3),
    ("_operator.sub", "n", "m"),
    ("_operator.mul", "n", "m"),
    ("_operator.floordiv", "m", 2),
    ("_operator.mod", "m", 3),
    ("_operator.neg", "n"),
    ("_operator.pow", "n", 3),
    ("_operator.lshift", "n", 2),
    ("_operator.rshift", "m", 1),
    ("torch.sym_max", "n", "m"),
    ("torch.sym_min", "n", 2),
    ("torch.sym_ite", ("_operator.lt", "n", "m"), "n", 7),
    ("torch.sym_int", "n"),
    ("math.floor", HALF),
    ("math.ceil", HALF),
    ("math.trunc", HALF),
    ("torch.sym_int", ("_operator.mul", "m", 0.5)),
    ("math.floor", ("_operator.mul", ("torch.sym_float", "m"), 1.25)),
    ("math.floor", ("_operator.truediv", ("_operator.mul", "n", "m"), "m")),
]
TRUTHS = [
    *((f"_operator.{name}", "n", "m") for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    ("_operator.and_", ("_operator.lt", "n", "m"), ("_operator.gt", "n", 1)),
    ("_operator.or_", ("_operator.lt", "n", 2), ("_operator.gt", "n", 4)),
    ("torch.sym_not", ("_operator.eq", "n", 3)),
]
REALS = [
    HALF,
    ("torch.sym_float", "n"),
    ("_operator.mul", "n", 0.3),
    ("_operator.add", HALF, "m"),
    ("_operator.pow", "n", 0.5),
    ("torch._sym_sqrt", "n"),
    ("math.sqrt", "m"),
    ("torch.sym_max", HALF, "m"),
    ("_operator.lt", HALF, 1.7),
    ("torch.sym_int", ("_operator.mul", "n", -1.5)),
]


@pytest.mark.parametrize("term", INTEGERS + TRUTHS, ids=str)
def test_what_follows_from_sizes_is_an_expression(term):
    assert isinstance(check(term), tenon.Expr)


@pytest.mark.parametrize("term", REALS, ids=str)
def test_a_real_is_computed_at_run_time(term):
    assert not isinstance(check(term), tenon.Expr)


def test_an_expression_is_a_size():
    importer = _tenon.Importer("sizes")
    importer.symbol("N", 1)
    x = importer.input("x", "f32[N, 4]")
    half = importer.call(
        "math.floor", [importer.call("_operator.truediv", [importer.call("aten.sym_size.int", [x, 0]), 2])]
    )
    assert importer.call("aten.zeros.default", [[half, 4]]).type == "f32[N // 2, 4]"


def test_a_number_of_a_tensor_stays_beside_tensors():
    importer = _tenon.Importer("item")
    x, y = importer.input("x", "f32[3]"), importer.input("y", "f32[]")
    number = importer.call("aten.item.default", [y])
    scaled = importer.call("aten.mul.Tensor", [x, importer.call("_operator.mul", [number, 2])])
    (mine,) = importer.finish([scaled]).evaluate(torch.arange(3.0), torch.tensor(1.5))
    torch.testing.assert_close(torch.from_dlpack(mine), torch.arange(3.0) * 3)


def test_an_assertion_that_fails_is_an_error():
    importer = _tenon.Importer("assertion")
    with pytest.raises(tenon.Error, match="sizes differ"):
        importer.call("aten._assert_scalar.default", [False, "sizes differ"])


def test_metadata_that_differs_is_an_error():
    importer = _tenon.Importer("metadata")
    x = importer.input("x", "f32[3]")
    with pytest.raises(tenon.Error, match="the model expects i64"):
        importer.call("aten._assert_tensor_metadata.default", [x, None, None, torch.int64])


@pytest.mark.parametrize(
    ("other", "answer"), [("N, M", True), ("N, M, 1", False), ("N + 1, M", False), ("M, N", None), ("5, M", None)]
)
def test_sizes_that_may_be_equal_are_not_said_to_differ(other, answer):
    importer = _tenon.Importer("sizes")
    importer.symbol("N", 1)
    importer.symbol("M", 1)
    x, y = importer.input("x", "f32[N, M]"), importer.input("y", f"f32[{other}]")
    if answer is None:
        with pytest.raises(tenon.Error, match="only known at run time"):
            importer.call("aten.is_same_size.default", [x, y])
    else:
        assert importer.call("aten.is_same_size.default", [x, y]) is answer
