"""A part of the OpInfo suite: the same on every run, and short enough for every run. `make opinfo` runs it all."""

import zlib

import pytest
import torch

from .cases import all_ops, run_op

ONE_OF = 6


def is_in_slice(name):
    return zlib.crc32(name.encode()) % ONE_OF == 0


@pytest.mark.parametrize("name", [name for name in all_ops() if is_in_slice(name)])
def test_op(name):
    outcome = run_op(all_ops()[name], dtypes=(torch.float32, torch.int64), cap=1)
    assert outcome.crashed == []
    assert outcome.wrong == []
