"""LocalTrainingInstance against PyTorch: the same weights and batches, step by step."""

import copy
import statistics
import threading

import pytest
import tenon
import torch
import training_models as models
from torch import nn
from torch.testing import assert_close

STEPS, RUNS = 20, 3


# ---- against float64 ------------------------------------------------------------------------------------------------


def eager_steps(model, make_optimizer, loss, batches):
    """Parameters, optimizer states and losses after steps of PyTorch's own."""
    model = copy.deepcopy(model).train()
    optimizer = make_optimizer(model.parameters())
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        losses.append(value.detach())
    names = {parameter: name for name, parameter in model.named_parameters()}
    found = {name: value.detach() for name, value in model.state_dict().items()}
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            if key != "step" and isinstance(value, torch.Tensor):
                found[f"optimizer.{key}.{names[parameter]}"] = value
    return found | {"losses": torch.stack(losses)}


def tenon_steps(model, optimizer, loss, batches):
    trainer = tenon.LocalTrainingInstance(model, loss=loss, optimizer=optimizer, example_inputs=(batches[0][0],))
    losses = [trainer.step(x, target=y) for x, y in batches]
    return trainer.state_dict() | trainer.states | {"losses": torch.stack(losses)}


def in_double(model, batches):
    wide = [tuple(t.double() if t.is_floating_point() else t for t in batch) for batch in batches]
    return copy.deepcopy(model).double(), wide


def norm(values):
    return values.double().square().mean().sqrt()


def assert_as_exact_as_eager(make, make_batches, loss, torch_loss, make_optimizer, optimizer):
    """Relative errors against float64, the median of a few runs: at most twice those of PyTorch's float32, for every
    tensor. The median, because a relu that falls on the other side of 0 makes a large error by chance; and where
    PyTorch happens to be nearly exact for a tensor of a few elements, what its tensors have in general counts."""
    ours, theirs = {}, {}
    for seed in range(RUNS):
        torch.manual_seed(seed)
        model, batches = make(), make_batches()
        wide_model, wide_batches = in_double(model, batches)
        exact = eager_steps(wide_model, make_optimizer, torch_loss, wide_batches)
        eager = eager_steps(model, make_optimizer, torch_loss, batches)
        found = tenon_steps(model, optimizer, loss, batches)
        for name, value in exact.items():
            if not value.is_floating_point():
                assert torch.equal(found[name], value), name
            elif norm(value) > 0:
                ours.setdefault(name, []).append(norm(found[name] - value) / norm(value))
                theirs.setdefault(name, []).append(norm(eager[name] - value) / norm(value))
    theirs = {name: statistics.median(errors) for name, errors in theirs.items()}
    level = statistics.median(theirs.values())
    for name, errors in ours.items():
        assert statistics.median(errors) <= 2 * max(theirs[name], level), name


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=1e-3)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)


def test_mlp():
    def batches():
        return [(torch.randn(10, 16), torch.randn(10, 1)) for _ in range(STEPS)]

    ours = tenon.SGD(lr=1e-3, momentum=0.9, weight_decay=1e-3)
    assert_as_exact_as_eager(models.mlp, batches, "mse", nn.functional.mse_loss, sgd, ours)


@pytest.mark.parametrize("model", ["lenet", "resnet"])
def test_images(model):
    def batches():
        return [(torch.randn(8, 1, 16, 16), torch.randint(10, (8,))) for _ in range(STEPS)]

    loss = nn.functional.cross_entropy
    ours = tenon.SGD(lr=1e-3, momentum=0.9, weight_decay=1e-3)
    assert_as_exact_as_eager(getattr(models, model), batches, "cross_entropy", loss, sgd, ours)


def test_gpt2():
    def batches():
        return [(torch.randint(61, (2, 16)), torch.randint(61, (2 * 16,))) for _ in range(STEPS)]

    loss = nn.functional.cross_entropy
    assert_as_exact_as_eager(models.gpt2, batches, "cross_entropy", loss, adamw, tenon.AdamW(lr=1e-3))


# ---- a step in parts ------------------------------------------------------------------------------------------------


