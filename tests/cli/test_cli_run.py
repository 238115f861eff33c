"""tenon run and tenon inspect on what PyTorch exported."""

import json

import numpy as np
import pytest
import torch
from cli_binary import ROOT

UNSUPPORTED = ROOT / "tests/capture/data/control.pt2"


def exported(folder, model, *args, functional=False):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, *args):
            return model(self, *args)

    program = torch.export.export(Model(), args)
    torch.export.save(program.run_decompositions({}) if functional else program, folder / "model.pt2")
    names = []
    for position, value in enumerate(args):
        np.save(folder / f"{position}.npy", value.numpy())
        names += ["--input", f"{position}.npy"]
    return ["model.pt2", *names]


def outputs_of(done):
    assert done.code == 0, done.err
    return [(output["updated"], output["data"]) for output in json.loads(done.out)["outputs"]]


def test_every_unsupported_call_has_a_line(tenon):
    done = tenon("run", UNSUPPORTED)
    assert done.code == 1
    first, *calls = done.err.splitlines()
    assert first.endswith("cannot be compiled, and there is no PyTorch here to run what is left:")
    assert calls
    assert all(line.startswith("  ") for line in calls)
    assert "?" not in done.err


def test_other_control_characters_stay_out(tenon):
    done = tenon("eval", "a\x1b\tb\nc.tg")
    assert "a??b?c.tg" in done.err


def test_an_argument_that_is_returned_is_a_result(tenon, tmp_path):
    given = exported(tmp_path, lambda self, x, y: (y, x + y, x), torch.ones(2), torch.zeros(2))
    assert outputs_of(tenon("run", *given, "--json")) == [(False, [0, 0]), (False, [1, 1]), (False, [1, 1])]


def test_a_weight_that_is_returned_is_a_result(tenon, tmp_path):
    given = exported(tmp_path, lambda self, x: (self.count, x * 2), torch.ones(2))
    assert outputs_of(tenon("run", *given, "--json")) == [(False, [0, 0]), (False, [2, 2])]


@pytest.mark.parametrize("functional", [False, True])
def test_what_is_written_and_returned(tenon, tmp_path, functional):
    given = exported(tmp_path, lambda self, x: (x.add_(1), self.count.add_(x)), torch.ones(2), functional=functional)
    outputs = outputs_of(tenon("run", *given, "--json"))
    assert outputs[:2] == [(False, [2, 2]), (False, [2, 2])]
    assert sorted(outputs[2:]) == [(True, [2, 2]), (True, [2, 2])]


def test_targets_are_named_as_in_the_registry(tenon):
    assert "torch.ops." not in tenon("inspect", UNSUPPORTED).out
