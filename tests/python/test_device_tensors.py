"""Tensors and states that stay in the memory of a device: nothing is transferred that is there already.

loopback's addresses are none of the host's, so a host that reads there crashes. It counts the copies that it is asked
for.
"""

import ctypes
import os
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
import tenon
import torch

from tests.python import warm

ROOT = Path(__file__).parents[2]
LOOPBACK = ROOT / "build/accelerators/loopback.so"
TENON = ROOT / "build/bin/tenon"


@pytest.fixture(scope="module", autouse=True)
def loopback():
    assert tenon.load_plugin(str(LOOPBACK)) == "loopback"


class Copies:
    """How many copies loopback was asked for since the last look."""

    def __init__(self):
        self._total = ctypes.c_long.in_dll(ctypes.CDLL(str(LOOPBACK)), "loopback_copies")
        self._seen = self._total.value

    def new(self):
        seen, self._seen = self._seen, self._total.value
        return self._seen - seen


@pytest.fixture
def copies():
    return Copies()


def mlp(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8)).eval()


class Normed(torch.nn.Module):
    """With buffers that a step updates."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 8)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


def trainer(device=(), model=mlp, **options):
    return tenon.LocalTrainingInstance(
        model(),
        loss="mse",
        optimizer=tenon.AdamW(lr=1e-2),
        example_inputs=(torch.zeros(4, 16),),
        device=device,
        **options,
    )


def batches(count):
    torch.manual_seed(1)
    return [(torch.randn(4, 16), torch.randn(4, 8)) for _ in range(count)]


def assert_same(states, others):
    assert states.keys() == others.keys()
    for name, value in states.items():
        torch.testing.assert_close(value, others[name], msg=name)


# ---- states


def test_steps_move_no_state_after_the_first(copies):
    there, here = trainer("loopback"), trainer()
    data = batches(6)
    losses = [there.step(x, target=y) for x, y in data[:1]]
    copies.new()
    for x, y in data[1:]:
        losses.append(there.step(x, target=y))
        assert copies.new() == 3  # the input, the target, the loss
    assert len(here.states) > 8
    torch.testing.assert_close(torch.stack(losses), torch.stack([here.step(x, target=y) for x, y in data]))
    state = there.state_dict()
    assert copies.new() == len(state)
    assert there.state_dict().keys() == state.keys()
    assert copies.new() == 0  # the host still has them
    assert_same(state, here.state_dict())


def test_writing_a_state_moves_that_state(copies):
    there, here = trainer("loopback"), trainer()
    data = batches(4)
    for each in (there, here):
        each.step(data[0][0], target=data[0][1])
        each.load_states({"0.bias": torch.ones(32)})
    copies.new()
    losses = [(there.step(x, target=y), here.step(x, target=y)) for x, y in data[1:2]]
    assert copies.new() == 4
    losses += [(there.step(x, target=y), here.step(x, target=y)) for x, y in data[2:]]
    assert copies.new() == 6
    for one, other in losses:
        torch.testing.assert_close(one, other)
    there.states["0.bias"].zero_()  # all of them move: anything may be written
    here.states["0.bias"].zero_()
    x, y = data[0]
    torch.testing.assert_close(there.step(x, target=y), here.step(x, target=y))
    assert_same(there.state_dict(), here.state_dict())


@pytest.mark.parametrize(
    "device", ["loopback:claim=0.5,seed=1", "loopback:claim=0.8,seed=4,delay=30", "loopback:ops=relu"]
)
@pytest.mark.parametrize("model", [mlp, Normed], ids=["mlp", "buffers"])
def test_states_that_the_cpu_uses_too(device, model):
    there, here = trainer(device, model), trainer((), model)
    for x, y in batches(4):
        torch.testing.assert_close(there.step(x, target=y), here.step(x, target=y))
    assert_same(there.state_dict(), here.state_dict())
    x, y = batches(1)[0]
    for each in (there, here):
        each.eval()
    torch.testing.assert_close(there.forward(x, target=y), here.forward(x, target=y))


def test_forward_backward_and_update(copies):
    there, here = trainer("loopback", Normed), trainer((), Normed)
    for number, (x, y) in enumerate(batches(3)):
        for each in (there, here):
            each.forward(x, target=y)
        gradients, others = there.backward(), here.backward()
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, others[name], msg=name)
        copies.new()
        for each in (there, here):
            each.update()
        assert number == 0 or copies.new() == 0  # what update() needs is there
    assert_same(there.state_dict(), here.state_dict())


def test_a_step_that_fails_changes_no_state_on_the_device():
    there, here = trainer("loopback:fail=0.02,seed=5"), trainer()
    failed = 0
    for x, y in batches(30):
        while True:
            try:
                there.step(x, target=y)
                break
            except tenon.Error as error:
                if "injected failure" not in str(error):
                    raise
                failed += 1
        here.step(x, target=y)
    assert failed > 3
    while True:
        try:
            assert_same(there.state_dict(), here.state_dict())
            return
        except tenon.Error as error:
            if "injected failure" not in str(error):
                raise


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "training.tenon"
    trainer("loopback", Normed).save(path)
    return path


def test_states_of_a_file(saved, tmp_path, copies):
    there, here = tenon.load(saved), tenon.load(saved, device="cpu")
    assert there.devices == ["loopback"]
    assert here.devices == []
    data = batches(5)
    for x, y in data:
        torch.testing.assert_close(there(x, y), here(x, y))
    copies.new()
    there(*data[0]), here(*data[0])
    assert copies.new() == 3
    torch.testing.assert_close(there.states["first.weight"], here.states["first.weight"])
    assert copies.new() == 1
    there.states["first.bias"] = here.states["first.bias"] = np.full(32, 0.5, np.float32)
    assert copies.new() == 0
    torch.testing.assert_close(there(*data[1]), here(*data[1]))
    assert copies.new() == 4
    there.states.save(tmp_path / "there.states")
    there.states.export(tmp_path / "there.safetensors")
    here.states.load(tmp_path / "there.states")
    for name in there.states:
        torch.testing.assert_close(there.states[name], here.states[name], msg=name)
    torch.testing.assert_close(there.entry("predict")(data[0][0]), here.entry("predict")(data[0][0]))
    there.states.reset()
    fresh = tenon.load(saved, device="cpu")
    torch.testing.assert_close(there(*data[0]), fresh(*data[0]))


def test_tenon_train_on_a_device(saved, tmp_path):
    torch.manual_seed(2)
    data = {
        "x": np.random.default_rng(0).normal(size=(32, 16)),
        "target": np.random.default_rng(1).normal(size=(32, 8)),
    }
    np.savez(tmp_path / "data.npz", **{name: values.astype(np.float32) for name, values in data.items()})

    def train(device):
        weights = tmp_path / f"{device}.safetensors"
        command = [TENON, "--plugin", LOOPBACK, "train", saved, "--data", tmp_path / "data.npz", "--epochs", "2"]
        command += ["--device", device, "--export", weights, "--checkpoint", tmp_path / device, "--threads", "1"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return weights.read_bytes()

    there, here = (np.frombuffer(train(device), np.uint8) for device in ("loopback", "cpu"))
    assert there.size == here.size
    header = int(there[:8].view(np.int64)[0]) + 8
    assert bytes(there[:header]) == bytes(here[:header])
    few = (there.size - header) // 4 * 4
    np.testing.assert_allclose(
        there[header : header + few].view(np.float32),
        here[header : header + few].view(np.float32),
        rtol=1e-4,
        atol=1e-5,
    )
    refused = [TENON, "--plugin", LOOPBACK, "train", saved, "--data", tmp_path / "data.npz", "--device", "npu"]
    error = subprocess.run(refused, capture_output=True, text=True)
    assert error.returncode == 1
    assert "no program of the file runs on npu here" in error.stderr


# ---- arguments and results


def test_two_programs_chain_without_transfers(copies):
    first, second = mlp(), torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.ReLU()).eval()
    x = torch.randn(4, 16)
    one = tenon.compile(first, (x,), device="loopback")
    two = tenon.compile(second, (first(x),), device="loopback")
    copies.new()
    there = tenon.to_device(x, "loopback")
    assert copies.new() == 1
    middle = one.results_on("loopback")(there)
    result = two.results_on("loopback")(middle)
    assert copies.new() == 0
    assert (middle.shape, middle.dtype, middle.device) == ((4, 8), "f32", "loopback")
    assert repr(middle) == "<tenon.DeviceTensor f32[4, 8] on loopback>"
    torch.testing.assert_close(result.cpu(), second(first(x)))
    torch.testing.assert_close(torch.from_numpy(middle.numpy()), first(x))
    assert copies.new() == 2
    torch.testing.assert_close(two(middle), second(first(x)))  # results on the host, as ever
    assert copies.new() == 1


def test_programs_take_tensors_from_anywhere(copies):
    model, x = mlp(), torch.randn(4, 16)
    there = tenon.to_device(x, "loopback")
    for device in ((), "loopback:ops=tanh", "loopback:delay=10"):  # the CPU; both; another device of that name
        program = tenon.compile(model, (x,), device=device)
        with warnings.catch_warnings(action="ignore"):
            torch.testing.assert_close(program(there), model(x))
            left = program.results_on("loopback")(there)
        torch.testing.assert_close(left.cpu(), model(x))
    assert tenon.to_device(there, "loopback").cpu().equal(x)


def test_copies_for_other_options_are_told(tmp_path):
    model, x = mlp(), torch.randn(4, 16)
    plain = tenon.to_device(x, "loopback")
    program = tenon.compile(model, (x,), device="loopback:delay=10")
    program.save(tmp_path / "model.tenon")
    ways = "on loopback, and the program runs on loopback:delay=10: each call copies"
    for each in (program, tenon.load(tmp_path / "model.tenon")):
        with pytest.warns(UserWarning, match=f"argument 0 lies {ways} it"):
            torch.testing.assert_close(each(plain), model(x))
        with pytest.warns(UserWarning, match=f"results stay {ways} them"):
            torch.testing.assert_close(each.results_on("loopback")(x).cpu(), model(x))
        with warnings.catch_warnings(action="error"):
            there = tenon.to_device(x, "loopback:delay=10")
            torch.testing.assert_close(each.results_on("loopback:delay=10")(there).cpu(), model(x))
            with pytest.raises(UserWarning, match="lies on loopback"):
                each(plain)
    with warnings.catch_warnings(action="error"):  # the CPU is no device that has options
        torch.testing.assert_close(tenon.compile(model, (x,))(plain), model(x))


def test_symbolic_sizes_on_the_device():
    model, batch = mlp(), torch.export.Dim("batch", min=1, max=64)
    program = tenon.compile(model, (torch.randn(4, 16),), dynamic_shapes=({0: batch},), device="loopback")
    for size in (1, 7, 64, 2):
        x = torch.randn(size, 16)
        left = program.results_on("loopback")(tenon.to_device(x, "loopback"))
        assert left.shape == (size, 8)
        torch.testing.assert_close(left.cpu(), model(x))


def test_results_that_are_more_than_results():
    class Several(torch.nn.Module):
        def forward(self, x):
            y = torch.relu(x)
            return y, y + 1, x, y[y > 0.5], x.shape[0]

    x = torch.randn(4, 16)
    program = tenon.compile(Several(), (x,), device="loopback")
    expected = Several()(x)
    results = program.results_on("loopback")(x)
    for result, value in zip(results, expected, strict=True):
        if isinstance(result, tenon.DeviceTensor):
            result = result.cpu()
        torch.testing.assert_close(result, value)


def test_a_file_takes_and_leaves_device_tensors(tmp_path, copies):
    model, x = mlp(), torch.randn(4, 16)
    tenon.compile(model, (x,), device="loopback").save(tmp_path / "model.tenon")
    program = tenon.load(tmp_path / "model.tenon")
    there = tenon.to_device(x, "loopback")
    copies.new()
    left = program.results_on("loopback")(there)
    assert copies.new() == 0
    torch.testing.assert_close(left.cpu(), model(x))
    torch.testing.assert_close(program(x), model(x))
    torch.testing.assert_close(program(there), model(x))


def test_an_argument_that_is_updated():
    class Counter(torch.nn.Module):
        def forward(self, x):
            x.add_(1)
            return x * 2

    x = torch.randn(4, 16)
    program = tenon.compile(Counter(), (x.clone(),), device="loopback")
    there = tenon.to_device(x, "loopback")
    address = tenon.from_dlpack(there)
    for step in (1, 2):
        torch.testing.assert_close(program(there), (x + step) * 2)
        torch.testing.assert_close(there.cpu(), x + step)
    torch.testing.assert_close(address.cpu(), x + 2)


class Foreign:
    """The tensor of another library, in a device's memory."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()

    def __dlpack__(self, **named):
        return self._tensor.__dlpack__(**named)


