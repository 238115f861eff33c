"""A part of the architectures of transformers: one of each kind, and quick. `make zoo` runs them all, and `make
zoo-devices` on a device."""

from pathlib import Path

import pytest
import tenon
import torch

from .judging import in_dtype
from .making import make
from .modes import run_mode
from .ways import MODES, modes_on

LOOPBACK = Path(__file__).parents[3] / "build/accelerators/loopback.so"

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
    outcome = run_mode(make(architecture), MODES[mode])
    assert (outcome.kind, outcome.why) == ("ok", "")
    assert outcome.calls > 0
    assert outcome.host.keys() <= HOST.get(architecture, set())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_architecture_in_half_precision(dtype):
    made = in_dtype(make("opt"), dtype)
    assert {parameter.dtype for parameter in made.module.parameters()} == {dtype}
    outcome = run_mode(made, MODES["export"])
    assert (outcome.kind, outcome.why, outcome.host) == ("ok", "", {})


@pytest.mark.parametrize(
    ("architecture", "mode"), [("bert", "export dynamic"), ("vit", "compile"), ("opt", "training")]
)
def test_architecture_on_a_device(architecture, mode):
    """Half of its nodes, chosen at random, run on accelerators/loopback."""
    tenon.load_plugin(str(LOOPBACK))
    outcome = run_mode(make(architecture), modes_on("loopback:claim=0.5,seed=1")[mode])
    assert (outcome.kind, outcome.why, outcome.host) == ("ok", "", {})
