"""Losses beside torch.nn.functional: values and gradients, on the reference backend and compiled."""

import pytest
import tenon
import torch
import torch.nn.functional as F
from tenon._tenon import compile_graph

DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16", torch.int64: "i64"}
DTYPES |= {torch.int32: "i32", torch.uint8: "u8", torch.bool: "bool"}
CLASSES = 5


def type_of(tensor):
    return DTYPES[tensor.dtype], tensor.shape


def graph_of(loss, output, target):
    graph = tenon.Graph("loss")
    x = graph.input("x", type_of(output))
    y = None if target is None else graph.input("y", type_of(target))
    graph.output(tenon.add_loss(x, y, loss))
    graph.verify()
    return graph


def value_and_gradient(loss, output, target, backend):
    graph = graph_of(loss, output, target)
    gradient = tenon.differentiate(graph, ["x"])
    run, run_gradient = (
        (graph.evaluate, gradient.evaluate)
        if backend == "reference"
        else (compile_graph(graph, threads=1), compile_graph(gradient, threads=1))
    )
    inputs = [output] if target is None else [output, target]
    (value,) = run(*inputs)
    cotangent = torch.arange(1, value.numel() + 1, dtype=value.dtype).reshape(value.shape)
    return value, run_gradient(*inputs, cotangent)[0]


def check_against(expected, loss, output, target, backends=("cpu", "reference"), **tolerances):
    x = output.clone().requires_grad_()
    value = expected(x, target)
    cotangent = torch.arange(1, value.numel() + 1, dtype=value.dtype).reshape(value.shape)
    (gradient,) = torch.autograd.grad(value, x, cotangent)
    for backend in backends:
        ours, ours_gradient = value_and_gradient(loss, output, target, backend)
        torch.testing.assert_close(ours, value.detach(), equal_nan=True, **tolerances)
        torch.testing.assert_close(ours_gradient, gradient, equal_nan=True, **tolerances)


def logits(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).mul(3).to(dtype)


def classes(*shape, ignored=None):
    target = torch.randint(0, CLASSES, shape, generator=torch.Generator().manual_seed(1))
    if ignored is not None and target.numel() > 2:
        target.view(-1)[::3] = ignored
    return target


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(4, 3), (), (0, 3)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("kind", "expected"), [(tenon.MSE, F.mse_loss), (tenon.L1, F.l1_loss)])
def test_errors(kind, expected, reduction, shape, dtype):
    output, target = logits(*shape, dtype=dtype), logits(*shape, dtype=dtype, seed=1)
    check_against(lambda x, y: expected(x, y, reduction=reduction), kind(reduction), output, target)


def test_errors_of_integer_targets():
    output, target = logits(6), torch.arange(6)
    check_against(lambda x, y: F.mse_loss(x, y.float()), tenon.MSE(), output, target)


# ---- classes ---------------------------------------------------------------------------------------------------------

SHAPES = [(6, CLASSES), (CLASSES,), (2, CLASSES, 3), (2, CLASSES, 3, 2), (1, CLASSES)]
WEIGHT = [0.5, 1.0, 2.0, 0.0, 3.0]


def other_dims(shape):
    return shape[:-1] if len(shape) == 1 else (shape[0], *shape[2:])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("ignore_index", [-100, 2])
def test_cross_entropy_of_classes(shape, reduction, label_smoothing, weight, ignore_index):
    settings = {"reduction": reduction, "label_smoothing": label_smoothing, "ignore_index": ignore_index}
    loss = tenon.CrossEntropy(weight=weight, **settings)
    theirs = None if weight is None else torch.tensor(weight)
    target = classes(*other_dims(shape), ignored=ignore_index)
    expected = lambda x, y: F.cross_entropy(x, y, weight=theirs, **settings)  # noqa: E731
    check_against(expected, loss, logits(*shape), target, backends=["cpu"])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_cross_entropy_of_probabilities(shape, reduction, label_smoothing, weight):
    settings = {"reduction": reduction, "label_smoothing": label_smoothing}
    loss = tenon.CrossEntropy(weight=weight, probabilities=True, **settings)
    theirs = None if weight is None else torch.tensor(weight)
    target = torch.softmax(logits(*shape, seed=2), 0 if len(shape) == 1 else 1)
    expected = lambda x, y: F.cross_entropy(x, y, weight=theirs, **settings)  # noqa: E731
    check_against(expected, loss, logits(*shape), target, backends=["cpu"])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("ignore_index", [-100, 2])
