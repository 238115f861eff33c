"""Optimizers beside torch.optim: the same parameters after ten updates, clipping, groups and schedules included."""

import itertools

import pytest
import tenon
import torch
from tenon import optim, schedules
from tenon._tenon import compile_graph
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import lr_scheduler

STEPS = 10
SHAPES = {"layer.weight": (5, 7), "layer.bias": (7,), "norm.scale": (), "head.weight": (3, 1, 2)}
DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16"}


class TorchLion(torch.optim.Optimizer):
    """The rule of the paper (algorithm 2): PyTorch has no Lion."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                g = -p.grad if group["maximize"] else p.grad
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                direction = torch.sign(beta1 * m + (1 - beta1) * g)
                p -= group["lr"] * (direction + group["weight_decay"] * p)
                m.copy_(beta2 * m + (1 - beta2) * g)


TORCH = {
    tenon.SGD: torch.optim.SGD,
    tenon.Adam: torch.optim.Adam,
    tenon.AdamW: torch.optim.AdamW,
    tenon.Adagrad: torch.optim.Adagrad,
    tenon.RMSprop: torch.optim.RMSprop,
    tenon.Lion: TorchLion,
}


def random_parameters(dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator, dtype=dtype) for name, shape in SHAPES.items()}


def random_gradients(dtype):
    """Also small, large and zero ones."""
    scales = itertools.cycle([1.0, 1e-3, 30.0, 0.0])
    for seed in range(1, STEPS + 1):
        scale = next(scales)
        yield {name: gradient * scale for name, gradient in random_parameters(dtype, seed).items()}


def graph_of(optimizer, parameters):
    """A graph that takes the gradients, updates the parameters in place, and gives the learning rates."""
    graph = tenon.Graph("update")
    trained = []
    for name, data in parameters.items():
        buffer = graph.buffer(name, data)
        trained.append((name, buffer, graph.input(f"grad.{name}", (DTYPES[data.dtype], data.shape))))
    added = tenon.add_optimizer(graph, optimizer, trained)
    graph.output(*[rate for rate in added["learning_rates"] if rate is not None])
    graph.verify()
    return graph


def runner_of(graph, backend):
    return graph.evaluate if backend == "reference" else compile_graph(graph, threads=1)


def tenon_updates(optimizer, dtype, backend="cpu"):
    """The parameters after the updates, and the learning rates of each."""
    parameters = random_parameters(dtype)
    run = runner_of(graph_of(optimizer, parameters), backend)
    rates = [[rate.item() for rate in run(*gradients.values())] for gradients in random_gradients(dtype)]
    return parameters, rates


def torch_updates(make, dtype, *, schedule=None, clip=lambda parameters: None):
    """`make` takes the named parameters."""
    parameters = {name: torch.nn.Parameter(data) for name, data in random_parameters(dtype).items()}
    optimizer = make(parameters)
    scheduler = schedule(optimizer) if schedule else None
    rates = []
    for gradients in random_gradients(dtype):
        for name, parameter in parameters.items():
            parameter.grad = gradients[name].clone()
        clip(list(parameters.values()))
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        if scheduler:
            scheduler.step()
    return {name: parameter.detach() for name, parameter in parameters.items()}, rates


def check_equal(ours, theirs, **tolerances):
    for name, expected in theirs.items():
        torch.testing.assert_close(ours[name], expected, msg=lambda text, name=name: f"{name}: {text}", **tolerances)


# ---- every optimizer, with every setting -----------------------------------------------------------------------------

SETTINGS = {
    tenon.SGD: [
        {"lr": 0.1},
        {"lr": 0.1, "weight_decay": 0.05, "maximize": True},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        {"lr": 0.1, "momentum": 0.8, "dampening": -0.5, "maximize": True},
    ],
    tenon.Adam: [
        {},
        {"lr": 0.03, "betas": (0.8, 0.95), "eps": 1e-5, "weight_decay": 0.1},
        {"lr": 0.01, "amsgrad": True, "maximize": True},
        {"lr": 0.01, "betas": (0.3, 0.4)},
        {"lr": 0.01, "betas": (0.0, 0.0)},
    ],
    tenon.AdamW: [{}, {"lr": 0.03, "betas": (0.8, 0.95), "weight_decay": 0.3}, {"amsgrad": True, "maximize": True}],
    tenon.Adagrad: [
        {},
        {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.1},
        {"lr": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3, "maximize": True},
    ],
    tenon.RMSprop: [
        {},
        {"lr": 0.01, "alpha": 0.4, "eps": 1e-3, "weight_decay": 0.1},
        {"lr": 0.01, "momentum": 0.9, "centered": True, "eps": 1e-2},
        {"lr": 0.01, "momentum": 0.5, "maximize": True},
    ],
    tenon.Lion: [{}, {"lr": 0.01, "betas": (0.7, 0.8), "weight_decay": 0.2}, {"lr": 0.01, "maximize": True}],
}
CASES = [
    pytest.param(kind, settings, id=f"{kind.__name__}-{position}")
    for kind, choices in SETTINGS.items()
    for position, settings in enumerate(choices)
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("kind", "settings"), CASES)
def test_ten_updates_are_pytorchs(kind, settings, dtype):
    ours, _ = tenon_updates(kind(**settings), dtype)
    theirs, _ = torch_updates(lambda named: TORCH[kind](named.values(), **settings), dtype)
    check_equal(ours, theirs)


@pytest.mark.parametrize(("kind", "settings"), CASES)
def test_the_reference_backend_agrees(kind, settings):
    ours, _ = tenon_updates(kind(**settings), torch.float32, "reference")
    theirs, _ = torch_updates(lambda named: TORCH[kind](named.values(), **settings), torch.float32)
    check_equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", [tenon.SGD, tenon.AdamW, tenon.RMSprop, tenon.Adagrad])
def test_short_floats_round_as_pytorchs(kind, dtype):
    # Numbers that these dtypes have: on the CPU, PyTorch's add rounds its factor to the dtype, and none of its other
    # functions do.
    settings = {"lr": 2.0**-7, "weight_decay": 0.125}
    ours, _ = tenon_updates(kind(**settings), dtype)
    theirs, _ = torch_updates(lambda named: TORCH[kind](named.values(), **settings), dtype)
    check_equal(ours, theirs, rtol=0, atol=0)


def test_states_are_pytorchs():
    parameters = random_parameters(torch.float32)
    graph = graph_of(tenon.Adam(lr=0.01, amsgrad=True), parameters)
    run = compile_graph(graph, threads=1)
    for gradients in random_gradients(torch.float32):
        run(*gradients.values())
    theirs = {name: torch.nn.Parameter(data) for name, data in random_parameters(torch.float32).items()}
    optimizer = torch.optim.Adam(theirs.values(), lr=0.01, amsgrad=True)
    for gradients in random_gradients(torch.float32):
        for name, parameter in theirs.items():
            parameter.grad = gradients[name]
        optimizer.step()
    assert torch.from_dlpack(graph.leaf("optimizer.step").data).item() == STEPS
    for name, parameter in theirs.items():
        for state in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
            ours = torch.from_dlpack(graph.leaf(f"optimizer.{state}.{name}").data)
            torch.testing.assert_close(ours, optimizer.state[parameter][state])


# ---- clipping --------------------------------------------------------------------------------------------------------

CLIPPING = {
    "norm": ({"clip_norm": 0.7}, lambda ps: clip_grad_norm_(ps, 0.7)),
    "value": ({"clip_value": 0.2}, lambda ps: clip_grad_value_(ps, 0.2)),
    "both": ({"clip_norm": 0.7, "clip_value": 0.2}, lambda ps: (clip_grad_value_(ps, 0.2), clip_grad_norm_(ps, 0.7))),
    "never": ({"clip_norm": 1e9, "clip_value": 1e9}, lambda ps: None),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("clipping", CLIPPING)
@pytest.mark.parametrize("kind", TORCH)
def test_gradients_are_clipped_as_pytorchs(kind, clipping, dtype):
    settings, clip = CLIPPING[clipping]
    ours, _ = tenon_updates(kind(lr=0.05, **settings), dtype)
    theirs, _ = torch_updates(lambda named: TORCH[kind](named.values(), lr=0.05), dtype, clip=clip)
    check_equal(ours, theirs)


def test_a_norm_next_to_zero_is_kept_away_from_it():
    gradient = torch.tensor([3e-6, 4e-6], dtype=torch.float64)
    theirs = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    theirs.grad = gradient.clone()
    clip_grad_norm_([theirs], 1e-6)
    ours = {"w": torch.zeros(2, dtype=torch.float64)}
    graph_of(tenon.SGD(lr=1.0, clip_norm=1e-6), ours).evaluate(gradient)
    torch.testing.assert_close(ours["w"], -theirs.grad, rtol=1e-12, atol=0)


def test_a_gradient_that_is_not_finite_reaches_every_parameter_it_is_clipped_with():
    parameters = {"a": torch.ones(2), "b": torch.ones(2)}
    graph = graph_of(tenon.SGD(lr=1.0, clip_norm=1.0), parameters)
    graph.evaluate(torch.tensor([float("nan"), 0.0]), torch.ones(2))
    assert parameters["a"].isnan().all()
    assert parameters["b"].isnan().all()


# ---- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", TORCH)
def test_groups_have_settings_of_their_own(kind, dtype):
    groups = [
        {"params": "*.bias", "weight_decay": 0.0, "lr": 0.2},
        {"params": ["norm.*", "l?yer.*"], "weight_decay": 0.3},
    ]
    ours, _ = tenon_updates(kind(lr=0.05, weight_decay=0.1, groups=groups), dtype)

    def make(named):
        return TORCH[kind](
            [
                {"params": [named["layer.bias"]], "weight_decay": 0.0, "lr": 0.2},
                {"params": [named["norm.scale"], named["layer.weight"]], "weight_decay": 0.3},
                {"params": [named["head.weight"]]},
            ],
            lr=0.05,
            weight_decay=0.1,
        )

    check_equal(ours, torch_updates(make, dtype)[0])


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([{"params": "*.gamma"}], 'the pattern "*.gamma" of a group matches no parameter'),
        ([{"params": "layer.*"}, {"params": "*.bias"}], 'the groups before "*.bias" match all of its parameters'),
    ],
)
def test_a_group_without_parameters_is_an_error(groups, message):
    with pytest.raises(tenon.Error) as caught:
        graph_of(tenon.SGD(groups=groups), random_parameters(torch.float32))
    assert message in str(caught.value)


# ---- schedules -------------------------------------------------------------------------------------------------------


def sequential(first, second, milestone):
    return lambda o: lr_scheduler.SequentialLR(o, [first(o), second(o)], [milestone])


def one_cycle(**settings):
    return lambda o: lr_scheduler.OneCycleLR(
        o, [group["lr"] for group in o.param_groups], total_steps=STEPS + 1, cycle_momentum=False, **settings
    )


SCHEDULES = {
    "constant": (schedules.constant(), lambda o: None),
    "step": (schedules.step(3), lambda o: lr_scheduler.StepLR(o, 3)),
    "step-gamma": (schedules.step(2, gamma=0.7), lambda o: lr_scheduler.StepLR(o, 2, gamma=0.7)),
    "exponential": (schedules.exponential(0.8), lambda o: lr_scheduler.ExponentialLR(o, 0.8)),
    "cosine": (schedules.cosine(STEPS), lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS)),
    "cosine-minimum": (
        schedules.cosine(STEPS, eta_min=0.01),
        lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS, eta_min=0.01),
    ),
    "cosine-past-its-end": (schedules.cosine(4), lambda o: lr_scheduler.CosineAnnealingLR(o, 4)),
    "linear": (schedules.linear(6, 0.5, 0.1), lambda o: lr_scheduler.LinearLR(o, 0.5, 0.1, total_iters=6)),
    "warmup": (schedules.warmup(4, start=0.25), lambda o: lr_scheduler.LinearLR(o, 0.25, total_iters=4)),
    "warmup-cosine": (
        schedules.warmup(4, start=0.25) + schedules.cosine(7),
        sequential(
            lambda o: lr_scheduler.LinearLR(o, 0.25, total_iters=4), lambda o: lr_scheduler.CosineAnnealingLR(o, 7), 4
        ),
    ),
    "warmup-step": (
        schedules.warmup(3, start=0.1) + schedules.step(2),
        sequential(lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=3), lambda o: lr_scheduler.StepLR(o, 2), 3),
    ),
    "constant-then-exponential": (
        schedules.constant(0.5, steps=3) + schedules.exponential(0.9),
        lambda o: lr_scheduler.LambdaLR(o, lambda t: 0.5 if t < 3 else 0.9 ** (t - 3)),
    ),
    "from-zero": (schedules.warmup(5), lambda o: lr_scheduler.LambdaLR(o, lambda t: min(t / 5, 1))),
    "one-cycle": (schedules.one_cycle(STEPS + 1), one_cycle()),
    "one-cycle-linear": (
        schedules.one_cycle(STEPS + 1, 0.5, "linear", 10.0, 100.0),
        one_cycle(pct_start=0.5, anneal_strategy="linear", div_factor=10.0, final_div_factor=100.0),
    ),
    "one-cycle-three-phases": (schedules.one_cycle(STEPS + 1, three_phase=True), one_cycle(three_phase=True)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("kind", [tenon.SGD, tenon.AdamW])
def test_schedules_are_pytorchs(kind, name, dtype):
    ours_of, theirs_of = SCHEDULES[name]
    ours, rates = tenon_updates(kind(lr=0.2, schedule=ours_of), dtype)
    theirs, expected = torch_updates(lambda named: TORCH[kind](named.values(), lr=0.2), dtype, schedule=theirs_of)
    torch.testing.assert_close(torch.tensor(rates).double(), torch.tensor(expected).double(), rtol=1e-12, atol=1e-15)
    check_equal(ours, theirs)


def test_a_schedule_scales_every_group():
    groups = [{"params": "*.bias", "lr": 0.5}]
    optimizer = tenon.SGD(lr=0.1, groups=groups, schedule=schedules.exponential(0.5))
    _, rates = tenon_updates(optimizer, torch.float64)
    torch.testing.assert_close(rates[3], [0.1 / 8, 0.5 / 8])


def test_one_cycle_stays_at_its_end():
    _, rates = tenon_updates(tenon.SGD(lr=1.0, schedule=schedules.one_cycle(4)), torch.float64)
    torch.testing.assert_close(rates[3:], [[1 / 25 / 1e4]] * (STEPS - 3))


def test_the_rate_can_be_changed_between_updates():
    parameters = {"w": torch.zeros(2)}
    graph = graph_of(tenon.SGD(lr=1.0), parameters)
    run = compile_graph(graph, threads=1)
    run(torch.ones(2))
    torch.from_dlpack(graph.leaf("optimizer.lr.0").data).fill_(0.25)
    run(torch.ones(2))
    torch.testing.assert_close(parameters["w"], torch.full((2,), -1.25))


# ---- the update is one kernel for each parameter ---------------------------------------------------------------------


# The two results of Lion depend on the same inputs, not on each other: they are two.
@pytest.mark.parametrize("kind", [kind for kind in TORCH if kind is not tenon.Lion])
def test_a_parameter_is_read_and_written_by_one_kernel(kind):
    parameters = {"w": torch.ones(64, 64)}
    program = compile_graph(graph_of(kind(lr=0.1, clip_value=1.0), parameters), threads=1)
    over_tensors = [kernel for kernel in program.kernels if "f32[64, 64]" in kernel["outputs"]]
    assert len(over_tensors) == 1, program.kernels


# ---- Python's face ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TORCH)
def test_defaults_are_those_of_the_text_form(kind):
    assert kind() == tenon.Optimizer(f"{kind.__name__.lower()}()")
    assert str(kind()).count("=") == 1  # lr is always said


@pytest.mark.parametrize("kind", list(TORCH)[:5])
def test_defaults_are_pytorchs(kind):
    theirs = TORCH[kind]([torch.nn.Parameter(torch.ones(1))])
    module = torch.nn.Module()
    module.w = theirs.param_groups[0]["params"][0]
    assert optim.from_torch(theirs, module) == kind()


@pytest.mark.parametrize("kind", TORCH)
def test_the_text_is_read_back(kind):
    optimizer = kind(
        lr=0.25,
        clip_norm=1.0,
        clip_value=2.0,
        schedule=schedules.warmup(3) + schedules.one_cycle(9, anneal="linear", three_phase=True),
        groups=[{"params": ['a"b', "*"], "lr": 1e-7}],
    )
    assert tenon.Optimizer(str(optimizer)) == optimizer
    assert optimizer != kind(lr=0.25)


def test_an_optimizer_of_pytorch_is_converted():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    biases = [p for name, p in module.named_parameters() if name.endswith("bias")]
    weights = [p for name, p in module.named_parameters() if not name.endswith("bias")]
    theirs = torch.optim.AdamW([{"params": weights}, {"params": biases, "weight_decay": 0.0, "lr": 0.5}], lr=0.1)
    ours = optim.from_torch(theirs, module, clip_norm=1.0)
    assert str(ours) == 'adamw(lr=0.1, clip_norm=1, group("0.bias", "1.bias", lr=0.5, weight_decay=0))'


def test_what_cannot_be_converted_is_an_error():
    module = torch.nn.Linear(2, 2)
    with pytest.raises(tenon.Error, match="no optimizer for Rprop"):
        optim.from_torch(torch.optim.Rprop(module.parameters()), module)
    with pytest.raises(tenon.Error, match="does not have"):
        optim.from_torch(torch.optim.SGD(torch.nn.Linear(2, 2).parameters()), module)
    with pytest.raises(tenon.Error, match="the optimizer does not have bias"):
        optim.from_torch(torch.optim.SGD([module.weight]), module)
    module.bias.requires_grad_(False)
    assert optim.from_torch(torch.optim.SGD([module.weight]), module) == tenon.SGD()
    mixed = torch.optim.Adam([module.weight])
    assert optim.from_torch(torch.optim.Adam([module.weight], decoupled_weight_decay=True), module) == tenon.AdamW(
        weight_decay=0.0
    )
    mixed.add_param_group({"params": [module.bias], "decoupled_weight_decay": True})
    with pytest.raises(tenon.Error, match="decoupled_weight_decay differs"):
        optim.from_torch(mixed, module)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tenon.SGD(lr=-1.0), "lr must be at least 0, got -1"),
        (lambda: tenon.Adam(betas=(0.9, 1.0)), r"betas must be in \[0, 1\), got 1"),
        (lambda: tenon.Adam(betas=(0.9,)), "expected two numbers, got 1"),
        (lambda: tenon.SGD(nesterov=True), "nesterov needs a momentum above 0"),
        (lambda: tenon.SGD(momentum=0.9, dampening=0.1, nesterov=True), "nesterov needs"),
        (lambda: tenon.RMSprop(eps=-1e-3), "eps must be at least 0"),
        (lambda: tenon.Adagrad(lr_decay=-1.0), "lr_decay must be at least 0"),
        (lambda: tenon.SGD(lr=float("nan")), "lr must be finite, got nan"),
        (lambda: tenon.SGD(clip_norm=0.0), "clip_norm must be above 0"),
        (lambda: tenon.SGD(groups=[{"params": "*", "lr": -1.0}]), "lr must be at least 0"),
        (lambda: tenon.SGD(groups=[{"params": "*", "beta": 1.0}]), "group has no setting 'beta'"),
        (lambda: tenon.SGD(groups=[{"lr": 1.0}]), "a group begins with patterns of names"),
        (lambda: tenon.SGD(schedule=schedules.cosine(0)), "steps must be at least 1, got 0"),
        (lambda: tenon.SGD(schedule=schedules.step(3) + schedules.cosine(3)), "'step' has no end"),
    ],
)
def test_mistakes_are_errors(make, message):
    with pytest.raises(tenon.Error, match=message):
        make()
