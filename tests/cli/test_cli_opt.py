import pytest

GRAPH = """graph g(%x: f32[N, 4]) {
  %a: f32[N, 4] = exp(%x)
  %b: f32[N, 4] = exp(%x)
  %dead: f32[N, 4] = neg(%a)
  %y: f32[N, 4] = add(%a, %b)
  return %y
}
"""
AFTER_CSE = GRAPH.replace("  %b: f32[N, 4] = exp(%x)\n", "").replace("%b", "%a")
AFTER_DCE = AFTER_CSE.replace("  %dead: f32[N, 4] = neg(%a)\n", "")


def test_without_passes_it_prints_the_canonical_form(tenon):
    run = tenon("opt", "g.tg", files={"g.tg": GRAPH.replace("  ", " # comment\n\t").replace(": f32[N, 4] =", "=")})
    assert (run.code, run.out, run.err) == (0, GRAPH, "")


def test_passes_run_in_order(tenon):
    assert tenon("opt", "g.tg", "--passes", "cse", files={"g.tg": GRAPH}).out == AFTER_CSE
    assert tenon("opt", "g.tg", "--passes", "cse,dce").out == AFTER_DCE
    assert tenon("opt", "--passes", "cse", "--passes", "dce", "g.tg").out == AFTER_DCE
    assert tenon("opt", "g.tg", "--passes", "cse,dce", "--skip", "dce").out == AFTER_CSE
    assert tenon("opt", "g.tg", "--passes", "cse,dce", "--no-verify").out == AFTER_DCE


def test_standard_input_and_an_output_file(tenon, tmp_path):
    run = tenon("opt", "-", "--passes", "cse,dce", "-o", "out.tg", stdin=GRAPH)
    assert (run.code, run.out, run.err) == (0, "", "")
    assert (tmp_path / "out.tg").read_text() == AFTER_DCE
    assert [path.name for path in tmp_path.iterdir()] == ["out.tg"]
    assert tenon("opt", "-", "-o", "-", stdin=GRAPH).out == GRAPH
    assert tenon("opt", "-", "-o", "/dev/stdout", stdin=GRAPH).out == GRAPH


def test_an_output_that_is_a_link_stays_one(tenon, tmp_path):
    (tmp_path / "real.tg").write_text("old")
    (tmp_path / "link.tg").symlink_to("real.tg")
    assert tenon("opt", "-", "-o", "link.tg", stdin=GRAPH).code == 0
    assert (tmp_path / "link.tg").is_symlink()
    assert (tmp_path / "real.tg").read_text() == GRAPH


def test_print_shows_every_pass(tenon):
    run = tenon("opt", "-", "--passes", "dce,dce", "--skip", "cse", "--print", stdin=AFTER_DCE)
    assert run.out == AFTER_DCE
    assert run.err == f"# after dce\n{AFTER_DCE}\n" * 2


def test_print_changed_shows_what_changed(tenon):
    run = tenon("opt", "-", "--passes", "cse,cse,dce", "--print-changed", stdin=GRAPH)
    assert run.err == f"# after cse\n{AFTER_CSE}\n# after dce\n{AFTER_DCE}\n"


def test_time_counts_nodes(tenon):
    run = tenon("opt", "-", "--passes", "cse,dce,canonicalize", "--skip", "canonicalize", "--time", stdin=GRAPH)
    rows = [line.split() for line in run.err.splitlines()]
    assert rows[0] == ["pass", "nodes", "after", "ms"]
    assert [row[:3] for row in rows[1:4]] == [["cse", "4", "3"], ["dce", "3", "2"], ["canonicalize", "2", "2"]]
    assert rows[3][3] == "skipped"
    assert rows[4][0] == "total"


def test_list_passes(tenon):
    lines = tenon("opt", "--list-passes").out.splitlines()
    assert {"decompose", "canonicalize", "cse", "dce"} <= {line.split()[0] for line in lines}
    assert all(len(line.split()) > 2 for line in lines)


@pytest.mark.parametrize("args", [["--passes", "canonicalise"], ["--passes", "cse", "--skip", "canonicalise"]])
def test_an_unknown_pass_is_suggested(tenon, args):
    run = tenon("opt", "-", *args, stdin=GRAPH)
    assert (run.code, run.out, run.err) == (
        1,
        "",
        "error: there is no pass 'canonicalise'; did you mean 'canonicalize'?\n",
    )


def test_a_malformed_graph_is_shown_with_a_caret(tenon):
    run = tenon("opt", "g.tg", files={"g.tg": GRAPH.replace("neg(%a)", "negg(%a)")})
    assert (run.code, run.out) == (1, "")
    assert run.err == (
        "g.tg:4:22: error: there is no op 'negg'; did you mean 'neg'?\n"
        "    %dead: f32[N, 4] = negg(%a)\n"
        "                       ^\n"
    )
    assert tenon("opt", "-", stdin="graph").err == (
        "<stdin>:1:6: error: expected the graph's name, got the end of the text\n  graph\n       ^\n"
    )
    assert tenon("opt", "-", stdin="").err == "<stdin>:1:1: error: expected 'graph', got the end of the text\n"


def test_a_long_line_is_shown_around_its_caret(tenon):
    run = tenon("opt", "-", stdin="graph g(" + ", ".join(f"%x{i}: f32[3]" for i in range(100)) + ", %y) { return }")
    message, line, caret = run.err.splitlines()
    assert message.endswith("error: expected ':', got ')'")
    assert len(line) < 130
    assert line[caret.index("^")] == ")"


def test_the_caret_counts_characters_and_tabs(tenon):
    run = tenon("opt", "-", stdin='graph g() {\n\t%w: f32[3] = parameter "größe" $\n}')
    message, line, caret = run.err.splitlines()
    assert message.startswith("<stdin>:2:35: error: expected '%value = ...'")
    assert line == '   %w: f32[3] = parameter "größe" $'
    assert line[caret.index("^")] == "$"


def test_what_a_file_says_does_not_drive_the_terminal(tenon):
    leaf = '%{}: f32[3] = parameter "\\x1b[31m\\n"\n'
    run = tenon("opt", "-", stdin="graph g() {\n" + leaf.format("a") + leaf.format("b") + "return\n}")
    assert run.code == 1
    assert run.err.splitlines()[0] == "<stdin>:3:24: error: the graph has two leaves named '?[31m?'"


def test_files_that_cannot_be_read_or_written(tenon, tmp_path):
    assert tenon("opt", "none.tg").err == "none.tg: error: cannot open: No such file or directory\n"
    assert tenon("opt", ".").err == ".: error: cannot read: Is a directory\n"
    run = tenon("opt", "-", "-o", "no/out.tg", stdin=GRAPH)
    assert (run.code, run.err) == (1, "no/out.tg: error: cannot write: No such file or directory\n")
    run = tenon("opt", "-", "-o", ".", stdin=GRAPH)
    assert (run.code, run.err) == (1, ".: error: cannot write: Is a directory\n")
    assert list(tmp_path.iterdir()) == []
