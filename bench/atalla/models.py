"""The models of the bench, with random weights: norms know their data, so that numbers neither vanish nor explode, and
classifiers know ten pictures."""

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from torch import nn

from tests.python import zoo

PT2E = Path(__file__).parents[2] / ".venv/pt2e"  # torchao: python/requirements-pt2e.txt
# Of the last norm of a residual branch, small as in trained networks. With 1, errors of rounding grow from block to
# block, to half of the logits of an int8 ResNet-50.
BRANCH_GAIN = 0.25
PICTURES = 10  # classes of images
CALIBRATION = 4  # inputs that norms and quantization are calibrated with
Args = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Case:
    title: str
    make: Callable[[bool], nn.Module]  # of whether it shall be small
    args: Callable[[bool, int], Args]  # of that, and a seed


def image(seed: int, size: int) -> torch.Tensor:
    """One of ten pictures of random patches, under lines and grains that only this image has."""
    picture, own = (torch.Generator().manual_seed(n) for n in (seed % PICTURES, PICTURES + seed))
    layers = [torch.randn(1, 3, count, count, generator=picture) for count in (2, 7)]
    layers += [torch.randn(1, 3, count, count, generator=own) for count in (size // 4, size)]
    scales = [F.interpolate(layer, size=size, mode="bilinear", align_corners=False) for layer in layers]
    return sum(scales) / len(scales) ** 0.5


@torch.no_grad()
def recognize_pictures(module: nn.Module, size: int) -> None:
    """Makes class n that of picture n. With random weights, what images have in common would decide for all of them."""
    head = [part for part in module.modules() if isinstance(part, nn.Linear)][-1]
    found: list[torch.Tensor] = []
    hook = head.register_forward_pre_hook(lambda _, args: found.append(args[0]))
    for picture in range(PICTURES):
        module(image(picture, size))
    hook.remove()
    features = torch.cat(found)
    head.weight[:PICTURES] = F.normalize(features - features.mean(0), dim=1)
    head.bias.copy_(-head.weight @ features.mean(0))


def classifier(kind: type, config: transformers.PretrainedConfig, size: int, gain: float = 1) -> nn.Module:
    module = zoo.Outputs(zoo.made(kind, config), "logits")
    for part in module.modules():
        if hasattr(part, "shortcut"):
            nn.init.constant_(part.layer[-1].normalization.weight, gain)
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
    with torch.no_grad():
        module.train()
        module(torch.cat([image(seed, size) for seed in range(CALIBRATION)]))
    recognize_pictures(module.eval(), size)
    return module


def resnet50(small: bool) -> nn.Module:
    sizes = {"embedding_size": 8, "hidden_sizes": [32, 64], "depths": [1, 2], "num_labels": 24} if small else {}
    config = transformers.ResNetConfig(**{"num_labels": 1000, **sizes})
    return classifier(transformers.ResNetForImageClassification, config, image_size(small), gain=BRANCH_GAIN)


def mobilenet_v2(small: bool) -> nn.Module:
    sizes = {"depth_multiplier": 0.35, "num_labels": 24} if small else {}
    config = transformers.MobileNetV2Config(**{"num_labels": 1000, **sizes})
    return classifier(transformers.MobileNetV2ForImageClassification, config, image_size(small))


def image_size(small: bool) -> int:
    return 64 if small else 224


def images(small: bool, seed: int) -> Args:
    return (image(1000 + seed, image_size(small)),)


def text(small: bool, seed: int) -> Args:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 30000, (1, 16 if small else 128), generator=generator)
    return ids, torch.ones_like(ids)


CASES = {
    "resnet50": Case("ResNet-50, 224x224", resnet50, images),
    "mobilenet_v2": Case("MobileNetV2, 224x224", mobilenet_v2, images),
    "bert": Case("BERT-base, 128 tokens", lambda small: zoo.bert(small).module, text),
}
DTYPES = ("int8", "bf16")


@dataclass(frozen=True)
class Made:
    """A model in the dtype that is measured, and in f32 as it was made."""

    module: nn.Module
    floats: nn.Module
    dtype: str

    def args(self, args: Args) -> Args:
        return as_dtype(args, torch.bfloat16 if self.dtype == "bf16" else torch.float32)

    def results(self, args: Args) -> list[torch.Tensor]:
        """PyTorch eager's, in the dtype of the model."""
        with torch.no_grad():
            return list(tuple_of(self.module(*self.args(args))))

    def exact(self, args: Args) -> list[torch.Tensor]:
        """The model that was made in f32, in f64. A model in bf16 keeps its rounded weights."""
        with torch.no_grad():
            base = self.floats if self.dtype == "int8" else self.module
            return list(tuple_of(copy.deepcopy(base).double()(*as_dtype(self.args(args), torch.float64))))


def tuple_of(values: torch.Tensor | Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    return values if isinstance(values, (tuple, list)) else (values,)


def as_dtype(args: Args, dtype: torch.dtype) -> Args:
    return tuple(arg.to(dtype) if arg.is_floating_point() else arg for arg in args)


def made(name: str, dtype: str, small: bool) -> Made:
    case = CASES[name]
    floats = case.make(small)
    if dtype == "bf16":
        return Made(copy.deepcopy(floats).bfloat16(), floats, dtype)
    sys.path.append(str(PT2E))
    from tests.python import pt2e

    inputs = [case.args(small, seed) for seed in range(CALIBRATION)]
    return Made(pt2e.quantized(copy.deepcopy(floats), *inputs[0], calibration=inputs[1:]), floats, dtype)
