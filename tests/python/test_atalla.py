"""Models on Atalla (accelerators/atalla): layers as tile actions, everything else on the CPU."""

import itertools
from pathlib import Path

import pt2e
import pytest
import tenon
import torch
from torch import nn

ROOT = Path(__file__).parents[2]
BODIES = ("model", "cycles")


@pytest.fixture(scope="module", autouse=True)
def atalla():
    assert tenon.load_plugin(str(ROOT / "build/accelerators/atalla.so")) == "atalla"


def layers(program):
    return sum(task["ops"].count("tile_layer") for task in program.kernels if task["kind"] == "device")


def check(module, *args, count, options=""):
    """Both bodies give the same bits, no further from a run in f64 than twice eager's distance."""
    module = module.to(torch.bfloat16).eval()
    args = [arg.to(torch.bfloat16) for arg in args]
    with torch.no_grad():
        eager = module(*args)
        results = []
        for body in BODIES:
            program = tenon.compile(module, tuple(args), device=f"atalla:body={body}{options}")
            assert layers(program) == count
            results.append(program(*args))
        exact = module.double()(*[arg.double() for arg in args])
    assert torch.equal(*results)
    assert results[0].dtype == eager.dtype
    error, eagers = ((y.double() - exact).norm() / exact.norm() for y in (results[0], eager))
    assert error <= max(2 * eagers, 1e-3)
    return program


def mlp(*sizes):
    torch.manual_seed(0)
    parts = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*parts[:-1])


@pytest.mark.parametrize("rows", [1, 21, 300])
def test_mlp(rows):
    program = check(mlp(40, 100, 33, 7), torch.randn(rows, 40), count=3)
    assert [task["kind"] for task in program.kernels] == ["transfer", "device", "transfer"]


@pytest.mark.parametrize("options", [",size=8,scratchpad=16KiB,accumulators=8KiB", ",size=32", ",size=4,dma_bytes=4"])
def test_other_machines(options):
    check(mlp(40, 100, 33, 7), torch.randn(21, 40), count=3, options=options)


class Block(nn.Module):
    """Of a ResNet. A norm has a weight of 0, as after an initialization."""

    def __init__(self, channels, inner, stride):
        super().__init__()
        outputs = 4 * inner
        self.first = nn.Sequential(nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU())
        self.second = nn.Sequential(
            nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()
        )
        self.third = nn.Sequential(nn.Conv2d(inner, outputs, 1), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Sequential(nn.Conv2d(channels, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        for norm in (part for part in self.modules() if isinstance(part, nn.BatchNorm2d)):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            norm.weight.data.normal_()
            norm.weight.data[3] = 0
            norm.bias.data.normal_()

    def forward(self, x):
        return torch.relu(self.third(self.second(self.first(x))) + self.shortcut(x))


@pytest.mark.parametrize(("channels", "inner", "stride"), [(32, 16, 1), (24, 20, 2)])
def test_residual_block(channels, inner, stride):
    torch.manual_seed(1)
    stem = nn.Sequential(nn.Conv2d(3, channels, 7, 2, 3), nn.Hardtanh(-0.5, 0.75))
    program = check(nn.Sequential(stem, Block(channels, inner, stride)), torch.randn(2, 3, 18, 21), count=5)
    # The image is permuted on its way in, the result on its way out, and nothing between layers.
    assert [task["kind"] for task in program.kernels] == ["kernel", "transfer", "device", "transfer", "kernel"]


def test_dilation_and_padding():
    torch.manual_seed(2)
    check(nn.Conv2d(20, 24, (3, 2), stride=(1, 2), padding=(4, 1), dilation=(2, 3)), torch.randn(1, 20, 6, 9), count=1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(48, 144), nn.Linear(48, 48)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 12).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


def test_attention():
    torch.manual_seed(3)
    check(Attention(), torch.randn(2, 19, 48), count=4)


class Products(nn.Module):
    def forward(self, a, b):
        return torch.softmax(a @ b.transpose(-1, -2), -1) @ b


def test_products_of_activations():
    torch.manual_seed(4)
    check(Products(), torch.randn(3, 9, 21) / 4, torch.randn(3, 17, 21), count=2)


@pytest.mark.parametrize("groups", [2, 3])
def test_groups(groups):
    torch.manual_seed(5)
    check(nn.Conv2d(20 * groups, 17 * groups, 3, padding=1, groups=groups), torch.randn(2, 20 * groups, 7, 6), count=1)


@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 3)])
def test_one_dimension(stride, padding):
    torch.manual_seed(6)
    layers = nn.Conv1d(20, 24, 5, stride, padding), nn.ReLU(), nn.Conv1d(24, 33, 1), nn.BatchNorm1d(33)
    check(nn.Sequential(*layers), torch.randn(2, 20, 21), count=2)


@pytest.mark.parametrize("stride", [2, 3])
def test_pixels_that_are_skipped(stride):
    torch.manual_seed(7)
    check(nn.Conv2d(40, 24, 1, (stride, 2)), torch.randn(2, 40, 11, 8), count=1)


def reasons(program):
    return [reason for node in program.placement for reason in node["declined"].values()]


