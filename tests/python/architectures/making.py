"""Makes a small model of an architecture, with inputs that eager PyTorch accepts."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel
from transformers.configuration_utils import PretrainedConfig
from transformers.models.auto import modeling_auto

from .configs import PLANS, complete_config, parts_of, small_config
from .inputs import Inputs, Recipe, recipes, repaired

MOST_PARAMETERS = 60_000_000
MOST_PARTS = 6  # tried, of a model that cannot be made as a whole
MOST_REPAIRS = 6  # of a guess of inputs
MOST_ATTRIBUTES = 4  # that a configuration gets in addition
FIRST, OTHER = (2, 12), (3, 9)  # batch and length

# What fails.
CONFIGURATION, CONSTRUCTOR, INPUTS = STAGES = ("configuration", "constructor", "inputs")
Failure = tuple[str, str]  # what fails, and why


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
    """The whole model; else a part of it."""
    failures: list[Failure] = []
    parts: list[PreTrainedModel] = []
    for name in architectures()[architecture][:3]:
        for config in _configs(architecture, failures):
            try:
                module = _module(_class(name, config), config)
            except Exception as error:
                failures.append((CONSTRUCTOR, first_line(error)))
                continue
            try:
                return _made(module)
            except Exception as error:
                failures.append((INPUTS, first_line(error)))
                parts = parts or _inner_models(module)
    for part in parts or _parts(architecture):
        with contextlib.suppress(Exception):
            return _made(part)
    stage, why = max(failures, key=lambda failure: STAGES.index(failure[0]))  # the first of those that came furthest
    raise NotMadeError(f"{stage}: {why}")


def _configs(architecture: str, failures: list[Failure]) -> Iterator[PretrainedConfig]:
    """Small configurations, each another one."""
    seen: list[dict[str, Any]] = []
    for plan in PLANS:
        try:
            config = small_config(architecture, plan)
        except Exception as error:
            failures.append((CONFIGURATION, first_line(error)))
            continue
        if config.to_dict() not in seen:
            seen.append(config.to_dict())
            yield config


def _class(name: str, config: PretrainedConfig) -> type:
    """Of `transformers`, or of the module beside the configuration's: not all classes are public."""
    if hasattr(transformers, name):
        return getattr(transformers, name)
    return getattr(importlib.import_module(type(config).__module__.replace("configuration_", "modeling_")), name)


def _inner_models(module: torch.nn.Module) -> list[PreTrainedModel]:
    """The models inside a model: its own first, the largest of them first."""
    found = [part for part in module.modules() if isinstance(part, PreTrainedModel) and part is not module]
    found.sort(key=lambda part: (type(part).__module__ != type(module).__module__, -_size(part)))
    return found[:MOST_PARTS]


def _parts(architecture: str) -> Iterator[torch.nn.Module]:
    """Models of the parts of a configuration: text first."""
    config = next(_configs(architecture, []), None)
    found = sorted(parts_of(config), key=lambda part: "Text" not in type(part).__name__) if config else []
    for part in found:
        if part is not config and type(part) in transformers.MODEL_MAPPING:
            with contextlib.suppress(Exception):
                yield _module(transformers.MODEL_MAPPING[type(part)], part)


def _module(cls: type, config: PretrainedConfig) -> torch.nn.Module:
    count = _parameters(cls, config)
    if count > MOST_PARAMETERS:
        raise NotMadeError(f"{count / 1e6:.0f} million parameters")
    torch.manual_seed(0)
    return cls(config).float().eval()


def _parameters(cls: type, config: PretrainedConfig, attempts: int = MOST_ATTRIBUTES) -> int:
    """How many a model has. The configuration gets the attributes that the model misses in it."""
    try:
        with torch.device("meta"):
            return _size(cls(config))
    except AttributeError as error:
        if not (attempts and complete_config(config, error)):
            raise
    return _parameters(cls, config, attempts - 1)


def _size(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _made(module: torch.nn.Module) -> Made:
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
    reasons: list[Exception] = []
    for recipe in recipes(module):
        attempts = [recipe]
        for attempt in attempts:
            try:
                _check(module, attempt)
                return attempt
            except Exception as error:
                reasons.append(error)
                if attempt is recipe or len(attempts) < MOST_REPAIRS:
                    attempts += repaired(attempt, error)
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
    name = "" if isinstance(error, NotMadeError) else f"{type(error).__name__}: "
    return (name + " ".join(str(error).split()))[:200]