def mlp_trainer(model=None, **options):
    torch.manual_seed(0)
    settings = {"loss": "mse", "optimizer": tenon.SGD(lr=0.1), "example_inputs": (torch.randn(10, 16),)}
    return tenon.LocalTrainingInstance(model or models.mlp(), **settings | options)


def batch(seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(10, 16, generator=generator), torch.randn(10, 1, generator=generator)


def test_forward_backward_and_update_are_a_step():
    model = models.mlp()
    whole, parts = mlp_trainer(model), mlp_trainer(model)
    for seed in range(3):
        x, y = batch(seed)
        loss = whole.step(x, target=y)
        outputs, same = parts.forward(x, target=y)
        gradients = parts.backward()
        parts.update()
        assert_close(same, loss)
        assert outputs.shape == (10, 1)
        assert gradients.keys() == dict(model.named_parameters()).keys()
    assert_close(parts.state_dict(), whole.state_dict())


def test_gradients_are_pytorchs_and_add_up():
    model = models.mlp()
    trainer = mlp_trainer(model)
    (x, y), (u, v) = batch(1), batch(2)
    trainer.forward(x, target=y)
    first = {name: value.clone() for name, value in trainer.backward().items()}
    nn.functional.mse_loss(model(x), y).backward()
    assert_close(first, {name: value.grad for name, value in model.named_parameters()})
    trainer.forward(u, target=v)
    both = trainer.backward()
    nn.functional.mse_loss(model(u), v).backward()
    assert_close(both, {name: value.grad for name, value in model.named_parameters()})
    trainer.zero_grad()
    trainer.forward(x, target=y)
    assert_close(trainer.backward(), first)


def test_a_step_in_two_parts_is_one_of_their_mean():
    model = models.mlp()
    whole, parts = mlp_trainer(model), mlp_trainer(model, accumulate=2)
    (x, y), (u, v) = batch(1), batch(2)
    parts.step(x, target=y)
    assert_close(parts.state_dict(), whole.state_dict(), rtol=0, atol=0)  # nothing has happened yet
    parts.step(u, target=v)
    trainer = mlp_trainer(model, example_inputs=(torch.randn(20, 16),))
    trainer.step(torch.cat([x, u]), target=torch.cat([y, v]))
    assert_close(parts.state_dict(), trainer.state_dict())


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (["backward"], "backward() needs a forward()"),
        (["forward", "backward", "backward"], "backward() needs a forward()"),
        (["update"], "update() needs gradients"),
        (["forward", "update"], "update() needs gradients"),
        (["forward", "backward", "update", "update"], "update() needs gradients"),
        (["step", "initialize"], "initialize() comes first"),
        (["eval", "step"], "step() is for training"),
        (["eval", "backward"], "backward() is for training"),
    ],
)
def test_calls_out_of_order_are_errors(calls, message):
    trainer = mlp_trainer()
    x, y = batch()
    takes = {"forward": {"target": y}, "step": {"target": y}}

    def call(name):
        getattr(trainer, name)(*((x,) if name in takes else ()), **takes.get(name, {}))

    for name in calls[:-1]:
        call(name)
    before = trainer.state_dict()
    with pytest.raises(tenon.Error, match=message.replace("(", r"\(").replace(")", r"\)")):
        call(calls[-1])
    assert_close(trainer.state_dict(), before, rtol=0, atol=0)


# ---- modes, states --------------------------------------------------------------------------------------------------


def test_running_statistics_and_modes():
    torch.manual_seed(0)
    model, x, y = models.lenet(), torch.randn(8, 1, 16, 16), torch.randint(10, (8,))
    trainer = tenon.LocalTrainingInstance(model, loss="cross_entropy", optimizer=tenon.SGD(lr=0.1), example_inputs=(x,))
    trainer.step(x, target=y)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    assert_close(trainer.state_dict(), dict(model.state_dict()))
    before = trainer.state_dict()
    outputs, loss = trainer.eval().forward(x, target=y)
    model.eval()
    assert_close(outputs, model(x).detach())
    assert_close(loss, nn.functional.cross_entropy(model(x), y).detach())
    assert_close(trainer.forward(x)[0], outputs)
    assert trainer.forward(x)[1] is None
    assert_close(trainer.state_dict(), before, rtol=0, atol=0)


