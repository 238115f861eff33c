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
    budget = int(part * free.peak_bytes)
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
    instance.initialize(int(0.7 * free.peak_bytes))
    report = instance.memory_report
    assert report.natural_bytes == free.peak_bytes
    assert report.bytes <= report.budget == int(0.7 * free.peak_bytes)
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
    budget = int(0.7 * free.peak_bytes)
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
    instance.initialize(int(0.7 * free.peak_bytes))
    assert list(instance.memory_report.sizes.values()) == [256]
    for n, loss in zip((256, 100, 256), losses, strict=True):
        assert_close(instance.step(x[:n], target=y[:n]), loss, rtol=1e-4, atol=0)
        assert instance.peak_bytes <= int(0.7 * free.peak_bytes)
