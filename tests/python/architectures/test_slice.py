"""A part of the architectures of transformers: one of each kind, and quick. `make zoo` runs them all."""

import pytest
import torch

from .judging import in_dtype
from .making import make
from .modes import run_mode

# Of each kind of model one, and the modes that tell most about it.
SLICE = [
    ("bert", "export dynamic"),
    ("deberta-v2", "export"),
    ("gpt_neo", "export dynamic"),
    ("llama", "compile dynamic"),
    ("mamba", "export"),
    ("mixtral", "compile"),
    ("opt", "training"),
    ("t5", "export"),
    ("whisper", "compile"),
    ("clip", "export"),
    ("vit", "compile"),
    ("convnext", "export"),
    ("wav2vec2", "export"),
    ("llava", "export"),
]

HOST = {"mixtral": {"transformers.grouped_mm_fallback.default"}}  # what PyTorch may run


@pytest.mark.parametrize(("architecture", "mode"), SLICE, ids=lambda value: value.replace(" ", "-"))
def test_architecture(architecture, mode):
    outcome = run_mode(make(architecture), mode)
    assert (outcome.kind, outcome.why) == ("ok", "")
    assert outcome.calls > 0
    assert outcome.host.keys() <= HOST.get(architecture, set())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_architecture_in_half_precision(dtype):
    made = in_dtype(make("opt"), dtype)
    assert {parameter.dtype for parameter in made.module.parameters()} == {dtype}
    outcome = run_mode(made, "export")
    assert (outcome.kind, outcome.why, outcome.host) == ("ok", "", {})