def test_nll(shape, reduction, weight, ignore_index):
    loss = tenon.NLL(weight=weight, reduction=reduction, ignore_index=ignore_index)
    theirs = None if weight is None else torch.tensor(weight)
    expected = lambda x, y: F.nll_loss(x, y, weight=theirs, reduction=reduction, ignore_index=ignore_index)  # noqa: E731
    target = classes(*other_dims(shape), ignored=ignore_index)
    check_against(expected, loss, logits(*shape), target, backends=["cpu"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_cross_entropy_of_other_dtypes(dtype, label_smoothing):
    expected = lambda x, y: F.cross_entropy(x, y, label_smoothing=label_smoothing)  # noqa: E731
    loss = tenon.CrossEntropy(label_smoothing=label_smoothing)
    tolerances = {} if dtype == torch.float64 else {"rtol": 2e-2, "atol": 2e-3}  # PyTorch rounds in between
    check_against(expected, loss, logits(8, CLASSES, dtype=dtype), classes(8), **tolerances)


def test_short_floats_are_summed_in_f32():
    output = logits(2048, CLASSES, dtype=torch.bfloat16)
    value, _ = value_and_gradient(tenon.CrossEntropy(), output, classes(2048), "cpu")
    exact = F.cross_entropy(output.double(), classes(2048))
    torch.testing.assert_close(value, exact.bfloat16(), rtol=0, atol=0)


@pytest.mark.parametrize("kind", [tenon.CrossEntropy, tenon.NLL])
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_classes_may_be_other_integers(kind, dtype):
    expected = F.cross_entropy if kind is tenon.CrossEntropy else F.nll_loss
    check_against(lambda x, y: expected(x, y.long()), kind(), logits(6, CLASSES), classes(6).to(dtype))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_all_targets_are_ignored(reduction, label_smoothing):
    settings = {"reduction": reduction, "label_smoothing": label_smoothing}
    target = torch.full((4,), -100)
    output = logits(4, CLASSES)
    check_against(lambda x, y: F.cross_entropy(x, y, **settings), tenon.CrossEntropy(**settings), output, target)
    value, _ = value_and_gradient(tenon.CrossEntropy(**settings), output, target, "cpu")
    assert value.isnan().item() == (reduction == "mean")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_batch_of_nothing(reduction):
    loss = tenon.CrossEntropy(reduction=reduction)
    expected = lambda x, y: F.cross_entropy(x, y, reduction=reduction)  # noqa: E731
    check_against(expected, loss, logits(0, CLASSES), classes(0))
    of_shares = lambda x, y: F.cross_entropy(x, y, reduction=reduction)  # noqa: E731
    shares = tenon.CrossEntropy(reduction=reduction, probabilities=True)
    check_against(of_shares, shares, logits(0, CLASSES), torch.zeros(0, CLASSES))
    check_against(lambda x, y: F.mse_loss(x, y, reduction=reduction), tenon.MSE(reduction), logits(0), logits(0))


def test_extreme_logits():
    output = torch.tensor([[1e4, -1e4, 0.0], [-3e38, 3e38, 0.0], [88.0, 89.0, -200.0], [0.0, -torch.inf, 1.0]])
    for target in ([0, 1, 2, 0], [1, 1, 0, 2]):
        check_against(F.cross_entropy, tenon.CrossEntropy(), output, torch.tensor(target))


def test_a_class_that_does_not_exist_is_an_error_of_the_run():
    for target in (CLASSES, -1):
        graph = graph_of(tenon.CrossEntropy(), logits(1, CLASSES), classes(1))
        with pytest.raises(tenon.Error, match="out of range"):
            compile_graph(graph, threads=1)(logits(1, CLASSES), torch.tensor([target]))


def test_sizes_may_be_symbols():
    graph = tenon.Graph("loss")
    x, y = graph.input("x", f"f32[N, {CLASSES}]"), graph.input("y", "i64[N]")
    graph.output(tenon.add_loss(x, y, tenon.CrossEntropy(label_smoothing=0.1)))
    program = compile_graph(graph, threads=1)
    for size in (1, 3, 8):
        expected = F.cross_entropy(logits(size, CLASSES), classes(size), label_smoothing=0.1)
        torch.testing.assert_close(program(logits(size, CLASSES), classes(size))[0], expected)


def test_the_gradient_of_classes_needs_no_scatter():
    graph = graph_of(tenon.CrossEntropy(), logits(6, CLASSES), classes(6))
    ops = {node.op.name for node in tenon.differentiate(graph, ["x"]).nodes}
    assert "index_put" not in ops


# ---- binary cross entropy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, [2.0], [0.5, 1.0, 2.0]])
@pytest.mark.parametrize("pos_weight", [None, [0.5, 1.0, 2.0]])
def test_binary_cross_entropy(pos_weight, weight, reduction, dtype):
    shape = (4, 3)
    loss = tenon.BCEWithLogits(weight=weight, reduction=reduction, pos_weight=pos_weight)
    theirs = [None if w is None else torch.tensor(w, dtype=dtype) for w in (weight, pos_weight)]
    target = torch.rand(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)

    def expected(x, y):
        return F.binary_cross_entropy_with_logits(x, y, theirs[0], reduction=reduction, pos_weight=theirs[1])

    check_against(expected, loss, logits(*shape, dtype=dtype), target, backends=["cpu"])


def test_binary_cross_entropy_of_extreme_logits():
    output = torch.tensor([1e4, -1e4, 1e4, -1e4, 0.0, 88.0, -88.0])
    target = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.5, 1.0, 1.0])
    check_against(F.binary_cross_entropy_with_logits, tenon.BCEWithLogits(), output, target)


