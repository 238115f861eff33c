"""tenon config and tenon completion."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cli_binary import ROOT, TENON


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installation: the program is copied, because it finds the rest by its place."""
    folder = tmp_path_factory.mktemp("prefix")
    subprocess.run(
        ["cmake", "--install", TENON.parents[1], "--component", "runtime", "--prefix", folder],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (folder / "bin").mkdir()
    shutil.copy(TENON, folder / "bin/tenon")
    return folder


def config(prefix, *options):
    return subprocess.run([prefix / "bin/tenon", "config", *options], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("option", "file"),
    [
        ("--prefix", "bin/tenon"),
        ("--include-dir", "tenon/tenon.h"),
        ("--lib-dir", "libtenon_runtime.so"),
        ("--cmake-dir", "TenonConfig.cmake"),
        ("--pkgconfig-dir", "tenon.pc"),
    ],
)
def test_config_names_folders_that_exist(prefix, option, file):
    told = config(prefix, option)
    assert (told.returncode, told.stderr) == (0, "")
    (folder,) = told.stdout.splitlines()
    assert (Path(folder) / file).exists()
    assert f"{option[2:]:<14} {folder}\n" in config(prefix).stdout


def test_config_of_a_program_that_is_not_installed(tenon):
    told = tenon("config")
    assert told.code == 1
    assert "is not installed: there is no " in told.err
    assert str(ROOT) in told.err


def completed(tenon, *words):
    script = tenon("completion").out
    quoted = " ".join(f"'{word}'" for word in words)
    script += f"COMP_WORDS=(tenon {quoted}); COMP_CWORD={len(words)}; _tenon; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


def test_completion(tenon):
    assert {"compile", "config", "completion"} == completed(tenon, "co")
    assert "--plugin" in completed(tenon, "--")
    assert completed(tenon, "config", "--c") == {"--cmake-dir"}
    assert completed(tenon, "run", "model.tenon", "--inp") == {"--input"}
    assert completed(tenon, "device", "che") == {"check"}
    assert completed(tenon, "device", "check", "npu.so", "--mod") == {"--model"}


def test_completion_takes_the_name_of_a_shell(tenon):
    assert tenon("completion", "bash").out == tenon("completion", "zsh").out == tenon("completion").out
    refused = tenon("completion", "fish")
    assert refused.code == 2
    assert "fish not in {bash,zsh}" in refused.err