def test_state_dict_goes_both_ways():
    model = models.lenet()
    x = torch.randn(8, 1, 16, 16)
    settings = {"loss": "cross_entropy", "optimizer": tenon.SGD(lr=0.1), "example_inputs": (x,)}
    trainer = tenon.LocalTrainingInstance(model, **settings)
    trainer.step(x, target=torch.randint(10, (8,)))
    other = models.lenet()
    other.load_state_dict(trainer.state_dict())
    second = tenon.LocalTrainingInstance(models.lenet(), **settings)
    second.load_state_dict(other.state_dict())
    assert_close(second.state_dict(), trainer.state_dict(), rtol=0, atol=0)
    with pytest.raises(tenon.Error, match=r"lacks '1.bias'"):
        second.load_state_dict({name: value for name, value in other.state_dict().items() if name != "1.bias"})
    with pytest.raises(tenon.Error, match=r"state '1.bias' is f32\[6\], got f32\[3\]"):
        second.load_state_dict(other.state_dict() | {"1.bias": torch.zeros(3)})


def test_tied_weights_are_one_parameter():
    torch.manual_seed(0)
    model = models.gpt2()
    x, y = torch.randint(61, (2, 16)), torch.randint(61, (32,))
    trainer = tenon.LocalTrainingInstance(model, loss="cross_entropy", optimizer=tenon.SGD(lr=0.1), example_inputs=(x,))
    trainer.forward(x, target=y)
    gradients = trainer.backward()
    nn.functional.cross_entropy(model(x), y).backward()
    assert_close(gradients, {name: value.grad for name, value in model.named_parameters()})
    model.load_state_dict(trainer.state_dict())


def test_frozen_parameters_stay():
    model = models.mlp()
    model[0].weight.requires_grad_(False)
    trainer = mlp_trainer(model, frozen=["2.*"])
    before = trainer.state_dict()
    x, y = batch()
    trainer.step(x, target=y)
    after = trainer.state_dict()
    assert trainer.trained == ["0.bias"]
    assert [name for name in after if not torch.equal(before[name], after[name])] == ["0.bias"]
    with pytest.raises(tenon.Error, match=r"no parameter is called 'encoder.\*'"):
        mlp_trainer(frozen=["encoder.*"])


def test_dropout_differs_from_step_to_step_and_repeats_with_its_seed():
    def losses(seed):
        torch.manual_seed(0)
        trainer = tenon.LocalTrainingInstance(
            models.lenet(dropout=0.5),
            loss="cross_entropy",
            optimizer=tenon.SGD(lr=0.0),
            example_inputs=(torch.randn(8, 1, 16, 16),),
            seed=seed,
        )
        x, y = torch.randn(8, 1, 16, 16), torch.randint(10, (8,))
        return [trainer.step(x, target=y).item() for _ in range(4)]

    assert losses(1) == losses(1)
    assert len(set(losses(1))) == 4
    assert losses(1) != losses(2)


def test_dropout_has_its_rate_and_scale():
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Dropout(0.25), nn.Flatten(0))
    nn.init.ones_(model[0].weight)
    x = torch.ones(20000, 1)
    trainer = tenon.LocalTrainingInstance(model, loss="mse", optimizer=tenon.SGD(lr=0.0), example_inputs=(x,), seed=3)
    outputs, _ = trainer.forward(x, target=torch.zeros(20000))
    kept = outputs != 0
    assert kept.double().mean().item() == pytest.approx(0.75, abs=0.02)
    assert_close(outputs[kept], torch.full_like(outputs[kept], 1 / 0.75))


def test_profiling_changes_no_bit():
    plain, profiled = mlp_trainer(), mlp_trainer()
    profiled.enable_profiling()
    for seed in range(3):
        x, y = batch(seed)
        assert torch.equal(plain.step(x, target=y), profiled.step(x, target=y))
    assert_close(profiled.state_dict(), plain.state_dict(), rtol=0, atol=0)
    assert {task["phase"] for task in profiled.profile} == {"forward", "backward", "update"}
    assert all(task["microseconds"] >= 0 and task["bytes"] > 0 for task in profiled.profile)
    assert plain.profile == []


