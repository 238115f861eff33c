"""What the caller has on (a default device, autocast, a fake mode, a mode of his own) changes nothing about what Tenon
does: every front door under every mode gives what it gives without."""

import contextlib

import pytest
import tenon
import tenon.loops as tl
import torch
from tenon import modes
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class FunctionsFail(TorchFunctionMode):
    """No call gets through but those that look at a tensor."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in ("__get__", "is_neg", "detach", "__dlpack__", "__dlpack_device__"):
            return func(*args, **(kwargs or {}))
        raise AssertionError(f"seen: {func}")


class DispatchFails(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise AssertionError(f"seen: {func}")


@contextlib.contextmanager
def default_device():
    before = torch.get_default_device()
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None if before == torch.device("cpu") else before)


@contextlib.contextmanager
def default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


MODES = {
    "none": contextlib.nullcontext,
    "device": lambda: torch.device("meta"),
    "default device": default_device,
    "default dtype": default_dtype,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "no grad": torch.no_grad,
    "grad": torch.enable_grad,
    "fake": lambda: FakeTensorMode(allow_non_fake_inputs=False),
    "functional": FunctionalTensorMode,
    "deterministic": deterministic,
    "function": FunctionsFail,
    "dispatch": DispatchFails,
}
SEE_CALLS = ("fake", "functional", "function", "dispatch")
OF_TRACES = [name for name in MODES if name not in ("device", "default device", *SEE_CALLS)]

X = torch.arange(12.0).reshape(3, 4) / 12
TARGET = X[:, :2].clone()


class Model(torch.nn.Module):
    """With random numbers, a number as an input, a view as a result, and a call that PyTorch runs."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, scale: float):
        y = self.linear(x) * scale
        noise = torch.nn.functional.dropout(torch.ones_like(y), 0.5, training=True)
        return y, y.t(), x.t(), noise, torch.linalg.matrix_exp(y[:, :3])


def check(results):
    y, transposed, of_input, noise, exponential = results
    linear = Model().linear
    with torch.no_grad():
        expected = linear(X) * 2.5
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(transposed, expected.t())
        torch.testing.assert_close(of_input, X.t())
        torch.testing.assert_close(exponential, torch.linalg.matrix_exp(expected[:, :3]))
    assert set(noise.unique().tolist()) <= {0.0, 2.0}
    assert not any(result.requires_grad for result in results)


def compiled():
    return tenon.compile(Model(), (X, 2.5))


PROGRAMS = {}


def made_once(name, make):
    if name not in PROGRAMS:
        PROGRAMS[name] = make()
    return PROGRAMS[name]


@pytest.mark.parametrize("mode", MODES)
def test_a_program_is_called(mode):
    program = made_once("program", compiled)
    with MODES[mode]():
        results = program(X, 2.5)
    check(results)


@pytest.mark.parametrize("mode", OF_TRACES)
def test_a_model_is_compiled(mode):
    model = Model()
    with MODES[mode]():
        program = tenon.compile(model, (X, 2.5))
    if mode != "autocast":  # which is part of what the model computes
        check(program(X, 2.5))


@pytest.mark.parametrize("mode", MODES)
def test_an_exported_program_is_compiled(mode):
    exported = made_once("exported", lambda: torch.export.export(Model(), (X, 2.5)))
    with MODES[mode]():
        program = tenon.compile(exported)
    check(program(X, 2.5))


@pytest.mark.parametrize("mode", MODES)
def test_a_file_is_loaded_and_called(mode, tmp_path):
    path = tmp_path / "model.tenon"
    tenon.compile(torch.nn.Softmax(-1), (X,)).save(path)
    with MODES[mode]():
        result = tenon.load(path)(X)
    torch.testing.assert_close(result, X.softmax(-1))


@pytest.mark.parametrize("mode", [name for name in MODES if name not in SEE_CALLS])
def test_torch_compile(mode):
    """With the others on, torch.compile itself leaves the function to PyTorch."""
    torch._dynamo.reset()
    function = torch.compile(lambda x: (x * 2).softmax(-1).t(), backend="tenon")
    with MODES[mode]():
        result = function(X)
    torch.testing.assert_close(result, (X * 2).softmax(-1).t())


@pytest.mark.parametrize("mode", MODES)
def test_the_function_that_torch_compile_made_is_called(mode):
    """The graph itself, without the guards of torch.compile."""
    from tenon.torch_backend import Options, _compile
    from torch.fx.experimental.proxy_tensor import make_fx

    module = make_fx(lambda x: [torch.linalg.matrix_exp(x @ x.t()), torch.rand_like(x)])(X)
    run = _compile("inference", module, Options(), shown=0)
    with MODES[mode]():
        first, noise = run([X])
    torch.testing.assert_close(first, torch.linalg.matrix_exp(X @ X.t()))
    assert first.dtype == noise.dtype == torch.float32


@pytest.mark.parametrize("mode", MODES)
def test_training(mode):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout(0.0))
    exported = torch.export.export(model, (X,))
    settings = {"loss": "mse", "optimizer": "sgd(lr=0.1)", "seed": 1}
    plain = tenon.LocalTrainingInstance(exported, **settings)
    with MODES[mode]():
        trainer = tenon.LocalTrainingInstance(exported, **settings)
        losses = [trainer.step(X, target=TARGET) for _ in range(2)]
        output, _ = trainer.forward(X, target=TARGET)
        state = trainer.state_dict()
        trainer.load_state_dict(state)
    expected = [plain.step(X, target=TARGET) for _ in range(2)]
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(state, plain.state_dict())
    assert type(output) is torch.Tensor


@pytest.mark.parametrize("mode", MODES)
def test_graphs_and_loops(mode):
    graph = tenon.Graph("scale")
    x = graph.input("x", "f32[3, 4]")
    graph.output(x * 2 + 1)
    s = tl.SymbolGenerator()
    with MODES[mode]():
        (result,) = graph.evaluate(X)
        sums = tl.Tensor(X).to(s.m, s.n).sum(s.n).numpy()
    torch.testing.assert_close(result, X * 2 + 1)
    torch.testing.assert_close(torch.from_numpy(sums), X.sum(1))


@pytest.mark.parametrize("mode", MODES)
def test_outside_leaves_everything_as_it_was(mode):
    def state():
        stacks = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()
        return *stacks, torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), torch.is_grad_enabled()

    with MODES[mode]():
        before = state()
        with modes.outside():
            assert not modes.are_on()
            assert torch.empty(1).device.type == "cpu"
            assert torch.is_grad_enabled() == before[-1]
        assert state() == before
        with pytest.raises(ZeroDivisionError), modes.outside():
            1 / 0  # noqa: B018
        assert state() == before
