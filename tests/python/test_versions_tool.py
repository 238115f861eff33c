"""The table that `make versions` writes, without installing anything."""

import runpy
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools/versions/versions.py"))
CHECKS = runpy.run_path(str(ROOT / "tools/versions/checks.py"))
PAGE = f"before\n{TOOL['BEGIN']}{TOOL['END']}after\n"
PASSED = dict.fromkeys(TOOL["columns"](), "yes") | {"PyTorch": "2.9.1+cpu"}


def test_the_checks_are_the_columns():
    assert list(CHECKS["CHECKS"]) == TOOL["CHECKS"]


def test_rows_are_read_back_and_ordered_by_version():
    failed = {"PyTorch": "not to be had", "import": r"ERROR: no such | thing".replace("|", r"\|")}
    page = TOOL["with_rows"](PAGE, {"2.10": PASSED})
    page = TOOL["with_rows"](page, TOOL["rows_of"](page) | {"2.9": failed})
    assert [line.split()[1] for line in page.splitlines() if line.startswith("| 2")] == ["2.9", "2.10"]
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    rows = TOOL["rows_of"](page)
    assert rows["2.10"] == PASSED
    assert rows["2.9"]["import"] == failed["import"]
    assert TOOL["with_rows"](page, rows) == page


def test_a_page_without_a_place_for_it_is_an_error():
    with pytest.raises(SystemExit, match="has no place for the table"):
        TOOL["with_rows"]("a page", {})


def test_the_last_line_of_an_error_is_a_cell():
    assert TOOL["last_line"]("Traceback\n  x\nImportError: a | b\n") == r"ImportError: a \| b"
    assert TOOL["last_line"]("") == "it ended without a word"


def test_a_check_that_fails_is_told(monkeypatch, tmp_path):
    run = TOOL["outcome"].__globals__
    monkeypatch.setitem(run, "ROOT", tmp_path)
    (tmp_path / "build/versions").mkdir(parents=True)
    failure = subprocess.CompletedProcess([], 1, "told\n", "AssertionError: not close\n")
    monkeypatch.setitem(run, "run", lambda *_: failure)
    assert TOOL["outcome"](tmp_path / "2.9", "lazy") == "no: AssertionError: not close"
    assert (tmp_path / "build/versions/2.9-lazy.txt").read_text() == "told\nAssertionError: not close\n"


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", ["capture", ".pt2 files", "training"])
def test_a_check_passes_with_the_pinned_version(name):
    CHECKS["CHECKS"][name]()