def test_dlpack():
    x = torch.arange(12, dtype=torch.int64).reshape(3, 4)
    there = tenon.to_device(x, "loopback")
    assert there.__dlpack_device__() == (12, tenon.devices().index("loopback"))
    again = tenon.from_dlpack(Foreign(there))
    del there
    assert (again.shape, again.dtype, again.device) == ((3, 4), "i64", "loopback")
    assert again.cpu().equal(x)
    program = tenon.compile(torch.nn.Flatten(0), (x,), device="loopback")
    assert program(again).equal(x.flatten())
    with pytest.raises(tenon.Error, match="from_dlpack takes a tensor in the memory of a device, got a Tensor"):
        tenon.from_dlpack(x)
    with pytest.raises(tenon.Error, match=r"a tensor on loopback is no array of the host: numpy\(\) copies it"):
        np.asarray(again)


def test_arguments_that_do_not_fit():
    model, x = mlp(), torch.randn(4, 16)
    program = tenon.compile(model, (x,), device="loopback")
    with pytest.raises(tenon.Error, match=r"expected f32\[4, 16\], got f32\[4, 15\] on loopback"):
        program(tenon.to_device(torch.randn(4, 15), "loopback"))
    with pytest.raises(tenon.Error, match=r"expected f32\[4, 16\], got i64\[4, 16\] on loopback"):
        program(tenon.to_device(torch.zeros(4, 16, dtype=torch.int64), "loopback"))
    with pytest.raises(tenon.Error, match="there is no device 'npu'"):
        tenon.to_device(x, "npu")
    with pytest.raises(tenon.Error, match="there is no device 'npu'"):
        program.results_on("npu")(x)
    with pytest.raises(tenon.Error, match="cpu is the host"):
        tenon.to_device(x, "cpu")


