"""Models in bf16 and f16 are computed as PyTorch does: from narrow tensors, with sums in f32, rounded where PyTorch
rounds. No weight and no activation is stored in f32."""

import pytest
import tenon
import torch
from torch import nn

NARROW = [torch.bfloat16, torch.float16]


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(x)))


class Convolutions(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(16, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 1), nn.Conv2d(64, 64, 3, 2, 1, groups=64)
        )


MODELS = {
    "mlp": lambda: (nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 64)), torch.randn(33, 256)),
    "block": lambda: (Block(), torch.randn(2, 19, 128)),
    "convolutions": lambda: (Convolutions(), torch.randn(2, 16, 14, 14)),
}


def made(name: str, dtype: torch.dtype) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    module, x = MODELS[name]()
    return module.eval().to(dtype), x.to(dtype)


def is_large(text: str) -> bool:
    """Whether the type, "f32[64, 256]", is that of a matrix, and not of a bias or a mask."""
    sizes = [int(size) for size in text.partition("[")[2].rstrip("]").split(",") if size.strip()]
    return sum(size > 8 for size in sizes) > 1


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_narrow_model_is_as_exact_as_eager(name, dtype):
    module, x = made(name, dtype)
    with torch.no_grad():
        ours, eager = tenon.compile(module, (x,), fallback=False)(x), module(x)
        exact = module.double()(x.double())
    assert ours.dtype == dtype
    error, allowed = ((each.double() - exact).norm() / exact.norm() for each in (ours, eager))
    assert error <= 2 * allowed + 1e-6


def large_wide(types: list[str]) -> list[str]:
    return [text for text in types if text.startswith("f32") and is_large(text)]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_what_kernels_write_is_narrow(name, dtype):
    module, x = made(name, dtype)
    kernels = tenon.compile(module, (x,), fallback=False).kernels
    assert not [kernel for kernel in kernels if large_wide(kernel["outputs"])]
    assert not [kernel for kernel in kernels if set(kernel["ops"]) == {"cast"}]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_kernels_read_narrow_weights(name, dtype):
    module, x = made(name, dtype)
    kernels = tenon.compile(module, (x,), fallback=False).kernels
    assert not [kernel for kernel in kernels if large_wide(kernel["inputs"])]


@pytest.mark.parametrize("dtype", [torch.float32, *NARROW], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_file_holds_weights_once(name, dtype, tmp_path):
    module, x = made(name, dtype)
    tenon.compile(module, (x,)).save(tmp_path / "model.tenon")
    weights = sum(parameter.nbytes for parameter in module.parameters())
    assert (tmp_path / "model.tenon").stat().st_size <= 1.03 * weights + 100_000  # code, tables


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_autocast_reaches_the_narrow_products(dtype):
    module, x = made("mlp", torch.float32)

    def call(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=dtype):
            return module(x)

    with torch.no_grad():
        ours, eager = torch.compile(call, backend="tenon", fullgraph=True)(x), call(x)
    assert ours.dtype == eager.dtype == dtype
    torch.testing.assert_close(ours, eager, rtol=2e-2, atol=2e-2)


class Autocast(nn.Module):
    """A model that chooses its precision itself, but for its last layer."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.body, self.head = MODELS["mlp"]()[0], nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=self.dtype):
            y = self.body(x)
            with torch.autocast("cpu", enabled=False):
                return self.head(y.float())


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_model_that_autocasts_is_compiled_whole(dtype, tmp_path):
    torch.manual_seed(0)
    module, x = Autocast(dtype).eval(), torch.randn(33, 256)
    with torch.no_grad():
        eager = module(x)
    program = tenon.compile(module, (x,), fallback=False)
    assert program(x).dtype == eager.dtype == torch.float32
    torch.testing.assert_close(program(x), eager, rtol=2e-2, atol=2e-2)
    weights = {shape for kernel in program.kernels for shape in kernel["inputs"] if is_large(shape)}
    name = {torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]
    assert {shape.partition("[")[0] for shape in weights} == {name, "f32"}  # the head's are f32
    program.save(tmp_path / "model.tenon")
    torch.testing.assert_close(tenon.load(tmp_path / "model.tenon", fallback=False)(x), program(x))


def test_training_in_bf16_has_the_gradients_of_eager():
    module, x = made("block", torch.bfloat16)
    gradients = []
    for call in (module, torch.compile(module, backend="tenon", fullgraph=True)):
        module.zero_grad()
        call(x).float().square().mean().backward()
        gradients.append([parameter.grad.double().clone() for parameter in module.parameters()])
    exact = module.double()
    exact.zero_grad()
    exact(x.double()).square().mean().backward()
    for eager, ours, parameter in zip(*gradients, exact.parameters(), strict=True):
        scale = parameter.grad.norm() + 1e-9
        error, allowed = ((each - parameter.grad).norm() / scale for each in (ours, eager))
        assert error <= 2 * allowed + 1e-3
