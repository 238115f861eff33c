"""Every snippet of the README and of docs/ works: Python and shell blocks are run, C++ blocks are parts of the
examples, which are built and run by ctest."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def snippets(language):
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for number, (name, body) in enumerate(BLOCK.findall(page.read_text())):
            if name == language:
                yield pytest.param(body, id=f"{page.stem}-{number}")


def run(command, **environment):
    path = f"{ROOT / 'build/bin'}:{os.environ['PATH']}"
    result = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": path, **environment}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("body", list(snippets("python")))
def test_python_snippet_runs(body):
    run([sys.executable, "-c", body])


@pytest.mark.parametrize("body", list(snippets("sh")))
def test_shell_snippet_runs(body):
    run(["bash", "-euo", "pipefail", "-c", body])


@pytest.mark.parametrize("body", list(snippets("cpp")))
def test_cpp_snippet_is_part_of_an_example(body):
    examples = [textwrap.dedent(part) for file in (ROOT / "examples").glob("*.cpp") for part in parts(file)]
    assert any(body.strip() in part for part in examples)


def parts(file):
    """What stands between two marks like `// [readme]`."""
    return re.findall(r"^ *// \[\w+\]\n(.*?)^ *// \[\w+\]$", file.read_text(), re.MULTILINE | re.DOTALL)


def test_there_are_snippets_of_each_kind():
    for language in ("python", "sh", "cpp"):
        assert list(snippets(language)), language
