"""Models that are split between the CPU and devices: accelerators/loopback and examples/devices/hello.c."""

import re
import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest
import tenon
import tenon.loops
import torch

ROOT = Path(__file__).parents[2]
LOOPBACK = ROOT / "build/accelerators/loopback.so"


@pytest.fixture(scope="module", autouse=True)
def loopback():
    assert tenon.load_plugin(str(LOOPBACK)) == "loopback"
    return "loopback"


@pytest.fixture(scope="module")
def hello(tmp_path_factory):
    return build(ROOT / "examples/devices/hello.c", tmp_path_factory.mktemp("hello"))


def build(source, folder):
    library = folder / f"{source.stem}.so"
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{ROOT / 'include'}"]
    subprocess.run([*command, "-o", library, source, "-lm"], check=True)
    return str(library)


def mlp():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8), torch.nn.Softmax(-1)]
    return torch.nn.Sequential(*layers).eval()


def kinds(program):
    return [task["kind"] for task in program.kernels]


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
        return x + self.out((weights @ v).transpose(1, 2).flatten(2))


# ---- tenon.compile


@pytest.mark.parametrize(
    "device",
    ["loopback", "loopback:ops=relu", "loopback:ops=linear,delay=50", "loopback:claim=0.5,seed=3", ["loopback", "cpu"]],
    ids=str,
)
def test_results_are_those_of_the_cpu(device):
    model, x = mlp(), torch.randn(4, 16)
    program = tenon.compile(model, (x,), device=device)
    assert "device" in kinds(program)
    for _ in range(3):
        torch.testing.assert_close(program(x), model(x))


def test_a_whole_model_on_the_device_has_the_same_bits():
    model, x = Attention().eval(), torch.randn(2, 6, 32)
    program = tenon.compile(model, (x,), device="loopback")
    assert "kernel" not in kinds(program)
    assert torch.equal(program(x), tenon.compile(model, (x,))(x))


def test_symbolic_sizes():
    model = Attention().eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = tenon.compile(
        model, (torch.randn(2, 6, 32),), dynamic_shapes={"x": {0: batch}}, device="loopback:claim=0.6,seed=2,delay=20"
    )
    assert "device" in kinds(program)
    for size in (1, 5, 64, 2):
        x = torch.randn(size, 6, 32)
        torch.testing.assert_close(program(x), model(x))


def test_one_op_in_the_middle_costs_two_transfers():
    program = tenon.compile(mlp(), (torch.randn(4, 16),), device="loopback:ops=relu")
    assert kinds(program).count("device") == 1
    assert kinds(program).count("transfer") == 2


def test_explain_says_who_runs_what_and_why():
    program = tenon.compile(mlp(), (torch.randn(4, 16),), device="loopback:ops=relu")
    device = "loopback:ops=relu"
    assert [(node["op"], node["device"]) for node in program.placement] == [
        ("linear", "cpu"),
        ("relu", device),
        ("linear", "cpu"),
        ("softmax", "cpu"),
    ]
    assert program.placement[0]["declined"] == {device: "the option ops lacks it"}
    assert program.placement[1]["declined"] == {}
    assert [side for side, _ in program.segments] == ["cpu", device, "cpu"]
    text = tenon.explain(program)
    assert f"{device} runs 1 of 4 nodes, in 1 segment\n" in text
    assert f"{device} declined 3 nodes\n  3 the option ops lacks it: linear %" in text
    assert tenon.compile(mlp(), (torch.randn(4, 16),)).placement == []


def test_calls_that_pytorch_runs_stay_with_pytorch():
    def model(x):
        return torch.special.zeta(torch.relu(x) + 2, torch.relu(x) + 1) * 2

    x = torch.randn(5)
    program = tenon.compile(model, (x,), device="loopback")
    torch.testing.assert_close(program(x), model(x))


def test_updated_buffers():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("sum", torch.zeros(4))

        def forward(self, x):
            self.sum.add_(torch.relu(x))
            return self.sum * 2

    model, expected = Counter(), Counter()
    x = torch.randn(4)
    program = tenon.compile(model, (x,), device="loopback:delay=50")
    for _ in range(3):
        torch.testing.assert_close(program(x), expected(x))
    torch.testing.assert_close(model.sum, expected.sum)


