"""Runs tasks in worker processes. A worker that dies takes one task with it, and another worker goes on.

A task is a line of text. A worker reads tasks from its standard input and writes an answer for each, a line of JSON.
One that takes too long is ended.
"""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
MOST_SECONDS = 300  # of a task
_READY = "ready"


Answer = dict[str, Any] | str  # of a worker that died: what it said last


def serve(answer: Callable[[str], dict[str, Any]]) -> None:
    """What a worker does."""
    print(_READY, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(line.strip())), flush=True)


def run_all(
    tasks: Sequence[str], module: str, options: Sequence[str], jobs: int, show: Callable[[str, Answer], None]
) -> dict[str, Answer]:
    """The answer of each task. Workers are `python -m module options`."""
    waiting = list(reversed(tasks))
    answers: dict[str, Answer] = {}
    progress = _Progress(len(tasks))

    def work() -> None:
        worker = None
        while waiting:
            worker = worker if worker and worker.is_alive() else _Worker(module, options)
            try:
                task = waiting.pop()
            except IndexError:
                break
            answers[task] = worker.ask(task)
            progress.clear()
            show(task, answers[task])
            progress.show(len(answers), task)
        if worker:
            worker.end()

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for served in [pool.submit(work) for _ in range(jobs)]:
            served.result()
    progress.clear()
    return {task: answers[task] for task in tasks}


class _Worker:
    def __init__(self, module: str, options: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 as long as the process lives
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", module, *options]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._errors, text=True, cwd=ROOT)
        if self._process.stdout.readline().strip() != _READY:
            raise RuntimeError(f"{' '.join(command)} did not start: {self._last_words()}")

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, task: str) -> Answer:
        timer = threading.Timer(MOST_SECONDS, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(task + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, json.JSONDecodeError):
            return self._last_words()
        finally:
            timer.cancel()

    def _last_words(self) -> str:
        status = self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip()]
        return f"the process ended with status {status}: {lines[-1] if lines else 'without a word'}"

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._errors.close()


class _Progress:
    def __init__(self, total: int) -> None:
        self._total = total
        self._started = time.monotonic()
        self._is_shown = sys.stderr.isatty()

    def clear(self) -> None:
        if self._is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def show(self, done: int, task: str) -> None:
        if self._is_shown:
            left = (time.monotonic() - self._started) / done * (self._total - done)
            text = f"{done}/{self._total}, {left / 60:.0f} min left, {task}"
            print(text, end="", file=sys.stderr, flush=True)
