"""Processes that have imported PyTorch and Tenon when they start: a script in a process of its own costs seconds less.

A server imports, and forks for each script. It compiles and runs nothing itself, so that a script finds a process as
new as one of `python -c`. Two things differ: all scripts have the same seed of hashes, and a missing import of a module
that the server imports goes unnoticed. What tests either needs a real process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from functools import cache
from pathlib import Path
from typing import Any

MEMBERS = "code", "arguments", "environment", "folder"


# ---- in the test ----------------------------------------------------------------------------------------------------


class Process:
    """A script that runs; the part of subprocess.Popen that tests need."""

    def __init__(
        self, code: str, *arguments: object, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self._outputs = [tempfile.TemporaryFile("w+", errors="replace") for _ in range(2)]  # noqa: SIM115
        values = code, [str(each) for each in arguments], dict(env or os.environ), str(cwd or Path.cwd())
        self._answer = socket.socket(socket.AF_UNIX)
        self._answer.connect(_server())
        socket.send_fds(self._answer, [b"?"], [file.fileno() for file in self._outputs])
        with self._answer.makefile("w") as request:
            request.write(json.dumps(dict(zip(MEMBERS, values, strict=True))) + "\n")

    def finish(self, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        self._answer.settimeout(timeout)
        with self._answer, self._answer.makefile() as answer:
            status = int(answer.readline())
        texts = []
        for file in self._outputs:
            file.seek(0)
            texts.append(file.read())
            file.close()
        return subprocess.CompletedProcess("a script", status, *texts)


def run(code: str, *arguments: object, check: bool = False, **options: Any) -> subprocess.CompletedProcess[str]:
    """Like subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)."""
    done = Process(code, *arguments, **options).finish()
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done


@cache
def _server() -> str:
    folder = tempfile.TemporaryDirectory(prefix="tenon-warm-")
    place = f"{folder.name}/socket"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    server = subprocess.Popen([sys.executable, __file__, place], stdin=subprocess.PIPE, env=environment)

    def stop() -> None:
        assert server.stdin
        server.stdin.close()
        server.wait()
        folder.cleanup()

    atexit.register(stop)
    while not Path(place).exists():
        assert server.poll() is None, "the server of warm processes has ended"
        time.sleep(0.01)
    return place


# ---- the server -----------------------------------------------------------------------------------------------------


def _serve(place: str) -> None:
    import select

    import tenon.torch_backend
    import torch._dynamo
    import torch.export  # noqa: F401

    assert tenon.torch_backend
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes that wait for scripts
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place + ".new")
        listening.listen()
        Path(place + ".new").rename(place)
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _wait_for_script(connection)
            connection.close()


def _wait_for_script(connection: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, outputs, _, _ = socket.recv_fds(connection, 1, 2)
    with connection.makefile() as lines:
        request = json.loads(lines.readline())
    child = os.fork()
    if child == 0:
        connection.close()
        _run_script(outputs, *(request[name] for name in MEMBERS))
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _run_script(outputs: list[int], code: str, arguments: list[str], environment: dict[str, str], folder: str) -> None:
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    for descriptor, output in enumerate(outputs, start=1):
        os.dup2(output, descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path.insert(0, "")
    sys.argv = ["-c", *arguments]
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    status = 0
    try:
        exec(compile(code, "<string>", "exec"), main.__dict__)
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1])
