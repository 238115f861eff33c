import contextlib
import os
import pty
import re
import signal
import subprocess

from cli_binary import TENON

KERNEL = """tenon loops 1
kernel matmul {
  var m = 24
  var k = 24
  var n = 48
  %a: f32[m, k] = read 0
  %b: f32[k, n] = read 1
  %p: f32[m, k, n] = mul(%a, %b) for m, n, k
  %c: f32[m, n] = reduce add(%p) for m, n, k
  %out: f32[m, n] = write 0 (%c) for m, n
}
"""
TREE = """  0  for m in 24
  1    for n in 48
  2      for k in 24
  3        %p: f32[m, k, n] = mul(%a, %b)
  4        %c: f32[m, n] = reduce add(%p)
  5      %out: f32[m, n] = write 0 (%c)
"""
SPEED = re.compile(r"matmul on (\w+): [\d.]+ ms, [\d.]+ GFLOP/s, [\d.]+x of the first\n")


def tune(tenon, *args, edits=(), kernel=KERNEL):
    return tenon("tune", "k.loops", *args, files={"k.loops": kernel}, stdin="".join(edit + "\n" for edit in edits))


def test_backends_are_listed(tenon):
    run = tenon("backends")
    assert run.code == 0
    assert [line.split()[0] for line in run.out.splitlines()] == ["cpp", "cpu", "cuda", "interpreter", "wasm"]


def test_it_shows_the_tree_and_its_speed(tenon):
    run = tune(tenon, edits=["quit"])
    assert run.code == 0
    assert run.err == ""
    assert run.out.startswith(TREE)
    assert SPEED.search(run.out).group(1) == "cpp"


def test_edits_undo_and_redo(tenon):
    run = tune(tenon, "--backend", "interpreter", edits=["split 2 10", "undo", "redo", "undo", "undo"])
    assert run.code == 0
    assert run.out.count("for k in 2 r 4 by 10") == 2
    assert run.out.count(TREE) == 3
    assert "there is nothing to undo" in run.out


def test_a_wrong_edit_changes_nothing_and_points_at_it(tenon):
    run = tune(tenon, "--backend", "interpreter", edits=["split 99 2", "splt 2 2", "annotate 2 parallel", "search x"])
    assert run.code == 0
    assert run.out.count(TREE) == 1
    assert "there is no line 99: the tree has 6, from 0 on\n  split 99 2\n        ^" in run.out
    assert "there is no edit 'splt'; did you mean 'split'?" in run.out
    assert "the loop over k cannot be marked parallel: %c folds k" in run.out
    assert "'x' is not a number of seconds" in run.out


def test_what_is_saved_is_read_again(tenon, tmp_path):
    run = tune(tenon, "-o", "fast.loops", edits=["split 2 8", "annotate 3 unroll", "save other.loops", "swap 1 2"])
    assert run.code == 0
    assert "k by 8, k unroll" in (tmp_path / "other.loops").read_text()
    again = tenon("tune", "fast.loops", stdin="quit\n")
    assert again.code == 0
    assert "for k in 3 by 8\n  2      for n in 48\n" in again.out


def test_code_is_what_the_backend_made(tenon):
    assert 'extern "C"' in tune(tenon, edits=["code"]).out


def search_until(told, folder, *options):
    """The output of a search that is interrupted when it tells this of its progress."""
    (folder / "k.loops").write_text(KERNEL)
    terminal, stderr = pty.openpty()  # it tells its progress to a terminal
    command = [TENON, "tune", "k.loops", "--search", "600", *options]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, text=True)
    os.close(stderr)
    progress = b""
    while not re.search(told, progress):
        progress += os.read(terminal, 1024)
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):  # the process has ended
        while os.read(terminal, 1024):
            pass
    os.close(terminal)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert SPEED.search(out)
    return out


def test_a_search_finds_edits_that_make_it_faster(tenon, tmp_path):
    out = search_until(rb" ([2-9]|\d\d+)\.\d\dx", tmp_path, "--one-thread", "-o", "fast.loops")
    edits = out[: out.index("  0  ")].splitlines()
    assert edits
    replayed = tune(tenon, "-o", "replayed.loops", edits=edits)
    assert replayed.code == 0
    assert (tmp_path / "replayed.loops").read_text() == (tmp_path / "fast.loops").read_text()


def test_a_search_ends_in_time(tenon):
    run = tune(tenon, "--backend", "interpreter", "--search", "0.1")
    assert (run.code, run.err) == (0, "")
    assert SPEED.search(run.out)


