"""Models of the zoo, and trainings, split at random between the CPU and accelerators/loopback."""

import re
from pathlib import Path

import pytest
import tenon
import torch
from training_models import gpt2, lenet
from zoo import ZOO

from bench import device_layers

LOOPBACK = Path(__file__).parents[2] / "build/accelerators/loopback.so"
HALF = "loopback:claim=0.5,seed=1"


@pytest.fixture(scope="module", autouse=True)
def loopback():
    tenon.load_plugin(str(LOOPBACK))


def results(program, args):
    values = program(*args)
    return list(values) if isinstance(values, (tuple, list)) else [values]


@pytest.mark.parametrize("name", sorted(ZOO))
def test_the_zoo_gives_what_the_cpu_gives(name):
    model = ZOO[name](True)
    program = tenon.compile(model.module, model.args, fallback=False, device=HALF)
    assert {"device", "kernel", "transfer"} <= {task["kind"] for task in program.kernels}
    expected = results(tenon.compile(model.module, model.args, fallback=False), model.args)
    torch.testing.assert_close(results(program, model.args), expected, rtol=1e-3, atol=1e-4)


TRAININGS = {
    "lenet": (lenet, lambda: (torch.randn(8, 1, 16, 16), torch.randint(10, (8,))), "sgd(lr=0.05, momentum=0.9)"),
    "gpt2": (gpt2, lambda: (torch.randint(61, (2, 8)), torch.randint(61, (16,))), "adamw(lr=1e-3)"),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_trainings_go_as_on_the_cpu(name):
    make, draw, optimizer = TRAININGS[name]

    def losses(**where):
        torch.manual_seed(0)
        model = make()
        batches = [draw() for _ in range(3)]
        trainer = tenon.LocalTrainingInstance(
            model, loss="cross_entropy", optimizer=optimizer, example_inputs=(batches[0][0],), **where
        )
        return [float(trainer.step(x, target=y)) for x, y in batches]

    torch.testing.assert_close(losses(device=HALF), losses(), rtol=1e-4, atol=1e-5)


def test_every_second_layer_of_bert(tmp_path):
    """At most two transfers a crossing, and no constant moved twice; `make bench-device-layers` has BERT-base."""
    found = device_layers.measured(True, tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
    crossings, transfers = map(int, re.match(r"(\d+) crossings, (\d+) transfers", found.stdout).groups())
    assert crossings == 2  # into layer 1, and out of it
    assert transfers == 4  # the hidden state and the mask in; the hidden state, and what the pooler reads of it, out
