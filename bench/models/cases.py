"""The models of the bench: those of the zoo in their real sizes, and two small ones; in any dtype and batch."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from tests.python import zoo

TOKENS = 128  # of a text
# Engines quantize an int8 model themselves, from f32: see engines.py.
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "int8": torch.float32}


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    make: Callable[[bool], tuple[nn.Module, tuple]]  # of whether it shall be small: the module, and its arguments

    def make_as(self, small: bool, dtype: str, batch: int) -> tuple[nn.Module, tuple]:
        """With weights and arguments of this dtype, and so many times the batch."""
        module, args = self.make(small)
        args = [arg.repeat(batch, *[1] * (arg.dim() - 1)) for arg in args]
        to = DTYPES[dtype]
        return module.to(to), tuple(arg.to(to) if arg.is_floating_point() else arg for arg in args)


class ReluMatmulSoftmax(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x) @ self.weight, dim=-1)


def text(model: Callable, has_mask: bool = False) -> Callable[[bool], tuple[nn.Module, tuple]]:
    def make(small: bool) -> tuple[nn.Module, tuple]:
        module = model(small).module
        ids = zoo.tokens(1, TOKENS, module.model.config.vocab_size)
        return module, (ids, torch.ones_like(ids)) if has_mask else (ids,)

    return make


def image(model: Callable) -> Callable[[bool], tuple[nn.Module, tuple]]:
    def make(small: bool) -> tuple[nn.Module, tuple]:
        made = model(small)
        return made.module, (made.args[0][:1].contiguous(),)

    return make


def mobilenet_v2(small: bool) -> tuple[nn.Module, tuple]:
    """With weights that keep signals as large as they are. Those that Transformers draws shrink them to 1e-21 in the
    last layer, and quantized models give zeros."""
    module, args = image(zoo.mobilenet_v2)(small)
    torch.manual_seed(0)
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return module, args


def mlp(small: bool) -> tuple[nn.Module, tuple]:
    torch.manual_seed(0)
    hidden = 32 if small else 512
    layers = (nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    return nn.Sequential(*layers).eval(), (torch.randn(64, 784),)


def relu_matmul_softmax(_small: bool) -> tuple[nn.Module, tuple]:
    torch.manual_seed(0)
    return ReluMatmulSoftmax().eval(), (torch.randn(4, 8),)


CASES = {
    case.name: case
    for case in (
        Case("bert", "BERT-base, 128 tokens", text(zoo.bert, has_mask=True)),
        Case("gpt2", "GPT-2, 128 tokens", text(zoo.gpt2)),
        Case("llama", "Llama 8x1024 GQA, 128 tokens", text(zoo.llama)),
        Case("vit", "ViT-B/16", image(zoo.vit)),
        Case("resnet50", "ResNet-50", image(zoo.resnet50)),
        Case("mobilenet_v2", "MobileNetV2", mobilenet_v2),
        Case("mlp", "MLP 784-512-512-10, batch 64", mlp),
        Case("relu_matmul_softmax", "relu-matmul-softmax 4x8x16", relu_matmul_softmax),
    )
}