def test_failures_leave_nothing_behind():
    live = ctypes.c_long.in_dll(ctypes.CDLL(str(LOOPBACK)), "loopback_live")
    model, x = mlp(), torch.randn(4, 16)
    before, failed = live.value, 0
    program = tenon.compile(model, (x,), device="loopback:fail=0.2,seed=7")
    for _ in range(40):
        try:
            there = tenon.to_device(x, "loopback:fail=0.2,seed=7")
            torch.testing.assert_close(program.results_on("loopback:fail=0.2,seed=7")(there).cpu(), model(x))
        except tenon.Error as error:
            if "injected failure" not in str(error):
                raise
            failed += 1
    assert 5 < failed < 40
    there = None
    del program
    assert live.value == before


def test_programs_keep_no_tensor_of_a_call():
    live = ctypes.c_long.in_dll(ctypes.CDLL(str(LOOPBACK)), "loopback_live")
    model, x = mlp(), torch.randn(4, 16)
    program = tenon.compile(model, (x,), device="loopback")
    program(x)  # its context stays
    before = live.value
    there = tenon.to_device(x, "loopback")
    left = program.results_on("loopback")(there)
    assert live.value == before + 2
    del there, left
    assert live.value == before


# ---- budgets


def needed(error):
    return int(str(error).split(" needs ")[1].split(" bytes")[0])


