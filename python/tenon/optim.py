"""Optimizers and losses, with the arguments and defaults of PyTorch.

    tenon.AdamW(lr=3e-4, clip_norm=1.0, groups=[{"params": ["*.bias", "norm.*"], "weight_decay": 0.0}])
    tenon.CrossEntropy(label_smoothing=0.1)

Each makes a text that the compiler reads: print one to see it. All optimizers also take

    groups      dicts as torch.optim takes them, with patterns of parameter names (* and ?) as "params"; the first that
                matches counts, and parameters that none matches have the optimizer's own settings
    clip_value  clamps the elements of all gradients
    clip_norm   then scales all gradients so that their common norm is at most this
    schedule    a schedule of tenon.schedules
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tenon._tenon import Loss, Optimizer, fail
from tenon.schedules import Schedule

if TYPE_CHECKING:
    import torch

__all__ = [
    "L1",
    "MSE",
    "NLL",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "BCEWithLogits",
    "CrossEntropy",
    "Lion",
    "Output",
    "RMSprop",
    "from_torch",
    "loss_from_torch",
]

Groups = Iterable[Mapping[str, Any]]


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value) if isinstance(value, bool | int) else repr(float(value))


def _settings(settings: Mapping[str, Any]) -> list[str]:
    return [f"{key}={_value(value)}" for key, value in settings.items() if value is not None]


def _group(group: Mapping[str, Any]) -> str:
    rest = dict(group)
    patterns = rest.pop("params", ())
    if isinstance(patterns, str):
        patterns = [patterns]
    return f"group({', '.join([*(json.dumps(pattern) for pattern in patterns), *_settings(rest)])})"


def _text(
    name: str,
    settings: Mapping[str, Any],
    groups: Groups = (),
    clip_value: float | None = None,
    clip_norm: float | None = None,
    schedule: Schedule | str | None = None,
) -> str:
    common = {"clip_value": clip_value, "clip_norm": clip_norm}
    arguments = [*_settings(settings), *_settings(common)]
    if schedule is not None:
        arguments.append(f"schedule={schedule}")
    return f"{name}({', '.join([*arguments, *map(_group, groups)])})"


class SGD(Optimizer):
    """Stochastic gradient descent: torch.optim.SGD."""

    def __init__(
        self,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **common: Any,
    ) -> None:
        settings = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(_text("sgd", settings, **common))


class Adam(Optimizer):
    """torch.optim.Adam."""

    _name = "adam"

    def __init__(
        self,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **common: Any,
    ) -> None:
        settings = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        super().__init__(_text(self._name, settings, **common))


class AdamW(Adam):
    """Adam with weight decay on the weights: torch.optim.AdamW."""

    _name = "adamw"

    def __init__(
        self,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay, amsgrad, **common)


class Adagrad(Optimizer):
    """torch.optim.Adagrad."""

    def __init__(
        self,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **common: Any,
    ) -> None:
        settings = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "maximize": maximize,
        }
        super().__init__(_text("adagrad", settings, **common))


class RMSprop(Optimizer):
    """torch.optim.RMSprop."""

    def __init__(
        self,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        **common: Any,
    ) -> None:
        settings = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        super().__init__(_text("rmsprop", settings, **common))


class Lion(Optimizer):
    """The sign of an average of gradients (Chen et al., 2023), with decoupled weight decay."""

    def __init__(
        self,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **common: Any,
    ) -> None:
        settings = {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(_text("lion", settings, **common))


# ---- losses ----------------------------------------------------------------------------------------------------------


class Output(Loss):
    """The model's own output, one number, is the loss."""

    def __init__(self) -> None:
        super().__init__("output")


class MSE(Loss):
    """Squared error: torch.nn.MSELoss."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(_text("mse", {"reduction": reduction}))


class L1(Loss):
    """Absolute error: torch.nn.L1Loss."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(_text("l1", {"reduction": reduction}))


class CrossEntropy(Loss):
    """Of logits [N, C, ...] or [C]: torch.nn.CrossEntropyLoss. Targets are classes, or with probabilities=True the
    probabilities of all classes. `weight` has one number for each class."""

    def __init__(
        self,
        weight: Sequence[float] | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        probabilities: bool = False,
    ) -> None:
        settings = {
            "weight": weight,
            "ignore_index": ignore_index,
            "reduction": reduction,
            "label_smoothing": label_smoothing,
            "probabilities": probabilities,
        }
        super().__init__(_text("cross_entropy", settings))


