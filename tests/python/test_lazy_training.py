"""Training on device "lazy" gives what eager PyTorch gives on the CPU, and every step runs on Tenon."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import tenon.lazy
import torch

from tests.python import lazy_device
from tests.python.lazy_models import MODELS, OPTIMIZERS, made, step

ROOT = Path(__file__).parents[2]
STEPS = 20


@pytest.fixture(autouse=True)
def lazy_device_of_tenon():
    lazy_device.start()


def trained_on_the_cpu(trained, optimizer_of):
    model = made(trained)
    optimizer = optimizer_of(model.parameters())
    return [step(model, optimizer, x, y).item() for x, y in trained.batches(STEPS)], model


def trained_on_lazy(trained, optimizer_of, after_step=lambda number: None):
    model = made(trained).to("lazy")
    optimizer = optimizer_of(model.parameters())
    losses = []
    for number, (x, y) in enumerate(trained.batches(STEPS)):
        loss = step(model, optimizer, x.to("lazy"), y.to("lazy"))
        tenon.lazy.mark_step()
        losses.append(loss.item())
        after_step(number)
    return losses, model


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_it_trains_as_on_the_cpu(name, optimizer):
    trained, optimizer_of = MODELS[name], OPTIMIZERS[optimizer]
    compiles = []
    losses, model = trained_on_lazy(trained, optimizer_of, lambda _: compiles.append(tenon.lazy.metrics()["compiles"]))
    expected_losses, expected = trained_on_the_cpu(trained, optimizer_of)
    torch.testing.assert_close(losses, expected_losses, rtol=1e-4, atol=1e-5)
    assert losses[-1] != losses[0]
    state = {key: value.cpu() for key, value in model.state_dict().items()}
    torch.testing.assert_close(state, dict(expected.state_dict()), rtol=1e-3, atol=1e-4)
    metrics = tenon.lazy.metrics()
    assert compiles[1:] == [compiles[1]] * (STEPS - 1)
    assert metrics["hits"] >= STEPS - 2
    assert metrics["torchscript_runs"] == 0
    assert metrics["fallbacks"] == {}


def test_a_thousand_learning_rates_are_one_compile_and_no_memory():
    trained = MODELS["mlp"]
    model = made(trained).to("lazy")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    ((x, y),) = [(x.to("lazy"), y.to("lazy")) for x, y in trained.batches(1)]
    compiles, memory = [], []
    for number in range(1000):
        optimizer.param_groups[0]["lr"] = 0.05 / (1 + number)
        step(model, optimizer, x, y)
        tenon.lazy.mark_step()
        compiles.append(tenon.lazy.metrics()["compiles"])
        memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert compiles[1:] == [compiles[1]] * 999  # the first step makes the momentum, and is another graph
    assert memory[-1] - memory[100] < 4 << 10  # KiB
    assert tenon.lazy.metrics()["torchscript_runs"] == 0


def held_during_steps(engine, optimizer):
    """The most bytes that a process of its own holds, of a model that is large beside its programs."""
    settings = ["--width", "1024", "--batch", "4", "--threads", "1", "--optimizer", optimizer]
    command = [sys.executable, "-W", "ignore", "bench/lazy.py", *settings, "--serve", engine]
    environment = {**os.environ, "TENON_CACHE": str(lazy_device.CACHE), "TENON_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, input="memory\n", capture_output=True, text=True, timeout=300, check=True
    )
    return int(done.stdout)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_training_holds_no_more_memory_than_eager(optimizer):
    assert held_during_steps("tenon", optimizer) <= 1.1 * held_during_steps("eager", optimizer)


def test_graphs_that_take_turns_keep_their_memory():
    x = torch.rand(1024, 1024).to("lazy")

    def both():
        for factor in (x, x.t()):
            (torch.relu(x @ factor) @ factor).sum().item()

    for _ in range(3):
        both()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        both()
    pages_of_one = x.numel() * 4 // resource.getpagesize()
    # Eight runs that kept nothing would touch at least eight; the system may take some back by itself.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 4 * pages_of_one


def test_the_learning_rate_of_a_step_is_the_one_that_counts():
    weight = torch.ones(3, device="lazy", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    for rate in (0.5, 0.25, 0.125):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
        tenon.lazy.mark_step()
    assert weight.tolist() == [0.125] * 3
    assert tenon.lazy.metrics()["compiles"] <= 2
