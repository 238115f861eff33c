"""The Dockerfiles and the workflow, as far as that goes without Docker and a server: what they name is there, and what
they run is on the image."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
IGNORED = (ROOT / ".dockerignore").read_text().split()
# On debian:12 without any package, and what `apt-get install` of the files adds.
ON_IMAGES = {"apt-get", "rm", "make", "pip", "python3"}


def instructions(dockerfile):
    """(word, arguments) of each line."""
    lines = [line for line in dockerfile.read_text().splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def steps():
    """The commands of all RUN lines and of the workflow's steps."""
    for dockerfile in DOCKERFILES:
        yield from (text for word, text in instructions(dockerfile) if word == "RUN")
    for job in WORKFLOW["jobs"].values():
        yield from (step["run"] for step in job["steps"] if "run" in step)


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_a_dockerfile_is_well_formed(dockerfile):
    words = [word for word, _ in instructions(dockerfile)]
    assert words[0] == "FROM"
    assert set(words) <= {"FROM", "RUN", "WORKDIR", "COPY", "CMD"}
    images = [rest.split()[0] for word, rest in instructions(dockerfile) if word == "FROM"]
    assert all(image == "scratch" or re.fullmatch(r"\w+:[\w.-]*\d[\w.-]*", image) for image in images)


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_what_a_dockerfile_copies_is_there(dockerfile):
    stages = {rest.split(" AS ")[1] for word, rest in instructions(dockerfile) if word == "FROM" and " AS " in rest}
    for word, rest in instructions(dockerfile):
        if word != "COPY":
            continue
        sources = [part for part in rest.split()[:-1] if not part.startswith("--")]
        if "--from=" in rest:
            assert re.search(r"--from=(\w+)", rest)[1] in stages
            continue
        for source in sources:
            assert (ROOT / source).exists() or source.startswith("dist/"), source
            assert not any(fnmatch(source, pattern) for pattern in IGNORED), source


def test_nothing_that_a_build_needs_is_ignored():
    tracked = {path.name for path in ROOT.iterdir()} & {"Makefile", "CMakeLists.txt", "pyproject.toml", "src", "tools"}
    assert len(tracked) == 5
    assert not [name for name in tracked if any(fnmatch(name, pattern) for pattern in IGNORED)]


def test_steps_run_what_is_on_the_image():
    for step in steps():
        for command in re.split(r" && ", step):
            program = re.sub(r"^(?:\w+=\S+ )*", "", command).split()[0]
            assert program in ON_IMAGES or program.startswith((".venv/bin/", ".ci/")), command
            if program.startswith(".ci/"):
                assert (ROOT / program).stat().st_mode & 0o100


def test_packages_are_installed_without_questions_from_fresh_lists():
    for step in steps():
        if "apt-get install" in step:
            assert re.match(r"apt-get update && apt-get install -y --no-install-recommends \w", step), step


def test_the_jobs_of_the_workflow_know_where_they_run():
    for name, job in WORKFLOW["jobs"].items():
        assert {"runs-on", "container", "timeout-minutes", "steps"} <= set(job), name
        assert any(step.get("uses", "").startswith("actions/checkout@") for step in job["steps"]), name
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v1")), step
