"""Small configurations of the architectures of `transformers`, made by rules on the names of their fields.

A rule knows no architecture, and what it makes small may not fit together: there are several plans, the smallest
configuration first.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from transformers import CONFIG_MAPPING, ResNetConfig, TimmBackboneConfig
from transformers.configuration_utils import PretrainedConfig

VOCABULARY = 128
FIRST_SPECIAL = 100  # ids from here on are those of special tokens: no text has them
HIDDEN, INNER, HEADS, HEAD = 32, 64, 4, 8

_LAYERS = re.compile(
    r"^n_layers?$|^num_self_attends_per_block$|^layers$|^depth$|^num_blocks$|_depth$"
    r"|^(num|n)_(\w+_)?layers?$|^(encoder|decoder|text|vision|audio|entity|poly|postnet|fusion|\w+)_(num_)?(hidden_)?layers$"
)
_NOT_LAYERS = re.compile(
    r"(kv_shared|dense|nextn|mtp|adapter|feat_extract|sparse|shared|residual|lstm|window|conv|upsample)_?(\w*)layers?"
    r"|cross_layer|look_|iou_head_depth|max_depth|return_|image_feature|_every_|vision_feature|mlp_only"
)
_HEADS = re.compile(
    r"^(n_heads?|num_heads|attention_heads|heads)$|_(attention_)?heads$|^num_attention_heads$|_n_heads$"
)
_KEY_HEADS = re.compile(r"num_key_value_heads|n_head_kv|num_kv_heads|kv_heads|key_heads")
_HEAD = re.compile(r"(^|_)head_(dim|size)$|^d_kv$|^dim_head$|_d_head$|^attention_(key|value)_channels$|^kv_channels$")
_HIDDEN = re.compile(
    r"^(dim|d_model|n_embd|emb_dim|d_embed|hidden_dim|embed_dim|embedding_dim|embedding_size|project_dim|width)$"
    r"|(^|_)(hidden|embed|model|projection|proj|embedding|pooler_output|latent|fusion)_(size|dim)$"
    r"|^(out|output|input|text|vision|audio|encoder|decoder|backbone|projector|q|kv)_(hidden_size|dim|lora_rank)$"
    r"|_hidden_(size|dim)$|_embed_dim$|_embedding_size$|_proj_dim$|_projection_dim$|^d_embed$|lora_rank$|^output_dim$"
    r"|^hidden_size_per_layer_input$|^hidden_size_global$|^d_latents$|^lru_width$|^attention_hidden_size$|^time_step_rank$|^dt_rank$"
)
_NOT_HIDDEN = re.compile(r"image_embedding_size|position|frequency|_model_dim_|patch")
_INNER = re.compile(
    r"intermediate|ffn_dim|ffn_hidden|^d_ff$|^n_inner$|mlp_dim|feed_forward_hidden|^ffn_size$|dim_feedforward"
)
_EXPERTS = re.compile(r"^(num_|n_|moe_num_|num_local_|n_routed_|num_routed_)experts$|^num_local_experts$")
_CHOSEN = re.compile(r"experts_per_tok|^moe_top_?k$|^top_?k(_experts)?$|^moe_k$|num_selected_experts")
_GROUPS = re.compile(r"^n_group$|^topk_group$|^num_expert_group$")
_STAGES = re.compile(
    r"^depths$|^layer_depths$|^stage_num(b_of)?_(blocks|layers)$|^stage_numb_of_layers$|^blocks_per_stage$|^block_sizes$|^num_blocks$"
)
_TOKEN = re.compile(r"(token|_bos|_eos|_pad)_?(id|ids|index)$")
_POSITIONS = re.compile(
    r"^(max_position_embeddings|n_positions|max_source_positions|max_target_positions|max_seq_len|n_ctx|context_length)$"
)
_OFF = re.compile(
    r"dropout|drop_rate|drop_path|layerdrop|pdrop|^dropout|mask_time_prob|mask_feature_prob|jitter|noise_std"
)
_WIDTH = re.compile(r"(size|dim|width|channels?|rank|units|embd|d_model|d_ff|d_kv|n_inner)$")
_NOT_WIDTH = re.compile(
    r"vocab|image|patch|kernel|window|position|num_|chunk|block|batch|stride|codebook|crop|input_size"
)
_FILTERS = re.compile(r"^(num|n)_filters$")
_COEFFICIENT = re.compile(r"^(width|depth)_(coefficient|multiplier)$")
_BASE_CHANNELS = re.compile(r"^base_channels$")
_NO_ATTRIBUTE = re.compile(r"'(\w+Config)' object has no attribute '(\w+)'")
_WANTED_VALUE = re.compile(r"requires (\w+)=(\d+)")
_HIDDEN_SIZES = ("hidden_size", "d_model", "n_embd", "dim")
_ATTENTION_HEADS = ("num_attention_heads", "num_heads", "n_heads", "n_head", "encoder_attention_heads")
_PLACES = re.compile(r"(indexes|indices|idxs|_ids|_layers|layer_ids|_index|feature_layer)$")


@dataclasses.dataclass(frozen=True)
class Plan:
    """Which rules a configuration follows."""

    name: str
    widths: str  # "fixed": all the same; "scaled": divided by the same number; "default"
    image: int = 32
    nones: str = "kept"  # fields that are None by default: "kept"; "filled"; "derived", by the configuration itself


PLANS = (
    Plan("narrow", "fixed"),
    Plan("narrow, filled", "fixed", nones="filled"),
    Plan("narrow, derived", "fixed", nones="derived"),
    Plan("narrow, larger images", "fixed", image=64),
    Plan("scaled", "scaled"),
    Plan("scaled, filled", "scaled", nones="filled"),
    Plan("scaled, large images", "scaled", image=224),
    Plan("shallow", "default"),
    Plan("shallow, filled", "default", nones="filled"),
    Plan("shallow, large images", "default", image=224),
)

# Fields that are None by default, and that models need.
_REQUIRED = {
    "num_experts_per_tok": 2,
    "vocab_size": VOCABULARY,
    "prediction_length": 8,
    "mask_token_id": 4,
    "image_token_id": FIRST_SPECIAL,
    "image_token_index": FIRST_SPECIAL,
}

# What the rules cannot know.
SPECIAL: dict[str, dict[str, Any]] = {
    "audio-spectrogram-transformer": {"max_length": 120},
    "esm": {"pad_token_id": 1},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "levit": {"image_size": 128},  # else its last batch norm sees one position, whose gradient is all rounding
}


def small_config(architecture: str, plan: Plan) -> PretrainedConfig:
    default = CONFIG_MAPPING[architecture]()
    for part in parts_of(default):
        part.allow_global_per_layer_attribute_access = True
    try:
        return _small_config(default, plan, SPECIAL.get(architecture, {}))
    except Exception as error:
        wanted = _WANTED_VALUE.search(str(error))
        if not wanted:
            raise
        return _small_config(default, plan, SPECIAL.get(architecture, {}), {wanted[1]: int(wanted[2])})


def _small_config(
    default: PretrainedConfig, plan: Plan, special: dict[str, Any], wanted: dict[str, int] | None = None
) -> PretrainedConfig:
    return type(default)(**(_Changes(plan, wanted or {}).of(default) | special))


def complete_config(config: PretrainedConfig, error: Exception) -> bool:
    """Gives a part of the configuration the attribute that a model misses there. False if that is not the error."""
    found = _NO_ATTRIBUTE.search(str(error)) if isinstance(error, AttributeError) else None
    value = _named_value(found[2], {}, 2) if found else None
    if value is None:
        return False
    for part in parts_of(config):
        if type(part).__name__ == found[1]:
            setattr(part, found[2], value)
    return True


def parts_of(config: PretrainedConfig) -> Iterator[PretrainedConfig]:
    """The configuration and those inside it."""
    yield config
    for part in vars(config).values():
        if isinstance(part, PretrainedConfig):
            yield from parts_of(part)


def _named_value(name: str, values: dict[str, Any], layers: int) -> Any:
    """A value for a field without one, by its name."""
    heads = next((values[other] for other in _ATTENTION_HEADS if _is_int(values.get(other))), HEADS)
    hidden = next((values[other] for other in _HIDDEN_SIZES if _is_int(values.get(other))), HIDDEN)
    for pattern, value in (
        (_OFF, 0.0),
        (_KEY_HEADS, heads),
        (_HEADS, heads),
        (_HEAD, hidden // heads),
        (_EXPERTS, 4),
        (_CHOSEN, 2),
        (_GROUPS, 1),
        (_INNER, INNER),
        (_HIDDEN, hidden),
        (re.compile("^clip_qkv$"), 8.0),
        (re.compile("^layer_types$"), ["full_attention"] * layers),
        (re.compile("^mlp_layer_types$"), ["dense"] + ["sparse"] * (layers - 1)),
        (re.compile("^rope_theta$"), 10000.0),
        (re.compile("^vocabulary_map$"), {"<image>": FIRST_SPECIAL}),
        (re.compile("^sliding_window$"), 4),
        (re.compile("budget$"), 8),
        (re.compile("shared_experts$"), 1),
        (re.compile("compress_ratio|block_size$"), 2),
    ):
        if pattern.search(name):
            return value
    return None


class _Changes:
    """The arguments that make a small configuration of a default one. Token ids are the same in all of its parts."""

    def __init__(self, plan: Plan, wanted: dict[str, int]) -> None:
        self.plan = plan
        self.wanted = wanted  # fields that must have these values
        self._tokens: dict[int, int] = {}

    def of(self, config: PretrainedConfig) -> dict[str, Any]:
        values = {name: getattr(config, name, None) for name in _fields(config)}
        layers, lists = self._layers(values)
        outputs = _outputs(config, values)
        layers = max(layers, len(outputs.get("out_indices", ())))
        changes: dict[str, Any] = dict(lists)
        for name, value in values.items():
            if name in changes:
                continue
            if isinstance(value, PretrainedConfig):
                changes[name] = self._part(value)
                continue
            small = self._value(name, value, values, layers)
            if small is not None and small != value:
                changes[name] = small
        if "use_cache" in values or getattr(config, "use_cache", None):
            changes["use_cache"] = False
        for name in self._derived(config):
            changes.pop(name, None)
        if self.plan.nones != "kept":
            self._fill(changes, values, layers)
        return changes | outputs | {name: value for name, value in self.wanted.items() if name in values}

    def _fill(self, changes: dict[str, Any], values: dict[str, Any], layers: int) -> None:
        for name, value in values.items():
            filled = _named_value(name, values | changes, layers) if value is None and name not in changes else None
            if filled is not None:
                changes[name] = filled

    def _part(self, config: PretrainedConfig) -> PretrainedConfig:
        if isinstance(config, TimmBackboneConfig):  # it needs a library, and has no small form
            return ResNetConfig(
                embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], **_last_stages(config)
            )
        own = {
            name: value
            for name, value in config.to_diff_dict().items()
            if name in _fields(config) and not isinstance(getattr(config, name, None), PretrainedConfig)
        }
        own.pop("transformers_version", None)
        for name in self._derived(config):
            own.pop(name, None)
        return type(config)(**(own | self.of(config)))

    def _derived(self, config: PretrainedConfig) -> list[str]:
        """The fields that the configuration itself gives values, from those of others."""
        if self.plan.nones != "derived":
            return []
        nones = [field.name for field in dataclasses.fields(config) if field.default is None]
        return [name for name in nones if isinstance(getattr(config, name, None), (int, dict))]

    def _layers(self, values: dict[str, Any]) -> tuple[int, dict[str, list[Any]]]:
        """The number of layers, and the lists that name the kind of each: one layer of each kind, two at least."""
        count = _layer_count(values)
        lists = {
            name: list(value)
            for name, value in values.items()
            if isinstance(value, (list, tuple)) and len(value) == count > 2 and _names_layers(name)
        }
        if not lists:
            places = [len(value) for name, value in values.items() if _is_places(name, value) and len(value) != count]
            return max([2, *(min(length, 4) for length in places)]), {}
        kinds = list(dict.fromkeys(map(str, zip(*lists.values(), strict=True))))[:4]
        rows = list(zip(*lists.values(), strict=True))
        chosen = [next(row for row in rows if str(row) == kind) for kind in kinds]
        while len(chosen) < 2:
            chosen.append(chosen[0])
        small = {name: [row[i] for row in chosen] for i, name in enumerate(lists)}
        return len(chosen), {name: type(values[name])(value) for name, value in small.items()}

    def _value(self, name: str, value: Any, values: dict[str, Any], layers: int) -> Any:
        if value is None:
            return _REQUIRED.get(name)
        if isinstance(value, bool):
            return None
        if _OFF.search(name):
            return type(value)(0.0 for _ in value) if isinstance(value, (list, tuple)) else type(value)(0)
        if _TOKEN.search(name):
            return self._token(value)
        if isinstance(value, (list, tuple)):
            return self._list(name, value, values, layers)
        if isinstance(value, dict) and self.plan.widths != "default":
            return _with_small_sections(value, values)
        if isinstance(value, float) and _COEFFICIENT.search(name):
            return min(value, 1.0)
        if not isinstance(value, int) or value <= 2:
            return None
        return self._number(name, value, values, layers)

    def _number(self, name: str, value: int, values: dict[str, Any], layers: int) -> int | None:
        if "vocab" in name and "type" not in name:
            return min(value, VOCABULARY)
        if _LAYERS.search(name) and not _NOT_LAYERS.search(name):
            return min(value, layers)
        if name in ("image_size", "input_size", "img_size"):
            return self._image(values)
        if _POSITIONS.search(name):
            return min(value, 60 if "source" in name else 512)
        if _EXPERTS.search(name):
            return min(value, 4)
        if _CHOSEN.search(name):
            return min(value, 2)
        if _GROUPS.search(name):
            return 1
        if name in ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"):
            return 1
        if name == "hidden_dim" and values.get("width_coefficient"):
            return int(value / values["width_coefficient"])
        if name == "num_kv_shared_layers":
            return 0
        if re.search(r"num_frames|num_queries|num_query_tokens|num_latents|latent_query_num", name):
            return min(value, 8)
        if self.plan.widths == "fixed":
            return self._fixed_width(name, value, values)
        return self._scaled_width(name, value, values) if self.plan.widths == "scaled" else None

    def _scaled_width(self, name: str, value: int, values: dict[str, Any]) -> int | None:
        factor = _factor(values)
        is_width = _WIDTH.search(name) and not _NOT_WIDTH.search(name)
        return value // factor if is_width and value >= 64 and value % factor == 0 else None

    def _fixed_width(self, name: str, value: int, values: dict[str, Any]) -> int | None:
        if _KEY_HEADS.search(name):
            heads = next((values[other] for other in _ATTENTION_HEADS if _is_int(values.get(other))), 0)
            return HEADS if value == heads else min(value, HEADS // 2)
        if _HEADS.search(name):
            return min(value, HEADS)
        if _HEAD.search(name):
            return min(value, HEAD)
        if _INNER.search(name):
            return min(value, INNER)
        if _HIDDEN.search(name) and not _NOT_HIDDEN.search(name):
            return min(value, HIDDEN)
        if _FILTERS.search(name):
            return min(value, 8)
        if _BASE_CHANNELS.search(name):
            return min(value, HIDDEN)
        if name.endswith("_groups") and value == values.get("hidden_size"):  # each channel is a group of its own
            return HIDDEN
        return None

    def _image(self, values: dict[str, Any]) -> int:
        patch = values.get("patch_size")
        if not _is_int(patch):
            return max(self.plan.image, 64)
        return max(self.plan.image, 2 * patch) // patch * patch

    def _list(self, name: str, value: Any, values: dict[str, Any], layers: int) -> Any:
        if not value or not all(_is_int(item) for item in value):
            return None
        make = type(value)
        hidden_sizes = {values.get(other) for other in (*_HIDDEN_SIZES, "encoder_hidden_dim")}
        if _STAGES.search(name):
            return make(1 for _ in value)
        if self.plan.widths == "fixed" and name.endswith("channels") and {*value} <= hidden_sizes:
            return make(HIDDEN for _ in value)
        if name in ("image_size", "img_size") and self.plan.image <= 64:
            return make(self.plan.image if item > 64 else item for item in value)
        if _HEADS.search(name) and self.plan.widths == "fixed":
            return make(min(item, 2) for item in value)
        if _is_places(name, value):
            if len(value) == _layer_count(values) > 2:
                return make(min(item, layers - 1) for item in value[:layers])
            return value if max(value) < layers else _small_places(value, layers)
        return None

    def _token(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self._token(item) for item in value)
        if not _is_int(value) or value < FIRST_SPECIAL:
            return None if not _is_int(value) else value
        return self._tokens.setdefault(value, VOCABULARY - 1 - len(self._tokens) % (VOCABULARY - FIRST_SPECIAL))


def _factor(values: dict[str, Any]) -> int:
    """What makes a head eight wide."""
    hidden = next((values[name] for name in _HIDDEN_SIZES if _is_int(values.get(name))), 0)
    heads = next((values[name] for name in _ATTENTION_HEADS if _is_int(values.get(name))), 0)
    head = values.get("head_dim") or (hidden // heads if heads else 64)
    return max(head // HEAD, 1) if head % HEAD == 0 else 1


def _layer_count(values: dict[str, Any]) -> int:
    names = ("num_hidden_layers", "n_layer", "num_layers")
    return next((values[name] for name in names if _is_int(values.get(name))), 0)


def _last_stages(config: PretrainedConfig) -> dict[str, Any]:
    """As many feature maps as the backbone gives, from the last ones on."""
    count = min(len(config.out_indices or [4]), 4)
    return {"out_features": [f"stage{stage}" for stage in range(5 - count, 5)]}


def _outputs(config: PretrainedConfig, values: dict[str, Any]) -> dict[str, Any]:
    """The feature maps that a backbone gives: where each layer is a stage, one of each of its last layers."""
    stages, outputs = getattr(config, "stage_names", None), getattr(config, "_out_indices", None)
    if not stages or not outputs or outputs == [len(stages) - 1]:
        return {}
    is_layered = len(stages) == (values.get("num_hidden_layers") or 0) + 1
    return {"out_indices": list(range(-len(outputs), 0)) if is_layered else list(outputs)}


def _small_places(places: Any, layers: int) -> Any:
    """The layers that a list names, in the same order among fewer layers."""
    ranks = {place: rank for rank, place in enumerate(sorted(set(places)))}
    first = max(layers - len(ranks), 0)
    return type(places)(min(first + ranks[place], layers - 1) for place in places)


def _with_small_sections(value: dict[str, Any], values: dict[str, Any]) -> dict[str, Any] | None:
    """The sections of a multimodal rotary embedding add up to half of what is rotated of a head. Models have them
    without being told."""
    if "rope_type" not in value:
        return None
    part = value.get("partial_rotary_factor") or values.get("partial_rotary_factor") or 1
    half = int(HEAD * part) // 2
    default = value.get("mrope_section", [])
    first = [1, 1, half - 2] if len(default) == 3 and default[0] == default[1] != default[2] else [half - 2, 1, 1]
    return value | {"mrope_section": first if half >= 2 else [half, 0, 0]}


def _is_places(name: str, value: Any) -> bool:
    is_list = isinstance(value, (list, tuple)) and all(_is_int(item) and item >= 0 for item in value)
    return bool(is_list and value and _PLACES.search(name) and not _TOKEN.search(name))


def _names_layers(name: str) -> bool:
    return name == "layer_types" or not (_STAGES.search(name) or _PLACES.search(name))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _fields(config: PretrainedConfig) -> list[str]:
    return [field.name for field in dataclasses.fields(config) if field.init and not field.name.startswith("_")]
