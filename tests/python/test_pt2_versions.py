"""Files of other versions of PyTorch, which `make versions` exports: tests/capture/data/torch-2.9/ and so on."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import tenon
import torch
from tenon import structure

DATA = Path(__file__).parents[1] / "capture/data"
FOLDERS = sorted(DATA.glob("torch-*"))
EXAMPLES = runpy.run_path(str(DATA / "make.py"))["examples"]()


def copies(arguments):
    return [argument.clone() if isinstance(argument, torch.Tensor) else argument for argument in arguments]


def leaves(value):
    return torch.utils._pytree.tree_leaves(value)


def test_there_are_files_of_several_versions():
    assert len(FOLDERS) >= 5
    for folder in FOLDERS:
        assert {path.stem for path in folder.iterdir()} == set(EXAMPLES)


def body(path):
    """What the reader found, without the version and the lines of the model."""
    return re.sub(r" @ .*", "", str(tenon.read_pt2(str(path))).partition("\n")[2])


@pytest.mark.parametrize("name", sorted(EXAMPLES))
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_file_reads_as_that_of_the_pinned_version(folder, name):
    path = folder / f"{name}.pt2"
    assert f"torch {folder.name.removeprefix('torch-')}." in str(tenon.read_pt2(str(path))).splitlines()[0]
    assert body(path) == body(DATA / path.name)


# A program cannot hold the others: a branch, complex numbers.
@pytest.mark.parametrize("name", ["linear", "dynamic", "state"])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_file_computes_what_its_model_does(folder, name):
    example = EXAMPLES[name]
    ours, theirs = copies(example.arguments), copies(example.arguments)
    expected = example.model(*theirs, **example.keywords)
    got = tenon.compile(folder / f"{name}.pt2", fallback=False)(*ours, **example.keywords)
    for one, other in zip([*leaves(got), *ours], [*leaves(expected), *theirs], strict=True):
        torch.testing.assert_close(one, other)


def test_structures_of_pytorch_2_9_are_read():
    """Its specs have their parts as an attribute, and no method for them."""
    leaf = SimpleNamespace(is_leaf=lambda: True)
    pair = SimpleNamespace(is_leaf=lambda: False, type=tuple, context=None, children_specs=[leaf, leaf])
    assert structure._tree_of_spec(pair) == structure._tree_of_spec(torch.utils._pytree.tree_structure((1, 2)))
