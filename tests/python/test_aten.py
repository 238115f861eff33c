"""The aten registry: every entry has PyTorch's signature, and samples that agree with eager PyTorch.

The core set is tested in test_core_aten.py.
"""

import aten_calls
import core_aten_samples
import pytest
from aten_samples import CHECKS, SAMPLES, STATIC
from tenon import _tenon

ENTRIES = _tenon.aten_entries()


def same_default(mine, theirs):
    mine, theirs = (list(value) if isinstance(value, tuple | list) else value for value in (mine, theirs))
    return mine == theirs


@pytest.mark.parametrize("name", sorted(name for name in ENTRIES if name.startswith(("aten.", "prims."))))
def test_an_entry_has_the_signature_of_the_overload(name):
    _, _, parameters = ENTRIES[name]
    arguments = aten_calls.schema_of(name).arguments
    assert [parameter[0] for parameter in parameters] == [argument.name for argument in arguments]
    for (parameter, has_default, default, keyword_only), argument in zip(parameters, arguments, strict=True):
        assert keyword_only == argument.kwarg_only, parameter
        assert has_default == argument.has_default_value(), parameter
        assert not has_default or same_default(default, argument.default_value), parameter


def test_every_entry_has_samples():
    assert sorted(ENTRIES.keys() - SAMPLES.keys() - core_aten_samples.SAMPLES.keys()) == []
    assert [name for name in SAMPLES if not _tenon.has_aten(name)] == []
    assert sorted((CHECKS.keys() | STATIC.keys()) - SAMPLES.keys()) == []


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_overload_agrees_with_torch(name):
    failures = aten_calls.check_all(CHECKS.get(name, aten_calls.check_equal), name, SAMPLES[name])
    if failures:
        pytest.fail(failures, pytrace=False)


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - CHECKS.keys()))
def test_overload_takes_symbolic_sizes(name):
    agreed = aten_calls.symbolic_agreements(name, SAMPLES[name])
    assert (agreed == 0) == (name in STATIC)
