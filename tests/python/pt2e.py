"""Models quantized by PT2E, small ones."""

import torch
import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


def quantized(module, *inputs, dynamic=False, dynamic_shapes=None, calibration=()):
    """The module as PT2E's eager simulation, calibrated with the inputs, and with more of them."""
    with torch.no_grad():
        captured = torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes).module()
        config = x86.get_default_x86_inductor_quantization_config(is_dynamic=dynamic)
        prepared = prepare_pt2e(captured, x86.X86InductorQuantizer().set_global(config))
        for each in (inputs, *calibration):
            prepared(*each)
        return convert_pt2e(prepared)


class Convolutions(nn.Module):
    """Norms, strides, padding, a residual, groups, relu6 and a classifier."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16)
        self.wide, self.narrow = nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 3, padding=1)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=16)
        self.grouped = nn.Conv2d(16, 24, 3, padding=1, groups=2)
        self.classify = nn.Linear(24, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(x + self.narrow(torch.relu(self.wide(x))))
        x = nn.functional.max_pool2d(x, 2)
        x = self.grouped(nn.functional.relu6(self.depthwise(x)))
        return self.classify(x.mean((2, 3)))


class Layer(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.before(x)
        q, k, v = (part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        attended = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.out(attended)
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


def mlp():
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 33), nn.GELU(), nn.Linear(33, 7))


MODELS = {
    "mlp": lambda: (mlp(), torch.randn(9, 20)),
    "convolutions": lambda: (Convolutions(), torch.randn(2, 3, 20, 20)),
    "layer": lambda: (Layer(), torch.randn(2, 11, 64)),
}


def made(name, dynamic=False):
    torch.manual_seed(0)
    module, x = MODELS[name]()
    return quantized(module, x, dynamic=dynamic), x


class InF64(torch.fx.Interpreter):
    """Runs a quantized model with all floats in f64: integers as they are, sums without rounding."""

    def call_function(self, target, args, kwargs):
        name = str(target)
        if name.startswith("quantized_decomposed.quantize_per_tensor"):
            x, scale, zero_point, low, high, dtype = args
            scaled = (x.float() * torch.tensor(1.0 / float(scale), dtype=torch.float32)).round()  # as the model says
            return torch.clamp(scaled + int(zero_point), low, high).to(dtype)
        if name.startswith("quantized_decomposed.choose_qparams"):
            return super().call_function(target, (args[0].float(), *args[1:]), kwargs)
        if name.startswith("quantized_decomposed.dequantize_per_tensor"):
            x, scale, zero_point = args[:3]
            return (x.double() - int(zero_point)) * float(torch.tensor(float(scale), dtype=torch.float32))
        result = super().call_function(target, args, kwargs)
        is_tensor = isinstance(result, torch.Tensor)
        return result.double() if is_tensor and result.is_floating_point() else result

    def get_attr(self, target, args, kwargs):
        result = super().get_attr(target, args, kwargs)
        is_weight = result.is_floating_point() and "_scale" not in target
        return result.double() if is_weight else result

    def placeholder(self, target, args, kwargs):
        return super().placeholder(target, args, kwargs).double()

    def call_module(self, target, args, kwargs):
        return None if "_guards" in target else super().call_module(target, args, kwargs)


def exact(module, *inputs):
    with torch.no_grad():
        return InF64(module).run(*inputs)
