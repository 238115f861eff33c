"""Runs functions in forked processes: each finds imported what this process has imported, and dies alone.

A process has its limits: seconds of CPU time, so that a busy machine does not matter, and as a last resort seconds of
wall time.

A fork copies no threads. Those of a GPU's driver do no harm as long as the fork does not use it; PyTorch's own pool of
threads must be made anew, and by one thread: see `_serve`.
"""

from __future__ import annotations

import json
import math
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

MOST_BYTES = 12 << 30
_OUT_OF_TIME = (signal.SIGXCPU, signal.SIGALRM)


@dataclass
class Answer:
    """What a process gave, or how it died."""

    value: Any = None
    failure: str = ""  # "timeout", "crash", "exception"; empty if it gave a value
    why: str = ""


class Fork:
    """A process that runs a function. Its value must be JSON."""

    def __init__(self, function: Callable[[], Any], seconds: int) -> None:
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 as long as the process lives
        self.pipe, end = os.pipe()
        sys.stdout.flush()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self.pipe)
            _serve(function, seconds, end, self._errors.fileno())
        os.close(end)
        self._parts: list[bytes] = []

    def reads_more(self) -> bool:
        part = os.read(self.pipe, 1 << 16)
        self._parts.append(part)
        return bool(part)

    def answer(self) -> Answer:
        """Waits for the end of the process."""
        while self.reads_more():
            pass
        return self.last_answer()

    def last_answer(self) -> Answer:
        os.close(self.pipe)
        _, status = os.waitpid(self._pid, 0)
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip()]
        self._errors.close()
        last = lines[-1] if lines else ""
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number in _OUT_OF_TIME:
                return Answer(failure="timeout", why="out of time")
            return Answer(failure="crash", why=f"{signal.Signals(number).name}: {last}"[:300])
        if os.WEXITSTATUS(status):
            return Answer(failure="exception", why=last[:300])
        return Answer(json.loads(b"".join(self._parts)))


def _serve(function: Callable[[], Any], seconds: int, pipe: int, errors: int) -> None:
    status = 1
    try:
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(5 * seconds)
        # The first call after a fork makes PyTorch's pool of threads anew. The threads of a backward pass (a build for
        # GPUs has several) call it at once otherwise, and one of them finds no pool: PyTorch aborts the process.
        torch.set_num_threads(1)
        text = json.dumps(function()).encode()
        while text:
            text = text[os.write(pipe, text) :]
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def run_all(
    tasks: Sequence[str], function: Callable[[str], Any], jobs: int, seconds: int, end: float = math.inf
) -> Iterator[tuple[str, Answer]]:
    """The answer of each task, as they come. No task starts after `end`, a time of `time.monotonic`."""
    waiting = list(reversed(tasks))
    running: dict[int, tuple[str, Fork]] = {}
    while waiting or running:
        if time.monotonic() > end:
            waiting.clear()
        while waiting and len(running) < jobs:
            task = waiting.pop()
            fork = Fork(lambda task=task: function(task), seconds)
            running[fork.pipe] = (task, fork)
        for pipe in select.select(list(running), [], [])[0] if running else ():
            task, fork = running[pipe]
            if not fork.reads_more():
                del running[pipe]
                yield task, fork.last_answer()
