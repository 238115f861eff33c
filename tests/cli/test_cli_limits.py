"""Small files that ask for long work, absurd sizes, and numbers that options do not take."""

import signal
import subprocess

import pytest
from cli_binary import TENON
from waiting import cpu_seconds, handles, until

HUGE = {
    "linspace": "linspace() {start=0.0, end=1.0, steps=1099511627776}",
    "logspace": "exp(%l)",
    "iota": "iota() {size=1099511627776}",
    "arange": "arange() {end=1099511627776}",
    "full": "full() {value=1.0, shape=[1099511627776], dtype=f32}",
    "eye": "eye() {rows=1048576, columns=1048576}",
    "sum of a fill": "sum(%f)",
    "a prime size": "sum(%p)",
    "sorted": "argsort(%l)",
    "cumulated": "cumsum(%l) {dim=0}",
    "a constant": "neg(%c)",
}


def huge_graph(node):
    constant = "%c: f32[200000000] = constant 0.5" if "%c" in node else ""
    return f"""graph g(%x: f32[2]) {{
  {constant}
  %l = linspace() {{start=0.0, end=1.0, steps=1099511627776}}
  %f = full() {{value=1.0, shape=[1099511627776], dtype=f32}}
  %p = full() {{value=1.0, shape=[1000000000000000003], dtype=f32}}
  %y = {node}
  return %x, %y
}}
"""


@pytest.mark.parametrize("command", ["compile", "inspect"])
@pytest.mark.parametrize("node", HUGE.values(), ids=HUGE.keys())
def test_what_a_small_file_asks_for_is_not_computed_at_compile_time(tenon, command, node):
    done = tenon(command, "g.tg", files={"g.tg": huge_graph(node)})
    assert done.code in (0, 1), done.err
    assert "internal" not in done.err


def test_running_what_is_too_large_says_how_large_it_is(tenon, tmp_path):
    done = tenon("run", "g.tg", files={"g.tg": "graph g() { %y = iota() {size=1099511627776} return %y }"})
    assert done.code == 1
    assert "8796093022208" in done.err


def test_small_constants_are_still_computed_once(tenon):
    done = tenon("compile", "g.tg", files={"g.tg": "graph g() { %y = eye() {rows=512, columns=512} return %y }"})
    assert " 0 tasks in " in done.out
    assert "weights 1048576 bytes" in done.out


WRONG_TYPES = {
    "f32[" + ", ".join(["1"] * 65) + "]": "has 65 dimensions: at most 64 are supported",
    "f32[3037000500, 3037000500]": "has more than 2^63 - 1 bytes",
    "f64[1152921504606846976]": "has more than 2^63 - 1 bytes",
    "f32[9223372036854775808]": "9223372036854775808",
    "f32[-1]": "has a negative size",
}


@pytest.mark.parametrize(("wrong", "error"), WRONG_TYPES.items())
@pytest.mark.parametrize("command", ["compile", "inspect", "eval", "run"])
def test_types_that_no_tensor_has(tenon, command, wrong, error):
    done = tenon(command, "g.tg", files={"g.tg": f"graph g(%x: {wrong}) {{ %y = neg(%x) return %y }}"})
    assert done.code == 1
    assert error in done.err


# ---- Ctrl-C ---------------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_a_command_at_once(tmp_path):
    graph = "graph g() {\n" + "  %x0 = iota() {size=100000000, dtype=f32}\n"
    for i in range(50):
        graph += f"  %x{i + 1} = sin(%x{i})\n"
    (tmp_path / "g.tg").write_text(graph + "  return %x50\n}\n")
    process = subprocess.Popen(
        [TENON, "eval", "g.tg"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    )
    until(lambda: handles(process, signal.SIGINT) and cpu_seconds(process) > 0.3)  # it computes
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors == b"interrupted\n"


# ---- numbers --------------------------------------------------------------------------------------------------------

TRAIN = "train m.tenon --data d.npz"
NOT_POSITIVE = ["0", "-1", "1.5", "nan", "inf", "x", "99999999999999999999"]
WRONG_NUMBERS = (
    [(TRAIN, option, value) for option in ("--epochs", "--steps", "--batch", "--keep") for value in NOT_POSITIVE]
    + [(TRAIN, "--checkpoint-steps", "0"), (TRAIN, "--seed", "x"), (TRAIN, "--threads", "513")]
    + [("compile m.pt2", "--accumulate", "0"), ("compile m.pt2", "--threads", "-1"), ("compile m.pt2", "--seed", "1.5")]
    + [
        ("run m.pt2", option, value)
        for option in ("--threads", "--seed", "--random-params")
        for value in ("nan", "0x10")
    ]
    + [("eval m.tg", "--random-params", "99999999999999999999"), ("bench m.pt2", "--rounds", "1000001")]
    + [("tune m.loops", "--search", value) for value in ("nan", "inf", "-1", "0", "x", "1e300")]
    + [("tune m.loops", "--seed", value) for value in ("-1", "4294967296", "x")]
)


@pytest.mark.parametrize(("command", "option", "value"), WRONG_NUMBERS)
def test_a_wrong_number_is_an_error_that_names_the_option_the_value_and_the_range(tenon, command, option, value):
    done = tenon(*command.split(), f"{option}={value}")
    assert done.code == 2
    assert f"{option}: '{value}' is no " in done.err
    assert " from " in done.err
    assert " to " in done.err


@pytest.mark.parametrize("size", ["N", "N=", "N=-1", "N=x", "N=1.5", "N=99999999999999999999", "=4", "1N=4"])
def test_a_wrong_size_is_named(tenon, size):
    graph = "graph g(%x: f32[N]) { %y = neg(%x) return %y }"
    for command in ("inspect", "bench"):
        done = tenon(command, "g.tg", "--size", size, files={"g.tg": graph})
        assert done.code == 1
        assert f"--size {size}: " in done.err


@pytest.mark.parametrize("budget", ["0", "-1", "nan", "inf", "x", "1e30"])
def test_a_wrong_budget_is_named(tenon, budget):
    done = tenon("run", "g.tg", f"--budget={budget}", files={"g.tg": "graph g() { %y = iota() {size=3} return %y }"})
    assert done.code == 1
    assert f"--budget: '{budget}' is no number of bytes from 1 to 2^62" in done.err


def test_thread_counts_of_a_bench_are_checked(tenon):
    graph = "graph g() { %y = iota() {size=3} return %y }"
    for threads in ("513", "-1", "x", "1,,2"):
        done = tenon("bench", "g.tg", f"--threads={threads}", files={"g.tg": graph})
        assert done.code == 1
        assert f"--threads {threads}: say it as 1,2; each is from 0 to 512" in done.err
