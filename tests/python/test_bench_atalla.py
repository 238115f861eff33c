"""The bench of whole models on Atalla, on small ones."""

import json

import pt2e
import pytest
import tenon
import torch
from torch import nn

from bench.atalla import __main__ as command
from bench.atalla.models import CASES, Made


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "rows.json"
    assert command.main(["--quick", "--body", "model", "--body", "cycles", "--top1", "3", "--json", str(path)]) == 0
    return {(row["model"], row["dtype"]): row for row in json.loads(path.read_text())}


@pytest.mark.parametrize("dtype", ["int8", "bf16"])
@pytest.mark.parametrize("name", CASES)
def test_bodies_agree_and_are_as_exact_as_eager(rows, name, dtype):
    row = rows[name, dtype]
    assert row["is_equal"]
    assert sorted(row["seconds"]) == ["cycles", "model"]
    assert row["error"] <= 1.5 * row["eager_error"]


@pytest.mark.parametrize(("name", "dtype", "count", "segments"), [("resnet50", "int8", 13, 3), ("bert", "int8", 13, 9)])
def test_layers_run_on_the_array(rows, name, dtype, count, segments):
    streams = rows[name, dtype]["streams"]
    assert (len(streams["layers"]), streams["segments"]) == (count, segments)
    assert {layer["operand"] for layer in streams["layers"]} == {"i8"}


def test_residuals_of_bytes_are_part_of_a_layer(rows):
    streams = rows["resnet50", "int8"]["streams"]
    assert [layer["output"] for layer in streams["layers"] if layer["residual"]] == ["i8"] * 3


def test_blocks_are_chosen_by_estimates_that_hold(rows):
    off = [
        layer["estimate"] / layer["cycles"]
        for row in rows.values()
        for layer in row["streams"]["layers"]
        if layer["cycles"] > 1000
    ]
    assert len(off) > 30
    assert min(off) > 0.75
    assert max(off) < 1.2


def test_the_array_is_busy():
    """Layers of ResNet-50 in their real sizes: banks, buffers and tokens let loads and stores overlap."""
    torch.manual_seed(0)
    tenon.load_plugin(str(command.PLUGIN))
    convolutions = nn.Conv2d(256, 256, 1), nn.Conv2d(256, 256, 3, padding=1), nn.Conv2d(256, 512, 1, 2)
    module = nn.Sequential(*(part for each in convolutions for part in (each, nn.ReLU())), nn.Conv2d(512, 512, 1))
    x = torch.randn(1, 256, 14, 14)
    model = Made(pt2e.quantized(module, x), module, "int8")
    layers = command.streams(model, (x,), "")["layers"]
    assert [layer["rows"] for layer in layers] == [196, 196, 49, 49]
    assert min(command.utilization(layer, 16) for layer in layers) > 0.9
    assert all(0.95 < layer["estimate"] / layer["cycles"] < 1.05 for layer in layers)


def test_loads_are_busy_where_weights_are_used_once():
    """A classifier of one image: groups that differ in length would wait for each other's buffers."""
    tenon.load_plugin(str(command.PLUGIN))
    module, x = nn.Linear(1280, 1000).bfloat16(), torch.randn(1, 1280).bfloat16()
    (layer,) = command.streams(Made(module, module, "bf16"), (x,), "")["layers"]
    lines = 2 * 80 * 63 * 16  # of the weights, one a cycle
    assert lines < layer["cycles"] < 1.05 * lines


def test_only_activations_around_segments_cross(rows):
    streams = rows["resnet50", "int8"]["streams"]
    assert (streams["transfers"], streams["permutations"]) == (6, 4)


def test_the_table_says_what_was_measured(rows):
    row = command.Row(**rows["resnet50", "int8"])
    assert "the same bits" in command.summary(row, 16)
    assert "of 3 images" in command.summary(row, 16)
    assert len(command.layer_table(row, 16).splitlines()) == 14
    row.is_equal = False
    assert "DIFFERENT BITS" in command.summary(row, 16)