def test_a_python_backend_is_a_device():
    class Counting(tenon.loops.Backend):
        name = "counting"
        runs = 0

        def compile(self, tree):
            kernel = tenon.loops.compile(tree, "cpu")

            def run(memory):
                self.runs += 1
                kernel.run(memory)

            return types.SimpleNamespace(run=run)

    backend = Counting()
    tenon.loops.register_backend(backend)
    try:
        model, x = mlp(), torch.randn(4, 16)
        program = tenon.compile(model, (x,), device="counting")
        torch.testing.assert_close(program(x), model(x))
        assert backend.runs > 0
    finally:
        tenon.loops.unregister_backend("counting")


# ---- files


def saved(path, device="loopback", model=None, **options):
    model = model or mlp()
    tenon.compile(model, (torch.randn(4, 16),), device=device, **options).save(path)
    return model


def other_process(code, plugins=""):
    environment = {"PYTHONPATH": ":".join(sys.path), "TENON_PLUGINS": str(plugins)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


def test_a_file_runs_on_the_device_or_on_the_cpu(tmp_path):
    model, x = saved(tmp_path / "mlp.tenon"), torch.randn(4, 16)
    chosen = {device: tenon.load(tmp_path / "mlp.tenon", device=device) for device in ("", "loopback", "cpu")}
    assert [program.devices for program in chosen.values()] == [["loopback"], ["loopback"], []]
    assert tenon.load(tmp_path / "mlp.tenon", native=False).devices == []
    assert tenon.load(tmp_path / "mlp.tenon", device=None).devices == ["loopback"]
    for program in chosen.values():
        torch.testing.assert_close(program(x), model(x))


def test_a_file_runs_where_the_device_is_not_loaded(tmp_path):
    saved(tmp_path / "mlp.tenon")
    code = (
        f"import tenon, torch; p = tenon.load({str(tmp_path / 'mlp.tenon')!r}); p(torch.ones(4, 16)); print(p.devices)"
    )
    assert other_process(code) == "[]\n"
    assert other_process(code, LOOPBACK) == "['loopback']\n"
    wanted = code.replace("tenon')", "tenon', device='loopback')")
    assert "for loopback 1: device loopback is not loaded: load its plug-in first" in other_process(wanted)


@pytest.mark.parametrize("device", ["abacus", "loopback:volts=9"])
def test_a_device_that_does_not_fit_is_an_error(tmp_path, device):
    saved(tmp_path / "mlp.tenon")
    with pytest.raises(tenon.Error, match=r"no program of the file runs on .* here:\n  for loopback 1: "):
        tenon.load(tmp_path / "mlp.tenon", device=device)


def test_a_file_of_a_model_that_returns_its_argument(tmp_path):
    class Both(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x), x

    model = saved(tmp_path / "both.tenon", model=Both())
    program, x = tenon.load(tmp_path / "both.tenon"), torch.randn(4, 16)
    assert program.devices == ["loopback"]
    torch.testing.assert_close(program(x), model(x))


def test_files_of_a_device_that_takes_graphs(tmp_path, hello):
    tenon.load_plugin(hello)
    model, x = saved(tmp_path / "mlp.tenon", "hello"), torch.randn(4, 16)
    program = tenon.load(tmp_path / "mlp.tenon")
    assert program.devices == ["hello"]
    torch.testing.assert_close(program(x), model(x))


def test_a_backend_without_code_for_a_file_is_named(tmp_path):
    class Plain(tenon.loops.Backend):
        name = "plain"

        def compile(self, tree):
            kernel = tenon.loops.compile(tree, "cpu")
            return types.SimpleNamespace(run=kernel.run)

    tenon.loops.register_backend(Plain())
    try:
        with pytest.raises(tenon.Error, match="cannot be saved: backend plain compiled"):
            saved(tmp_path / "mlp.tenon", "plain")
    finally:
        tenon.loops.unregister_backend("plain")


def test_a_saved_training_goes_on_with_its_device(tmp_path):
    def trainer():
        return tenon.LocalTrainingInstance(
            mlp()[:3],
            loss="mse",
            optimizer="sgd(lr=0.1)",
            example_inputs=(torch.ones(4, 16),),
            device="loopback:claim=0.7",
        )

    x, y = torch.randn(4, 16), torch.randn(4, 8)
    first = trainer()
    first.save(tmp_path / "training.tenon")
    expected = [float(first.step(x, target=y)) for _ in range(3)]
    for device in ("", "cpu"):
        step = tenon.load(tmp_path / "training.tenon", device=device)
        assert bool(step.devices) == (device == "")
        torch.testing.assert_close([float(step(x, y)[0]) for _ in range(3)], expected)


def test_files_on_the_command_line(tmp_path):
    def run(*arguments, plugin=True):
        command = [ROOT / "build/bin/tenon", *(["--plugin", LOOPBACK] if plugin else []), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return result.stdout + result.stderr

    file, inputs = tmp_path / "mlp.tenon", ["--input", ROOT / "examples/x.npy", "--json"]
    made = run("compile", ROOT / "examples/mlp.tg", "--random-params", "1", "--device", "loopback", "-o", file)
    assert "loopback and " in made
    plain = run("run", file, *inputs, plugin=False)
    assert '"outputs"' in plain
    for device in ([], ["--device", "loopback"], ["--device", "cpu"]):
        assert run("run", file, *inputs, *device) == plain
    assert "device loopback is not loaded" in run("run", file, *inputs, "--device", "loopback", plugin=False)
    assert "which is off" in run("run", file, *inputs, "--device", "loopback", "--no-native")
    assert "code for loopback 1 and " in run("inspect", file)
    assert "; taken here" in run("inspect", file)
    assert "not here: device loopback is not loaded" in run("inspect", file, plugin=False)
    assert '"taken": true' in run("inspect", file, "--json").replace('":true', '": true')
    verified = run("verify", file, plugin=False)
    assert "program for 0 loopback 1: " in verified
    assert verified.endswith(": ok\n")


# ---- the other doors


def test_torch_compile():
    model, x = Attention(), torch.randn(2, 6, 32, requires_grad=True)
    fast = torch.compile(model, backend="tenon", options={"device": "loopback:claim=0.7,seed=1", "fallback": False})
    expected = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])
    actual = torch.autograd.grad(fast(x).square().sum(), [x, *model.parameters()])
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", ["loopback", "loopback:claim=0.5,seed=4,delay=20"])
def test_training(device):
    def losses(**where):
        model = mlp()
        trainer = tenon.LocalTrainingInstance(
            model[:3], loss="mse", optimizer="sgd(lr=0.1)", example_inputs=(torch.ones(4, 16),), **where
        )
        torch.manual_seed(1)
        x, y = torch.randn(4, 16), torch.randn(4, 8)
        return [float(trainer.step(x, target=y)) for _ in range(5)]

    torch.testing.assert_close(losses(device=device), losses())


