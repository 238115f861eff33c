"""A part of the OpInfo suite: the same on every run, and short enough for every run. `make opinfo` runs it all."""

import re
import zlib
from pathlib import Path

import pytest
import torch

from .cases import all_ops, run_op

ONE_OF = 4
COVERAGE = Path(__file__).parents[3] / "docs/coverage.md"


def family_of(op):
    """The module that an op is in: "nn.functional", "linalg"; "" of most."""
    return op.name.rpartition(".")[0]


def in_slice():
    """One of several by the hash of its name; of each family at least one."""
    ops = all_ops()
    names = [name for name in ops if zlib.crc32(name.encode()) % ONE_OF == 0]
    families = {family_of(ops[name]) for name in names}
    for name, op in ops.items():
        if family_of(op) not in families:
            families.add(family_of(op))
            names.append(name)
    return names


SLICE = in_slice()
STATUS = dict(re.findall(r"^\| (\S+) \| ([a-z ]+) \|", COVERAGE.read_text().partition("|---|")[2], re.MULTILINE))


@pytest.mark.parametrize("name", SLICE)
def test_op(name):
    outcome = run_op(all_ops()[name], dtypes=(torch.float32, torch.int64), cap=1)
    assert outcome.crashed == []
    assert outcome.wrong == []
    if STATUS[name] == "native":
        assert outcome.fallbacks == {}


def test_the_list_of_operators_is_up_to_date():
    """`make opinfo` writes docs/coverage.md."""
    assert sorted(STATUS) == sorted(all_ops())
    counted = [status for status in STATUS.values() if status != "not exported"]
    assert set(counted) <= {"native", "fallback"}
