"""`tenon device new`: what it writes is a device that works (accelerators/template)."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pt2e
import pytest
import tenon
import torch
from torch import nn

ROOT = Path(__file__).parents[2]
TENON = Path(os.environ.get("TENON_CLI", ROOT / "build/bin/tenon"))
MOST_LINES, MOST_FUNCTIONS = 300, 12
FUNCTION = re.compile(r"^(?:static )?[\w ]+[ *]\w+\([^;]*?\) \{$", re.MULTILINE)


def run(*command, cwd):
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A device outside of the tree: nothing of the repository is near it."""
    folder = tmp_path_factory.mktemp("hardware")
    code, text = run(TENON, "device", "new", "npu", cwd=folder)
    assert code == 0, text
    assert "make -C npu test" in text
    return folder / "npu"


def test_it_is_small(made):
    text = (made / "npu.c").read_text()
    names = [match[0] for match in FUNCTION.finditer(text)]
    assert len(text.splitlines()) <= MOST_LINES
    assert 8 <= len(names) <= MOST_FUNCTIONS, names
    assert '#include "tenon/' in text
    assert re.findall(r'#include "(.*)"', text) == ["tenon/device.h"]


def test_its_own_tests_and_the_check_pass(made):
    code, text = run("make", "test", f"TENON={TENON}", "ARGS=--random 30", cwd=made)
    assert code == 0, text
    assert "npu_test: all results are right" in text
    assert re.search(r"random layers +30 graphs agree", text)
    assert "model.tg " in text
    assert " 0 differ" in text


def test_its_cmake_file_builds_it(made, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("there is no cmake")
    code, text = run("cmake", "-S", made, "-B", tmp_path, f"-DTENON={TENON}", cwd=tmp_path)
    assert code == 0, text
    assert run("cmake", "--build", tmp_path, cwd=tmp_path)[0] == 0
    code, text = run("ctest", "--output-on-failure", cwd=tmp_path)
    assert code == 0, text
    assert "100% tests passed, 0 tests failed out of 2" in text


def test_a_model_runs_on_it(made):
    assert run("make", cwd=made)[0] == 0
    assert tenon.load_plugin(str(made / "npu.so")) == "npu"
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).to(torch.bfloat16).eval()
    x = torch.randn(2, 3, 8, 8).to(torch.bfloat16)
    program = tenon.compile(model, (x,), device="npu")
    with torch.no_grad():
        torch.testing.assert_close(program(x), model(x), atol=0.02, rtol=0.02)
    assert sum(task["ops"].count("tile_layer") for task in program.kernels if task["kind"] == "device") == 2


@pytest.mark.parametrize("name", pt2e.MODELS)
def test_quantized_models_have_the_bits_of_atalla(made, name):
    assert run("make", cwd=made)[0] == 0
    tenon.load_plugin(str(made / "npu.so"))
    tenon.load_plugin(str(ROOT / "build/accelerators/atalla.so"))
    module, x = pt2e.made(name)
    npu, atalla = (tenon.compile(module, (x,), device=device) for device in ("npu", "atalla:body=model"))
    assert sum(task["ops"].count("tile_layer") for task in npu.kernels) >= 3
    assert torch.equal(npu(x), atalla(x))


def test_a_changed_plugin_is_another_one(made, tmp_path):
    """The cache of programs must not give the code of an older build to a newer one."""
    graph = "graph g(%x: bf16[4, 16], %w: bf16[16, 16]) {\n  %y = matmul(%x, %w)\n  return %y\n}\n"
    (tmp_path / "g.tg").write_text(graph)
    shutil.copytree(made, tmp_path / "npu")
    command = ("tenon", "compile", "g.tg", "--plugin", "npu/npu.so", "--device", "npu", "-o", "g.tenon")
    environment = {**os.environ, "TENON_CACHE": str(tmp_path / "cache")}
    sizes = []
    for change in ("", "+ 64"):
        text = (made / "npu.c").read_text()
        text = text.replace("sink->scratch_bytes = segment->action_scratch", f"sink->scratch_bytes = 128 {change}")
        (tmp_path / "npu/npu.c").write_text(text)
        assert run("make", "-B", "npu.so", cwd=tmp_path / "npu")[0] == 0
        done = subprocess.run(
            [str(TENON), *command[1:]], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        sizes.append((tmp_path / "g.tenon").read_bytes())
    assert sizes[0] != sizes[1]


def test_it_is_the_template_under_another_name(made):
    template = ROOT / "accelerators/template"
    for path in sorted(template.iterdir()):
        text = (made / path.name.replace("mydev", "npu")).read_text()
        assert text == path.read_text().replace("mydev", "npu"), path
    for header in ("device.h", "tenon.h"):
        assert (made / "include/tenon" / header).read_text() == (ROOT / "include/tenon" / header).read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Npu"], "'Npu' is no name of a device: take a lower-case letter, then letters, digits and _"),
        (["2d"], "is no name of a device"),
        (["n-pu"], "is no name of a device"),
        (["../npu"], "is no name of a device"),
        (["n" * 32], "31 at most"),
        ([""], "is no name of a device"),
        (["cpu"], "the name 'cpu' is taken"),
        (["interpreter"], "the name 'interpreter' is taken"),
        (["test"], "the name 'test' is taken"),
        (["there"], "there: error: exists already: choose another place with --dir"),
        (["npu", "--dir", "there"], "there: error: exists already"),
        (["npu", "--dir", "file/npu"], "file/npu: error: cannot write: Not a directory"),
    ],
)
def test_errors(tmp_path, arguments, message):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")
    code, text = run(TENON, "device", "new", *arguments, cwd=tmp_path)
    assert code == 1, text
    assert message in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "there"]
    assert list((tmp_path / "there").iterdir()) == []


def test_another_folder(tmp_path):
    code, text = run(TENON, "device", "new", "dsp", "--dir", "a/b", cwd=tmp_path)
    assert code == 0, text
    assert (tmp_path / "a/b/dsp.c").exists()
    assert "mydev" not in "".join(path.read_text() for path in (tmp_path / "a/b").rglob("*") if path.is_file())