def test_command_line(tmp_path):
    command = [ROOT / "build/bin/tenon", "run", ROOT / "examples/mlp.tg", "--random-params", "1"]
    command += ["--input", ROOT / "examples/x.npy", "--json"]
    plain = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    device = ["--plugin", LOOPBACK, "--device", "loopback"]
    assert subprocess.run([*command, *device], capture_output=True, text=True, check=True).stdout == plain
    missing = subprocess.run([*command, "--device", "npu"], capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert "there is no backend 'npu'" in missing.stderr


def test_the_command_line_lists_devices():
    def lines(*arguments):
        command = [ROOT / "build/bin/tenon", *arguments, "backends"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    plain, with_device = lines(), lines("--plugin", LOOPBACK)
    assert with_device[:-1] == plain
    assert re.match("loopback +this machine behind a plug-in's interface", with_device[-1])


def test_the_command_line_notes_a_device_that_runs_nothing(tmp_path):
    def told(command, *arguments):
        model = [ROOT / "examples/mlp.tg", "--random-params", "1", *arguments]
        command = [ROOT / "build/bin/tenon", "--plugin", LOOPBACK, command, *model, "--device"]
        for device in ("loopback:ops=erf", "loopback"):
            yield subprocess.run([*command, device], capture_output=True, text=True, check=True).stderr

    note = "note: loopback:ops=erf runs no node of the model: `tenon explain --device loopback:ops=erf` says why\n"
    for idle, busy in (told("run", "--input", ROOT / "examples/x.npy"), told("compile", "-o", tmp_path / "mlp.tenon")):
        assert note in idle
        assert "note" not in busy


def test_options_may_be_none():
    x = torch.randn(4, 16)
    program = tenon.compile(mlp(), (x,), device="loopback:")
    with warnings.catch_warnings(action="error"):  # it is the device "loopback"
        torch.testing.assert_close(program(tenon.to_device(x, "loopback")), mlp()(x))


def test_plugins_of_the_environment():
    code = "import tenon; print(tenon.devices())"
    for plugins, expected in ((str(LOOPBACK), "['loopback']"), ("", "[]")):
        result = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": ":".join(sys.path), "TENON_PLUGINS": plugins},
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout.strip() == expected


# ---- a device that takes graphs


def test_hello_runs_relu_matmul_and_softmax(hello):
    assert tenon.load_plugin(hello) == "hello"
    model, x = Attention().eval(), torch.randn(2, 6, 32)
    program = tenon.compile(model, (x,), device="hello")
    ops = [op for task in program.kernels if task["kind"] == "device" for op in task["ops"]]
    assert sorted(set(ops)) == ["matmul", "softmax"]
    torch.testing.assert_close(program(x), model(x))
    program = tenon.compile(mlp(), (torch.randn(4, 16),), device="hello")
    assert [task["ops"] for task in program.kernels if task["kind"] == "device"] == [["relu"], ["softmax"]]


def test_hello_is_small():
    assert len((ROOT / "examples/devices/hello.c").read_text().splitlines()) <= 150
    assert len((ROOT / "accelerators/loopback/loopback.c").read_text().splitlines()) <= 300


# ---- failures


def test_failures_are_errors_and_the_next_call_is_right():
    model, x = mlp(), torch.randn(4, 16)
    program = tenon.compile(model, (x,), device="loopback:fail=0.15,seed=5,delay=20")
    right, messages = 0, []
    for _ in range(40):
        try:
            result = program(x)
        except tenon.Error as error:
            messages.append(str(error))
        else:
            torch.testing.assert_close(result, model(x))
            right += 1
    assert right > 0
    assert messages
    assert all("device loopback: injected failure" in message for message in messages)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("abacus", "there is no backend 'abacus'.*a device is there when its plug-in is loaded"),
        (["loopback", "loopback"], "device loopback is named twice"),
        ("loopback:speed=2", "the options are claim, ops, delay, fail and seed"),
        (3, "a device is a name"),
        ([""], "a device is a name"),
    ],
)
def test_bad_devices(device, message):
    with pytest.raises((tenon.Error, TypeError), match=message):
        tenon.compile(mlp(), (torch.randn(4, 16),), device=device)