def test_binary_cross_entropy_of_one_number():
    loss = tenon.BCEWithLogits(weight=[2.0], pos_weight=[3.0])

    def expected(x, y):
        return F.binary_cross_entropy_with_logits(x, y, torch.tensor(2.0), pos_weight=torch.tensor(3.0))

    check_against(expected, loss, torch.tensor(0.3), torch.tensor(1.0))


# ---- the output itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_the_output_is_the_loss(shape):
    check_against(lambda x, _: x.reshape(()), tenon.Output(), torch.full(shape, 2.5), None)


# ---- types and texts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "output", "target"),
    [
        ("cross_entropy", "f32[N, 10]", "i64[N]"),
        ("cross_entropy", "f32[10]", "i64[]"),
        ("cross_entropy", "f16[2, 10, 4, 5]", "i64[2, 4, 5]"),
        ("cross_entropy(probabilities=true)", "f16[2, 10]", "f16[2, 10]"),
        ("nll", "f64[N, 10, M]", "i64[N, M]"),
        ("mse", "f64[3]", "f64[3]"),
        ("bce_with_logits", "bf16[N, 1]", "bf16[N, 1]"),
    ],
)
def test_target_types(loss, output, target):
    assert tenon.Loss(loss).target_type(output) == target


def wrong(loss, output, target):
    graph = tenon.Graph("loss")
    x = graph.input("x", output)
    tenon.add_loss(x, None if target is None else graph.input("y", target), tenon.Loss(loss))


@pytest.mark.parametrize(
    ("loss", "output", "target", "message"),
    [
        ("mse", "f32[4, 3]", "f32[4]", "mse of f32[4, 3] takes a target f32[4, 3], got f32[4]"),
        ("cross_entropy", "f32[4, 3]", "i64[5]", "cross_entropy of f32[4, 3] takes a target i64[4], got i64[5]"),
        ("cross_entropy", "f32[4, 3]", "f32[4, 3]", "for probabilities of classes set probabilities=true"),
        ("cross_entropy(probabilities=true)", "f32[4, 3]", "i64[4, 3]", "takes a target f32[4, 3], got i64[4, 3]"),
        ("nll", "f32[]", "i64[]", "with a dimension of classes, got f32[]"),
        ("nll", "f32[N, 3]", "i64[M]", "takes a target i64[N], got i64[M]"),
        ("nll", "f32[4, 3]", "bool[4]", "takes a target i64[4], got bool[4]"),
        ("l1", "i64[4]", "i64[4]", "l1 takes floating-point outputs, got i64[4]"),
        ("output", "f32[4]", None, "the output is f32[4], not one number"),
        ("output", "f32[]", "f32[]", "the loss 'output' takes no target"),
        ("mse", "f32[4]", None, "the loss 'mse' takes a target"),
        ("cross_entropy(weight=[1, 2])", "f32[4, 3]", "i64[4]", "weight has 2 numbers for a dimension of size 3"),
    ],
)
def test_types_that_do_not_fit_are_errors(loss, output, target, message):
    with pytest.raises(tenon.Error) as caught:
        wrong(loss, output, target)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["Output", "MSE", "L1", "CrossEntropy", "NLL", "BCEWithLogits"])
def test_defaults_are_those_of_the_text_form(name):
    kind = getattr(tenon, name)
    assert "(" not in str(kind())
    assert tenon.Loss(str(kind())) == kind()
