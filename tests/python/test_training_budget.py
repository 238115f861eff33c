"""Budgets of LocalTrainingInstance: less memory, the same training."""

import re

import pytest
import tenon
import torch
import training_models as models
from torch import nn
from torch.testing import assert_close


def classes_of(x, count):
    return torch.randint(count, (x.shape[0],), generator=torch.Generator().manual_seed(5))


def lenet():
    x = torch.randn(16, 1, 16, 16, generator=torch.Generator().manual_seed(2))
    return models.lenet(dropout=0.3), x, classes_of(x, 10)


def gpt2():
    x = torch.randint(61, (4, 16), generator=torch.Generator().manual_seed(2))
    return models.gpt2(), x, torch.randint(61, (64,), generator=torch.Generator().manual_seed(5))


def mlp():
    layers = [layer for _ in range(6) for layer in (nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.2))]
    model = nn.Sequential(*layers, nn.Linear(32, 4))
    x = torch.randn(256, 32, generator=torch.Generator().manual_seed(2))
    return model, x, classes_of(x, 4)


def trainer(make, **options):
    torch.manual_seed(0)
    model, x, y = make()
    settings = {"loss": "cross_entropy", "optimizer": tenon.AdamW(lr=1e-2), "threads": 1, "seed": 3}
    return tenon.LocalTrainingInstance(model, example_inputs=(x,), **settings | options), x, y


def steps(instance, x, y, count=5):
    return torch.stack([instance.step(x, target=y) for _ in range(count)])


def natural(make, **options):
    instance, x, y = trainer(make, **options)
    losses = steps(instance, x, y)
    return instance, losses


def state_bytes(instance, *, gradients=False):
    names = [name for name in instance.states if gradients or not name.startswith("gradient.")]
    return sum(instance.states[name].nbytes for name in names)


def budget_of(free, part):
    """All states, and a part of what else the last call took."""
    states = state_bytes(free)
    return states + int(part * (free.peak_bytes - states))


def least_of(make):
    instance, _, _ = trainer(make)
    with pytest.raises(tenon.Error) as error:
        instance.initialize(1)
    return int(re.search(r"its budget is 1: the least is (\d+)", str(error.value))[1])


@pytest.mark.parametrize("part", [0.9, 0.7, 0.6])
@pytest.mark.parametrize("make", [gpt2, mlp])
def test_a_smaller_budget_trains_the_same(make, part):
    """But for rounding, where a kernel computes again what another one kept. Also with dropout."""
    free, losses = natural(make)
    instance, x, y = trainer(make)
    budget = budget_of(free, part)
    instance.initialize(budget)
    assert_close(steps(instance, x, y), losses, rtol=1e-4, atol=0)
    assert instance.peak_bytes <= budget
    assert instance.memory_report.bytes == instance.peak_bytes
    assert torch.equal(instance.states["random.key"], free.states["random.key"])


@pytest.mark.parametrize("make", [lenet, gpt2, mlp])
def test_the_least_budget_is_named_and_works(make):
    least = least_of(make)
    free, losses = natural(make)
    assert least < free.peak_bytes
    instance, x, y = trainer(make)
    with pytest.raises(tenon.Error, match=f"the least is {least}$"):
        instance.initialize(least - 1)
    instance.initialize(least)
    assert_close(steps(instance, x, y), losses, rtol=1e-3, atol=0)
    assert instance.peak_bytes <= least


def test_a_report_says_what_is_computed_again_and_what_that_costs():
    free, _ = natural(mlp)
    assert free.memory_report is None
    instance, _, _ = trainer(mlp)
    instance.initialize(budget_of(free, 0.7))
    report = instance.memory_report
    assert report.natural_bytes == free.peak_bytes
    assert report.bytes <= report.budget == budget_of(free, 0.7)
    assert 1 < report.work < 1.5
    assert report.recomputed
    for entry in report.recomputed:
        assert entry["ops"]
        assert entry["bytes"] > 0
    text = str(report)
    assert "values are computed again" in text
    assert "MiB" in text
    assert "erf" in text


def test_a_budget_that_is_enough_changes_nothing():
    free, losses = natural(gpt2)
    instance, x, y = trainer(gpt2)
    instance.initialize(free.peak_bytes)
    assert torch.equal(steps(instance, x, y), losses)
    assert instance.memory_report.recomputed == []
    assert "nothing is computed twice" in str(instance.memory_report)


def test_steps_in_parts_fit_too():
    _, losses = natural(mlp, accumulate=2)
    free, x, y = trainer(mlp, accumulate=2)
    free.step(x, target=y)  # a part, without the update
    states = state_bytes(free, gradients=True)
    budget = states + int(0.7 * (free.peak_bytes - states))
    instance, _, _ = trainer(mlp, accumulate=2)
    instance.initialize(budget)
    assert_close(steps(instance, x, y), losses, rtol=1e-4, atol=0)
    assert instance.peak_bytes <= budget


def test_a_budget_is_for_the_largest_batch():
    def dynamic(**options):
        batch = torch.export.Dim("batch", min=2, max=256)
        return trainer(mlp, dynamic_shapes=({0: batch},), **options)

    free, x, y = dynamic()
    losses = [free.step(x[:n], target=y[:n]) for n in (256, 100, 256)]
    instance, x, y = dynamic()
    instance.initialize(budget_of(free, 0.7))
    assert list(instance.memory_report.sizes.values()) == [256]
    for n, loss in zip((256, 100, 256), losses, strict=True):
        assert_close(instance.step(x[:n], target=y[:n]), loss, rtol=1e-4, atol=0)
        assert instance.peak_bytes <= budget_of(free, 0.7)


# ---- forward, backward, update --------------------------------------------------------------------------------------


def calls(instance, x, y):
    """Losses and gradients of three steps, and the most memory of a call."""
    found, peak = [], 0
    for _ in range(3):
        found.append(instance.forward(x, target=y)[1])
        peak = max(peak, instance.peak_bytes)
        gradients = instance.backward()
        peak = max(peak, instance.peak_bytes)
        found += [gradients[name].clone() for name in sorted(gradients)]
        instance.update()
        peak = max(peak, instance.peak_bytes)
    return found, peak


@pytest.mark.parametrize(
    ("make", "part"), [(lenet, 0.9), (gpt2, 0.9), (gpt2, 0.7), (gpt2, 0.5), (mlp, 0.7), (mlp, 0.5)]
)
def test_forward_and_backward_keep_the_budget(make, part):
    """Values between the two count, and are computed again where they do not fit. Also with dropout and batch norms."""
    free, x, y = trainer(make)
    expected, peak = calls(free, x, y)
    states = state_bytes(free, gradients=True)
    budget = states + int(part * (peak - states))
    instance, x, y = trainer(make)
    instance.initialize(budget)
    found, peak = calls(instance, x, y)
    assert peak <= budget
    assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_a_budget_that_cannot_be_kept_names_the_tensors():
    """First by the step. A budget for the step may be too small for the calls one by one, which need gradients."""
    instance, x, y = trainer(mlp)
    with pytest.raises(tenon.Error, match=r"bytes of states \(.*weight \d+ and \d+ others\).*the least is \d+$"):
        instance.initialize(state_bytes(instance) + 1)
    instance.initialize(least_of(mlp))
    with pytest.raises(tenon.Error, match=r"states \(.*values for backward.*the least is \d+$") as error:
        instance.forward(x, target=y)
    least = int(re.search(r"the least is (\d+)", str(error.value))[1])
    other, _, _ = trainer(mlp)
    other.initialize(least)
    _, peak = calls(other, x, y)
    assert peak <= least