def test_symbolic_sizes_are_asked_for(tenon):
    kernel = KERNEL.replace("var m = 24", "var m = M")
    run = tune(tenon, kernel=kernel)
    assert (run.code, run.err) == (1, "error: kernel matmul: the size M has no value\n")
    assert tune(tenon, "--size", "M=5", kernel=kernel, edits=["quit"]).code == 0
    assert "say it as N=64" in tune(tenon, "--size", "5", kernel=kernel).err
    assert "not negative" in tune(tenon, "--size", "M=-5", kernel=kernel).err


def test_mistakes(tenon):
    assert "there is no backend 'cup'; did you mean 'cpp'?" in tune(tenon, "--backend", "cup").err
    run = tune(tenon, kernel=KERNEL.replace("mul(%a, %b)", "mul(%a, %z)"))
    assert run.code == 1
    assert "k.loops:8:" in run.err
    assert "%z is not defined" in run.err


def test_a_graph_is_lowered(tenon):
    graph = "graph g(%x: f32[4, 8]) {\n  %y: f32[4, 8] = softmax(%x) {dim=-1}\n  return %y\n}\n"
    run = tenon("tune", "g.tg", files={"g.tg": graph}, stdin="quit\n")
    assert run.code == 0
    assert run.out.count("in 8\n") == 3
    assert "for i in 4\n" in tenon("opt", "g.tg", "--emit", "tree").out
    assert tenon("opt", "g.tg", "--emit", "loops").out.startswith("tenon loops 1\nkernel g {\n")
    assert 'extern "C"' in tenon("opt", "g.tg", "--emit", "cpp").out
    assert '(export "kernel"' in tenon("opt", "g.tg", "--emit", "wasm").out
    ptx = tenon("opt", "g.tg", "--emit", "ptx").out
    assert "// kernel tenon_0 on 1 blocks of 256 threads\n" in ptx
    assert ".target sm_80" in ptx
    assert "define i64 @g(" in tenon("opt", "g.tg", "--emit", "llvm").out
    assert "f32.load" in tenon("opt", "g.tg", "--emit", "asm", "--cpu", "wasm32").out
    assert "there is no CPU 'wasm'" in tenon("opt", "g.tg", "--emit", "asm", "--cpu", "wasm").err


def test_an_op_that_is_no_loop_says_so(tenon):
    graph = "graph g(%x: f32[4]) {\n  %y: f32[4], %i: i64[4] = sort(%x)\n  return %y\n}\n"
    run = tenon("opt", "g.tg", "--emit", "loops", files={"g.tg": graph})
    assert run.code == 1
    assert "sort is a library task" in run.err


def test_blanks_around_a_line_do_not_matter(tenon):
    run = tune(tenon, "--backend", "interpreter", edits=["  split 2 10 ", "", "undo 3", " quit "])
    assert run.out.count("for k in 2 r 4 by 10") == 1
    assert "there is no edit 'undo'\n  undo 3\n  ^" in run.out


def test_mistakes_are_told_before_the_search(tenon):
    assert tune(tenon, "--search", "600", "-o", "no/such/folder").err == "error: there is no folder no/such\n"
    assert tune(tenon, "--search", "0").code == 2
    assert tune(tenon, "--size", "N=3").err == "error: kernel matmul has no size N (it has no symbolic size)\n"


def test_an_interrupted_search_keeps_what_it_found(tmp_path):
    search_until(rb" 3 tried", tmp_path, "--backend", "interpreter", "-o", "found.loops")
    assert (tmp_path / "found.loops").read_text().startswith("tenon loops 1\n")


def test_a_kernel_without_loops_gets_some(tenon):
    bare = re.sub(r" for .*", "", KERNEL)
    assert tune(tenon, "--backend", "interpreter", kernel=bare, edits=["quit"]).out.startswith(TREE)


GRAPH = """graph g(%x: f32[24, 24], %y: f32[24, 48]) {
  %h: f32[24, 48] = matmul(%x, %y)
  return %h
}
"""


def test_what_a_search_finds_is_kept(tenon, tmp_path, monkeypatch):
    monkeypatch.setenv("TENON_CACHE", str(tmp_path))
    arguments = ("tune", "g.tg", "--backend", "cpu", "--keep")
    found = tenon(*arguments, "--search", "0.3", files={"g.tg": GRAPH})
    assert found.code == 0, found.err
    again = tenon(*arguments, files={"g.tg": GRAPH})
    tree = found.out[found.out.index("  0  ") : found.out.index("g on cpu")]
    assert tree in again.out


def test_only_a_backend_with_a_place_for_it_keeps_a_schedule(tenon):
    run = tune(tenon, "--backend", "interpreter", "--keep")
    assert run.code == 1
    assert "backend interpreter has no place to keep a schedule" in run.err
