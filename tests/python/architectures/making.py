"""Makes a small model of an architecture, with inputs that eager PyTorch accepts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto

from .configs import PLANS, small_config
from .inputs import Inputs, Recipe, recipes, with_placeholders

MOST_PARAMETERS = 60_000_000
FIRST, OTHER = (2, 12), (3, 9)  # batch and length


class NotMadeError(Exception):
    """Says why there is no small model of an architecture."""


@dataclass
class Made:
    module: torch.nn.Module
    recipe: Recipe
    other: tuple[int, int]  # the batch and the length of the other inputs: as FIRST where no others are accepted
    is_random: bool  # two runs differ

    @property
    def inputs(self) -> Inputs:
        return self.recipe(*FIRST)

    @property
    def other_inputs(self) -> Inputs:
        return self.recipe(*self.other)


def architectures() -> dict[str, list[str]]:
    """Of each model type the names of its classes, the bare model's first."""
    found: dict[str, list[str]] = {}
    mappings = [name for name in vars(modeling_auto) if name.endswith("MAPPING_NAMES") and name.startswith("MODEL")]
    mappings.sort(key=lambda name: name != "MODEL_MAPPING_NAMES")
    for mapping in mappings:
        for model_type, names in getattr(modeling_auto, mapping).items():
            for name in (names,) if isinstance(names, str) else names:
                if name not in found.setdefault(model_type, []):
                    found[model_type].append(name)
    known = modeling_auto.CONFIG_MAPPING_NAMES
    return {model_type: found[model_type] for model_type in known if model_type in found}


def make(architecture: str) -> Made:
    reasons = []
    for name in architectures()[architecture][:3]:
        for plan in PLANS:
            try:
                return _made(getattr(transformers, name), small_config(architecture, plan))
            except Exception as error:
                reasons.append(first_line(error))
    raise NotMadeError(reasons[0])


def _made(cls: type, config: Any) -> Made:
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in cls(config).parameters())
    if count > MOST_PARAMETERS:
        raise NotMadeError(f"{count / 1e6:.0f} million parameters")
    torch.manual_seed(0)
    module = cls(config).float().eval()
    _vary_constants(module)
    recipe = _accepted(module)
    other = next(sizes for sizes in (OTHER, (OTHER[0], FIRST[1]), FIRST) if _is_accepted(module, recipe, sizes))
    return Made(module, recipe, other, _is_random(module, recipe))


def _vary_constants(module: torch.nn.Module) -> None:
    """A router whose weights are all zero finds all experts equally good: any order of them would be right."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.numel() > 1 and parameter.is_floating_point() and (parameter == parameter.flatten()[0]).all():
                parameter.add_(0.05 * torch.randn_like(parameter))


def _accepted(module: torch.nn.Module) -> Recipe:
    reasons = []
    for recipe in recipes(module):
        try:
            _check(module, recipe)
            return recipe
        except Exception as error:
            reasons.append(error)
            completes = with_placeholders(recipe, error, module)
        for complete in completes:
            try:
                _check(module, complete)
                return complete
            except Exception as error:
                reasons.append(error)
    raise NotMadeError(first_line(reasons[0]) if reasons else f"no inputs for {type(module).__name__}")


def _check(module: torch.nn.Module, recipe: Recipe) -> None:
    results = run(module, recipe(*FIRST))
    if not any(result.is_floating_point() and result.numel() for result in results):
        raise NotMadeError("no tensor of floats among the results")


def _is_accepted(module: torch.nn.Module, recipe: Recipe, sizes: tuple[int, int]) -> bool:
    try:
        run(module, recipe(*sizes))
        return True
    except Exception:
        return sizes == FIRST


def _is_random(module: torch.nn.Module, recipe: Recipe) -> bool:
    first, second = (run(module, recipe(*FIRST), seed) for seed in (1, 2))
    same = [
        a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(first, second, strict=True)
    ]
    return not all(same)


def run(function: Any, inputs: Inputs, seed: int = 0, grad: bool = False) -> list[torch.Tensor]:
    """The tensors that a model gives."""
    torch.manual_seed(seed)
    with contextlib.nullcontext() if grad else torch.no_grad():
        return tensors_of(function(**inputs))


def tensors_of(value: Any) -> list[torch.Tensor]:
    return list(_tensors(value))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for key in value:
            yield from _tensors(value[key])
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
