"""Waiting for a state of another process: a pause of a fixed length would be too short on a busy machine."""

import os
import time
from pathlib import Path

MOST_SECONDS = 300  # it will not come


def until(condition):
    end = time.monotonic() + MOST_SECONDS
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.002)


def handles(process, number):
    """Whether the process has a handler for the signal: until then the signal ends it."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def cpu_seconds(process):
    """Of a process that runs."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
