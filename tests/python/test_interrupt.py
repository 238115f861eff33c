"""Ctrl-C ends what the compiler does: it raises KeyboardInterrupt."""

import signal
import time

import pytest
import tenon
from tenon import _tenon


def parsed(text):
    return lambda: tenon.parse(text)


def evaluated():
    graph = tenon.parse("graph g() { %x = iota() {size=30000000, dtype=f32} %y = sin(%x) return %y }")
    return graph.evaluate


def compiled():
    graph = tenon.Graph("g")
    x = graph.input("x", "f32[8]")
    graph.output(*(tenon.ops.sum(tenon.ops.expand(x, shape=[i + 2, 8]) * (i + 0.5)) for i in range(2000)))
    return lambda: _tenon.compile_graph(graph)


NODES = "".join(f"  %x{i + 1} = neg(%x{i})\n" for i in range(400000))
WORK = {
    "parse": parsed(f"graph g(%x0: f32[8]) {{\n{NODES}  return %x0\n}}\n"),
    "evaluate": evaluated(),
    "compile": compiled(),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK.keys())
def test_ctrl_c_ends_long_work(work, monkeypatch):
    """The signal comes from a timer of the system: a thread of Python could not send one while C++ has the lock."""
    monkeypatch.setenv("TENON_CACHE", "off")
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            work()
        assert time.monotonic() - start < 5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
