import json
import re
import subprocess

import pytest
from cli_binary import ROOT, TENON


def table():
    done = subprocess.run([TENON, "ops", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_table_has_a_line_for_each_op(tenon):
    ops = table()
    lines = tenon("ops").out.splitlines()
    assert [line.split()[0] for line in lines] == [op["name"] for op in ops]
    assert any(line.split()[:3] == ["add", "binary", "(x,"] and line.endswith("x + y.") for line in lines)


def test_a_part_of_a_name_selects(tenon):
    names = [line.split()[0] for line in tenon("ops", "resh").out.splitlines()]
    assert names == [op["name"] for op in table() if "resh" in op["name"]]
    assert "reshape" in names


def test_the_options_select(tenon):
    selections = {
        ("--family", "reduction"): lambda op: op["family"] == "reduction",
        ("--composite",): lambda op: op["composite"],
        ("--differentiable",): lambda op: op["gradient"] != "no",
        ("u", "--family", "reduction", "--differentiable"): lambda op: (
            "u" in op["name"] and op["family"] == "reduction" and op["gradient"] != "no"
        ),
    }
    for args, expected in selections.items():
        names = [op["name"] for op in json.loads(tenon("ops", *args, "--json").out)]
        assert names == [op["name"] for op in table() if expected(op)], args


def test_a_whole_name_shows_the_record(tenon):
    text = tenon("ops", "sum").out
    assert text.startswith("sum(x) {dims=[], keepdim=false} -> out\n\nThe sum over dimensions.")
    assert "  x               any\n" in text
    assert "  keepdim         bool, default false: keep them with size 1\n" in text
    assert "gradient  yes\n" in text
    assert "PyTorch   torch.sum(x, dim=dims or None, keepdim=keepdim)\n" in text
    assert re.search(r"^see also  .*\bcumsum\b", text, re.MULTILINE)


def test_json_has_the_whole_record():
    (sum_op,) = [op for op in table() if op["name"] == "sum"]
    assert sum_op["operands"] == [{"name": "x", "dtypes": "any", "arity": "one"}]
    assert sum_op["attributes"][1] == {
        "name": "keepdim",
        "kind": "bool",
        "required": False,
        "default": "false",
        "doc": "keep them with size 1",
    }
    assert (sum_op["results"], sum_op["composite"], sum_op["gradient"]) == (["out"], False, "yes")
    (full,) = [op for op in table() if op["name"] == "full"]
    assert full["attributes"][0]["required"] is True
    assert full["attributes"][0]["default"] is None


def test_an_unknown_op_is_suggested(tenon):
    run = tenon("ops", "reshap3")
    assert (run.code, run.out, run.err) == (1, "", "error: there is no op 'reshap3'; did you mean 'reshape'?\n")


def test_an_unknown_family_is_suggested(tenon):
    run = tenon("ops", "--family", "reductoin")
    assert run.code == 1
    assert run.err.startswith("error: there is no family 'reductoin'; did you mean 'reduction'? (fill, unary, ")


def test_nothing_selected_is_an_error(tenon):
    run = tenon("ops", "full", "--differentiable")
    assert (run.code, run.err) == (1, "error: no op is selected\n")


def test_json_and_markdown_exclude_each_other(tenon):
    assert tenon("ops", "--json", "--markdown").code == 2


def test_the_reference_is_up_to_date(tenon):
    fresh = tenon("ops", "--markdown").out
    assert (ROOT / "docs/ops.md").read_text() == fresh, "docs/ops.md is stale: run `make docs`"


def test_the_scalar_table_is_up_to_date(tenon):
    fresh = tenon("ops", "--scalar-table").out
    assert (ROOT / "runtime/scalar_ops.inc").read_text() == fresh, "runtime/scalar_ops.inc is stale: run `make docs`"


@pytest.mark.parametrize("op", ["sum", "add", "full"])
def test_the_reference_documents(tenon, op):
    text = tenon("ops", "--markdown").out
    assert f"\n### {op}\n" in text
    assert f"[{op}](#{op})" in text
