"""torch.compile(backend="tenon") takes whatever backend="aot_eager" takes: what Tenon lacks runs in PyTorch."""

import warnings

import pytest
import tenon
import torch
import transformers
from tenon import torch_backend
from torch import nn
from torch.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def tensor(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def check(function, *args, gradients=True, **options):
    """Results, gradients of floating arguments and writes to arguments equal eager's. Nothing of Tenon's fails."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "tenon")
        compiled = torch.compile(function, backend="tenon", **options)
        expected, given = _run(function, args, gradients), _run(compiled, args, gradients)
    torch.testing.assert_close(given, expected, equal_nan=True)


def _run(function, args, gradients):
    args = [value.clone() if isinstance(value, torch.Tensor) else value for value in args]
    results = [function(*args)]
    if not gradients:
        return results, args
    leaves = [value.clone().requires_grad_() for value in args if _is_float(value)]
    given = iter(leaves)
    found = function(*(next(given) if _is_float(value) else value for value in args))
    found = [value for value in torch.utils._pytree.tree_leaves(found) if _is_float(value) and value.requires_grad]
    if found:
        sum((value.abs() if value.is_complex() else value).sum() for value in found).backward()
    return results, args, [leaf.grad for leaf in leaves]


def _is_float(value):
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


# ---- constants in functions -----------------------------------------------------------------------------------------


def write_row(a):
    a = a.clone()
    a[0] = 5
    return a * 2


def write_mask(a):
    a = a.clone()
    a[a > 0] = 0
    return a * 2


def write_column(a):
    a = a.clone()
    a[:, 1] = torch.tensor([1.0, 2.0, 3.0])
    return a + 1


def write_with_list(a):
    a = a.clone()
    a[[0, 2]] = torch.tensor(7.0)
    return a


def triangular_mask(a):
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], dtype=torch.bool)
    return a.masked_fill(~mask, float("-inf")).softmax(-1)


CONSTANTS = {
    "write_row": write_row,
    "write_mask": write_mask,
    "write_column": write_column,
    "write_with_list": write_with_list,
    "triangular_mask": triangular_mask,
    "add_tensor": lambda a: a + torch.tensor([1.0, 2.0, 3.0, 4.0]),
    "add_scalar_tensor": lambda a: a * torch.tensor(2.5),
    "index_list": lambda a: a[:, [0, 2]] * 2,
    "index_tensor": lambda a: a[torch.tensor([2, 0])] * 2,
    "new_tensor": lambda a: a + a.new_tensor([1.0, 2.0, 3.0, 4.0]),
    "where_scalar": lambda a: torch.where(a > 0, a, torch.tensor(0.5)),
    "as_tensor": lambda a: a @ torch.as_tensor([[1.0], [2.0], [3.0], [4.0]]),
    "from_list_int": lambda a: a.sum(0)[torch.tensor([3, 1], dtype=torch.int64)],
    "bool_index": lambda a: a[torch.tensor([True, False, True])] + 1,
    "stack_constants": lambda a: torch.stack([torch.tensor(1.0), a.sum(), torch.tensor(3.0)]),
    "embedding_of_constants": lambda a: nn.functional.embedding(torch.tensor([0, 2, 1]), a),
    "one_hot": lambda a: nn.functional.one_hot(torch.tensor([0, 2, 1]), 4) * a,
    "empty_constant": lambda a: torch.cat([a.flatten(), torch.tensor([])]),
    "detached": lambda a: a * torch.tensor([1.0, 2.0, 3.0, 4.0]).detach(),
    "complex_constant": lambda a: (a * torch.tensor(1j)).imag,
    "float8_constant": lambda a: a + torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn).to(a.dtype).sum(),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_in_functions(name):
    check(CONSTANTS[name], tensor(3, 4))


# ---- dtypes that Tenon lacks ----------------------------------------------------------------------------------------


def polar(x):
    return x * torch.exp(1j * x.real) + 2


@pytest.mark.filterwarnings("ignore:tenon compiles nothing")
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize(
    "function",
    [polar, torch.abs, lambda x: x.real * 2 + x.imag, lambda x: torch.fft.ifft(torch.fft.fft(x)).real],
    ids=["polar", "abs", "parts", "fft"],
)
def test_complex_arguments(dtype, function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(function, backend="tenon")
        args = [tensor(3, 4, dtype=dtype)]
        torch.testing.assert_close(_run(compiled, args, True), _run(function, args, True))


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.uint32, torch.uint64], ids=str
)
def test_other_arguments(dtype):
    given = torch.arange(12).reshape(3, 4).float().to(dtype)
    check(lambda x, y: (x.float() * 2 + y, x.reshape(4, 3)), given, tensor(3, 4), gradients=False)


def test_rotary_embedding_by_complex_numbers():
    def rotate(x, angles):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(2)

    check(rotate, tensor(2, 6, 8), tensor(6, 4))


# ---- linear algebra, whose checks are effects -----------------------------------------------------------------------


def positive(x):
    return x @ x.mT + torch.eye(x.shape[-1])


LINALG = {
    "inv": lambda x: torch.linalg.inv(positive(x)),
    "cholesky": lambda x: torch.linalg.cholesky(positive(x)),
    "solve": lambda x: torch.linalg.solve(positive(x), x),
    "cholesky_solve": lambda x: torch.cholesky_solve(x, torch.linalg.cholesky(positive(x))),
    "slogdet": lambda x: torch.linalg.slogdet(positive(x))[1],
    "eigh": lambda x: torch.linalg.eigh(positive(x))[0],
    "svd": lambda x: torch.linalg.svdvals(x),
    "qr": lambda x: torch.linalg.qr(positive(x))[1].abs(),
    "lstsq": lambda x: torch.linalg.lstsq(positive(x), x).solution,
    "matrix_exp": lambda x: torch.linalg.matrix_exp(x * 0.1),
}


@pytest.mark.filterwarnings("ignore:tenon compiles nothing")
@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra(name):
    check(LINALG[name], tensor(3, 3))


def test_multivariate_normal():
    def log_probability(x):
        normal = torch.distributions.MultivariateNormal(torch.zeros(3), positive(x))
        return normal.log_prob(x)

    check(log_probability, tensor(3, 3))


def test_a_singular_matrix_is_an_error():
    compiled = torch.compile(torch.linalg.inv, backend="tenon")
    with pytest.raises(Exception, match="singular"):
        compiled(torch.zeros(3, 3))


# ---- autocast -------------------------------------------------------------------------------------------------------


class Normed(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.up = nn.Conv1d(4, 8, 1)
        self.norm = norm
        self.down = nn.Conv1d(8, 4, 1)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.norm(self.up(x))))


@pytest.mark.parametrize("make", [lambda: nn.LayerNorm(6), lambda: nn.GroupNorm(2, 8), lambda: nn.BatchNorm1d(8)])
@pytest.mark.parametrize("outside", [True, False], ids=["around", "within"])
def test_autocast_with_norms(make, outside):
    torch.manual_seed(0)
    model = Normed(make())

    def run(function):
        x = tensor(2, 4, 6).requires_grad_()
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=outside):
            y = function(x)
        y.float().square().sum().backward()
        return y, x.grad, [parameter.grad.clone() for parameter in model.parameters()]

    def within(x):
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)

    function = model if outside else within
    expected = run(function)
    torch.testing.assert_close(run(torch.compile(function, backend="tenon")), expected, rtol=3e-2, atol=3e-2)


def test_a_custom_op_that_autocasts():
    @torch.library.custom_op("idioms::mixed", mutates_args=())
    def mixed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return torch.nn.functional.linear(x, w)

    @mixed.register_fake
    def _(x, w):
        return x.new_empty(x.shape[0], w.shape[0], dtype=torch.bfloat16)

    function = lambda x, w: mixed(x, w).float() * 2  # noqa: E731
    x, w = tensor(3, 4), tensor(5, 4)
    torch.testing.assert_close(torch.compile(function, backend="tenon")(x, w), function(x, w))


# ---- views of memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1, 2, 5])
def test_as_strided_of_an_argument_with_an_offset(offset):
    storage = torch.arange(20.0)
    function = lambda a: a.as_strided((2,), (1,), 1) * 1  # noqa: E731
    compiled = torch.compile(function, backend="tenon")
    for start in (2, offset):
        given = storage[start : start + 8]
        torch.testing.assert_close(compiled(given), function(given))


def test_as_strided_of_a_view_of_an_argument():
    function = lambda a: a[1:].t().as_strided((2, 2), (1, 3), 1) + 1  # noqa: E731
    compiled = torch.compile(function, backend="tenon")
    for start in (0, 3):
        given = torch.arange(40.0)[start : start + 12].reshape(3, 4)
        torch.testing.assert_close(compiled(given), function(given))


# ---- other kinds of tensors, other uses -----------------------------------------------------------------------------


def test_forward_mode_differentiation():
    import torch.autograd.forward_ad as forward_ad

    function = lambda x: torch.sin(x) * x  # noqa: E731
    compiled = torch.compile(function, backend="tenon")
    x, tangent = tensor(4), tensor(4, seed=1)
    compiled(x)

    def run(function):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(function(forward_ad.make_dual(x, tangent)))

    torch.testing.assert_close(run(compiled).tangent, run(function).tangent)


def test_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    compiled = torch.compile(lambda x: torch.relu(x) @ x.mT, backend="tenon")
    with FakeTensorMode():
        assert compiled(torch.randn(3, 4)).shape == (3, 3)


def test_checkpoint_with_dropout():
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 8))
    function = lambda x: checkpoint(block, x, use_reentrant=False).square().sum()  # noqa: E731
    x = tensor(4, 8).requires_grad_()
    torch.compile(function, backend="tenon")(x).backward()
    assert x.grad.isfinite().all()
    assert x.grad.abs().sum() > 0


@pytest.mark.filterwarnings("ignore")
def test_jagged_nested_tensors():
    nested = torch.nested.nested_tensor([tensor(3, 4), tensor(5, 4, seed=1)], layout=torch.jagged)
    function = lambda x: torch.sin(x) * 2  # noqa: E731
    given = torch.compile(function, backend="tenon")(nested)
    torch.testing.assert_close(given.values(), function(nested).values())


@pytest.mark.filterwarnings("ignore")
def test_quantized_tensors():
    quantized = torch.quantize_per_tensor(tensor(3, 4), 0.1, 0, torch.qint8)
    function = lambda x: x.dequantize() * 2  # noqa: E731
    torch.testing.assert_close(torch.compile(function, backend="tenon")(quantized), function(quantized))


def quantized(x):
    return torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)


QUANTIZED = {
    "dequantized": lambda a: quantized(a * 2).dequantize() + 1,
    "integers": lambda a: quantized(a).int_repr() + 1,
    "views": lambda a: quantized(a).reshape(2, 6).dequantize() * 2,
    "computed_with": lambda a: torch.relu(quantized(a)).dequantize() * 2,
    "joined": lambda a: torch.cat([quantized(a), quantized(a + 1)]).dequantize() + 1,
    "scale": lambda a: quantized(a).q_scale() + a,
    "returned": lambda a: (quantized(a), a + 1),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_tensors_inside_of_a_graph(name):
    """PyTorch says that they are f32, and PyTorch alone can hold them."""
    x = tensor(3, 4)
    given, expected = torch.compile(QUANTIZED[name], backend="tenon")(x), QUANTIZED[name](x)
    if name == "returned":
        assert given[0].is_quantized
        given, expected = (given[0].dequantize(), given[1]), (expected[0].dequantize(), expected[1])
    torch.testing.assert_close(given, expected)


@pytest.mark.filterwarnings("ignore")
def test_sparse_tensors():
    sparse = tensor(3, 4).relu().to_sparse()
    function = lambda x, y: torch.sparse.mm(x, y) + 1  # noqa: E731
    torch.testing.assert_close(
        torch.compile(function, backend="tenon")(sparse, tensor(4, 2)), function(sparse, tensor(4, 2))
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda a, i: a[i] * 2,
        lambda a, i: a.index_select(0, i) + 1,
        lambda a, i: a.gather(0, i) + 1,
        lambda a, i: nn.functional.embedding(i, a.reshape(-1, 1)),
    ],
)
def test_an_index_out_of_range_is_an_index_error(function, tmp_path):
    args = (tensor(4), torch.tensor([7]))
    program = tenon.compile(function, args)
    program.save(path := str(tmp_path / "indices.tenon"))
    loaded = (tenon.load(path), tenon.load(path, native=False))
    for call in (torch.compile(function, backend="tenon"), program, *loaded):
        with pytest.raises(IndexError, match="index 7 is out of range for a size of 4") as caught:
            call(*args)
        assert isinstance(caught.value, tenon.Error)


# ---- what Tenon cannot do -------------------------------------------------------------------------------------------


@pytest.fixture
def no_reports():
    torch_backend.reports.clear()
    yield torch_backend.reports
    torch_backend.reports.clear()


@pytest.mark.parametrize("error", [ValueError("no such thing"), tenon.InternalError("internal error: never")])
def test_a_failure_of_tenon_does_not_reach_the_user(error, monkeypatch, no_reports):
    def broken(*_):
        raise error

    monkeypatch.setattr(torch_backend, "import_graph_module", broken)
    function = lambda x: torch.sin(x) * 2  # noqa: E731
    x = tensor(3).requires_grad_()
    with pytest.warns(UserWarning, match=rf"nothing of the forward graph \S+ \(2 calls\).*{error}.*please report"):
        given = torch.compile(function, backend="tenon")(x)
    given.sum().backward()
    torch.testing.assert_close(given, function(x))
    torch.testing.assert_close(x.grad, 2 * torch.cos(x.detach()))
    assert [report.kind for report in no_reports] == ["forward", "backward"]

    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=str(error)):
        torch.compile(function, backend="tenon", options={"fallback": False})(x)


def test_a_warning_comes_once(monkeypatch, no_reports):
    def broken(*_):
        raise ValueError("no such thing")

    monkeypatch.setattr(torch_backend, "import_graph_module", broken)
    with pytest.warns(UserWarning, match="tenon compiles nothing"):
        torch.compile(torch.sin, backend="tenon")(tensor(3))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "tenon")
        torch.compile(torch.cos, backend="tenon")(tensor(3))
    assert len(no_reports) == 2


def test_a_graph_of_which_nothing_is_compiled_says_so(no_reports):
    function = lambda x: torch.fft.fft(x) * 2  # noqa: E731
    x = tensor(3, 4, dtype=torch.complex64)
    with pytest.warns(
        UserWarning, match="nothing of the inference graph .*Tenon lacks all of its calls: aten._fft_c2c"
    ):
        given = torch.compile(function, backend="tenon")(x)
    torch.testing.assert_close(given, function(x))


def test_report(no_reports):
    torch.compile(lambda x: torch.fft.rfft(x * 2).abs() + 1, backend="tenon")(tensor(4))
    (report,) = no_reports
    assert (report.kind, report.calls, report.native_calls) == ("inference", 4, 2)
    assert set(report.fallback_calls) == {"aten._fft_r2c.default", "aten.abs.default"}
    assert "aten._fft_r2c.default x1" in torch_backend.report()


# ---- attention ------------------------------------------------------------------------------------------------------


def test_attention_with_shared_heads_trains_natively(no_reports):
    """The kernel that PyTorch chooses has no flag for it, and PyTorch's decomposition of that gives other results."""

    def attend(query, key, value):
        out = nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
        return out.transpose(1, 2).reshape(2, 6, 32)

    check(attend, tensor(2, 4, 6, 8), tensor(2, 2, 6, 8, seed=1), tensor(2, 2, 6, 8, seed=2))
    assert all(not report.fallback_calls for report in no_reports)


def test_a_decomposition_keeps_the_strides_that_pytorch_recorded():
    """What a call is decomposed into may have other strides: a later view must not see them."""

    def function(x):
        return torch.linalg.cross(x.transpose(0, 1), torch.ones(4, 2, 3)).transpose(0, 1).contiguous().view(8, 3)

    check(function, tensor(2, 4, 3))


def test_a_graph_that_pytorch_cannot_trace_is_broken_in_two(no_reports):
    """TorchDynamo does that when the trace of the backend says so: only the part that cannot be traced runs eagerly."""

    @torch.library.custom_op("idioms::untraceable", mutates_args=())
    def untraceable(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    untraceable.register_fake(lambda x: torch.empty_like(x))

    def backward(context, gradient):
        return gradient * int(gradient.sum().item() > -1e9)

    torch.library.register_autograd("idioms::untraceable", backward)
    check(lambda x: torch.sin(untraceable(torch.cos(x) * 2)) + 1, tensor(4))
    assert not [report for report in no_reports if report.failure]
    assert sum(report.native_calls for report in no_reports) >= 4


# ---- nested tensors -------------------------------------------------------------------------------------------------


def attention_of_rows(x):
    heads = x.unflatten(-1, [2, 4]).transpose(1, 2)
    return nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(-2)


@pytest.mark.parametrize("function", [lambda x: x * 2 + 1, nn.Linear(8, 3), attention_of_rows])
def test_a_nested_tensor_has_a_ragged_size(function):
    compiled = torch.compile(function, backend="tenon", options={"fallback": False})
    for lengths in ((2, 4), (3, 1, 5)):
        rows = [tensor(length, 8, seed=length) for length in lengths]
        given, expected = (torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=True) for _ in range(2))
        results = compiled(given), function(expected)
        torch.testing.assert_close(results[0].values(), results[1].values())
        for result in results:
            result.values().square().sum().backward()
        torch.testing.assert_close(given.grad.values(), expected.grad.values())


# ---- sizes ----------------------------------------------------------------------------------------------------------


def test_sizes_that_only_a_decomposition_proves_equal():
    """Keys and values of a growing cache are equally long. PyTorch has a symbol for each, and its trace needs no more:
    a guard of the decomposed attention says so."""
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 32}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**heads, **sizes)).eval()
    tokens = torch.arange(10).reshape(2, 5)
    expected = model.generate(tokens, max_new_tokens=5, do_sample=False)
    model.forward = torch.compile(model.forward, backend="tenon", options={"fallback": False})
    torch.testing.assert_close(model.generate(tokens, max_new_tokens=5, do_sample=False), expected)
