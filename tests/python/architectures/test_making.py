"""Small models and inputs, made by rules: of each rule an architecture that needs it."""

import pytest

from .making import NotMadeError, make
from .modes import Record
from .report import markdown

# The architecture, its class, and the inputs that tell that the rule worked.
MADE = [
    ("ministral", "MinistralModel", {"input_ids"}),  # a field is None by default
    ("dots1", "Dots1Model", {"input_ids"}),
    ("qwen4_exp_text", "Qwen4ExpTextModel", {"input_ids"}),  # a value that an error tells
    ("longcat_flash", "LongcatFlashModel", {"input_ids"}),  # fields that the configuration derives
    ("gemma4_text", "Gemma4TextModel", {"input_ids"}),  # values that differ by layer
    ("moonshine_streaming", "MoonshineStreamingModel", {"input_values"}),  # the configuration lacks an attribute
    ("depth_anything", "DepthAnythingForDepthEstimation", {"pixel_values"}),  # a backbone with four outputs
    ("glm4v_moe", "Glm4vMoeModel", {"pixel_values", "image_grid_thw", "mm_token_type_ids"}),  # places in the text
    ("siglip2_vision_model", "Siglip2VisionModel", {"pixel_values", "spatial_shapes"}),  # patches
    ("kimi_k25_vision", "Kimi_K25VisionModel", {"pixel_values", "grid_thw"}),  # square patches
    ("idefics", "IdeficsModel", {"input_ids", "pixel_values", "image_attention_mask"}),  # inputs beside the main ones
    ("granite_speech5_encoder", "GraniteSpeech5Encoder", {"input_features"}),  # a width that an error tells
    ("vibevoice_acoustic_tokenizer_decoder", "VibeVoiceAcousticTokenizerDecoderModel", {"hidden_states"}),
    ("kyutai_speech_to_text", "KyutaiSpeechToTextModel", {"input_ids"}),  # several tokens at a place
]


@pytest.mark.parametrize(
    ("architecture", "model", "names"), MADE, ids=lambda value: value if isinstance(value, str) else ""
)
def test_architecture_is_made(architecture, model, names):
    made = make(architecture)
    assert type(made.module).__name__ == model
    assert names <= made.inputs.keys()


def test_a_part_is_made_where_the_whole_needs_a_library():
    made = make("gemma3n")
    assert type(made.module).__name__ == "Gemma3nTextModel"


def test_report_groups_the_reasons():
    whys = ["constructor: ImportError: no timm", "inputs: ValueError: 3", "configuration: ValueError: 4"]
    text = markdown([Record(f"model{i}", not_made=why) for i, why in enumerate(whys)], "test")
    assert "### The model needs a library that is not installed: 1" in text
    assert text.index("model0") < text.index("model2") < text.index("model1")


def test_reason_is_that_of_the_attempt_that_came_furthest():
    with pytest.raises(NotMadeError, match=r"^configuration: StrictDataclassClassValidationError"):
        make("gemma4_assistant")