def test_a_budget_of_a_device():
    model, x = mlp(), torch.randn(4, 16)
    with pytest.raises(tenon.Error, match="of the memory of loopback") as caught:
        tenon.compile(model, (x,), device="loopback", budget={"loopback": 100})
    bytes_needed = needed(caught.value)
    assert bytes_needed >= 4 * (16 * 32 + 32 + 32 * 8 + 8) + 4 * (4 * 16 + 4 * 32)
    text = str(caught.value)
    assert "the budget is 100" in text
    assert "bytes: f32[" in text
    assert "of the weights" in text
    program = tenon.compile(model, (x,), device="loopback", budget={"loopback": bytes_needed, "cpu": "1MiB"})
    torch.testing.assert_close(program(x), model(x))
    with pytest.raises(tenon.Error, match=f"the budget is {bytes_needed - 1}"):
        tenon.compile(model, (x,), device="loopback", budget={"loopback": bytes_needed - 1})


def test_a_budget_holds_for_the_sizes_of_a_run():
    model, batch = mlp(), torch.export.Dim("batch", min=1, max=64)
    example = (torch.randn(4, 16),)
    program = tenon.compile(
        model, example, dynamic_shapes=({0: batch},), device="loopback", budget={"loopback": "10kB"}
    )
    program(torch.randn(2, 16))
    with pytest.raises(tenon.Error, match="the budget is 10000"):
        program(torch.randn(64, 16))
    x = torch.randn(3, 16)
    torch.testing.assert_close(program(x), model(x))


