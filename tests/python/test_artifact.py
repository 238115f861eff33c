"""Programs in files: what is saved runs as the model does, in this process and in others."""

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import tenon
import torch
from tenon.capture import host_calls
from torch.export import Dim

from tests.python import warm, zoo
from tests.python.small_models import Mlp


def saved(tmp_path, program):
    path = tmp_path / "model.tenon"
    program.save(path)
    return path


@pytest.mark.parametrize("native", [True, False])
def test_a_file_runs_as_the_model_does(tmp_path, native):
    model, x = Mlp().eval(), torch.randn(3, 4)
    shapes = ({0: Dim("batch", min=1, max=64)},)
    path = saved(tmp_path, tenon.compile(model, (x,), dynamic_shapes=shapes))
    loaded = tenon.load(path, native=native)
    for batch in (3, 1, 7):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(loaded(x), model(x))


class Bounded(torch.nn.Module):
    def forward(self, x):
        torch.ops.aten._assert_async.msg(x.amax() < 100, "too large")
        n = x.sum().item()
        torch._check(n != 7, lambda: "not seven")
        return {"product": x * n}


@pytest.mark.parametrize("native", [True, False])
def test_a_file_checks_what_the_model_asserts(tmp_path, native):
    example = torch.tensor([1, 2])
    shapes = ({0: Dim("rows", min=2, max=64)},)
    program = tenon.compile(Bounded(), (example,), dynamic_shapes=shapes)
    loaded = tenon.load(saved(tmp_path, program), native=native)
    assert [name for name, _ in loaded.outputs] == ["mul"]
    for x in (example, torch.tensor([4, 5, 6])):
        torch.testing.assert_close(loaded(x), program(x))
    for x, message in ((torch.tensor([200, 1]), "too large"), (torch.tensor([3, 4]), "7")):
        for runs in (program, loaded):
            with pytest.raises(tenon.Error, match=message):
                runs(x)


def test_a_file_checks_what_the_model_asserts_of_its_sizes(tmp_path):
    class NotSeven(torch.nn.Module):
        def forward(self, x):
            torch.ops.aten._assert_scalar.default(x.shape[0] != 7, "not seven")
            return x * 2

    program = tenon.compile(NotSeven(), (torch.ones(4, 2),), dynamic_shapes=({0: Dim.AUTO},))
    loaded = tenon.load(saved(tmp_path, program))
    for runs in (program, loaded):
        assert runs(torch.ones(6, 2)).sum() == 24
        with pytest.raises(tenon.Error, match="not seven"):
            runs(torch.ones(7, 2))


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "vit", "mobilenet_v2"])
def test_small_models_of_the_zoo(tmp_path, name):
    model = getattr(zoo, name)(small=True)
    path = saved(tmp_path, tenon.compile(model.module, model.args, dynamic_shapes=model.dynamic_shapes))
    loaded = tenon.load(path)
    for args in (model.args, model.other_args):
        torch.testing.assert_close(loaded(*args), model.module(*args), rtol=1e-4, atol=1e-4)


def test_results_have_the_structure_of_the_model(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, pair, *, scale):
            return {"sum": pair[0] + pair[1], "scaled": [pair[0] * scale]}

    args, kwargs = ((torch.ones(2), torch.ones(2)),), {"scale": torch.tensor([2.0, 3.0])}
    loaded = tenon.load(saved(tmp_path, tenon.compile(Model(), args, kwargs)))
    torch.testing.assert_close(loaded(*args, **kwargs), Model()(*args, **kwargs))
    with pytest.raises(tenon.Error, match="nest otherwise than those that the model was saved with"):
        loaded(torch.ones(2))


def test_state_starts_as_it_was_saved(tmp_path):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count += x.sum()
            return self.count * 2

    path = saved(tmp_path, tenon.compile(Counter(), (torch.ones(3),)))
    first, second = tenon.load(path), tenon.load(path)
    assert [first(torch.ones(3)).item() for _ in range(2)] == [6, 12]
    assert second(torch.ones(3)).item() == 6


