"""Runs build/bin/tenon as a user's shell does."""

import dataclasses
import subprocess

import pytest
from cli_binary import TENON


@dataclasses.dataclass
class Run:
    code: int
    out: str
    err: str


@pytest.fixture
def tenon(tmp_path):
    """A function that runs the command line in an empty folder, with files of this text in it."""

    def run(*args, files=None, stdin=""):
        for name, text in (files or {}).items():
            (tmp_path / name).write_text(text)
        done = subprocess.run(
            [TENON, *map(str, args)],
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Run(done.returncode, done.stdout, done.stderr)

    return run
