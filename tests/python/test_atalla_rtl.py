"""Models on Atalla's RTL under Verilator. Without Verilator, there is no such body, and these tests skip."""

from pathlib import Path

import pt2e
import pytest
import tenon
import torch
from torch import nn

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def rtl():
    assert tenon.load_plugin(str(ROOT / "build/accelerators/atalla.so")) == "atalla"
    x = torch.ones(2, 2, dtype=torch.bfloat16)
    try:
        tenon.compile(nn.Linear(2, 2).to(torch.bfloat16), (x,), device="atalla:rtl")
    except tenon.Error as error:
        if "verilator was missing" in str(error):
            pytest.skip("verilator is not installed: `make rtl` installs it and builds the body rtl")
        raise


def results_of(module, *args):
    return [tenon.compile(module, args, device=f"atalla:{body}")(*args) for body in ("model", "cycles", "rtl")]


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 20, 3, 2, 1), nn.Conv2d(20, 24, 3, padding=1)
        self.last = nn.Linear(24, 10)

    def forward(self, x):
        y = torch.relu(self.first(x))
        return self.last(torch.relu(self.second(y)).mean((2, 3)))


def test_a_model_in_bf16():
    torch.manual_seed(0)
    model, x = Convolutions().to(torch.bfloat16).eval(), torch.randn(2, 3, 20, 17).to(torch.bfloat16)
    on_model, on_cycles, on_rtl = results_of(model, x)
    assert torch.equal(on_model, on_rtl)
    assert torch.equal(on_model, on_cycles)


@pytest.mark.parametrize("name", sorted(pt2e.MODELS)[:2])
def test_a_quantized_model(name):
    module, x = pt2e.made(name)
    on_model, on_cycles, on_rtl = results_of(module, x)
    assert torch.equal(on_model, on_rtl)
    assert torch.equal(on_model, on_cycles)


def test_a_hanging_rtl_is_a_clear_error():
    """Bug 11: a queue takes a command too many and loses one, so that a token never comes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 24)).to(torch.bfloat16).eval()
    x = torch.randn(20, 40).to(torch.bfloat16)
    program = tenon.compile(model, (x,), device="atalla:rtl,bug=11")
    hangs = r"device atalla: command \d+, \w+ .*: the RTL hangs: no command began or ended in \d+ cycles"
    with pytest.raises(tenon.Error, match=hangs):
        program(x)
    healthy = tenon.compile(model, (x,), device="atalla:rtl")
    assert torch.equal(healthy(x), tenon.compile(model, (x,), device="atalla:model")(x))
