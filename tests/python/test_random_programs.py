"""Random PyTorch functions by torch.compile(backend="tenon"): results and gradients equal eager's.

TENON_RANDOM_PROGRAMS says how many; `make random-programs` runs 2,000.
"""

import os

import pytest
import torch
from random_programs import RandomProgram, gradients_of
from tenon import torch_backend

COUNT = int(os.environ.get("TENON_RANDOM_PROGRAMS", "24"))
FIRST = int(os.environ.get("TENON_FIRST_PROGRAM", "0"))


def run(function, program):
    inputs = program.inputs()
    results = function(*inputs)
    return [value.detach() for value in results], gradients_of(results, inputs)


def exact(program):
    """In float64, for what is far from eager by rounding alone."""
    inputs = [_widened(value).requires_grad_(value.requires_grad) for value in program.inputs()]
    results = program(*inputs)
    return [value.detach() for value in results], gradients_of(results, inputs)


def _widened(value):
    value = value.detach()
    if value.is_complex():
        return value.to(torch.complex128)
    return value.double() if value.is_floating_point() else value


def check_close(given, expected, best):
    """Equal to eager; where it is not, no farther from the exact result than twice eager's own error."""
    if given is None or expected is None:
        assert given is expected
        return
    assert (given.dtype, given.shape) == (expected.dtype, expected.shape)
    try:
        torch.testing.assert_close(given, expected, equal_nan=True)
    except AssertionError:
        if not (given.is_floating_point() or given.is_complex()):
            raise
        reference = best()
        error, own = ((value.to(reference.dtype) - reference).abs().nan_to_num().max() for value in (given, expected))
        assert error <= 2 * own + 1e-5 * reference.abs().nan_to_num().max(), f"error {error}, PyTorch's own is {own}"


def check_equal(given, expected, program):
    for part in range(2):  # results, gradients
        assert len(given[part]) == len(expected[part])
        for place, (ours, theirs) in enumerate(zip(given[part], expected[part], strict=True)):
            check_close(ours, theirs, lambda part=part, place=place: exact(program)[part][place])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_equals_eager(seed):
    """Or, where PyTorch's own trace of the function fails or differs from eager, equals backend="aot_eager"."""
    torch_backend.reports.clear()
    program = RandomProgram(seed)
    try:
        check_equal(compiled(program, "tenon"), run(program, program), program)
        assert not [report for report in torch_backend.reports if report.failure]
    except Exception as error:
        assert not [report for report in torch_backend.reports if report.failure and report.kind != "whole"]
        try:
            traced = compiled(program, "aot_eager")
        except Exception:
            if isinstance(error, AssertionError):
                check_equal(compiled(program, "tenon"), run(program, program), program)
            return
        check_equal(compiled(program, "tenon"), traced, program)


def compiled(program, backend):
    torch._dynamo.reset()
    return run(torch.compile(program, backend=backend), program)