def test_inputs_that_do_not_fit_are_named(tmp_path):
    path = saved(tmp_path, tenon.compile(torch.nn.Linear(4, 2), (torch.ones(3, 4),)))
    loaded = tenon.load(path)
    with pytest.raises(tenon.Error, match=r"input 'input' must be f32\[3, 4\], got f32\[3, 5\]"):
        loaded(torch.ones(3, 5))
    with pytest.raises(tenon.Error, match=r"must be f32\[3, 4\], got f64\[3, 4\]"):
        loaded(torch.ones(3, 4).double())


MEASURED = """
import re, sys, tenon, torch

def kib(name):
    return int(re.search(rf"{name}:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

program = tenon.load(sys.argv[1], budget=1 << 30, threads=2)
torch.manual_seed(0)
x = torch.rand(*map(int, sys.argv[2:]))
program(x[:64, :64] if x.ndim == 2 else x[:64])  # loads code, wakes threads
open("/proc/self/clear_refs", "w").write("5")
before = kib("VmRSS")
results = program(x)
print(1024 * (kib("VmHWM") - before), program.peak_bytes)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux to tell the peak of a process")
@pytest.mark.parametrize("function", ["sort", "unique", "inv"])
def test_the_peak_is_the_memory_that_a_run_takes(tmp_path, function):
    size = (900, 900) if function == "inv" else (1_000_000,)
    model = {"sort": lambda x: x.sort(), "unique": lambda x: x.unique(), "inv": lambda x: x.inverse()}[function]
    n = Dim("n", min=2)
    shapes = ({0: n, 1: n},) if function == "inv" else ({0: n},)
    example = torch.rand(8, 8) if function == "inv" else torch.rand(8)
    path = saved(tmp_path, tenon.compile(Called(model), (example,), dynamic_shapes=shapes))
    done = warm.run(MEASURED, path, *size, check=True)
    measured, peak = map(int, done.stdout.split())
    assert 0.5 * peak < measured < 1.1 * peak + (4 << 20)


class Called(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_a_budget_that_is_too_small_names_what_is_needed(tmp_path):
    path = saved(tmp_path, tenon.compile(Mlp().eval(), (torch.ones(64, 4),)))
    free = tenon.load(path, threads=1)
    expected = free(torch.ones(64, 4))
    torch.testing.assert_close(tenon.load(path, threads=1, budget=free.peak_bytes)(torch.ones(64, 4)), expected)
    with pytest.raises(tenon.Error, match=f"needs at least {free.peak_bytes} bytes .* largest tensors are:\n  "):
        tenon.load(path, threads=1, budget=free.peak_bytes - 1)(torch.ones(64, 4))


# ---- calls that PyTorch runs


@torch.library.custom_op("tenon_artifact::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


_library = torch.library.Library("tenon_artifact", "FRAGMENT")


def call_model(tmp_path, model=None, arguments=None):
    model, arguments = model or HermiteModel(), arguments or (torch.randn(4, 4),)
    return model, arguments, saved(tmp_path, tenon.compile(model, arguments))


class HermiteModel(torch.nn.Module):
    def forward(self, x):
        y = torch.special.hermite_polynomial_h(torch.relu(x), 3) + 1
        factors, _, _ = torch.ops.aten.linalg_ldl_factor_ex.default(y @ y.T, hermitian=False)
        return factors * 2, torch.ops.tenon_artifact.positive(x) * 2


def test_calls_of_pytorch_are_saved(tmp_path):
    model, arguments, path = call_model(tmp_path)
    for program in (tenon.load(path), tenon.load(path, native=False, fallback=True)):
        for _ in range(2):
            torch.testing.assert_close(program(*arguments), model(*arguments))


def test_calls_with_every_kind_of_argument(tmp_path):
    class Cast(torch.nn.Module):
        def forward(self, x):
            return torch.ops.tenon_artifact.cast(x, [2, 8], 0.5, dtype=torch.float64, flag=True) + 1

    torch.library.define(
        "tenon_artifact::cast",
        "(Tensor x, int[] sizes, float scale, *, ScalarType dtype, bool flag, Tensor? other=None) -> Tensor",
        lib=_library,
    )

    def cast(x, sizes, scale, *, dtype, flag, other=None):
        assert (flag, other) == (True, None)
        return (x.reshape(sizes) * scale).to(dtype)

    _library.impl("cast", cast, "CompositeExplicitAutograd")
    model, arguments, path = call_model(tmp_path, Cast())
    torch.testing.assert_close(tenon.load(path)(*arguments), model(*arguments))


def test_calls_that_this_process_lacks_are_listed(tmp_path):
    _, _, path = call_model(tmp_path)
    names = "aten.special_hermite_polynomial_h.n_scalar", "tenon_artifact.positive.default"
    wanted = "calls that this process does not have .*" + "".join(f"\n  {name}" for name in names)
    for options in ({"native": False}, {"fallback": False}):
        with pytest.raises(tenon.Error, match=wanted):
            tenon.load(path, **options)
    code = f"import tenon; tenon.load({str(path)!r})"  # PyTorch's operators are there, the others are not
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stderr.endswith("(tenon_register_call):\n  tenon_artifact.positive.default\n")


def test_calls_with_tensors_that_tenon_lacks_are_not_saved(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvals(x).abs() + 1

    with pytest.raises(tenon.Error, match=r"run only in the process that traced them:\n .*eig.*: it gives a tensor of"):
        tenon.compile(Model(), (torch.eye(3),)).save(tmp_path / "model.tenon")
    assert not (tmp_path / "model.tenon").exists()


@pytest.mark.parametrize(
    "name",
    ["aten.from_file.default", "os.system", "builtins.eval.default", "aten.add_.Tensor", "torch.load", "nothing"],
)
def test_files_call_no_other_functions(name):
    assert host_calls.find_call(name, "(self=%0) -> [%0]", 1, 1) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(self=%0)",
        "(self=%3) -> [%0]",
        "(self=%0) -> [%1]",
        "(self=%0) -> [None]",
        "(self=argument 0) -> [%0]",
        '(self={"torch": "load"}) -> [%0]',
        '(self={"torch": 3}) -> [%0]',
        '(self={"os": "system"}) -> [%0]',
    ],
)
def test_forms_of_calls_that_are_none(text):
    with pytest.raises(tenon.Error):
        host_calls.find_call("aten.relu.default", text, 1, 1)


def test_damaged_and_missing_files(tmp_path):
    path = saved(tmp_path, tenon.compile(torch.nn.Linear(4, 2), (torch.ones(3, 4),)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(tenon.Error, match=r"model\.tenon: "):
        tenon.load(path)
    with pytest.raises(tenon.Error, match=r"absent\.tenon: "):
        tenon.load(tmp_path / "absent.tenon")


def test_another_process_runs_the_file(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU()).eval()
    path = saved(tmp_path, tenon.compile(model, (torch.ones(2, 4),)))
    code = f"import tenon, torch; print(tenon.load({str(path)!r})(torch.ones(2, 4)).sum().item())"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(output) == pytest.approx(model(torch.ones(2, 4)).sum().item(), rel=1e-5)


# ---- entries and states ---------------------------------------------------------------------------------------------

TRAINING = Path(__file__).parents[1] / "golden/1.1/training.tenon"


@pytest.fixture
def points():
    return torch.arange(12.0).reshape(3, 4) / 12, torch.ones(3, 1)


def test_entries_of_a_file_share_its_states(points):
    file = tenon.load(TRAINING, native=False)
    assert file.entries == ["step", "eval"]
    step, evaluate = file.entry("step"), file.entry("eval")
    assert [name for name, _ in evaluate.inputs] == ["x", "target"]
    before = evaluate(*points)[0]
    torch.testing.assert_close(step(*points)[0], before)
    assert evaluate(*points)[0] < before
    assert file.states["steps"] == 1
    with pytest.raises(tenon.Error, match="the file has no entry 'train'; its entries are step, eval"):
        file.entry("train")


def test_states_are_a_mapping(points):
    states = tenon.load(TRAINING).states
    assert list(states) == ["line.weight", "optimizer.momentum", "steps"]
    assert len(states) == 3
    assert states["steps"].dtype == torch.int64
    states["line.weight"] = torch.full((4,), 2.0)
    torch.testing.assert_close(states["line.weight"], torch.full((4,), 2.0))
    states["line.weight"] = torch.arange(8.0)[::2]
    torch.testing.assert_close(states["line.weight"], torch.tensor([0.0, 2, 4, 6]))
    states.reset()
    assert states["line.weight"][0] > 0
    with pytest.raises(tenon.Error, match=r"state 'line.weight' is f32\[4\], got f32\[2\]"):
        states["line.weight"] = torch.zeros(2)
    with pytest.raises(KeyError, match="bias"):
        states["bias"]


def test_checkpoints_hold_states_and_notes(tmp_path, points):
    file, path = tenon.load(TRAINING), tmp_path / "epoch.states"
    file.entry("step")(*points)
    file.states.save(path, {"epoch": "1"})
    other = tenon.load(TRAINING)
    other.states.load(path)
    assert other.states.notes == {"epoch": "1"}
    for name, value in file.states.items():
        torch.testing.assert_close(other.states[name], value)
    damaged = tmp_path / "damaged.states"
    damaged.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(tenon.Error, match=r"damaged\.states: the file is damaged"):
        other.states.load(damaged)
    assert other.states["steps"] == 1


def test_states_are_exported_as_safetensors(tmp_path):
    states, path = tenon.load(TRAINING).states, tmp_path / "states.safetensors"
    states.export(path)
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    begin, end = header["line.weight"]["data_offsets"]
    values = torch.frombuffer(bytearray(data[8 + size + begin : 8 + size + end]), dtype=torch.float32)
    torch.testing.assert_close(values, states["line.weight"])
    assert set(header) == {"__metadata__", *states}


def test_a_model_that_counts_has_a_state(tmp_path):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x):
            self.count.add_(1)
            return x + self.count

    loaded = tenon.load(saved(tmp_path, tenon.compile(Counting(), (torch.zeros(2),))))
    assert loaded.entries == ["main"]
    loaded(torch.zeros(2))
    (name,) = loaded.states
    torch.testing.assert_close(loaded.states[name], torch.ones(2))
    loaded.states.reset()
    torch.testing.assert_close(loaded(torch.zeros(2)), torch.ones(2))


# ---- copies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda program: pickle.loads(pickle.dumps(program))])
def test_a_copy_runs_as_the_program_does(tmp_path, copied):
    model, x = Mlp().eval(), torch.randn(3, 4)
    program = tenon.compile(model, (x,), dynamic_shapes=({0: Dim("batch", min=1, max=64)},), threads=1)
    loaded = tenon.load(saved(tmp_path, program), threads=1)
    for given in (program, loaded, copied(program)):
        twin = copied(given)
        for x in (torch.randn(3, 4), torch.randn(7, 4)):
            torch.testing.assert_close(twin(x), model(x))


def test_a_copy_has_states_of_its_own(points):
    evaluate = tenon.load(TRAINING, native=False).entry("eval")
    evaluate.states["line.weight"] = torch.full((4,), 2.0)
    twin, loss = pickle.loads(pickle.dumps(evaluate)), evaluate(*points)
    evaluate.states["line.weight"] = torch.full((4,), 3.0)
    torch.testing.assert_close(twin(*points), loss)
    assert evaluate(*points)[0] != loss[0]


def test_a_copy_of_a_file_that_changed_is_refused(tmp_path):
    path = saved(tmp_path, tenon.compile(Mlp().eval(), (torch.randn(3, 4),)))
    loaded = tenon.load(path)
    saved(tmp_path, tenon.compile(Mlp().eval(), (torch.randn(2, 4),)))
    with pytest.raises(tenon.Error, match=r"model\.tenon is another file than the one that was loaded"):
        pickle.dumps(loaded)
