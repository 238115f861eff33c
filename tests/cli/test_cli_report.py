"""tenon inspect --html: what a browser makes of the page."""

import html.parser
import json
import re
import shutil
import subprocess
import warnings

import pytest
import torch
from torch.export import Dim, export, save

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Page(html.parser.HTMLParser):
    """Which elements there are, by tag, and the text of each id."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def count(self, tag, **wanted):
        return len(self.having(tag, **wanted))

    def having(self, tag, **wanted):
        def matches(attrs):
            return all(value in (attrs.get(name.rstrip("_")) or "").split() for name, value in wanted.items())

        return [attrs for name, attrs in self.elements if name == tag and matches(attrs)]


@pytest.fixture
def browse(tmp_path):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        reason = f"no browser to open the page in: install one of {', '.join(BROWSERS)}"
        warnings.warn(reason, stacklevel=1)  # a skip alone is one letter in the output
        pytest.skip(reason)

    def run(page, *options, part=""):
        profile = tmp_path / "profile"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
        address = (tmp_path / page).as_uri() + part
        command = [browser, *flags, *options, address]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True).stdout

    return run


def make_model(folder):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
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
    shown = browse("page.html", "--dump-dom", part="#kernel-1")
    page = Page(shown)
    assert page.count("tr", id=f"task-{tasks - 1}") == 1
    assert page.count("tr") == tasks + 1
    assert page.count("g", class_="box") == tasks + len(told["inputs"]) + len(told["outputs"])
    assert page.count("path", class_="edge") >= tasks
    assert page.count("rect", class_="lifetime") > 4
    assert page.count("polyline", class_="live") == 1
    assert [part["id"] for part in page.having("details") if "open" in part] == ["kernel-1"]
    assert page.count("details") == tasks + 1
    assert f"with {size} = 3" in shown
    assert re.search(r"for \w+ in \d+", shown)
    assert re.search(r"%\w+.* = reduce add\(", shown)
    outside = [attrs[name] for _, attrs in page.elements for name in ("href", "src") if name in attrs]
    assert all(address.startswith("#") for address in outside)
    browse("page.html", "--screenshot=page.png", "--window-size=1250,2400")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


def test_names_are_no_markup(tenon, browse, tmp_path):
    name = "<img src=x onerror=alert(1)>.tg"
    text = "graph g(%x: f32[4]) {\n  %y: f32[4] = relu(%x)\n  return %y\n}\n"
    assert tenon("inspect", name, "--html", "page.html", files={name: text}).code == 0
    shown = browse("page.html", "--dump-dom")
    assert Page(shown).count("img") == 0
    assert "&lt;img src=x" in shown
    assert "The program has no temporaries." in shown


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
        (row,) = re.findall(r'<tr id="task-\d+">.*?</tr>', page)
        numbers = re.findall(r'<td class="number">([^<]*)</td>', row)
        assert int(numbers[-2]) == 3 * 8 + 2 * 3 * 64 * 4
        assert "%" in row
    assert "time of a run" in page