@pytest.mark.parametrize("device", ["abacus", ["loopback", "abacus"]])
def test_no_front_door_takes_a_device_that_there_is_not(device):
    model, x = mlp(), torch.randn(4, 16)
    with pytest.raises(Exception, match="there is no backend 'abacus'"):  # and no fallback to PyTorch
        torch.compile(model, backend="tenon", options={"device": device})(x)
    with pytest.raises(tenon.Error, match="there is no backend 'abacus'"):
        tenon.LocalTrainingInstance(model, loss="mse", optimizer=tenon.SGD(lr=0.1), example_inputs=(x,), device=device)


def test_plugins_that_are_none(tmp_path):
    with pytest.raises(tenon.Error, match="cannot be loaded"):
        tenon.load_plugin(str(tmp_path / "missing.so"))
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(tenon.Error, match="cannot be loaded"):
        tenon.load_plugin(str(tmp_path / "text.so"))
    (tmp_path / "other.c").write_text("int unrelated(void) { return 1; }\n")
    with pytest.raises(tenon.Error, match="exports no tenon_device_plugin_v1"):
        tenon.load_plugin(build(tmp_path / "other.c", tmp_path))


FAULTY = """
#include "tenon/device.h"
static tenon_status describe(const char* o, tenon_device_info* info, tenon_text* e) {{ (void)o, (void)e; {describe} }}
static tenon_status open_it(const char* o, tenon_device** d, tenon_text* e) {{ (void)o, (void)d, (void)e; {open} }}
static tenon_status compile(tenon_device* d, const tenon_segment* s, tenon_sink* k, tenon_text* e) {{
  (void)d, (void)s, (void)k, (void)e; {compile} }}
static tenon_status load(tenon_device* d, const void* c, size_t n, tenon_device_program** p, tenon_text* e) {{
  (void)d, (void)c, (void)n, (void)p, (void)e; {load} }}
static tenon_status submit(tenon_device* d, tenon_device_program* p, const tenon_launch* l, uint64_t* t,
                           tenon_text* e) {{
  (void)d, (void)p, (void)l, (void)t, (void)e; {submit} }}
const tenon_device_api* tenon_device_plugin_v1(const tenon_host* host) {{
  (void)host;
  static const tenon_device_api api = {{{size}, describe, open_it, .compile = compile, .load = load, .submit = submit}};
  return {api};
}}
"""

