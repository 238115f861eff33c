"""Trainings in files: what a trainer saves, and what is loaded from it, from Python and from the command line."""

import os
import subprocess
from pathlib import Path

import pytest
import tenon
import torch
from torch import nn
from torch.export import Dim, export, save

TENON = Path(os.environ.get("TENON_CLI", Path(__file__).parents[2] / "build/bin/tenon"))
BATCH = ({0: Dim("batch")},)


class Tied(nn.Module):
    """Uses one weight twice, has statistics, random numbers and a parameter that needs no gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.second.weight = self.first.weight
        self.norm, self.dropout = nn.BatchNorm1d(6), nn.Dropout(0.3)
        self.scale = nn.Parameter(torch.full((6,), 2.0), requires_grad=False)

    def forward(self, x):
        return self.second(self.dropout(self.norm(torch.relu(self.first(x))))) * self.scale


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Tied()


def batches(count=4):
    torch.manual_seed(1)
    return [(torch.randn(8, 6), torch.randint(0, 6, (8,))) for _ in range(count)]


def trainer_of(model, **settings):
    settings = {"loss": "cross_entropy", "optimizer": "adamw(lr=1e-2)", **settings}
    return tenon.compile(model, (torch.zeros(4, 6),), dynamic_shapes=BATCH, train=tenon.Training(**settings))


def types_of(program):
    return {name: (value.dtype, value.shape) for name, value in program.states.items()}


def assert_same(states, others):
    for name, value in others.items():
        assert torch.equal(states[name], value), name


def test_a_file_steps_as_the_trainer_does(model, tmp_path):
    trainer = trainer_of(model)
    trainer.step(*batches()[0][:1], target=batches()[0][1])
    trainer.save(tmp_path / "model.tenon")
    step = tenon.load(tmp_path / "model.tenon")
    assert step.entries == ["step", "evaluate", "predict"]
    for x, y in batches():
        assert torch.equal(step(x, y)[0], trainer.step(x, target=y))
    assert_same(trainer.states, dict(step.states))
    x, y = batches()[0]
    outputs, loss = trainer.eval().forward(x, target=y)
    for given, expected in zip(step.entry("evaluate")(x, y), (outputs, loss), strict=True):
        assert torch.equal(given, expected)
    assert torch.equal(step.entry("predict")(x)[0], outputs)


def test_the_command_line_makes_the_same_file(model, tmp_path):
    trainer_of(model, seed=3).save(tmp_path / "python.tenon")
    save(export(model, (torch.zeros(4, 6),), dynamic_shapes=BATCH), tmp_path / "model.pt2")
    command = ["compile", "model.pt2", "-o", "cli.tenon", "--train", "--loss", "cross_entropy", "--seed", "3"]
    subprocess.run([TENON, *command, "--optimizer", "adamw(lr=1e-2)"], cwd=tmp_path, check=True, capture_output=True)
    ours, theirs = tenon.load(tmp_path / "python.tenon"), tenon.load(tmp_path / "cli.tenon")
    assert types_of(ours) == types_of(theirs)
    assert "first.weight" in types_of(ours)
    assert "second.weight" not in types_of(ours)
    for x, y in batches():
        assert torch.equal(ours(x, y)[0], theirs(x, y)[0])
    assert_same(dict(ours.states), dict(theirs.states))
    assert torch.equal(ours.states["scale"], torch.full((6,), 2.0))


def test_a_step_in_parts(model, tmp_path):
    trainer = trainer_of(model, accumulate=2)
    trainer.save(tmp_path / "model.tenon")
    part = tenon.load(tmp_path / "model.tenon")
    assert part.entries == ["part", "update", "evaluate", "predict"]
    update = part.entry("update")
    for number, (x, y) in enumerate(batches(6)):
        assert torch.equal(part(x, y)[0], trainer.step(x, target=y))
        if number % 2:
            update()
            assert not part.states["gradient.first.weight"].any()
    parameters = {name: part.states[name] for name in trainer.trained}
    assert_same(trainer.states, parameters)
    assert part.states["optimizer.step"] == 3


def test_a_checkpoint_of_a_file_goes_back_into_the_trainer(model, tmp_path):
    trainer = trainer_of(model)
    trainer.save(tmp_path / "model.tenon")
    step = tenon.load(tmp_path / "model.tenon")
    for x, y in batches():
        step(x, y)
    trainer.load_states(dict(step.states))
    for x, y in batches():
        assert torch.equal(step(x, y)[0], trainer.step(x, target=y))


def test_files_for_several_cpus(model, tmp_path):
    trainer_of(model).save(tmp_path / "model.tenon", cpus=["x86-64-v3", "x86-64-v4"])
    told = subprocess.run([TENON, "verify", "model.tenon"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert told.stdout.count("program for step") == 2


def test_training_says_what_does_not_fit(model, tmp_path):
    with pytest.raises(tenon.Error, match="no parameter is called 'third"):
        trainer_of(model, frozen=["third.*"])
    with pytest.raises(tenon.Error, match="missing"):
        trainer_of(model).save(tmp_path / "missing/model.tenon")