def test_a_budget_counts_states(saved):
    x, y = batches(1)[0]
    there = trainer("loopback")
    there.initialize({"loopback": "1kB"})
    with pytest.raises(tenon.Error, match="of them for constants and states") as caught:
        there.step(x, target=y)
    states = 4 * (16 * 32 + 32 + 32 * 8 + 8)
    assert needed(caught.value) > 3 * 2 * states  # parameters and two moments, each with room for its next value
    there = tenon.load(saved, budget={"loopback": 2000})
    with pytest.raises(tenon.Error, match="the budget is 2000"):
        there(*batches(1)[0])
    command = [TENON, "--plugin", LOOPBACK, "run", saved, "--device", "loopback", "--budget", "loopback=2000"]
    done = subprocess.run([*command, "--entry", "predict", "--random"], capture_output=True, text=True)
    assert done.returncode != 0


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"npu": 5}, "a budget of 5 bytes for 'npu', which is no device here"),
        ({"loopback": "many"}, "a budget is a number of bytes, such as 1000000 or '64MiB', got 'many'"),
        ({"loopback": -1}, "a budget must not be negative, got -1"),
        ({1: 5}, "by the names of devices"),
        (1.5, "a budget is a number of bytes"),
    ],
    ids=str,
)
def test_bad_budgets(budget, message):
    x = torch.randn(4, 16)
    with pytest.raises(tenon.Error, match=message):
        tenon.compile(mlp(), (x,), device="loopback", budget=budget)(x)


# ---- the cache

CACHED = """
import sys, torch, tenon
tenon.load_plugin(sys.argv[1])
torch.manual_seed(0)
layers = [torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8), torch.nn.Softmax(-1)]
model = torch.nn.Sequential(*layers).eval()
x = torch.randn(4, 16)
program = tenon.compile(model, (x,), device=sys.argv[2])
torch.testing.assert_close(program(x), model(x))
program.save(sys.argv[3])
torch.testing.assert_close(tenon.load(sys.argv[3])(x), model(x))
kinds = [task["kind"] for task in program.kernels]
print(program.is_from_cache, kinds.count("device"), len(program.placement))
"""


def test_programs_with_devices_come_from_the_cache(tmp_path):
    source = (ROOT / "examples/devices/hello.c").read_text()
    assert source.count('info->version = "1"') == 1

    def hello(version):
        path = tmp_path / f"hello{version}.c"
        path.write_text(source.replace('info->version = "1"', f'info->version = "{version}"'))
        library = path.with_suffix(".so")
        command = ["cc", "-std=c11", "-shared", "-fPIC", f"-I{ROOT / 'include'}", "-o", library, path, "-lm"]
        subprocess.run(command, check=True)
        return library

    def compiled(library, device):
        environment = os.environ | {"TENON_CACHE": str(tmp_path / "cache")}
        return warm.run(CACHED, library, device, tmp_path / "model.tenon", env=environment, check=True).stdout.split()

    first = hello(1)
    for library, device in ((LOOPBACK, "loopback"), (LOOPBACK, "loopback:ops=relu"), (first, "hello")):
        fresh, *rest = compiled(library, device)
        assert fresh == "False"
        assert int(rest[0]) > 0
        assert compiled(library, device) == ["True", *rest]
    assert compiled(hello(2), "hello")[0] == "False"  # another version of the code
    assert compiled(first, "hello")[0] == "True"