def test_runs_repeat_bit_by_bit():
    def states():
        trainer = mlp_trainer(optimizer=tenon.Adam(lr=0.01), threads=2)
        for seed in range(5):
            x, y = batch(seed)
            trainer.step(x, target=y)
        return trainer.states

    first, second = states(), states()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_mixed_precision_keeps_masters_and_learns():
    torch.manual_seed(0)
    model, x = models.mlp(), torch.randn(64, 16)
    y = x.sum(1, keepdim=True)
    settings = {"loss": "mse", "optimizer": tenon.Adam(lr=0.02), "example_inputs": (x,)}
    trainer = tenon.LocalTrainingInstance(model, precision="bf16", **settings)
    reference = tenon.LocalTrainingInstance(model, **settings)
    losses = [(trainer.step(x, target=y).item(), reference.step(x, target=y).item()) for _ in range(60)]
    assert all(value.dtype == torch.float32 for value in trainer.state_dict().values())
    assert losses[0][0] != losses[0][1]
    assert losses[0][0] == pytest.approx(losses[0][1], rel=0.03)
    assert losses[-1][0] < losses[0][0] / 10


# ---- models of other kinds ------------------------------------------------------------------------------------------


def test_an_exported_file_trains_in_both_modes(tmp_path):
    """What was exported for inference is trained as in training."""
    torch.manual_seed(0)
    model, x, y = models.lenet(), torch.randn(8, 1, 16, 16), torch.randint(10, (8,))
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(copy.deepcopy(model).eval(), (x,)), path)
    settings = {"loss": "cross_entropy", "optimizer": tenon.SGD(lr=0.1)}
    of_file = tenon.LocalTrainingInstance(path, **settings)
    of_module = tenon.LocalTrainingInstance(model, **settings, example_inputs=(x,))
    assert_close(of_file.step(x, target=y), of_module.step(x, target=y))
    counters = {name for name in model.state_dict() if name.endswith("num_batches_tracked")}
    mine, theirs = of_file.state_dict(), of_module.state_dict()
    assert_close(
        {k: v for k, v in mine.items() if k not in counters}, {k: v for k, v in theirs.items() if k not in counters}
    )


def test_a_graph_trains():
    graph = tenon.parse('graph g(%x: f32[N, 3]) { %w: f32[1, 3] = parameter "w" %y = linear(%x, %w, none) return %y }')
    graph.bind("w", torch.zeros(1, 3))
    trainer = tenon.LocalTrainingInstance(graph, loss="mse", optimizer="sgd(lr=0.3)")
    x = torch.randn(50, 3)
    for _ in range(60):
        trainer.step(x, target=x @ torch.tensor([[1.0], [2.0], [3.0]]))
    assert_close(trainer.states["w"], torch.tensor([[1.0, 2.0, 3.0]]), rtol=1e-3, atol=1e-3)


def test_the_models_own_loss():
    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 2)

        def forward(self, x, y):
            return nn.functional.cross_entropy(self.linear(x), y)

    torch.manual_seed(0)
    model, x, y = WithLoss(), torch.randn(6, 4), torch.randint(2, (6,))
    trainer = tenon.LocalTrainingInstance(model, loss="output", optimizer="sgd(lr=0.5)", example_inputs=(x, y))
    first = trainer.step(x, y)
    assert_close(first, model(x, y).detach())
    assert trainer.step(x, y) < first
    with pytest.raises(tenon.Error, match="there is a target"):
        trainer.step(x, y, target=y)


def test_optimizers_and_losses_of_pytorch():
    model = models.mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    ours = mlp_trainer(model, optimizer=optimizer, loss=nn.L1Loss(reduction="sum"))
    for seed in range(3):
        x, y = batch(seed)
        optimizer.zero_grad()
        loss = nn.functional.l1_loss(model(x), y, reduction="sum")
        loss.backward()
        optimizer.step()
        assert_close(ours.step(x, target=y), loss.detach())
    assert_close(ours.state_dict(), dict(model.state_dict()))


