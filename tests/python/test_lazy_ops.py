"""A part of PyTorch's samples on device "lazy": the same on every run. `make lazy-ops` runs them all.

The samples run in a worker process, for PyTorch's own part of the lazy device ends the process for some.
"""

import zlib

import lazy_device
import pytest
import tenon.lazy
import torch
from opinfo import lazy

ONE_OF = 4

# What PyTorch's own lazy device does not do right: see tenon.lazy.recorded.
CORRECTED = {
    "fill",
    "index_select",
    "logdet",
    "native_batch_norm",
    "native_dropout_backward",
    "nn.functional.max_pool3d",
    "nn.functional.pixel_shuffle",
    "nn.functional.pixel_unshuffle",
    "std",
    "svd",
}


def in_slice():
    """One of several operators by the hash of its name, and those that Tenon corrects."""
    tasks = []
    for name, op in lazy.relevant_ops().items():
        if name in CORRECTED:
            tasks += lazy.tasks_of(name, op, (torch.float32, torch.int64), cap=2)
        elif zlib.crc32(name.encode()) % ONE_OF == 0:
            tasks += lazy.tasks_of(name, op, (torch.float32, torch.int64), cap=1)
    return tasks


@pytest.fixture(scope="module")
def report():
    return lazy.run(in_slice(), jobs=1)


def test_results_are_those_of_the_cpu(report):
    assert report.problems == {}


def test_tenon_is_right_where_pytorch_is_not(report):
    assert [task for task in report.of_torch if task.op in CORRECTED] == []


def test_tenon_runs_what_the_device_records(report):
    rows = report.rows()
    left = sorted(name for name, (_, fallback) in rows.items() if fallback > 0)
    assert len(rows) > 50
    assert len(left) <= 0.1 * len(rows), left


@pytest.mark.parametrize("of", [lambda x: x, torch.exp], ids=["of inputs", "of nodes"])
def test_graphs_that_differ_only_in_what_reads_what(of):
    """They are one to PyTorch: the second gave the results of the first."""
    lazy_device.start()
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])

    def step(function):
        x, y = of(a.to("lazy")), of(b.to("lazy"))
        results = [x + y, function(x, y)]
        tenon.lazy.mark_step()
        return [result.cpu() for result in results]

    for function in (lambda x, y: x - y, lambda x, y: y - x):
        torch.testing.assert_close(step(function), [of(a) + of(b), function(of(a), of(b))])


def test_graphs_that_differ_only_in_the_order_of_results():
    lazy_device.start()
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])

    def step(order):
        given = [a.to("lazy"), b.to("lazy")]
        total = given[0] * given[1]
        results = [total, *(given[place].exp() for place in order)]
        tenon.lazy.mark_step()
        return [result.cpu() for result in results[1:]]

    torch.testing.assert_close(step([0, 1]), [a.exp(), b.exp()])
    torch.testing.assert_close(step([1, 0]), [b.exp(), a.exp()])
