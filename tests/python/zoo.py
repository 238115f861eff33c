"""Models of the zoo, with random weights, small or full size: what tests, the demo and benchmarks run.

Each is a function of `small` that gives a Model: the module in eval mode, arguments, and how its shapes may vary.
"""

import dataclasses

import torch
import transformers
from torch.export import Dim


@dataclasses.dataclass
class Model:
    module: torch.nn.Module
    args: tuple
    dynamic_shapes: tuple
    other_args: tuple  # of other sizes, within the dynamic shapes


class Outputs(torch.nn.Module):
    """The tensors of a model's output, by name: a tuple instead of transformers' own classes."""

    def __init__(self, model, *names, **options):
        super().__init__()
        self.model, self.names, self.options = model, names, options

    def forward(self, *args):
        result = self.model(*args, **self.options)
        return tuple(getattr(result, name) for name in self.names)


def tokens(batch, length, vocabulary):
    return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(length))


def made(make, config):
    torch.manual_seed(0)
    return make(config).eval()


BATCH, LENGTH = Dim("batch", min=1, max=16), Dim("length", min=2, max=64)


def bert(small):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.BertConfig(**(sizes if small else {}), attn_implementation="sdpa")
    model = Outputs(made(transformers.BertModel, config), "last_hidden_state", "pooler_output")
    text = lambda b, n: (tokens(b, n, config.vocab_size), torch.ones(b, n, dtype=torch.long))  # noqa: E731
    return Model(model, text(2, 24), (({0: BATCH, 1: LENGTH}, {0: BATCH, 1: LENGTH}),), text(3, 17))


def gpt2(small):
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 500}
    config = transformers.GPT2Config(**(sizes if small else {}), use_cache=False, attn_implementation="sdpa")
    model = Outputs(made(transformers.GPT2LMHeadModel, config), "logits")
    return Model(
        model,
        (tokens(2, 24, config.vocab_size),),
        (({0: BATCH, 1: LENGTH},),),
        (tokens(3, 17, config.vocab_size),),
    )


def llama(small):
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 500}
    full = {"hidden_size": 1024, "num_hidden_layers": 8, "intermediate_size": 2816, "vocab_size": 32000}
    config = transformers.LlamaConfig(
        **(sizes if small else full),
        num_attention_heads=8,
        num_key_value_heads=2,
        use_cache=False,
        attn_implementation="sdpa",
    )
    model = Outputs(made(transformers.LlamaForCausalLM, config), "logits")
    return Model(
        model,
        (tokens(2, 24, config.vocab_size),),
        (({0: BATCH, 1: LENGTH},),),
        (tokens(3, 17, config.vocab_size),),
    )


def t5(small):
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 500}
    config = transformers.T5Config(**(sizes if small else {}), use_cache=False)
    model = T5(made(transformers.T5ForConditionalGeneration, config))
    text = lambda b, n: (tokens(b, n, config.vocab_size), tokens(b, 9, config.vocab_size))  # noqa: E731
    return Model(model, text(2, 24), ({0: BATCH, 1: LENGTH}, {0: BATCH}), text(3, 17))


class T5(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, source, target):
        return self.model(input_ids=source, decoder_input_ids=target).logits


def vit(small):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    image = {"image_size": 32, "patch_size": 8} if small else {}
    config = transformers.ViTConfig(**(sizes if small else {}), **image, attn_implementation="sdpa")
    model = Outputs(made(transformers.ViTModel, config), "last_hidden_state")
    size = config.image_size
    return Model(model, (torch.randn(2, 3, size, size),), (({0: BATCH},),), (torch.randn(3, 3, size, size),))


def resnet50(small):
    sizes = {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 2]} if small else {}
    config = transformers.ResNetConfig(**sizes)
    model = Outputs(made(transformers.ResNetModel, config), "last_hidden_state", "pooler_output")
    size = 32 if small else 224
    return Model(model, (torch.randn(2, 3, size, size),), (({0: BATCH},),), (torch.randn(3, 3, size, size),))


def mobilenet_v2(small):
    config = transformers.MobileNetV2Config(**({"depth_multiplier": 0.35} if small else {}))
    model = Outputs(made(transformers.MobileNetV2Model, config), "last_hidden_state", "pooler_output")
    size = 64 if small else 224
    return Model(model, (torch.randn(2, 3, size, size),), (({0: BATCH},),), (torch.randn(3, 3, size, size),))


def whisper(small):
    sizes = {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_source_positions": 50,
        "vocab_size": 500,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 3,
    }
    config = transformers.WhisperConfig(**(sizes if small else {}), use_cache=False, attn_implementation="sdpa")
    model = Whisper(made(transformers.WhisperModel, config))
    frames = 2 * config.max_source_positions
    speech = lambda b: (torch.randn(b, config.num_mel_bins, frames), tokens(b, 9, config.vocab_size))  # noqa: E731
    return Model(model, speech(2), ({0: BATCH}, {0: BATCH}), speech(3))


class Whisper(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, features, target):
        return self.model(input_features=features, decoder_input_ids=target).last_hidden_state


ZOO = {
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "t5": t5,
    "vit": vit,
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
    "whisper": whisper,
}
