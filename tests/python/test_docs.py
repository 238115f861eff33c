"""Every snippet of the README and of docs/ works: Python and shell blocks are run, C++ blocks are parts of the
examples, which are built and run by ctest."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.python import lazy_device

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def snippets(language):
    """Each page's blocks of a language; Python blocks build on each other, so a page of them is one script."""
    for page in pages():
        bodies = [body for name, body in BLOCK.findall(page.read_text()) if name == language]
        if language == "python":
            bodies = ["\n".join(bodies)] if bodies else []
        for number, body in enumerate(bodies):
            yield pytest.param(body, id=f"{page.stem}-{number}")


def run(command, cache):
    path = f"{ROOT / 'build/bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TENON_CACHE": str(cache)}
    if "torchao" in command[-1]:
        environment["PYTHONPATH"] = f"{sys.prefix}/pt2e"
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("body", list(snippets("python")))
def test_python_snippet_runs(body, tmp_path):
    run([sys.executable, "-c", body], lazy_device.CACHE if "tenon.lazy" in body else tmp_path)


@pytest.mark.parametrize("body", list(snippets("sh")))
def test_shell_snippet_runs(body, tmp_path):
    run(["bash", "-euo", "pipefail", "-c", body], tmp_path)


@pytest.mark.parametrize("body", list(snippets("cpp")))
def test_cpp_snippet_is_part_of_an_example_or_a_source(body):
    examples = [textwrap.dedent(part) for file in (ROOT / "examples").rglob("*.cpp") for part in parts(file)]
    sources = [file.read_text() for file in (ROOT / "src").rglob("*.cpp")]
    assert any(body.strip() in text for text in examples + sources)


def parts(file):
    """What stands between two marks like `// [readme]`."""
    return re.findall(r"^ *// \[\w+\]\n(.*?)^ *// \[\w+\]$", file.read_text(), re.MULTILINE | re.DOTALL)


def test_there_are_snippets_of_each_kind():
    for language in ("python", "sh", "cpp"):
        assert list(snippets(language)), language


def test_the_walk_through_the_source_is_short():
    assert len((ROOT / "docs/architecture.md").read_text().splitlines()) <= 250
