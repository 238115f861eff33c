"""tenon compile stage by stage: every stage is written, parses back, and gives the same program."""

import subprocess

import pytest
import torch
from cli_binary import LOOPBACK, ROOT
from torch import nn
from torch.export import Dim, export, save


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.project = nn.Linear(8, 24)
        self.norm = nn.LayerNorm(8)

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = self.project(x).chunk(3, dim=-1)
        return self.norm(x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)).softmax(-1)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 2).mean((2, 3)))


MODELS = {
    "attention": (Attention, torch.arange(10).view(2, 5), {0: Dim("batch", min=1, max=64)}),
    "images": (Images, torch.ones(2, 3, 8, 8), None),
}


@pytest.fixture(params=MODELS)
def model(request, tmp_path):
    make, example, dynamic = MODELS[request.param]
    torch.manual_seed(0)
    program = export(make().eval(), (example,), dynamic_shapes=(dynamic,) if dynamic else None)
    save(program, tmp_path / "model.pt2")
    return "model.pt2"


@pytest.fixture(scope="module")
def hello(tmp_path_factory):
    library = tmp_path_factory.mktemp("hello") / "hello.so"
    source = ROOT / "examples/devices/hello.c"
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{ROOT / 'include'}", "-o", library, source, "-lm"], check=True)
    return library


@pytest.fixture(params=["cpu", "loopback", "loopback:claim=0.6,seed=1", "hello", "interpreter"])
def device(request, hello):
    return "--plugin", LOOPBACK, "--plugin", hello, "--device", request.param


def emit_all(tenon, tmp_path, model, folder, *options):
    done = tenon("compile", model, "--emit", "all", "-o", folder, *options)
    assert done.code == 0, done.err
    return sorted(path.name for path in (tmp_path / folder).iterdir())


def test_every_stage_compiles_to_the_same_program(tenon, tmp_path, model, device):
    files = emit_all(tenon, tmp_path, model, "stages", *device)
    assert files[0] == "00-graph.tg"
    assert files[-1] == "18-memory.txt"
    last = (tmp_path / "stages" / files[-1]).read_text()
    for file in files[1:-1]:
        done = tenon("compile", model, "--from", f"stages/{file}", "--emit", "memory", *device)
        assert done.code == 0, (file, done.err)
        assert done.out.rstrip("\n") == last.rstrip("\n"), file


def test_a_stage_shows_the_segments_of_devices(tenon, model):
    device = ("--plugin", LOOPBACK, "--device", "loopback:ops=softmax+relu")
    groups = tenon("compile", model, "--emit", "groups", *device).out
    assert '\nsegment "loopback:ops=softmax+relu"\n  graph\n    graph segment0(' in groups
    assert "\n  groups\n    kernel(" in groups
    done = tenon("compile", model, "--stop-after", "partition", *device)
    assert done.out.splitlines()[-1].split()[0] == "partition"


def test_a_file_can_be_made_from_any_stage(tenon, tmp_path, model):
    files = emit_all(tenon, tmp_path, model, "stages")
    assert tenon("compile", model, "-o", "whole.tenon").code == 0
    for file in files[1:]:
        done = tenon("compile", model, "--from", f"stages/{file}", "-o", "again.tenon")
        assert done.code == 0, (file, done.err)
        if "code" not in file:  # assembled code may differ in bytes that are not run
            assert (tmp_path / "again.tenon").read_bytes() == (tmp_path / "whole.tenon").read_bytes(), file


def test_stop_after_says_how_long_each_stage_took(tenon, model):
    done = tenon("compile", model, "--stop-after", "groups")
    assert done.code == 0, done.err
    assert [line.split()[0] for line in done.out.splitlines()][-2:] == ["dce", "groups"]


def test_stages_that_do_not_fit_are_errors(tenon, model):
    assert "there is no stage 'grups'; did you mean 'groups'?" in tenon("compile", model, "--emit", "grups").err
    assert "name a folder with -o" in tenon("compile", model, "--emit", "all").err
    assert tenon("compile", model, "--emit", "groups", "-o", "groups.txt").code == 0
    done = tenon("compile", model, "--from", "groups.txt", "--emit", "cse")
    assert "groups.txt is the text of a stage that comes after cse" in done.err
