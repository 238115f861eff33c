"""Which versions of PyTorch Tenon works with: `make versions`.

    versions.py [2.9 2.10 ...] [--keep]

Each version is installed into a venv of its own under build/versions/, one after the other; checks.py runs there. Where
pip finds a build for CPUs it takes that, else one with CUDA, which is several gigabytes, so the venv is removed
afterwards, unless --keep. The table goes to docs/install.md, and files that the version exports to tests/capture/data/.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/install.md"
FIRST = (2, 9)
CHECKS = ["capture", ".pt2 files", "torch.compile", "training", "lazy"]
BEGIN, END = "<!-- make versions -->\n", "<!-- end of make versions -->\n"
SECONDS = 1800  # for one check: device "lazy" compiles an extension


def main():
    parser = argparse.ArgumentParser(description="Checks versions of PyTorch, and writes the table of docs/install.md.")
    parser.add_argument("versions", nargs="*", help="2.9 2.10 ...; all from 2.9 on unless told")
    parser.add_argument("--keep", action="store_true", help="keep the environments, which are large")
    arguments = parser.parse_args()
    for version in arguments.versions or available():
        found = check(version, arguments.keep)
        print(row_text(version, found), flush=True)
        page = PAGE.read_text()
        PAGE.write_text(with_rows(page, rows_of(page) | {version: found}))


def available():
    """The minor versions that pip finds."""
    told = run(sys.executable, "-m", "pip", "index", "versions", "torch").stdout
    found = {tuple(map(int, version)) for version in re.findall(r"\b(\d+)\.(\d+)\.\d+", told)}
    return [".".join(map(str, version)) for version in sorted(found) if version >= FIRST]


def check(version, keep):
    """What was found, by the names of the table's columns."""
    folder = ROOT / "build/versions" / version
    try:
        if problem := install(version, folder):
            return {"PyTorch": "not to be had", "import": problem}
        result = imported(folder)
        if result["import"] == "yes":
            export_golden_files(version, folder)
            result |= {name: outcome(folder, name) for name in CHECKS}
        return result
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def install(version, folder):
    """The last line of what pip said; None: it is installed."""
    if not (folder / "bin/python").exists():
        run(sys.executable, "-m", "venv", folder)
    packages = [f"torch=={version}.*", pinned("numpy")]
    done = run(folder / "bin/python", "-m", "pip", "install", "--quiet", *packages)
    return None if done.returncode == 0 else last_line(done.stderr)


def pinned(name):
    text = (ROOT / "python/requirements-dev.txt").read_text()
    return re.search(rf"^{name}==\S+", text, re.MULTILINE)[0]


def imported(folder):
    done = run(folder / "bin/python", "-c", "import torch, tenon; tenon.compile; print(torch.__version__)")
    version = done.stdout.strip() or "?"
    return {"PyTorch": version, "import": "yes" if done.returncode == 0 else last_line(done.stderr)}


def export_golden_files(version, folder):
    place = ROOT / f"tests/capture/data/torch-{version}"
    is_pinned = pinned("torch").startswith(f"torch=={version}.")  # whose files are in the folder itself
    if not is_pinned and not place.exists():
        run(folder / "bin/python", ROOT / "tests/capture/data/make.py", place)


def outcome(folder, name):
    done = run(folder / "bin/python", "-W", "ignore", Path(__file__).with_name("checks.py"), name)
    if done.returncode == 0:
        return "yes"
    (ROOT / f"build/versions/{folder.name}-{name}.txt").write_text(done.stdout + done.stderr)
    return f"no: {last_line(done.stderr)}"


def run(*command):
    cache = ROOT / "build/versions/cache"
    variables = {"PYTHONPATH": str(ROOT / "build/python"), "TENON_CACHE": str(cache)}
    try:
        return subprocess.run(
            list(map(str, command)), env=os.environ | variables, capture_output=True, text=True, timeout=SECONDS,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"it takes longer than {SECONDS} s")


def last_line(text):
    """Of an error: what is wrong, as a cell of the table."""
    return (text.strip().splitlines() or ["it ended without a word"])[-1].replace("|", "\\|")[:120]


# ---- the table ------------------------------------------------------------------------------------------------------


def columns():
    return ["PyTorch", "import", *CHECKS]


def row_text(version, found):
    return "| " + " | ".join([version, *(found.get(name, "") for name in columns())]) + " |"


def rows_of(page):
    """Those of versions that were checked before stay, until they are checked again."""
    lines = page.partition(BEGIN)[2].partition(END)[0].splitlines()[2:]
    cells = [re.split(r" *(?<!\\)\| *", line.strip("| ")) for line in lines]
    return {first: dict(zip(columns(), rest, strict=False)) for first, *rest in cells}


def with_rows(page, rows):
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"error: {PAGE} has no place for the table: {BEGIN.strip()}, {END.strip()}")
    head = "| | " + " | ".join(columns()) + " |\n|---" + "|---" * len(columns()) + "|\n"
    ordered = sorted(rows, key=lambda version: tuple(map(int, version.split("."))))
    return before + begin + head + "".join(row_text(version, rows[version]) + "\n" for version in ordered) + end + after


if __name__ == "__main__":
    main()
