"""tenon inspect --html: what a browser makes of the page."""

import json
import re
import warnings

import pytest
import torch
from torch.export import Dim, export, save

from tests.python.browser import Browser, find_browser


@pytest.fixture
def browse(tmp_path):
    """Opens a page of tmp_path, in which nothing may go wrong."""
    if find_browser() is None:
        reason = "no browser to open the page in: say make browser"
        warnings.warn(reason, stacklevel=1)  # a skip alone is one letter in the output
        pytest.skip(reason)
    with Browser(tmp_path / "profile") as browser:

        def run(page, part=""):
            browser.open((tmp_path / page).as_uri() + part)
            browser.wait("document.querySelector('#tasks tbody tr')")
            return browser

        yield run
        assert browser.errors == []


def count(page, selector):
    return page.run(f"document.querySelectorAll({json.dumps(selector)}).length")


def make_model(folder):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    for weight in model.parameters():  # those of both layers are equal at first, and a file has equal bytes once
        torch.nn.init.normal_(weight)
    shapes = ({0: Dim("batch", min=1, max=8)},)
    save(export(model, (torch.randn(2, 4, 16),), dynamic_shapes=shapes), folder / "model.pt2")


@pytest.mark.parametrize("model", ["model.pt2", "model.tenon"])
def test_a_browser_shows_every_part(tenon, browse, tmp_path, model):
    make_model(tmp_path)
    assert tenon("compile", "model.pt2", "-o", "model.tenon").code == 0
    told = json.loads(tenon("inspect", "model.tenon", "--json").out)
    tasks, size = len(told["tasks"]), told["symbols"][0]["name"]
    done = tenon("inspect", model, "--size", f"{size}=3", "--html", "page.html")
    assert (done.code, done.out) == (0, ""), done.err
    page = browse("page.html", part="#task-1")
    assert int(page.run("document.querySelector('#tasks').getAttribute('aria-rowcount')")) == tasks + 1
    assert page.text("#task h3").startswith("1: ")
    if count(page, "#collapse"):
        page.click("#collapse")
    boxes = int(page.run("document.querySelector('.plot canvas').dataset.boxes"))
    assert boxes == tasks + len(told["inputs"]) + len(told["outputs"])
    assert int(page.run("document.querySelector('#memory').dataset.temporaries")) > 4
    assert "time of a run" in page.text("#facts")
    assert re.search(r"Medians of \d+ runs", page.text("section[aria-label=Time]"))
    shown = page.text("body")
    assert f"with {size} = 3" in shown
    loops = "\n".join(page.run("JSON.parse(document.getElementById('data').textContent).description.loops"))
    assert re.search(r"for \w+ in \d+", loops)
    assert re.search(r"%\w+.* = reduce add\(", loops)
    assert count(page, "[src], [href]") == 0
    page.screenshot(tmp_path / "page.png")


@pytest.mark.parametrize("model", ["model.pt2", "model.tenon"])
def test_tasks_are_grouped_by_the_modules_of_their_weights(tenon, browse, tmp_path, model):
    make_model(tmp_path)
    assert tenon("compile", "model.pt2", "-o", "model.tenon").code == 0
    size = json.loads(tenon("inspect", "model.tenon", "--json").out)["symbols"][0]["name"]
    assert tenon("inspect", model, "--size", f"{size}=3", "--html", "page.html").code == 0
    page = browse("page.html", part="#task-1")
    slots = page.run("JSON.parse(document.getElementById('data').textContent).description.slots")
    weights = {key for key, _ in torch.nn.TransformerEncoderLayer(16, 2, 32).named_parameters()}
    if model == "model.pt2":  # laid out for kernels, others have no names
        weights = {"norm1.weight", "norm2.bias", "linear1.bias"}
    named = {each["name"] for each in slots if each["kind"] == "constant"}
    assert {f"layers.{layer}.{name}" for layer in (0, 1) for name in weights} <= named
    assert "modules\n2" in page.text("#facts")
    shown = set()
    page.run("document.querySelector('.plot canvas').focus()")
    for _ in range(4):
        shown.update(re.findall(r"layers\.\d", page.text("#task p")))
        page.key("ArrowDown")
    assert shown == {"layers.0", "layers.1"}
    assert "layers.1." in page.text("#task ul")


def test_names_are_no_markup(tenon, browse):
    name = "<img src=x onerror=alert(1)>.tg"
    text = """graph g(%x: f32[4]) {
  %w: f32[4] = parameter "</script><img src=x>"
  %y: f32[4] = add(%x, %w)
  return %y
}
"""
    assert tenon("inspect", name, "--html", "page.html", files={name: text}).code == 0
    page = browse("page.html")
    assert count(page, "img") == 0
    assert page.text("h1") == name
    assert "</script><img src=x>" in page.run("document.querySelector('#graph-text').textContent")
    assert page.text("#memory") == "The program has no temporaries."


def test_a_page_needs_sizes_and_a_folder(tenon, tmp_path):
    make_model(tmp_path)
    done = tenon("inspect", "model.pt2", "--html", "page.html")
    assert done.code == 1
    assert "say it with --size" in done.err
    assert not (tmp_path / "page.html").exists()


def test_tasks_claim_what_they_touch(tenon, tmp_path):
    text = """graph g(%i: i64[3]) {
  %table: f32[20000, 64] = parameter "table"
  %y: f32[3, 64] = embedding(%table, %i)
  return %y
}
"""
    assert tenon("compile", "g.tg", "--random-params", 0, "-o", "g.tenon", files={"g.tg": text}).code == 0
    for model in ("g.tg", "g.tenon"):
        assert tenon("inspect", model, "--html", "page.html").code == 0
        page = (tmp_path / "page.html").read_text()
        assert re.search(r"medians of \d+ runs after\s+\d+ that warm up", page)
        data = re.search(r'<script id="data" type="application/json">(.*?)</script>', page)[1]
        [task] = json.loads(data)["profile"]["tasks"]
        assert task["bytes"] == 3 * 8 + 2 * 3 * 64 * 4
