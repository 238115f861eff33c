"""What holds for every command: help, exit codes, pipes, colours."""

import os
import pty
import re
import subprocess

import pytest
from cli_binary import ROOT, TENON

HEADERS = [ROOT / "tools/tenon" / name for name in ("command.h", "device_commands.h")]
DECLARED = re.findall(r"^Command (\w+)_command\(", "".join(header.read_text() for header in HEADERS), re.MULTILINE)
COMMANDS = [name.replace("_", " ") for name in DECLARED]


def test_help_lists_the_commands(tenon):
    run = tenon("--help")
    assert (run.code, run.err) == (0, "")
    assert len(COMMANDS) >= 20
    for command in COMMANDS:
        if " " in command:
            continue
        assert re.search(rf"^  {command} +[A-Z]", run.out, re.MULTILINE)
    assert "Exit codes: 0 done; 1 " in run.out
    assert "Examples:\n  tenon " in run.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(tenon, command):
    run = tenon(*command.split(), "--help")
    assert (run.code, run.err) == (0, "")
    assert f"Usage: tenon {command} [OPTIONS]" in run.out
    examples = run.out.partition("\nExamples:\n")[2]
    assert f"tenon {command}" in examples
    assert "tenon COMMAND --help" not in examples  # these are the command's own, not all of them
    assert tenon(*command.split(), "-h").out == run.out


def test_every_option_is_documented(tenon):
    for command in COMMANDS:
        for line in re.findall(r"^  -.*(?:\n {20,}.*)?", tenon(*command.split(), "--help").out, re.MULTILINE):
            assert re.search(r"(?: {2,}|\n {20,})\w", line[4:]), line


def test_version(tenon):
    version = re.search(r"project\(tenon VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    run = tenon("--version")
    assert (run.code, run.out, run.err) == (0, f"tenon {version}\n", "")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "a command is needed"),
        (["opts"], "there is no command 'opts'; did you mean 'ops'?"),
        (["--nosuch"], "there is no option '--nosuch'"),
        (["ops", "--nosuch"], "--nosuch"),
        (["ops", "a", "b"], "b"),
        (["ops", "--family"], "--family"),
        (["opt"], "GRAPH is required"),
        (["opt", "a.tg", "b.tg"], "b.tg"),
        (["opt", "a.tg", "--passes"], "--passes"),
        (["eval"], "GRAPH is required"),
        (["eval", "a.tg", "--input"], "--input"),
        (["eval", "a.tg", "--random-params", "x"], "--random-params"),
        (["eval", "a.tg", "-i", "x.npy", "y.npy"], "y.npy"),
        (["device", "new"], "NAME is required"),
        (["device", "check", "npu.so", "--random", "-1"], "no integer from 0 to"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(tenon, args, message):
    run = tenon(*args)
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("error: ")
    assert message in run.err
    words = args[: 2 if args[:1] == ["device"] else 1]
    command = " ".join(["tenon", *words]) if args and args[0] in (*COMMANDS, "device") else "tenon"
    assert run.err.endswith(f"\nRun '{command} --help' to see what it takes.\n")


@pytest.mark.parametrize("args", [["ops"], ["ops", "--markdown"], ["--help"], ["opt", "--list-passes"]])
def test_a_closed_pipe_is_no_error(args):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([TENON, *args], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_device_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run([TENON, "ops"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: cannot write to standard output: No space left on device\n"


def stderr_of(command, **environment):
    """What a terminal would show."""
    master, slave = pty.openpty()
    subprocess.run(command, stderr=slave, env={**os.environ, "TERM": "xterm", **environment}, check=False)
    os.close(slave)
    text = os.read(master, 4096).decode()
    os.close(master)
    return text


def test_colours_are_for_terminals_only(tenon):
    command = [TENON, "ops", "nosuch"]
    assert "\x1b" not in tenon("ops", "nosuch").err
    assert "\x1b[1;31merror:\x1b[0m" in stderr_of(command)
    assert "\x1b" not in stderr_of(command, NO_COLOR="1")
    assert "\x1b" not in stderr_of(command, TERM="dumb")
