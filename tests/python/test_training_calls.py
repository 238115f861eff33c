"""Trainings of models with calls that Tenon lacks: PyTorch runs the calls and their gradients, here and from files."""

import subprocess
from pathlib import Path

import pytest
import tenon
import torch
from tenon.capture import host_calls
from torch import nn
from torch.export import Dim, export, save

from tests.python import host_ops, warm

ROOT = Path(__file__).parents[2]
BATCH = ({0: Dim("batch")},)


class Model(nn.Module):
    """Two calls that Tenon lacks: one has a weight and a number, the other results that nothing needs."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 4)
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 6))
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        cubed = torch.ops.tenon_host.cube(self.first(x), self.weight, 0.5)
        scores = self.second(self.dropout(cubed))
        value, place, _ = torch.ops.tenon_host.best(scores, scores.new_ones(()))
        return scores * value[:, None] + place[:, None]


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model()


def batches(count=4):
    torch.manual_seed(1)
    return [(torch.randn(8, 6), torch.randint(0, 4, (8,))) for _ in range(count)]


def trainer_of(model, **settings):
    settings = {"loss": "cross_entropy", "optimizer": "sgd(lr=0.05)", "dynamic_shapes": BATCH, **settings}
    return tenon.LocalTrainingInstance(model, example_inputs=(torch.zeros(4, 6),), **settings)


def losses_of(trainer):
    return [trainer.step(x, target=y).item() for x, y in batches()]


def assert_close(losses, expected):
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected))


def eager_losses(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for x, y in batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_trains_as_eager_does(model):
    model.dropout.p = 0.0
    trainer = trainer_of(model)
    x, y = batches()[0]
    nn.functional.cross_entropy(model(x), y).backward()
    trainer.forward(x, target=y)
    gradients = trainer.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad)
    trainer.zero_grad()
    assert_close(losses_of(trainer), eager_losses(model))
    torch.testing.assert_close(trainer.eval().forward(x)[0], model.eval()(x))


def test_operators_of_pytorch():
    """tanh, as if the registry lacked it."""
    code = """
import tenon, torch
from tests.python.test_training_calls import assert_close, eager_losses, losses_of, nn, trainer_of
tenon.aten.unregister("aten.tanh.default")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 4))
trainer = trainer_of(model)
trainer.enable_profiling()
assert_close(losses_of(trainer), eager_losses(model))
print(*[row["name"] for row in trainer.profile if "tanh" in row["name"]])
"""
    told = warm.run(code, cwd=ROOT, check=True)
    assert told.stdout.split() == ["aten.tanh.default", "gradient.aten.tanh.default"]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_new_process_goes_on_from_the_file(model, tmp_path, accumulate):
    trainer = trainer_of(model, accumulate=accumulate)
    losses_of(trainer)
    path = tmp_path / "model.tenon"
    trainer.save(path)
    entries = {1: "step", 2: "part"}
    code = f"""
import tenon, torch
from tests.python import host_ops
from tests.python.test_training_calls import batches
program = tenon.load({str(path)!r})
assert program.entries[0] == {entries[accumulate]!r}
for number, (x, y) in enumerate(batches()):
    print(program(x, y)[0].item())
    if {accumulate} == 2 and number % 2:
        program.entry("update")()