@pytest.mark.parametrize(
    ("layer", "shape", "reason"),
    [
        (nn.Conv2d(32, 32, 3, groups=32), (1, 32, 6, 6), "groups of 1 channels and 1 outputs"),
        (nn.ConvTranspose2d(16, 16, 3), (1, 16, 6, 6), "transposed convolution"),
        (nn.Conv3d(16, 16, 2), (1, 16, 4, 4, 4), "a convolution over 3 dimensions"),
    ],
    ids=["depthwise", "transposed", "3d"],
)
def test_what_stays_on_the_cpu_says_why(layer, shape, reason):
    x = torch.randn(shape).to(torch.bfloat16)
    program = tenon.compile(layer.to(torch.bfloat16).eval(), (x,), device="atalla")
    assert layers(program) == 0
    assert any(reason in each for each in reasons(program)), reasons(program)


def test_sizes_that_are_not_known_are_declined():
    model, x = mlp(40, 16).to(torch.bfloat16).eval(), torch.randn(5, 40).to(torch.bfloat16)
    program = tenon.compile(model, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},), device="atalla")
    assert layers(program) == 0
    assert any("known before it runs" in each for each in reasons(program)), reasons(program)


def test_models_in_f32_stay_on_the_cpu():
    model, x = mlp(8, 16, 4).eval(), torch.randn(3, 8)
    program = tenon.compile(model, (x,), device="atalla")
    assert layers(program) == 0
    torch.testing.assert_close(program(x), model(x))


def test_files(tmp_path):
    model, x = mlp(40, 64, 8).to(torch.bfloat16).eval(), torch.randn(5, 40).to(torch.bfloat16)
    program = tenon.compile(model, (x,), device="atalla")
    program.save(tmp_path / "model.tenon")
    loaded = tenon.load(tmp_path / "model.tenon", device="atalla")
    assert torch.equal(loaded(x), program(x))
    with pytest.raises(tenon.Error, match="open the device with the same options"):
        tenon.load(tmp_path / "model.tenon", device="atalla:size=8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("body=hw", "accelerators/atalla/body.h"),
        ("body=fast", 'no body "fast"'),
        ("size=12", "size"),
        ("speed=3", "there is no option 'speed'"),
        ("memory=many", "no size up to"),
        ("fast", 'no body "fast"'),
        ("bug=3", "only the body rtl has bugs"),
    ],
)
def test_options(options, message):
    model, x = mlp(8, 4).to(torch.bfloat16).eval(), torch.randn(3, 8).to(torch.bfloat16)
    with pytest.raises(tenon.Error, match=message):
        tenon.compile(model, (x,), device=f"atalla:{options}")


# ---- quantized models (PT2E)


@pytest.mark.parametrize("name", pt2e.MODELS)
def test_quantized_model(name):
    """Sums of bytes are exact. A bias is rounded to a step of the sums: results differ in few steps of quantization."""
    module, x = pt2e.made(name)
    program, other = (tenon.compile(module, (x,), device=f"atalla:body={body}") for body in BODIES)
    assert layers(program) >= 3
    result = program(x)
    assert torch.equal(result, other(x))
    with torch.no_grad():
        eager, exact = module(x), pt2e.exact(module, x)
    error, eagers = ((y.double() - exact).norm() / exact.norm() for y in (result, eager))
    assert error <= max(2 * eagers, 5e-3), (error, eagers)


# ---- rounding: sums and scales that are exact in f32, so that PyTorch's simulation is right in every bit

STEPS = torch.ops.quantized_decomposed


class Requantized(nn.Module):
    """Each output is one input times a scale of its own, plus a residual, cut off, and quantized again."""

    def __init__(self, zero_point, residual_zero_point, dtype, high):
        super().__init__()
        low = 0 if dtype == torch.uint8 else -128
        self.result = (1.0, zero_point, low, low + 255, dtype)
        self.residual_zero_point, self.high = residual_zero_point, high
        self.register_buffer("weights", 4 * torch.eye(16, dtype=torch.int8))
        self.register_buffer("scales", torch.tensor([0.125, 0.25, 0.375, 0.5] * 4))
        self.register_buffer("zeros", torch.zeros(16, dtype=torch.int64))
        self.register_buffer("bias", torch.arange(-8.0, 8) * self.scales)

    def forward(self, x, r):
        x = STEPS.dequantize_per_tensor.default(x, 1.0, 128, 0, 255, torch.uint8)
        w = STEPS.dequantize_per_channel.default(self.weights, self.scales, self.zeros, 0, -128, 127, torch.int8)
        y = nn.functional.linear(x, w, self.bias)
        y = y + STEPS.dequantize_per_tensor.default(r, 0.5, self.residual_zero_point, 0, 255, torch.uint8)
        if self.high is not None:
            y = nn.functional.hardtanh(y, -3.5, self.high)
        return STEPS.quantize_per_tensor.default(y, *self.result)


@pytest.mark.parametrize("high", [None, 2.5, 100.0])
@pytest.mark.parametrize("zero_point", [0, 37, 255, -5])
def test_ties_and_saturation(zero_point, high):
    module = Requantized(zero_point, 3, torch.uint8 if zero_point >= 0 else torch.int8, high)
    x = torch.arange(256, dtype=torch.uint8)[:, None].expand(256, 16).contiguous()
    r = (torch.arange(256 * 16) * 7 % 256).reshape(256, 16).to(torch.uint8)
    results = []
    for body in BODIES:
        program = tenon.compile(module, (x, r), device=f"atalla:body={body}")
        assert layers(program) == 1
        results.append(program(x, r))
    assert torch.equal(*results)
    assert torch.equal(results[0], module(x, r))
