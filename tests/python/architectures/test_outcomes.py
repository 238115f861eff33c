"""What the zoo says of a mode that is slow, wrong, or beyond PyTorch."""

import pytest
import torch

from . import modes
from .making import Made

SIZES = (2, 12)


class Fake:
    """A mode whose ways do as they are told."""

    def __init__(self, tenon, pytorch):
        self._tenon, self._pytorch = tenon, pytorch

    def prepare(self, made):
        pass

    def eager(self, made):
        return right()

    def pytorch(self, made):
        return self._pytorch()

    def tenon(self, made):
        return self._tenon(), []


def right():
    return {"result 0": torch.ones(3)}


def wrong():
    return {"result 0": torch.zeros(3)}


def fails():
    raise RuntimeError("no")


def is_slow():
    while True:
        pass


@pytest.mark.parametrize(
    ("tenon", "pytorch", "kind", "why"),
    [
        (right, fails, "ok", ""),
        (wrong, right, "wrong", "result 0: is 1 from double precision, eager is 0"),
        (wrong, wrong, "PyTorch", "PyTorch alone: DiffersError: result 0: is 1 from double precision, eager is 0"),
        (fails, right, "exception", "RuntimeError: no"),
        (fails, fails, "PyTorch", "PyTorch alone: RuntimeError: no"),
        (is_slow, right, "timeout", "more than 1 s of CPU time; PyTorch alone takes 0 s"),
        (is_slow, is_slow, "PyTorch", "PyTorch alone takes more than 1 s"),
    ],
)
def test_outcome(tenon, pytorch, kind, why):
    made = Made(torch.nn.Identity(), lambda batch, length: {"x": torch.ones(3)}, SIZES, False)
    mode = Fake(tenon, pytorch)
    outcome = modes._forked(made, mode, seconds=1) if tenon is is_slow else modes.run_mode(made, mode)
    assert (outcome.kind, outcome.why) == (kind, why)
