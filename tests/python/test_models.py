"""Every model of the zoo, with no fallback, beside eager: through tenon.compile, and as a .pt2 file through the command
line, which has no Python. With fixed sizes, and with a batch (and a length) that varies.

Small configurations by default; TENON_MODELS=full (make models) takes the real ones.
"""

import os
import subprocess

import numpy as np
import pytest
import tenon
import torch
from zoo import ZOO

SMALL = os.environ.get("TENON_MODELS") != "full"
TENON = os.environ.get("TENON", "build/bin/tenon")


@pytest.fixture(scope="module", params=sorted(ZOO))
def model(request):
    return ZOO[request.param](SMALL)


def exported(model, dynamic):
    shapes = model.dynamic_shapes if dynamic else None
    return torch.export.export(model.module, model.args, dynamic_shapes=shapes, strict=False)


def eager(model, args):
    with torch.no_grad():
        results = model.module(*args)
    return list(results) if isinstance(results, tuple) else [results]


def assert_as_good_as_eager(model, args, actual):
    """Deep models lose digits: the error against double precision may be twice that of eager."""
    expected = eager(model, args)
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected, strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
    try:
        torch.testing.assert_close(actual, expected)
    except AssertionError:
        exact = eager_in_double(model, args)
        for mine, theirs, right in zip(actual, expected, exact, strict=True):
            assert (mine - right).abs().max() <= 2 * (theirs - right).abs().max()


def eager_in_double(model, args):
    def to_double(x):
        return x.double() if x.is_floating_point() else x

    model.module.double()
    try:
        return eager(model, [to_double(x) for x in args])
    finally:
        model.module.float()


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_compiled(model, dynamic):
    program = tenon.compile(exported(model, dynamic), fallback=False)
    for args in (model.args, model.other_args) if dynamic else (model.args,):
        with torch.no_grad():
            results = program(*args)
        assert_as_good_as_eager(model, args, list(results) if isinstance(results, tuple) else [results])


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_from_a_file_without_python(model, dynamic, tmp_path):
    path = tmp_path / "model.pt2"
    torch.export.save(exported(model, dynamic), path)
    args = model.other_args if dynamic else model.args
    command = [TENON, "run", str(path), "--output", str(tmp_path / "out.npz")]
    for position, argument in enumerate(args):
        np.save(tmp_path / f"{position}.npy", argument.numpy())
        command += ["--input", str(tmp_path / f"{position}.npy")]
    subprocess.run(command, check=True, capture_output=True, text=True)
    with np.load(tmp_path / "out.npz") as archive:
        results = [torch.from_numpy(archive[name]) for name in archive.files]
    assert_as_good_as_eager(model, args, results)
