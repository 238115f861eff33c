"""Inputs for a model whose kind is not known: guesses, by the names of the parameters of its `forward`.

A recipe makes inputs of a batch and a length. Guesses differ in which inputs there are and in how many dimensions they
have; the first that eager PyTorch accepts is the model's recipe.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import torch

from .configs import FIRST_SPECIAL

Inputs = dict[str, Any]

FRAMES = 8
SHORT, LONG = 2000, 6400  # waves of sound
MOST_PLACEHOLDERS = 256
MOST_PIXELS = 512  # down and across
GRID = 4  # patches down and across, where a model takes pictures as patches
REGIONS = 6  # of a picture, where a model takes the features of some
_MISMATCH = re.compile(r"do not match.*?features:?\s*\(?(\d+)", re.DOTALL)
_WANTED_WIDTH = re.compile(
    r"shapes cannot be multiplied \(\d+x\d+ and (\d+)x|normalized_shape=\[(\d+)\]|the model expects (\d+)"
    r"|must match the size of tensor b \((\d+)\) at non-singleton dimension 2"
)
_WANTED_CHANNELS = re.compile(r"weight of size \[\d+, \d+, \d+\], expected input\[.*\] to have (\d+) channels")
_WANTED_MULTIPLE = re.compile(r"multiple of (?:(\d+)|[^()]*\((\d+)\))")
_WANTED_SIZE = re.compile(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")


@dataclass(frozen=True)
class Pictures:
    """How a model takes pictures: a tensor of each, or the patches of all in rows, or all in one strip."""

    shape: tuple[int, ...]  # of a picture, or of a patch
    layout: str = "pictures"  # "pictures", "rows", "strip"

    def sizes(self, batch: int) -> tuple[int, ...]:
        if self.layout == "rows":
            return (batch * GRID * GRID, *self.shape)
        if self.layout == "strip":
            return (1, *self.shape[:-1], batch * GRID * GRID * self.shape[-1])
        return (batch, *self.shape)


@dataclass(frozen=True)
class Recipe:
    """Makes inputs of a batch and a length."""

    config: Any
    parameters: frozenset[str]  # of the model's `forward`
    names: tuple[str, ...]  # of the inputs
    pictures: Pictures | None
    sound: tuple[int, ...] | None  # the shape of one
    has_mask: bool
    hidden: tuple[int, ...] | None = None  # the shape of hidden states
    length: int | None = None  # of all texts
    books: tuple[int, ...] = ()  # how many tokens stand at a place of a text, if more than one
    placeholder: int | None = None
    placeholders: int = 0

    def __call__(self, batch: int, length: int) -> Inputs:
        maker = _Maker(self, batch, self.length or length)
        inputs = {name: _MAKERS[name](maker) for name in self.names}
        has_text = "input_ids" in self.names
        if self.has_mask and has_text and "attention_mask" in self.parameters:
            inputs["attention_mask"] = maker.mask()
        if self.pictures and self.pictures.layout == "rows" and {"hidden_states", "pixel_values"} & {*self.names}:
            inputs[_grid_name(self.parameters)] = maker.grids()
        if self.has_mask and has_text and "bbox" in self.parameters:
            inputs["bbox"] = maker.boxes()
        return self._with_placeholders(inputs) if self.placeholders else inputs

    def _with_placeholders(self, inputs: Inputs) -> Inputs:
        text = inputs["input_ids"]
        added = torch.full((len(text), self.placeholders), self.placeholder)
        inputs["input_ids"] = torch.cat([text[:, :1], added, text[:, 1:]], 1)
        if "attention_mask" in inputs:
            inputs["attention_mask"] = torch.cat([torch.ones_like(added), inputs["attention_mask"]], 1)
        for name in self.parameters & {"mm_token_type_ids", "moe_mm_token_type_ids"}:
            inputs[name] = (inputs["input_ids"] == self.placeholder).long()
        return inputs


def recipes(model: torch.nn.Module) -> Iterator[Recipe]:
    """Guesses, those of the most inputs first."""
    guess = _Guess(model)
    for names in guess.choices():
        for pictures in guess.pictures() if {*names} & _PICTURES else [None]:
            for sound in guess.sounds() if {*names} & _SOUNDS else [None]:
                for books in guess.books() if "input_ids" in names else [()]:
                    for has_mask in (True, False) if guess.takes_mask(names) else (False,):
                        yield Recipe(guess.config, guess.names, names, pictures, sound, has_mask=has_mask, books=books)


def repaired(recipe: Recipe, error: Exception) -> Iterator[Recipe]:
    """Recipes with what the error asks for: other sizes, or places in the text for the features of pictures."""
    text = str(error)
    if found := _MISMATCH.search(text):
        yield from _with_places(recipe, int(found[1]) // 2)  # the error is that of a batch of two
    if found := _WANTED_WIDTH.search(text):
        width = int(next(group for group in found.groups() if group))
        if recipe.sound and len(recipe.sound) >= 2:
            yield replace(recipe, sound=(recipe.sound[0], width))
            yield replace(recipe, sound=(_frames(recipe.config), width))
        if recipe.pictures:
            yield replace(recipe, pictures=Pictures((width,), "rows"))
            yield replace(recipe, pictures=Pictures((GRID * GRID, width)))
    if (found := _WANTED_CHANNELS.search(text)) and "hidden_states" in recipe.names:
        channels = int(found[1])
        yield replace(recipe, hidden=(channels, LONG if channels == 1 else GRID))
    if found := _WANTED_MULTIPLE.search(text):
        multiple = int(found[1] or found[2])
        if recipe.sound:
            yield replace(recipe, sound=(*recipe.sound[:-1], 2 * multiple))
            yield replace(recipe, sound=(2 * multiple, *recipe.sound[1:]))
    if found := _WANTED_SIZE.search(text):
        mine, wanted = int(found[1]), int(found[2])
        if recipe.pictures and recipe.pictures.shape[-1] == mine and wanted <= MOST_PIXELS:
            yield replace(recipe, pictures=Pictures((*recipe.pictures.shape[:-2], wanted, wanted)))
        if "input_ids" in recipe.names:
            yield replace(recipe, length=wanted)


def _with_places(recipe: Recipe, features: int) -> Iterator[Recipe]:
    """Some models count tokens, some their elements."""
    token = _placeholder(recipe.config)
    if token is None or "input_ids" not in recipe.names:
        return
    width = _find(recipe.config, "hidden_size", 1)
    for count in (features // width, features):
        if 0 < count <= MOST_PLACEHOLDERS:
            yield replace(recipe, placeholder=token, placeholders=count)


def _placeholder(config: Any) -> int | None:
    names = ("image_token_id", "image_token_index", "audio_token_id", "audio_token_index", "video_token_id")
    found = (getattr(config, name, None) for name in names)
    return next((token for token in found if isinstance(token, int)), None)


class _Guess:
    def __init__(self, model: torch.nn.Module) -> None:
        self.config = model.config
        self.main = getattr(model, "main_input_name", "input_ids")
        parameters = inspect.signature(model.forward).parameters
        self.names = frozenset(parameters)
        self.required = [
            name
            for name, parameter in parameters.items()
            if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]

    def choices(self) -> list[tuple[str, ...]]:
        """Which inputs to give. All of text, pictures and sound is the best test of a model that has them."""
        text = ["input_ids"] if "input_ids" in self.names else []
        target = ["decoder_input_ids"] if "decoder_input_ids" in self.names else []
        media = [name for name in _MEDIA if name in self.names]
        main = [self.main] if self.main in self.names and self.main in _MAKERS else []
        required = [name for name in self.required if name in _MAKERS]
        extras = [name for name in _EXTRAS if name in self.names]
        seen: list[tuple[str, ...]] = []
        for choice in (
            *(required + text + [medium] + more for medium in media for more in (target, [], extras, target + extras)),
            required + main + target,
            required + main,
            required + main + extras,
            required + text + target,
            required + text,
            required + text + extras,
            required,
            required + extras,
            required + text + media + extras + [name for name in _SECONDARY if name in self.names],
        ):
            names = tuple(dict.fromkeys(choice))
            if names and names not in seen:
                seen.append(names)
        seen.sort(key=lambda names: -len({*names} & {"input_ids", *media}))
        return seen

    def takes_mask(self, names: tuple[str, ...]) -> bool:
        return "input_ids" in names and bool({"attention_mask", "bbox"} & self.names)

    def pictures(self) -> list[Pictures]:
        patch = (_patch_size(self.config),)
        channels = _find(self.config, "num_channels", 3) or _find(self.config, "in_channels", 3)
        channels = channels if isinstance(channels, int) else 3
        square = _find(self.config, "patch_size", 14)
        square = square if isinstance(square, int) else 14
        if _grid_name(self.names):
            return [Pictures(patch, "rows"), Pictures((channels, square, square), "rows")]
        size = _size_of(self.config)
        frames = _find(self.config, "num_frames", FRAMES)
        found = [(channels, *size), (frames, channels, *size), (1, channels, *size), (2, channels, *size)]
        return [
            *map(Pictures, dict.fromkeys(found)),
            Pictures((GRID * GRID, *patch)),
            Pictures((channels, square, square), "strip"),
        ]

    def sounds(self) -> list[tuple[int, ...]]:
        found = (_find(self.config, name, None) for name in _MELS)
        mels = [next((mel for mel in found if isinstance(mel, int)), 80), 128]
        frames = _frames(self.config)
        shapes = [shape for mel in dict.fromkeys(mels) for shape in ((mel, frames), (frames, mel))]
        if {"input_features", "audio_mel"} & {*self.names, self.main}:
            return [*shapes, *((1, *shape) for shape in shapes[:2])]
        return [(SHORT,), (1, SHORT), *shapes, (1, LONG)]

    def books(self) -> list[tuple[int, ...]]:
        count = _find(self.config, "num_codebooks", None)
        return [(), (count,), (count + 1,)] if isinstance(count, int) else [()]


_PICTURES = {
    "pixel_values",
    "pixel_values_videos",
    "prompt_pixel_values",
    "hidden_states",
}
_SOUNDS = {"input_features", "input_values", "audio_mel"}
_MEDIA = ("pixel_values", "input_features", "input_values", "pixel_values_videos")
# Inputs that models need beside those, though they need not be given.
_EXTRAS = (
    "actions",
    "image_attention_mask",
    "image_embeds_position_mask",
    "lang_ids",
    "past_values_padding",
    "pixel_attention_mask",
    "pixel_position_ids",
    "returns_to_go",
    "rewards",
    "spatial_shapes",
    "states",
    "target_sizes",
    "timesteps",
    "visual_feats",
    "visual_pos",
)
_SECONDARY = (
    "future_values",
    "future_time_features",
    "query_embeds",
    "encoder_hidden_states",
    "input_features_mask",
    "hidden_states",
)
_MELS = ("num_mel_bins", "input_feat_per_channel", "feature_size", "mel_bins", "input_dim", "num_mel_filters")


class _Maker:
    """Makes inputs of one batch and length. The same sizes give the same values."""

    def __init__(self, recipe: Recipe, batch: int, length: int) -> None:
        self.config, self.recipe, self.batch, self.length = recipe.config, recipe, batch, length
        self.generator = torch.Generator().manual_seed(100 * batch + length)

    def tokens(self, length: int | None = None, books: tuple[int, ...] = ()) -> torch.Tensor:
        text = self.config.get_text_config() if hasattr(self.config, "get_text_config") else self.config
        most = min(
            _find(text, "vocab_size", None) or _find(self.config, "vocab_size", None) or FIRST_SPECIAL, FIRST_SPECIAL
        )
        shape = (self.batch, length or self.length, *books)
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
        is_single = _find(self.config, "lags_sequence", None) or "past_values_padding" in self.recipe.parameters
        return self.floats(self.past, *(() if is_single else (self.find("num_input_channels", 1),)))

    def pictures(self) -> torch.Tensor:
        return torch.randn(*self.recipe.pictures.sizes(self.batch), generator=self.generator)

    def patches(self) -> torch.Tensor:
        """Patches of each picture, after their rows and columns, which count from one."""
        values = self.floats(GRID * GRID, self.find("patch_embed_hidden_size", _patch_size(self.config)))
        return torch.cat([self.places().float() + 1, values], -1)

    def places(self) -> torch.Tensor:
        """The row and the column of each patch."""
        return torch.cartesian_prod(torch.arange(GRID), torch.arange(GRID)).expand(self.batch, -1, -1).clone()

    def grids(self) -> torch.Tensor:
        """How many patches each picture has: in time, down and across."""
        return torch.tensor([[1, GRID, GRID]] * self.batch)

    def sides(self) -> torch.Tensor:
        return torch.tensor([[GRID, GRID]] * self.batch)

    def states(self) -> torch.Tensor:
        if self.recipe.hidden:
            return self.floats(*self.recipe.hidden)
        if self.recipe.pictures and self.recipe.pictures.layout == "rows":
            return self.pictures()
        return self.hidden()

    def hidden(self) -> torch.Tensor:
        return self.floats(self.length, self.find("hidden_size", 32))

    def sounds(self) -> torch.Tensor:
        return self.floats(*self.recipe.sound)

    def frames(self) -> int:
        """Of a sound; the other size counts the features of a frame."""
        sizes = self.recipe.sound or ()
        return max(sizes) if sizes and _frames(self.config) not in sizes else _frames(self.config)

    def image_places(self) -> torch.Tensor:
        mask = torch.zeros(self.batch, self.length, dtype=torch.long)
        mask[:, 1 : 1 + self.find("latent_query_num", 1)] = 1
        return mask

    def floats(self, *shape: int) -> torch.Tensor:
        return torch.randn(self.batch, *shape, generator=self.generator)

    def ones(self, *shape: int, dtype: torch.dtype = torch.long) -> torch.Tensor:
        return torch.ones(self.batch, *shape, dtype=dtype)

    def zeros(self, *shape: int, dtype: torch.dtype = torch.long) -> torch.Tensor:
        return torch.zeros(self.batch, *shape, dtype=dtype)

    def find(self, name: str, default: Any) -> Any:
        return _find(self.config, name, default)


_MAKERS: dict[str, Callable[[_Maker], torch.Tensor]] = {
    "input_ids": lambda maker: maker.tokens(books=maker.recipe.books),
    "decoder_input_ids": lambda maker: maker.tokens(maker.length - 3),
    "qformer_input_ids": lambda maker: maker.tokens(),
    "classes_input_ids": lambda maker: maker.tokens(),
    "tasks_input_ids": lambda maker: maker.tokens(),
    "task_inputs": lambda maker: maker.tokens(maker.find("task_seq_len", None)),
    "classes_attention_mask": lambda maker: maker.ones(maker.length),
    "tasks_attention_mask": lambda maker: maker.ones(maker.length),
    "classes_structure": lambda maker: maker.ones(),
    "lang_ids": lambda maker: maker.zeros(),
    "pixel_values": lambda maker: maker.pictures(),
    "pixel_values_videos": lambda maker: maker.pictures(),
    "prompt_pixel_values": lambda maker: maker.pictures(),
    "prompt_masks": lambda maker: maker.pictures(),
    "pixel_attention_mask": lambda maker: maker.ones(GRID * GRID),
    "pixel_position_ids": lambda maker: maker.places(),
    "spatial_shapes": lambda maker: maker.sides(),
    "target_sizes": lambda maker: maker.sides(),
    "merge_sizes": lambda maker: maker.ones(),
    "flattened_patches": lambda maker: maker.patches(),
    "image_attention_mask": lambda maker: maker.ones(maker.length, 1),
    "image_embeds_position_mask": lambda maker: maker.image_places(),
    "visual_feats": lambda maker: maker.floats(REGIONS, maker.find("visual_feat_dim", 32)),
    "visual_pos": lambda maker: maker.floats(REGIONS, maker.find("visual_pos_dim", 4)),
    "input_features": lambda maker: maker.sounds(),
    "input_values": lambda maker: maker.sounds(),
    "audio_mel": lambda maker: maker.sounds(),
    "audio_mel_mask": lambda maker: maker.zeros(maker.recipe.sound[0], dtype=torch.bool),
    "input_features_mask": lambda maker: maker.ones(maker.frames()),
    "bbox": lambda maker: maker.boxes(),
    "attention_mask": lambda maker: maker.mask(),
    "inputs": lambda maker: maker.floats(maker.length, maker.find("d_model", 32)),
    "inputs_embeds": lambda maker: maker.hidden(),
    "hidden_states": lambda maker: maker.states(),
    "context_hidden_states": lambda maker: maker.hidden(),
    "noise_embeds": lambda maker: maker.hidden(),
    "action_embeds": lambda maker: maker.hidden(),
    "latents": lambda maker: maker.floats(maker.find("hidden_size", 32), maker.length),
    "encoder_hidden_states": lambda maker: maker.floats(maker.length, maker.find("encoder_hidden_size", 32)),
    "query_embeds": lambda maker: maker.floats(8, maker.find("hidden_size", 32)),
    "past_values": lambda maker: maker.series(),
    "past_values_padding": lambda maker: maker.zeros(maker.past),
    "freq": lambda maker: maker.zeros(1),
    "past_time_features": lambda maker: maker.floats(maker.past, maker.find("num_time_features", 0)),
    "past_observed_mask": lambda maker: maker.ones(maker.past, dtype=torch.float),
    "future_values": lambda maker: maker.floats(maker.find("prediction_length", 8)),
    "future_time_features": lambda maker: maker.floats(
        maker.find("prediction_length", 8), maker.find("num_time_features", 0)
    ),
    "input_points": lambda maker: maker.floats(1, 1, 2).abs(),
    "states": lambda maker: maker.floats(maker.length, maker.find("state_dim", 17)),
    "actions": lambda maker: maker.floats(maker.length, maker.find("act_dim", 4)),
    "rewards": lambda maker: maker.floats(maker.length, 1),
    "returns_to_go": lambda maker: maker.floats(maker.length, 1),
    "timesteps": lambda maker: torch.arange(maker.length).expand(maker.batch, -1).clone(),
}


def _grid_name(names: AbstractSet[str]) -> str | None:
    return next((name for name in ("image_grid_thw", "grid_thw") if name in names), None)


def _patch_size(config: Any) -> int:
    channels = _find(config, "in_channels", None) or _find(config, "in_chans", None) or _find(config, "num_channels", 3)
    patch = _find(config, "patch_size", 14)
    return channels * _find(config, "temporal_patch_size", 1) * (patch if isinstance(patch, int) else 14) ** 2


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
