"""What a wheel will be, without building one: `make test-wheel` builds and uses them."""

import configparser
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILD = PROJECT["tool"]["scikit-build"]


def text_of(*patterns):
    return "\n".join(path.read_text() for pattern in patterns for path in sorted(ROOT.glob(pattern)))


CMAKE = text_of("CMakeLists.txt", "*/CMakeLists.txt", "*/*/CMakeLists.txt", "src/*.cmake")


def pins(name):
    return dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "python" / name).read_text(), re.MULTILINE))


def test_notices_name_what_is_linked():
    notices = (ROOT / "NOTICES.txt").read_text().lower()
    found = set(re.findall(r"find_package\((\w+)", text_of("src/CMakeLists.txt", "tools/*/CMakeLists.txt")))
    found |= set(re.findall(r"find_package\((nanobind)", text_of("python/bind/CMakeLists.txt")))
    assert {"LLVM", "fmt", "simdjson", "CLI11", "nanobind"} <= found
    for name in {*found, "FlatBuffers", "zlib", "Zstandard", "robin-map"} - {"Threads", "Python"}:
        assert f"\n{name.lower()}" in notices, name
    for name in PROJECT["project"]["license-files"]:
        assert (ROOT / name).is_file()


def test_everything_that_can_be_installed_is_in_the_wheel():
    loops = [names.split() for names in re.findall(r"foreach\(component ([\w ]+)\)", CMAKE)]
    components = set(re.findall(r"COMPONENT (\w+)", CMAKE)) | {name for names in loops for name in names}
    assert components - {"static"} == set(BUILD["install"]["components"])


def test_options_of_the_wheel_exist():
    options = BUILD["cmake"]["define"]
    assert options["TENON_ONE_LIBRARY"] == options["TENON_ELSEWHERE"] == "ON"
    for name in options:
        assert name.startswith("CMAKE_") or re.search(rf"option\({name} ", CMAKE), name


def test_files_of_the_package_are_in_the_repository():
    """A wheel takes the folder as it is."""
    (folder,) = BUILD["wheel"]["packages"]
    tracked = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = {Path(name).name for name in tracked.splitlines()}
    assert {"__main__.py", "doctor.py", "demo.py", "py.typed", "lazy.cpp", "module.cpp"} <= names
    assert BUILD["wheel"]["install-dir"] == Path(folder).name


def test_wheels_are_built_with_the_tools_of_the_tree():
    tools, development = pins("requirements-wheel.txt"), pins("requirements-dev.txt")
    for name in ("nanobind", "scikit-build-core"):
        assert tools[name] == development[name]


def test_continuous_integration_runs_what_there_is():
    texts = text_of(".github/workflows/*.yml", "docker/*.Dockerfile")
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:run: |RUN |&& )make ([\w-]+)", texts))
    assert {"deps", "wheel", "test-wheel"} <= named <= targets
    assert ".ci/run" in texts
    assert "://" not in texts


def test_the_build_tree_has_the_entry_points_of_the_wheel():
    (dist_info,) = (ROOT / "build/python").glob("tenon-*.dist-info")
    parser = configparser.ConfigParser()
    parser.read(dist_info / "entry_points.txt")
    told = {section: dict(parser[section]) for section in parser.sections()}
    assert told == PROJECT["project"]["entry-points"]