print(program.entry("evaluate")(*batches()[0])[1].item())
"""
    told = warm.run(code, cwd=ROOT, check=True)
    expected = losses_of(trainer)
    x, y = batches()[0]
    expected.append(trainer.eval().forward(x, target=y)[1].item())
    assert [float(line) for line in told.stdout.split()] == expected


def test_missing_calls_are_one_error_at_load(model, tmp_path):
    trainer_of(model).save(tmp_path / "model.tenon")
    code = f"import tenon; tenon.load({str(tmp_path / 'model.tenon')!r})"
    told = warm.run(code, cwd=ROOT)
    names = ["tenon_host.cube.default", "tenon_host.best.default"]
    names += [f"gradient.{name}" for name in reversed(names)]
    assert told.stderr.endswith("(tenon_register_call):\n  " + "\n  ".join(names) + "\n")


def test_exported_files(model, tmp_path):
    save(export(model, (torch.zeros(4, 6),), dynamic_shapes=BATCH), tmp_path / "model.pt2")
    arguments = {"loss": "cross_entropy", "optimizer": "sgd(lr=0.05)"}
    trainer = tenon.LocalTrainingInstance(tmp_path / "model.pt2", **arguments)
    assert losses_of(trainer) == losses_of(trainer_of(model))
    message = r"fallback=False leaves nothing to PyTorch:\n(.*\n)*.*tenon_host\.best"
    for given in ({"fallback": False}, {"fallback": False, "example_inputs": (torch.zeros(4, 6),)}):
        source = model if "example_inputs" in given else tmp_path / "model.pt2"
        with pytest.raises(tenon.Error, match=message):
            tenon.LocalTrainingInstance(source, **arguments, **given)


def test_the_command_line_has_no_pytorch_and_says_who_has(model, tmp_path):
    source, file = tmp_path / "model.pt2", tmp_path / "model.tenon"
    save(export(model, (torch.zeros(4, 6),), dynamic_shapes=BATCH), source)
    settings = {"loss": "cross_entropy", "optimizer": "sgd(lr=0.05)"}
    command = [ROOT / "build/bin/tenon", "compile", source, "-o", file, "--train"]
    for name, value in settings.items():
        command += [f"--{name}", value]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 1
    assert not file.exists()
    assert "there is no PyTorch here to run them and their gradients" in told.stderr
    assert 'In Python, tenon.LocalTrainingInstance("model.pt2", ...).save("model.tenon") makes a file' in told.stderr
    for name in ("tenon_host.cube.default", "tenon_host.best.default"):
        assert name in told.stderr
    tenon.LocalTrainingInstance(source, **settings).save(file)
    command = [ROOT / "build/bin/tenon", "train", file, "--data", tmp_path / "data.npz"]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 1
    assert "gradient.tenon_host.cube.default" in told.stderr
    assert "tenon_register_call" in told.stderr


class Cubes(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(32, 32) for _ in range(4)])
        self.weight = nn.Parameter(torch.ones(32))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(torch.ops.tenon_host.cube(layer(x).tanh(), self.weight, 0.5)).sin() + x
        return x


def test_a_budget_makes_no_call_again():
    """Values are computed again, results of calls are kept: a call that runs again could give something else."""

    def trained(budget):
        torch.manual_seed(0)
        x = torch.randn(512, 32)
        trainer = tenon.LocalTrainingInstance(Cubes(), loss="mse", optimizer="sgd(lr=0.1)", example_inputs=(x,))
        trainer.initialize(budget)
        host_ops.COUNTS.update(dict.fromkeys(host_ops.COUNTS, 0))
        trainer.forward(x, target=torch.zeros_like(x))
        gradients = {name: value.clone() for name, value in trainer.backward().items()}
        return gradients, trainer.peak_bytes, dict(host_ops.COUNTS)

    expected, needed, _ = trained(None)
    budget = int(needed * 0.72)
    gradients, peak, counts = trained(budget)
    assert peak <= budget
    assert counts == {"cube": 8, "gradient of cube": 4}  # a gradient runs its call again
    for name, value in expected.items():
        torch.testing.assert_close(gradients[name], value)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (torch.ops.tenon_host.noisy, "noisy.default draws random numbers: its gradient would be that of other numbers"),
        (torch.ops.tenon_host.opaque, "no autograd formula was registered"),
        (lambda x: torch.special.hermite_polynomial_h(x, torch.tensor(2)), "PyTorch has no gradient of aten.special_h"),
    ],
)
def test_calls_without_a_gradient(op, message):
    class Once(nn.Linear):
        def forward(self, x):
            return op(super().forward(x))

    trainer = trainer_of(Once(6, 4))
    with pytest.raises(Exception, match=message):
        trainer.step(batches()[0][0], target=batches()[0][1])


def test_calls_whose_gradient_would_be_lost():
    class Spectrum(nn.Linear):
        def forward(self, x):
            return torch.linalg.eigvals(super().forward(x)).abs()

    with pytest.raises(
        tenon.Error, match=r"cannot be trained:\n.*eig.*: it gives a tensor of a dtype that Tenon lacks"
    ):
        tenon.LocalTrainingInstance(
            Spectrum(6, 6), loss="mse", optimizer="sgd(lr=0.05)", example_inputs=(torch.zeros(6, 6),)
        )


@pytest.mark.parametrize(
    "text",
    [
        "(x=%0) -> [%0]",
        "(x=%0, *, gradients=3) -> [%0]",
        "(x=%0, *, gradients=[%7]) -> [%0]",
        "(x=%0, *, gradients=[3]) -> [%0]",
        "(x=%0, *, gradients=[%1]) -> [None, None, %0]",
        "(x=%0, *, gradients=[%1]) -> [%0, %1]",
    ],
)
def test_forms_that_are_no_gradient(text):
    with pytest.raises(tenon.Error, match="the file calls gradient"):
        host_calls.find_call("gradient.aten.relu.default", text, 2, 1)


def test_gradients_of_other_functions_are_not_found():
    for name in ("gradient.aten.relu_.default", "gradient.tenon_host.absent.default", "gradient.math.sqrt"):
        assert host_calls.find_call(name, "(x=%0, *, gradients=[%1]) -> [%0]", 2, 1) is None