GOOD = {
    "describe": 'static const tenon_op_rule rule = {"relu", 0, 0, 0}; '
    'info->name = "NAME"; info->version = "1"; info->rules = &rule; info->rule_count = 1; return TENON_OK;',
    "open": "return TENON_OK;",
    "compile": 'return k->write(k->self, "code", 4);',
    "load": "return TENON_OK;",
    "submit": "return TENON_OK;",
    "size": "sizeof api",
    "api": "&api",
}


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("f_null", {"api": "(const tenon_device_api*)0"}, "does not work with this version"),
        ("f_size", {"size": "4"}, "a plug-in's table has a size of 4"),
        ("f_noname", {"describe": "info->name = 0; return TENON_OK;"}, "a device calls itself ''"),
        ("f_cpu", {"describe": 'info->name = "cpu"; return TENON_OK;'}, "a device calls itself 'cpu'"),
        ("f_rules", {"describe": 'info->name = "NAME"; info->rule_count = 1 << 20; return TENON_OK;'}, "1048576 rules"),
        ("f_align", {"describe": 'info->name = "NAME"; info->alignment = 48; return TENON_OK;'}, "aligns to 48"),
        ("f_open", {"open": 'return tenon_write_text(e, TENON_IO, "the cable is out");'}, "the cable is out"),
        ("f_silent", {"open": "return TENON_IO;"}, "failed without a reason"),
        ("f_compile", {"compile": 'return tenon_write_text(e, TENON_RUN_FAILED, "no tiles");'}, "no tiles"),
        ("f_scratch", {"compile": 'k->scratch_bytes = ~0ull; return k->write(k->self, "x", 1);'}, "bytes of scratch"),
        ("f_load", {"load": 'return tenon_write_text(e, TENON_BAD_FILE, "bad code");'}, "bad code"),
        ("f_submit", {"submit": 'return tenon_write_text(e, TENON_RUN_FAILED, "too hot");'}, "too hot"),
        ("f_status", {"submit": "return (tenon_status)99;"}, "failed without a reason"),
    ],
)
def test_faulty_plugins_are_errors(tmp_path, name, changes, message):
    source = tmp_path / f"{name}.c"
    source.write_text(FAULTY.format(**{key: text.replace("NAME", name) for key, text in {**GOOD, **changes}.items()}))
    library, x = build(source, tmp_path), torch.randn(4, 16)

    def use():
        tenon.load_plugin(library)
        tenon.compile(mlp(), (x,), device=name)(x)

    with pytest.raises(tenon.Error, match=message):
        use()