def test_outputs_come_as_the_model_gives_them():
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 2)

        def forward(self, x, scale):
            hidden = self.linear(x)
            return {"out": hidden * scale, "parts": (hidden, x)}

    torch.manual_seed(0)
    model, x, scale = Parts(), torch.randn(6, 4), torch.tensor(3.0)
    trainer = tenon.LocalTrainingInstance(model, loss="mse", optimizer="sgd(lr=0.1)", example_inputs=(x, scale))
    for mode in (True, False):
        outputs, _ = trainer.train(mode).forward(x, scale, target=torch.zeros(6, 2))
        wanted = model(x, scale)
        assert_close(outputs["out"], wanted["out"].detach())
        assert_close(outputs["parts"], tuple(part.detach() for part in wanted["parts"]))


def test_batches_of_any_size():
    torch.manual_seed(0)
    model = models.mlp()
    size = torch.export.Dim("batch", min=2, max=64)
    trainer = mlp_trainer(model, dynamic_shapes=({0: size},))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in (10, 3, 7):
        x, y = torch.randn(rows, 16), torch.randn(rows, 1)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        assert_close(trainer.step(x, target=y), loss.detach())
    assert_close(trainer.state_dict(), dict(model.state_dict()))


# ---- mistakes -------------------------------------------------------------------------------------------------------


def test_mistakes_are_named():
    x, y = batch()
    trainer = mlp_trainer()
    with pytest.raises(tenon.Error, match="a target is missing"):
        trainer.step(x)
    with pytest.raises(tenon.Error, match="target"):
        trainer.step(x, target=y[:5])
    with pytest.raises(tenon.Error, match="precision must be"):
        mlp_trainer(precision="fp8")
    with pytest.raises(tenon.Error, match="at least one part"):
        mlp_trainer(accumulate=0)
    with pytest.raises(tenon.Error, match="nothing to train"):
        mlp_trainer(frozen=["*"])


def test_through_what_has_no_gradient():
    class Rounded(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 1)

        def forward(self, x):
            return torch.bucketize(self.linear(x), torch.linspace(-1, 1, 5)).float()

    with pytest.raises(tenon.Error, match="depends on no parameter"):
        tenon.LocalTrainingInstance(Rounded(), loss="mse", optimizer="sgd(lr=0.1)", example_inputs=(torch.randn(6, 4),))


# ---- threads, memory ------------------------------------------------------------------------------------------------


def small_trainer(**options):
    torch.manual_seed(0)
    x = torch.randn(8, 16)
    optimizer = tenon.AdamW(lr=1e-3)
    trainer = tenon.LocalTrainingInstance(
        nn.Linear(16, 16), loss="mse", optimizer=optimizer, example_inputs=(x,), **options
    )
    return trainer, x, torch.randn(8, 16)


def test_threads_that_meet_are_told_so(tmp_path):
    trainer, x, y = small_trainer()
    trainer.step(x, target=y)
    calls = [
        lambda: trainer.step(x, target=y),
        lambda: trainer.state_dict(),
        lambda: trainer.load_state_dict(trainer.state_dict()),
        lambda: trainer.save(tmp_path / "training.tenon"),
        lambda: trainer.eval().train(),
        lambda: trainer.profile,
    ]
    told, other = [], []

    def work(number):
        for i in range(150):
            try:
                calls[0 if i % 5 else (number + i) % len(calls)]()
            except tenon.Error as error:
                told.append(error.message)
            except BaseException as error:
                other.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not other
    assert {message.split(":")[0] for message in told} <= {
        "the training instance is in use",
        "step() is for training, and eval() was called",
    }
    trainer.train()
    assert torch.isfinite(trainer.step(x, target=y))


def test_states_may_be_given_parts_of_themselves():
    trainer, *_ = small_trainer()
    weight = trainer.states["weight"].clone()
    trainer.load_states({"weight": trainer.states["weight"].T})
    assert torch.equal(trainer.states["weight"], weight.T)
    trainer.load_states({"weight": weight.T.contiguous().T})
    assert torch.equal(trainer.states["weight"], weight)