class NLL(Loss):
    """Of log-probabilities [N, C, ...] or [C]; targets are classes: torch.nn.NLLLoss."""

    def __init__(
        self, weight: Sequence[float] | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(_text("nll", {"weight": weight, "ignore_index": ignore_index, "reduction": reduction}))


class BCEWithLogits(Loss):
    """Binary cross entropy of logits: torch.nn.BCEWithLogitsLoss. The weights apply along the last dimension."""

    def __init__(
        self,
        weight: Sequence[float] | None = None,
        reduction: str = "mean",
        pos_weight: Sequence[float] | None = None,
    ) -> None:
        settings = {"weight": weight, "reduction": reduction, "pos_weight": pos_weight}
        super().__init__(_text("bce_with_logits", settings))


# ---- from PyTorch ----------------------------------------------------------------------------------------------------

# Keys of PyTorch's parameter groups that are not settings: how the update is computed, and on what.
_NOT_SETTINGS = {"foreach", "fused", "capturable", "differentiable", "initial_lr", "decoupled_weight_decay"}
_NOT_SETTINGS |= {"params", "param_names"}
_NAMES = {"SGD": "sgd", "Adam": "adam", "AdamW": "adamw", "Adagrad": "adagrad", "RMSprop": "rmsprop"}


def from_torch(
    optimizer: torch.optim.Optimizer,
    module: torch.nn.Module,
    *,
    clip_value: float | None = None,
    clip_norm: float | None = None,
    schedule: Schedule | str | None = None,
) -> Optimizer:
    """Converts a torch.optim optimizer over the parameters of a module, with its settings and groups. Its state is not
    converted: the training starts fresh."""
    kind = type(optimizer).__name__
    if kind not in _NAMES or not type(optimizer).__module__.startswith("torch.optim"):
        fail(f"there is no optimizer for {type(optimizer).__qualname__}: use {', '.join(_NAMES)} of torch.optim")
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    _check_same_parameters(optimizer, module, names)
    groups = []
    for group in optimizer.param_groups:
        settings = {key: value for key, value in group.items() if key not in _NOT_SETTINGS}
        groups.append({"params": [names[id(p)] for p in group["params"]], **settings})
    first, *others = groups
    decoupled = {group.get("decoupled_weight_decay", False) for group in optimizer.param_groups}
    if len(decoupled) > 1:
        fail("decoupled_weight_decay differs between groups: use torch.optim.Adam or AdamW for all")
    name = "adamw" if decoupled == {True} else _NAMES[kind]
    settings = {key: value for key, value in first.items() if key != "params"}
    return Optimizer(_text(name, settings, others, clip_value, clip_norm, schedule))


def _check_same_parameters(optimizer: torch.optim.Optimizer, module: torch.nn.Module, names: dict[int, str]) -> None:
    optimized = {id(p): p for group in optimizer.param_groups for p in group["params"]}
    strangers = [tuple(p.shape) for p in optimized.values() if id(p) not in names]
    if strangers:
        fail(f"the optimizer has parameters that the module does not have, of shapes {strangers}")
    left_out = [names[id(p)] for p in module.parameters() if p.requires_grad and id(p) not in optimized]
    if left_out:
        fail(f"the optimizer does not have {', '.join(left_out)}: requires_grad_(False) keeps parameters as they are")


_LOSSES = {
    "MSELoss": (MSE, ("reduction",)),
    "L1Loss": (L1, ("reduction",)),
    "CrossEntropyLoss": (CrossEntropy, ("weight", "ignore_index", "reduction", "label_smoothing")),
    "NLLLoss": (NLL, ("weight", "ignore_index", "reduction")),
    "BCEWithLogitsLoss": (BCEWithLogits, ("weight", "reduction", "pos_weight")),
}


def loss_from_torch(loss: torch.nn.Module) -> Loss:
    """Converts a loss module of torch.nn."""
    kind = type(loss).__name__
    if kind not in _LOSSES or not type(loss).__module__.startswith("torch.nn"):
        fail(f"there is no loss for {type(loss).__qualname__}: use {', '.join(_LOSSES)} of torch.nn, or loss='output'")
    make, names = _LOSSES[kind]
    values = {name: getattr(loss, name) for name in names}
    return make(**{name: value.tolist() if hasattr(value, "tolist") else value for name, value in values.items()})
