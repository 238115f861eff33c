"""Inputs for a model whose kind is not known: guesses, by the names of the parameters of its `forward`.

A recipe makes inputs of a batch and a length. Guesses differ in which inputs there are and in how many dimensions they
have; the first that eager PyTorch accepts is the model's recipe.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .configs import FIRST_SPECIAL

Inputs = dict[str, Any]
Recipe = Callable[[int, int], Inputs]

FRAMES = 8
MOST_PLACEHOLDERS = 256
GRID = 4  # patches down and across, where a model takes pictures as patches
_MISMATCH = re.compile(r"do not match.*?features:?\s*\(?(\d+)", re.DOTALL)


def recipes(model: torch.nn.Module) -> Iterator[Recipe]:
    guess = _Guess(model)
    for pictures in guess.shapes_of("pixel_values"):
        for sounds in guess.sound_shapes():
            for has_mask in (True, False):
                for names in guess.choices():
                    yield guess.recipe(names, pictures, sounds, has_mask)


def with_placeholders(recipe: Recipe, error: Exception, model: torch.nn.Module) -> Iterator[Recipe]:
    """The recipe with as many placeholder tokens as the error of a vision-language model asks for. Some count tokens,
    some their elements."""
    found = _MISMATCH.search(str(error))
    token = _placeholder(model.config)
    has_types = "mm_token_type_ids" in inspect.signature(model.forward).parameters
    if found and token is not None and "input_ids" in recipe(2, 12):
        features = int(found[1]) // 2  # the error is that of a batch of two
        width = _find(model.config, "hidden_size", 1)
        for count in (features // width, features):
            if 0 < count <= MOST_PLACEHOLDERS:
                yield _with_tokens(recipe, token, count, has_types)


def _with_tokens(recipe: Recipe, token: int, count: int, has_types: bool) -> Recipe:
    def complete(batch: int, length: int) -> Inputs:
        inputs = recipe(batch, length)
        added, text = torch.full((batch, count), token), inputs["input_ids"]
        inputs["input_ids"] = torch.cat([text[:, :1], added, text[:, 1:]], 1)
        if "attention_mask" in inputs:
            inputs["attention_mask"] = torch.cat([torch.ones_like(added), inputs["attention_mask"]], 1)
        if has_types:
            inputs["mm_token_type_ids"] = (inputs["input_ids"] == token).long()
        return inputs

    return complete


def _placeholder(config: Any) -> int | None:
    names = ("image_token_id", "image_token_index", "audio_token_id", "audio_token_index", "video_token_id")
    found = (getattr(config, name, None) for name in names)
    return next((token for token in found if isinstance(token, int)), None)


class _Guess:
    def __init__(self, model: torch.nn.Module) -> None:
        self.config = model.config
        self.main = getattr(model, "main_input_name", "input_ids")
        parameters = inspect.signature(model.forward).parameters
        self.names = set(parameters)
        self.required = [
            name
            for name, parameter in parameters.items()
            if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]

    def choices(self) -> Iterator[list[str]]:
        """Which inputs to give: all that there are of text, pictures and sound; then the main one; then text alone."""
        text = ["input_ids"] if "input_ids" in self.names else []
        target = ["decoder_input_ids"] if "decoder_input_ids" in self.names else []
        others = [
            name
            for name in ("pixel_values", "input_features", "input_values", "pixel_values_videos")
            if name in self.names
        ]
        main = [self.main] if self.main in self.names else []
        required = [name for name in self.required if name in _MAKERS]
        seen = []
        for choice in (
            required + main + target,
            required + main,
            required + text + others[:1] + target,
            required + text + others[:1],
            required + text + target,
            required + text,
            required,
        ):
            names = list(dict.fromkeys(choice))
            if names and names not in seen:
                seen.append(names)
        # Both text and pictures are the better test of a model that has both.
        seen.sort(key=lambda names: -len({*names} & {"input_ids", *others}))
        yield from seen
        secondary = [name for name in _SECONDARY if name in self.names and not (text and name == "inputs_embeds")]
        yield list(dict.fromkeys(required + text + others + secondary))

    def recipe(self, names: list[str], picture: Any, sound: Any, has_mask: bool) -> Recipe:
        def make(batch: int, length: int) -> Inputs:
            maker = _Maker(self.config, batch, length, picture, sound)
            inputs = {name: _MAKERS[name](maker) for name in names}
            if has_mask and "input_ids" in names and "attention_mask" in self.names:
                inputs["attention_mask"] = maker.mask()
            if picture and len(picture) == 1 and {"hidden_states", "pixel_values"} & {*names}:
                inputs[_grid_name(self.names)] = maker.grids()
            if has_mask and "bbox" in self.names and "input_ids" in names:
                inputs["bbox"] = maker.boxes()
            return inputs

        return make

    def shapes_of(self, name: str) -> list[Any]:
        if _grid_name(self.names):
            return [(_patch_size(self.config),)]
        if not ({name, "pixel_values_videos"} & self.names) and self.main != name:
            return [None]
        size = _size_of(self.config)
        channels = _find(self.config, "num_channels", 3) or _find(self.config, "in_channels", 3)
        channels = channels if isinstance(channels, int) else 3
        frames = _find(self.config, "num_frames", FRAMES)
        return [(channels, *size), (frames, channels, *size), (1, channels, *size)]

    def sound_shapes(self) -> list[Any]:
        mel = next(
            (found for found in (_find(self.config, name, None) for name in _MELS) if isinstance(found, int)), 80
        )
        frames = _frames(self.config)
        if "input_features" in self.names or self.main == "input_features":
            return [(mel, frames), (frames, mel), (1, mel, frames), (1, frames, mel)]
        if "input_values" in self.names or self.main == "input_values":
            return [(2000,), (1, 2000), (frames, mel), (mel, frames)]
        return [None]


_SECONDARY = (
    "future_values",
    "future_time_features",
    "query_embeds",
    "encoder_hidden_states",
    "input_features_mask",
    "hidden_states",
    "inputs_embeds",
)
_MELS = ("num_mel_bins", "input_feat_per_channel", "feature_size", "mel_bins", "input_dim", "num_mel_filters")


class _Maker:
    """Makes inputs of one batch and length. The same sizes give the same values."""

    def __init__(self, config: Any, batch: int, length: int, picture: Any, sound: Any) -> None:
        self.config, self.batch, self.length, self.picture, self.sound = config, batch, length, picture, sound
        self.generator = torch.Generator().manual_seed(100 * batch + length)

    def tokens(self, length: int | None = None) -> torch.Tensor:
        text = self.config.get_text_config() if hasattr(self.config, "get_text_config") else self.config
        most = min(
            _find(text, "vocab_size", None) or _find(self.config, "vocab_size", None) or FIRST_SPECIAL, FIRST_SPECIAL
        )
        shape = (self.batch, length or self.length)
        return torch.randint(min(5, most - 1), most, shape, generator=self.generator)

    def mask(self) -> torch.Tensor:
        """One text is shorter than the others."""
        mask = torch.ones(self.batch, self.length, dtype=torch.long)
        mask[-1, -2:] = 0
        return mask

    def boxes(self) -> torch.Tensor:
        corner = torch.randint(0, 400, (self.batch, self.length, 2), generator=self.generator)
        return torch.cat([corner, corner + 100], -1)

    @property
    def past(self) -> int:
        """How many steps of a time series a model looks back."""
        return (_find(self.config, "context_length", None) or 8) + max(_find(self.config, "lags_sequence", [0]))

    def series(self) -> torch.Tensor:
        channels = () if _find(self.config, "lags_sequence", None) else (_find(self.config, "num_input_channels", 1),)
        return self.floats(self.past, *channels)

    def pictures(self) -> torch.Tensor:
        if len(self.picture) == 1:  # patches of all pictures in a row
            return torch.randn(self.batch * GRID * GRID, *self.picture, generator=self.generator)
        return self.floats(*self.picture)

    def grids(self) -> torch.Tensor:
        """How many patches each picture has: in time, down and across."""
        return torch.tensor([[1, GRID, GRID]] * self.batch)

    def states(self) -> torch.Tensor:
        if self.picture and len(self.picture) == 1:
            return self.pictures()
        return self.floats(self.length, _find(self.config, "hidden_size", 32))

    def sounds(self) -> torch.Tensor:
        return self.floats(*self.sound)

    def floats(self, *shape: int) -> torch.Tensor:
        return torch.randn(self.batch, *shape, generator=self.generator)


_MAKERS: dict[str, Callable[[_Maker], torch.Tensor]] = {
    "input_ids": lambda maker: maker.tokens(),
    "decoder_input_ids": lambda maker: maker.tokens(maker.length - 3),
    "pixel_values": lambda maker: maker.pictures(),
    "pixel_values_videos": lambda maker: maker.pictures(),
    "input_features": lambda maker: maker.sounds(),
    "input_values": lambda maker: maker.sounds(),
    "bbox": lambda maker: maker.boxes(),
    "attention_mask": lambda maker: maker.mask(),
    "inputs_embeds": lambda maker: maker.floats(maker.length, _find(maker.config, "hidden_size", 32)),
    "hidden_states": lambda maker: maker.states(),
    "encoder_hidden_states": lambda maker: maker.floats(maker.length, _find(maker.config, "encoder_hidden_size", 32)),
    "query_embeds": lambda maker: maker.floats(8, _find(maker.config, "hidden_size", 32)),
    "input_features_mask": lambda maker: torch.ones(maker.batch, _frames(maker.config), dtype=torch.long),
    "past_values": lambda maker: maker.series(),
    "past_time_features": lambda maker: maker.floats(maker.past, _find(maker.config, "num_time_features", 0)),
    "past_observed_mask": lambda maker: torch.ones(maker.batch, maker.past),
    "future_values": lambda maker: maker.floats(_find(maker.config, "prediction_length", 8)),
    "future_time_features": lambda maker: maker.floats(
        _find(maker.config, "prediction_length", 8), _find(maker.config, "num_time_features", 0)
    ),
    "input_points": lambda maker: maker.floats(1, 1, 2).abs(),
}


def _grid_name(names: set[str]) -> str | None:
    return next((name for name in ("image_grid_thw", "grid_thw") if name in names), None)


def _patch_size(config: Any) -> int:
    channels = _find(config, "in_channels", None) or _find(config, "in_chans", None) or _find(config, "num_channels", 3)
    return channels * _find(config, "temporal_patch_size", 1) * _find(config, "patch_size", 14) ** 2


def _frames(config: Any) -> int:
    return 2 * (_find(config, "max_source_positions", None) or 60)


def _size_of(config: Any) -> tuple[int, int]:
    size = _find(config, "image_size", None)
    size = 64 if size is None else size
    return (size, size) if isinstance(size, int) else tuple(size)[-2:]


def _find(config: Any, name: str, default: Any) -> Any:
    """A field of the configuration, or of one of its parts."""
    value = getattr(config, name, None)
    if value is not None:
        return value
    from transformers.configuration_utils import PretrainedConfig

    for part in vars(config).values():
        if isinstance(part, PretrainedConfig):
            value = _find(part, name, None)
            if value is not None:
                return value
    return default
