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
    graph.output(*(tenon.ops.sum(tenon.ops.expand(x, shape=[i + 2, 8]) * (i + 0.5)) for i in range(500)))
    return lambda: _tenon.compile_graph(graph)


NODES = "".join(f"  %x{i + 1} = neg(%x{i})\n" for i in range(400000))
WORK = {
    "parse": parsed(f"graph g(%x0: f32[8]) {{\n{NODES}  return %x0\n}}\n"),
    "evaluate": evaluated(),
    "compile": compiled(),
}


def cpu_seconds_of(work):
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.parametrize("work", WORK.values(), ids=WORK.keys())
def test_ctrl_c_ends_long_work(work, monkeypatch):
    """The signal comes from a timer of the system: a thread of Python could not send one while C++ has the lock. The
    timer counts the time of the processor: the machine may be busy with other tests."""
    monkeypatch.setenv("TENON_CACHE", "off")
    whole = cpu_seconds_of(work)

    def interrupted():
        with pytest.raises(KeyboardInterrupt):
            work()

    before = signal.signal(signal.SIGPROF, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_PROF, whole / 10)
        assert cpu_seconds_of(interrupted) < whole / 2
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
