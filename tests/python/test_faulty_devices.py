"""Plug-ins that do what no plug-in may (tests/devices/faulty.c): each is a clear error, and harms nobody."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TENON = Path(os.environ.get("TENON_CLI", ROOT / "build/bin/tenon"))

# Seconds that a call may take. A call that hangs takes all of them; on a busy machine a call of a sound plug-in takes a
# good part of a second.
LIMIT = 2
HANGS = f"did not return from {{}}() within {LIMIT} s, the limit of a call; it is lost to this process"
NO_DEVICE = "device of a plug-in "

# What `tenon device check` says, by the fault.
CHECKED = {
    "HANG_ENTRY": NO_DEVICE + HANGS.format("tenon_device_plugin_v1"),
    "HANG_DESCRIBE": NO_DEVICE + HANGS.format("describe"),
    "HANG_OPEN": "device faulty " + HANGS.format("open"),
    "HANG_CLAIM": "device faulty " + HANGS.format("claim"),
    "HANG_COMPILE": "device faulty " + HANGS.format("compile"),
    "HANG_LOAD": "device faulty " + HANGS.format("load"),
    "HANG_ALLOCATE": "device faulty " + HANGS.format("allocate"),
    "HANG_COPY": "device faulty " + HANGS.format("copy"),
    "HANG_SUBMIT": "device faulty " + HANGS.format("submit"),
    "HANG_WAIT": "device faulty " + HANGS.format("wait"),
    "HANG_RELEASE": "device faulty " + HANGS.format("release"),
    "LATE_ERROR": "segment0: device faulty: the board is too hot",
    "NO_REASON": "device faulty: it failed without a reason",
    "CLAIMS_TOO_MUCH": "device faulty: there is no command for this node",
    "TEXT_TOO_LONG": "device faulty wrote past the end of its error text in compile()",
    "BUG_OF_OTHERS": "device faulty: an assertion of the plug-in failed",
    "ENDS_PROCESS": "the plug-in ended the process with exit code 0, while it was checked with",
    "CRASH": "the plug-in crashed: signal 11 (Segmentation fault), while it was checked with relu/f32",
    "PAST_OUTPUT": "device faulty wrote past the end of buffer 1, an output,",
    "BEFORE_OUTPUT": "device faulty wrote before the start of buffer 1, an output,",
    "PAST_SCRATCH": "device faulty wrote past the end of the scratch of 64 bytes, at byte 64, in the launch",
    "INTO_INPUT": "device faulty wrote into buffer 0, an input,",
    "UNALIGNED_MEMORY": "which is not aligned to 64 bytes",
    "SAME_MEMORY": "bytes that overlap memory in use",
    "NO_MEMORY": "device faulty has no memory for",
    "NO_CODE": "device faulty compiled segment segment0 without code",
    "LATE_CODE": "device faulty wrote code after compile() had returned",
    "NULL_CODE": "device faulty compiled segment segment0 without code",
    "HUGE_CODE": "device faulty compiled segment segment0 without code",
    "HUGE_SCRATCH": "device faulty wants 1152921504606846976 bytes of scratch",
    "NULL_NAME": "a device calls itself ''",
    "BAD_NAME": "a device calls itself 'My Device'",
    "NO_VERSION": "device faulty names no version",
    "ODD_ALIGNMENT": "device faulty aligns to 3, which is not a power of two",
    "HUGE_ALIGNMENT": "device faulty aligns to 1125899906842624, which is not a power of two up to",
    "NO_RULES": "device faulty describes 1 rules, which are not there",
    "NULL_OP": "device faulty: rule 0 names no op",
    "UNKNOWN_OP": "device faulty has a rule for op 'rellu', which there is not; did you mean 'relu'?",
    "TINY_MEMORY": "device faulty has 1 bytes, and 0 are in use: there is no room for",
    "NAN_TRANSFERS": "device faulty describes transfers of nan bytes in a second",
    "NO_ROWS": "device faulty: a tile machine describes 0 rows of its array",
    "HUGE_LINES": "device faulty: a tile machine describes 4294967295 bytes of a line",
    "NAN_CLOCK": "device faulty: a tile machine describes a clock of nan Hz",
    "NULL_TABLE": "the plug-in does not work with this version of Tenon",
    "SMALL_TABLE": "a plug-in's table has a size of 8",
    "NO_SUBMIT": "a plug-in lacks describe, open, compile, load or submit",
    "NO_FREE": "a plug-in with memory of its own has allocate, free and copy",
    "WRONG_RESULT": "is 1, not 0",
    "SAME_TICKET": "device faulty gave ticket 7 twice",
}

GRAPH = """graph g(%x: f32[4, 16]) {
  %y = relu(%x)
  return %y
}"""


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """The plug-in with a fault."""
    folder = tmp_path_factory.mktemp("faulty")

    def run(fault, *flags):
        library = folder / f"{fault}.so"
        command = ["cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-DFAULT={fault}"]
        source = ROOT / "tests/devices/faulty.c"
        subprocess.run([*command, *flags, "-I", ROOT / "include", "-o", library, source], check=True)
        return library

    return run


def tenon(*args, cwd=None, **environment):
    command = [TENON, *map(str, args)]
    env = {**os.environ, "TENON_CACHE": "off", **environment}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)


def check(library):
    done = tenon("device", "check", library, "--random", "0", "--timeout", LIMIT if "HANG_" in library.name else 60)
    return done.returncode, done.stdout + done.stderr


def test_without_a_fault_it_is_right(build):
    code, text = check(build("NONE"))
    assert code == 0, text
    assert "0 differ" in text


@pytest.mark.parametrize("fault", CHECKED)
def test_check_finds_the_fault(build, fault):
    code, text = check(build(fault))
    assert code == 1, text
    assert CHECKED[fault] in text
    assert "a bug of Tenon" not in text


def test_another_version_is_refused(build):
    code, text = check(build("NONE", "-DENTRY=tenon_device_plugin_v2"))
    assert code == 1
    assert "is not a plug-in of this version: it exports no tenon_device_plugin_v1" in text


RUN = ("run", "g.tg", "--input", "x.npy", "--device", "faulty")


@pytest.fixture
def model(tmp_path):
    np = pytest.importorskip("numpy")
    (tmp_path / "g.tg").write_text(GRAPH)
    np.save(tmp_path / "x.npy", np.ones((4, 16), np.float32))
    return tmp_path


@pytest.mark.parametrize("fault", [fault for fault in CHECKED if fault.startswith("HANG_")])
def test_a_run_ends_within_its_limit(build, model, fault):
    done = tenon(*RUN, "--plugin", build(fault), cwd=model, TENON_DEVICE_TIMEOUT=str(LIMIT))
    if fault == "HANG_RELEASE":  # the results are there
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1, done.stderr
    assert CHECKED[fault] in done.stderr


def test_the_error_of_a_hang_names_the_launch(build, model):
    done = tenon(*RUN, "--plugin", build("HANG_WAIT"), cwd=model, TENON_DEVICE_TIMEOUT=str(LIMIT))
    assert "segment0: device faulty did not return from wait()" in done.stderr


def test_a_small_overrun_is_found_without_guards(build, model):
    done = tenon(*RUN, "--plugin", build("PAST_OUTPUT"), cwd=model)
    assert done.returncode == 1, done.stderr
    assert "device faulty wrote past the end of a block of" in done.stderr
    assert "TENON_DEVICE_GUARDS=1 tells which launch" in done.stderr


def test_guards_of_a_run(build, model):
    done = tenon(*RUN, "--plugin", build("INTO_INPUT"), cwd=model, TENON_DEVICE_GUARDS="1")
    assert done.returncode == 1
    assert "device faulty wrote into buffer 0, an input, of 256 bytes, at byte" in done.stderr
    assert tenon(*RUN, "--plugin", build("NONE"), cwd=model, TENON_DEVICE_GUARDS="1").returncode == 0


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("HANG_EVENTS", "device faulty " + HANGS.format("events")),
        ("EVENTS_TOO_MANY", "device faulty gave 266 events, and asked for were 256 at most"),
        ("EVENTS_WITHOUT_END", "device faulty gives events without end"),
    ],
)
def test_events_of_a_profile(build, model, fault, message):
    profile = ("--profile", "t.json", "--plugin", build(fault))
    limit = LIMIT if "HANG_" in fault else 60
    done = tenon(*RUN, *profile, cwd=model, TENON_DEVICE_TIMEOUT=str(limit))
    assert done.returncode == 1, done.stderr
    assert message in done.stderr


def test_the_limit_must_be_a_number(build, model):
    done = tenon(*RUN, "--plugin", build("NONE"), cwd=model, TENON_DEVICE_TIMEOUT="soon")
    assert done.returncode == 1
    assert "TENON_DEVICE_TIMEOUT is 'soon'; it is a number of seconds" in done.stderr
