"""Files with code for AArch64: made here, and run by the runtime for AArch64 under qemu, which `make arm64` builds."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pt2e
import pytest
import tenon
import torch
from torch import nn
from zoo import ZOO

ROOT = Path(__file__).parents[2]
RUN_FILES = ROOT / "build/arm64/bin/run_files"
GOLDEN = ROOT / "tests/golden"
DTYPES = {torch.float32: "f32", torch.int64: "i64", torch.bool: "bool"}

pytestmark = [
    pytest.mark.skipif(not RUN_FILES.exists(), reason="there is no build/arm64/bin/run_files: say make arm64"),
    pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="there is no qemu-aarch64: say make arm64"),
]


class Narrow(nn.Module):
    """Weights and products in bf16."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(24, 64).bfloat16(), nn.Linear(64, 10).bfloat16()

    def forward(self, x):
        return torch.tanh(self.down(torch.relu(self.up(x.bfloat16())))).float()


def of_zoo(name):
    model = ZOO[name](True)
    return model.module, model.args


def narrow():
    torch.manual_seed(0)
    # Numbers of few bits: sums of their products are exact in any order.
    module, x = Narrow().eval(), torch.randint(-4, 5, (6, 24)) / 4
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_((weight * 32).round() / 32)
    return module, (x,)


def quantized(name):
    module, x = pt2e.made(name)
    return module, (x,)


MODELS = {
    **{name: lambda name=name: of_zoo(name) for name in sorted(ZOO)},
    "narrow": narrow,
    **{f"quantized_{name}": lambda name=name: quantized(name) for name in pt2e.MODELS},
}


def text_of(role, tensor):
    """A tensor as tests/golden/*.txt state it."""
    shape, values = " ".join(map(str, tensor.shape)), " ".join(repr(float(each)) for each in tensor.flatten())
    return f"{role} {DTYPES[tensor.dtype]} {tensor.dim()} {shape} {values}\n"


def compiled(folder, name, make, cpus):
    """NAME.tenon with code for the CPUs, and NAME.txt with what it gives on this machine."""
    module, args = make()
    torch.export.save(torch.export.export(module, args, strict=False), folder / f"{name}.pt2")
    path = folder / name
    command = [ROOT / "build/bin/tenon", "compile", f"{path}.pt2", "-o", f"{path}.tenon", "--cpu", cpus]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    outputs = tenon.load(f"{path}.tenon")(*args)
    outputs = outputs if isinstance(outputs, tuple | list) else [outputs]
    lines = [text_of("input", each) for each in args] + [text_of("output", each) for each in outputs]
    Path(f"{path}.txt").write_text("run\n" + "".join(lines))
    return path


def run(*arguments, cpu="max", threads=2):
    """What run_files says of each path, by its name. One emulator runs all."""
    command = ["qemu-aarch64", "-cpu", cpu, "-E", f"TENON_THREADS={threads}", RUN_FILES, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    said = dict(part.split(": ", 1) for part in done.stdout.split("\n/") if part)
    return {Path(path).name: text.strip() for path, text in said.items()}


@pytest.fixture(scope="module")
def fat_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arm64")
    return {name: compiled(folder, name, make, "native,aarch64,neoverse-v2") for name, make in MODELS.items()}


# The first takes code for neoverse-v2, with dot products of bf16 and of bytes; the other the code for every CPU.
@pytest.mark.parametrize("cpu", ["max", "cortex-a72"])
def test_models_give_what_they_give_here(fat_files, cpu):
    assert len(fat_files) >= 10
    assert run(*fat_files.values(), cpu=cpu) == dict.fromkeys(fat_files, "as expected")


def test_a_file_runs_without_its_code(fat_files):
    assert run("--portable", fat_files["quantized_mlp"], fat_files["narrow"]) == {
        "quantized_mlp": "as expected",
        "narrow": "as expected",
    }


def test_golden_files_of_every_release_run_on_the_interpreter():
    paths = sorted(path.with_suffix("") for path in GOLDEN.glob("1.*/*.txt") if path.stem != "calls")
    assert len(paths) >= 7
    said = run("--portable", *paths)
    assert set(said.values()) == {"as expected"}, said


def test_a_file_without_code_for_the_cpu_says_what_is_missing(fat_files, tmp_path):
    newest = compiled(tmp_path, "newest", MODELS["narrow"], "neoverse-v2")
    here = compiled(tmp_path, "here", MODELS["narrow"], "native")
    assert run(newest)["newest"] == "as expected"
    assert "for neoverse-v2 it lacks bf16, dotprod, i8mm" in run(newest, cpu="cortex-a72")["newest"]
    assert "the file has no code for this CPU" in run(here)["here"]


def test_code_for_sve_runs_where_its_registers_have_that_length(tmp_path):
    models = ["narrow", "quantized_mlp", "bert", "mobilenet_v2"]
    sve = [compiled(tmp_path, name, MODELS[name], "neoverse-v1+sve256") for name in models]
    assert run(*sve, cpu="max,sve-default-vector-length=32") == dict.fromkeys(models, "as expected")
    lacks = "for neoverse-v1+sve256 it lacks sve256"
    assert all(lacks in said for said in run(*sve, cpu="max,sve-default-vector-length=64").values())
    both = compiled(tmp_path, "both", MODELS["narrow"], "neoverse-v2,neoverse-v1+sve256")
    for length in (16, 32, 64):
        assert run(both, cpu=f"max,sve-default-vector-length={length}") == {"both": "as expected"}


def test_a_file_with_code_for_arm_alone_is_compiled_again_here(tmp_path):
    path = compiled(tmp_path, "arm", MODELS["narrow"], "aarch64")
    _, (x,) = MODELS["narrow"]()
    portable = tenon.load(f"{path}.tenon", native=False)(x)
    np.testing.assert_allclose(tenon.load(f"{path}.tenon")(x), portable, rtol=1e-5)
    told = subprocess.run([ROOT / "build/bin/tenon", "inspect", f"{path}.tenon"], capture_output=True, text=True)
    assert "aarch64" in told.stdout
