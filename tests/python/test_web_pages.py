"""The pages of `make web-models` in a browser: clicked through by mouse and keys, wide and narrow, light and dark."""

import base64
import gzip
import json
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.python.browser import ISOLATED, Browser, find_browser, served

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build/web/site"
GOLDEN = ROOT / "tests/golden"
PAGES = ("run", "play", "explore", "train")

pytestmark = [
    pytest.mark.skipif(not (SITE / "models/models.json").exists(), reason="there are no pages: say make web-models"),
    pytest.mark.skipif(find_browser() is None, reason="there is no browser: say make browser"),
]


@pytest.fixture(scope="module")
def address():
    with served(SITE) as address:
        yield f"{address}/index.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(browser, address):
    """The browser, on a page by name. Nothing may have gone wrong in it at the end."""

    def show(name):
        browser.open("about:blank")
        browser.open(f"{address}#{name}")
        ready = {
            "run": "#model[data-result]",
            "play": "#gflops[data-gflops]",
            "explore": "#page-explore .drop",
            "train": "#train",
        }[name]
        browser.wait(f"document.querySelector('{ready}')")
        return browser

    browser.errors.clear()
    browser.resize(1200, 900)
    browser.dark(False)
    yield show
    assert browser.errors == []


def fill(page, selector, value, event):
    script = f"(e => (e.value = {json.dumps(value)}, e.dispatchEvent(new Event('{event}'))))"
    page.run(f"{script}(document.querySelector({json.dumps(selector)}))")


def choose(page, model):
    page.run("delete document.querySelector('#model').dataset.result")
    page.click(f"[data-model={model}]")
    page.wait("document.querySelector('#model').dataset.result")


# ---- run ------------------------------------------------------------------------------------------------------------


def test_the_first_model_runs_at_once_and_reads_what_is_drawn(page):
    page = page("run")
    assert page.text("#digit") == "7"
    assert re.search(r"in \d+ tasks; at most .* of temporaries", page.text("#run-status"))
    assert page.run("document.querySelectorAll('#run-tasks tbody tr').length") >= 3
    page.mouse(".pad", [(120, y) for y in range(30, 211, 10)])
    page.wait("document.querySelector('#digit').innerText === '1'")


def test_a_digit_is_drawn_with_keys(page):
    page = page("run")
    page.run("document.querySelector('.pad').focus()")
    before = page.text("#digit-scores")
    for _ in range(4):
        page.key("ArrowRight")
        page.key("ArrowDown")
        page.key(" ")
    page.wait(f"document.querySelector('#digit-scores').innerText !== {json.dumps(before)}")


def test_the_writer_continues_a_text(page):
    page = page("run")
    choose(page, "writer")
    before = len(page.run("document.querySelector('#story').value"))
    page.click("#model .main")
    page.wait(f"document.querySelector('#story').value.length > {before + 20}")
    choose(page, "digits")  # which ends it


def test_the_sketch_draws_a_picture_and_a_webcam(page):
    page = page("run")
    choose(page, "sketch")
    pixels = "[...document.querySelector('#picture').getContext('2d').getImageData(0, 0, 256, 256).data]"
    values = np.array(page.run(pixels)).reshape(256, 256, 4)
    assert values[..., 3].min() == 255
    assert values[120, 128, 0] > 200  # the face,
    assert values[120, 40:50, 0].min() < 100  # and the line around it
    page.click("#model .main")
    page.wait("/pictures a second/.test(document.querySelector('#model').innerText)")
    choose(page, "digits")


def test_any_file_runs_a_thousand_times_in_the_same_memory(page):
    page = page("run")
    page.choose_file("#page-run input[type=file]", GOLDEN / "1.0/mlp.tenon")
    page.wait("document.querySelector('#run')")
    page.click("#run")
    page.wait("document.querySelector('#results h4')")
    assert "f32[2, 4]" in page.text("#results")
    page.click("#repeat")
    text = page.wait("(text => text.includes('grew') && text)(document.querySelector('#repeated').value)", 120)
    assert "1000 runs" in text
    assert text.endswith("memory grew by 0 bytes")


def test_files_that_are_none_are_refused_with_the_message(page, tmp_path):
    damaged = bytearray((GOLDEN / "1.0/mlp.tenon").read_bytes())
    damaged[200] ^= 0xFF
    files = {"none.tenon": b"this is no model", "damaged.tenon": bytes(damaged)}
    page = page("run")
    for (name, content), wanted in zip(files.items(), ("not a Tenon file", "damaged|checksum"), strict=True):
        (tmp_path / name).write_bytes(content)
        page.run("document.querySelector('#page-run .error').textContent = ''")
        page.choose_file("#page-run input[type=file]", tmp_path / name)
        message = page.wait("document.querySelector('#page-run .error').textContent")
        assert re.search(wanted, message), message
    choose(page, "digits")
    assert page.text("#page-run .error") == ""
    assert page.text("#digit") == "7"


def test_text_and_sizes_feed_a_model(page):
    page = page("run")
    page.choose_file("#page-run input[type=file]", GOLDEN / "1.0/symbolic.tenon")
    page.wait("document.querySelector('#model input[type=number]')")
    page.run("document.querySelector('#model input[type=number]').value = 3")
    page.click("#run")
    page.wait("document.querySelector('#results h4')")
    assert re.search(r"\[3|, 3", page.text("#results"))


# ---- the playground -------------------------------------------------------------------------------------------------

PLAYGROUND = ("play.mjs", "play_worker.mjs", "loop_list.mjs", "memory_picture.mjs", "kernels.mjs", "tenon-kernels.wasm")


def loops_of(page):
    """The lines of the tree: `for m in 256`, and marks."""
    return page.run("[...document.querySelectorAll('#loops li')].map(e => e.innerText.replace(/\\s+/g, ' ').trim())")


def settled(page):
    page.wait("!document.querySelector('#page-play').hasAttribute('aria-busy')")
    return page.text("#edits")


def press(page, *keys):
    for key in keys:
        page.key(key, key if len(key) == 1 else None)
    return settled(page)


def write_kernel(page, source):
    fill(page, "#kernel", source, "input")
    page.click("#play")
    settled(page)


def link_of(source, edits):
    text = json.dumps({"source": source, "edits": edits}).encode()
    return "play?k=" + base64.urlsafe_b64encode(text).decode().rstrip("=")


def test_a_kernel_is_run_and_its_loops_are_shown(page):
    page = page("play")
    assert re.search(r"for m in 256", loops_of(page)[0])
    assert "f32[256, 256]" in page.text("#play-facts")
    assert float(page.run("document.querySelector('#gflops').dataset.gflops")) > 0
    assert page.text("#wasm").startswith("(module")
    assert page.run("document.querySelectorAll('#strips canvas').length") >= 3


def test_loops_are_edited_by_keys(page):
    page = page("play")
    before = loops_of(page)
    page.run("document.querySelector('#loops [tabindex=\"0\"]').focus()")
    assert press(page, "s") == "split 0 8"
    assert len(loops_of(page)) == len(before) + 1
    assert press(page, "Home", "ArrowDown", "ArrowDown", "o") == "split 0 8; swap 1 2"
    assert "#play?k=" in page.run("location.hash")
    press(page, "End", "ArrowUp")
    page.click("#undo")
    assert settled(page) == "split 0 8"
    page.click("#redo")
    assert settled(page) == "split 0 8; swap 1 2"
    page.click("#undo")
    settled(page)
    page.click("#undo")
    assert settled(page) == "plain loops"
    assert loops_of(page) == before


def test_a_loop_is_dragged_onto_another(page):
    page = page("play")
    before = loops_of(page)
    height = page.run("document.querySelector('#loops li').offsetHeight")
    page.mouse("#loops li", [(60, height * 1.5), (60, height), (60, height / 2)])
    page.wait("document.querySelector('#edits').innerText === 'swap 0 1'")
    settled(page)
    assert loops_of(page)[0].split(" ", 1)[1] == before[1].split(" ", 1)[1]
    assert float(page.run("document.querySelector('#play-facts').dataset.difference")) < 1e-5


def test_an_edit_that_is_not_possible_says_why_and_changes_nothing(page):
    page = page("play")
    before = loops_of(page)
    fill(page, "#edit", "split 99 2", "input")
    page.run("document.querySelector('#edit').focus()")
    press(page, "Enter")
    page.wait("document.querySelector('#play-error').innerText.includes('there is no line 99')")
    assert loops_of(page) == before
    assert page.text("#edits") == "plain loops"


def test_a_schedule_makes_simd_of_a_product(page):
    page = page("play")
    assert "f32x4" not in page.text("#wasm")
    page.click("#schedule")
    assert settled(page) == "schedule"
    assert float(page.run("document.querySelector('#play-facts').dataset.difference")) < 1e-5
    assert "f32x4" in page.text("#wasm")


def test_the_picture_of_memory_follows_the_loops(page):
    page = page("play")
    fill(page, "#example", "3", "change")  # the transposition
    page.wait("/for j/.test(document.querySelector('#loops li')?.innerText)")
    settled(page)
    labels = "[...document.querySelectorAll('#strips canvas')].map(e => e.getAttribute('aria-label'))"
    assert any("by 512" in label and "reads" in label for label in page.run(labels))
    fill(page, "#edit", "swap 0 1", "input")
    page.run("document.querySelector('#edit').focus()")
    press(page, "Enter")
    page.wait("document.querySelector('#edits').innerText === 'swap 0 1'")
    assert any("by 512" in label and "writes" in label for label in page.run(labels))
    pixels = "e.getContext('2d').getImageData(0, 0, e.width, e.height).data.some(value => value > 0)"
    assert page.run(f"[...document.querySelectorAll('#strips canvas')].every(e => {pixels})")


def test_a_link_brings_the_kernel_and_its_edits(page, address):
    page = page("play")
    fill(page, "#edit", "split 0 16", "input")
    page.run("document.querySelector('#edit').focus()")
    press(page, "Enter")
    link, loops = page.run("location.href"), loops_of(page)
    page.open("about:blank")
    page.open(link)
    page.wait("document.querySelector('#gflops[data-gflops]')")
    assert (settled(page), loops_of(page)) == ("split 0 16", loops)


def test_a_kernel_of_somebody_else_waits_for_run(page, browser, address):
    page("play")
    source = "const i = new Symbol('i');\nreturn random(64).to(i).exp();\n"
    browser.open("about:blank")
    browser.open(f"{address}#{link_of(source, ['split 0 4'])}")
    browser.wait("document.querySelector('#play-error')?.innerText.includes('came with the link')")
    assert browser.run("document.querySelectorAll('#loops li').length") == 0
    browser.click("#play")
    browser.wait("document.querySelector('#edits').innerText === 'split 0 4'")
    browser.open("about:blank")
    browser.open(f"{address}#play?k=bm9uc2Vuc2U")
    browser.wait("document.querySelector('#play-error')?.innerText.includes('The link is damaged')")


def test_a_kernel_sends_nothing_elsewhere(page, browser, tmp_path):
    page = page("play")
    (tmp_path / "module.mjs").write_text("export default 1;")
    asked = []
    with served(tmp_path, {"Access-Control-Allow-Origin": "*"}, asked) as other:
        for call in ("fetch", "import"):
            write_kernel(page, f"await {call}('{other}/module.mjs');\nreturn random(4).to(new Symbol('i'));")
            assert page.text("#play-error") != ""
        assert asked == []
    write_kernel(page, "return random(4).to(new Symbol('i'));")
    assert page.text("#play-error") == ""
    assert all("Content Security Policy" in error for error in browser.errors)
    browser.errors.clear()


def test_mistakes_in_a_kernel_are_messages(page):
    page = page("play")
    for source, message in [
        ("return new Tensor([1, 2]).add(new Symbol('x'))", "is no operand"),
        ("return 3", "must return a Tensor"),
        ("const = 3", "SyntaxError"),
        ("return missing", "missing is not defined"),
        ("for (;;);", "ran for more than 10 s"),
    ]:
        write_kernel(page, source)
        assert message in page.text("#play-error"), page.text("#play-error")
    write_kernel(page, "const i = new Symbol('i');\nreturn random(9).to(i).sum(i);")
    assert page.text("#play-error") == ""
    assert "f32[]" in page.text("#play-facts")


# ---- explore --------------------------------------------------------------------------------------------------------


def explore(page, model):
    page = page("explore")
    page.click(f"#page-explore [data-model={model}]")
    page.wait("document.querySelector('#page-explore #facts')")
    return page


def test_a_program_is_shown_searched_and_walked_by_keys(page):
    page = explore(page, "writer")
    tasks = int(page.run("document.querySelector('#tasks').getAttribute('aria-rowcount')")) - 1
    assert tasks > 20
    boxes = "Number(document.querySelector('.plot canvas').dataset.boxes)"
    collapsed = page.run(boxes)
    page.click("#collapse")
    assert page.run(boxes) > collapsed + 10
    assert "modules\n3" in page.text("#facts")
    assert "writer.embed.weight, constant" in page.text("#task")
    assert re.search(r"for v\d+ in \d+", page.text("#task pre"))
    page.run("document.querySelector('.plot canvas').focus()")
    page.key("ArrowDown")
    page.wait("document.querySelector('#task h3').innerText.startsWith('1: ')")
    assert "writer.blocks.0" in page.text("#task p")
    fill(page, "#search", "scaled_dot", "input")
    assert page.text("output[for=search]") == f"3 of {tasks}"
    assert "scaled_dot_product_attention" in page.text("#task h3")
    assert page.run("document.querySelectorAll('#tasks tbody tr').length") == 3


def test_a_program_is_measured(page):
    page = explore(page, "digits")
    page.click("#measure")
    page.wait("document.querySelector('section[aria-label=Time]')")
    assert "time of all tasks" in page.text("#facts")
    assert re.search(r"Means of \d+ runs", page.text("section[aria-label=Time]"))
    assert int(page.run("document.querySelector('#memory').dataset.temporaries")) > 2


def test_entries_and_sizes_of_a_training_are_shown(page):
    page = explore(page, "training")
    assert "no run has set yet" in page.text("#memory")
    fill(page, "#page-explore select", "predict", "change")
    page.wait("document.querySelector('#facts dd').innerText === '10'")
    page.click("#measure")
    page.wait("document.querySelector('section[aria-label=Time]')")


def deep_description(count):
    """Of a program whose layers repeat, eight tasks each."""
    names = ["norm", "project", "attend", "merge", "norm2", "widen", "narrow", "add"]
    slot = {"type": "f32[64]", "kind": "temporary", "bytes": 256, "offset": 0}
    slots = [{**slot, "root": i, "first": i - 1, "last": i} for i in range(count + 1)]
    slots[0]["kind"] = "input"
    task = {"kind": "kernel", "ops": [], "place": "", "device": "", "loops": -1}
    tasks = [{**task, "name": names[i % 8], "inputs": [i], "outputs": [i + 1]} for i in range(count)]
    ends = {"inputs": [{"name": "x", "slot": 0}], "outputs": [{"name": "y", "slot": count}]}
    plan = {"bytes": 512, "least": 512}
    about = {"name": "deep", "states": [], "symbols": [], "loops": [], "plan": plan}
    return {**about, **ends, "slots": slots, "tasks": tasks}


def test_of_thousands_of_tasks_those_that_can_be_seen_are_drawn(page, tmp_path):
    count = 6000
    report = {"description": deep_description(count), "profile": None, "facts": [], "text": ""}
    (tmp_path / "deep.json").write_text(json.dumps(report))
    page = page("explore")
    page.choose_file("#page-explore input[type=file]", tmp_path / "deep.json")
    page.wait("document.querySelector('#page-explore #facts')")
    assert page.run("document.querySelectorAll('#tasks tbody tr').length") < 60
    assert int(page.run("document.querySelector('.plot canvas').dataset.boxes")) == count // 8 + 2
    page.click("#collapse")
    assert int(page.run("document.querySelector('.plot canvas').dataset.boxes")) == count + 2
    for _ in range(10):
        page.click('[aria-label="Zoom in"]')
    page.wait("Number(document.querySelector('.plot canvas').dataset.drawn) < 20")


def test_a_file_without_a_report_is_refused(page, tmp_path):
    (tmp_path / "page.html").write_text("<p>no report</p>")
    page = page("explore")
    page.choose_file("#page-explore input[type=file]", tmp_path / "page.html")
    message = page.wait("document.querySelector('#page-explore .error').textContent")
    assert "page.html has no report" in message


# ---- train ----------------------------------------------------------------------------------------------------------


def test_a_network_learns_digits(page):
    page = page("train")
    page.click("#train")
    page.wait("Number(document.querySelector('#train-status').dataset.steps) >= 60", 120)
    page.click("#train")
    page.wait("document.querySelector('#train').innerText === 'Train'")
    accuracy = float(re.search(r"([\d.]+) %", page.text("#accuracy"))[1])
    assert accuracy > 85
    label = page.run("document.querySelector('.curve').getAttribute('aria-label')")
    training, test = (float(value) for value in re.findall(r"(?:training|testing) ([\d.]+)", label))
    assert 0 < training < 1.5
    assert 0 < test < 1.5
    page.click("#sample")
    page.wait("document.querySelectorAll('#read meter').length === 10")
    page.click("#page-train .tools button:nth-of-type(2)")
    page.wait("document.querySelector('#train-status').dataset.steps === '0'")


# ---- all pages ------------------------------------------------------------------------------------------------------


def greys(png, columns=16, rows=12):
    """Mean brightness of the parts of a PNG of 8 bits and no interlacing, which a browser writes."""
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack_from(">IIBB", png, at + 8)
        data += png[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    depth = {2: 3, 6: 4}[colour]
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * depth)
    image = np.zeros((height + 1, width + 1, depth), np.int64)  # a border of zeros
    for y, line in enumerate(lines, 1):
        kind, values, up = line[0], line[1:].reshape(width, depth).astype(np.int64), image[y - 1]
        if kind in (0, 2):
            image[y, 1:] = values + (up[1:] if kind == 2 else 0)
        elif kind == 1:
            image[y, 1:] = np.cumsum(values, 0)
        else:
            for x in range(1, width + 1):
                left = image[y, x - 1]
                guess = (left + up[x]) // 2 if kind == 3 else paeth(left, up[x], up[x - 1])
                image[y, x] = (values[x - 1] + guess) & 255
        image[y] &= 255
    grey = image[1:, 1:, :3].mean(-1)
    return np.array([[part.mean() for part in np.array_split(row, columns, 1)] for row in np.array_split(grey, rows)])


def paeth(left, up, corner):
    nearest = np.abs(np.stack([up - corner, left - corner, left + up - 2 * corner])).argmin(0)
    return np.choose(nearest, [left, up, corner])


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_pages_look_as_they_did(page, browser, name, is_dark):
    """Coarsely: fonts differ from machine to machine."""
    browser.dark(is_dark)
    page = page(name)
    page.wait("document.fonts.ready.then(() => new Promise(requestAnimationFrame)).then(() => true)")
    seen = greys(page.screenshot())
    wanted = np.array(json.loads((GOLDEN / "web/pages.json").read_text())[f"{name}-{'dark' if is_dark else 'light'}"])
    assert np.abs(seen - wanted).mean() < 12
    assert seen.mean() < 80 if is_dark else seen.mean() > 180


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_a_phone(page, name):
    page = page(name)
    page.resize(360, 740)
    if name == "explore":
        page.click("#page-explore [data-model=digits]")
        page.wait("document.querySelector('#page-explore #facts')")
    assert page.run("document.scrollingElement.scrollWidth") <= 360


FIELDS = {"textbox", "searchbox", "spinbutton", "slider", "checkbox", "combobox"}
ROLES = {"button", "link", "application", "meter", *FIELDS}
FOCUSED = "(e => e === document.body ? null : e.outerHTML)(document.activeElement)"
USABLE = """[...document.querySelector('main > section:not([hidden])')
  .querySelectorAll('button:not(:disabled), input, canvas[tabindex]')]
  .filter((each) => each.checkVisibility() && !each.closest('#tasks')).map((each) => each.outerHTML)"""


@pytest.mark.parametrize("name", PAGES)
def test_everything_that_can_be_used_has_a_name_and_is_reached_by_keys(page, name):
    page = page(name)
    if name == "explore":
        page.click("#page-explore [data-model=digits]")
        page.wait("document.querySelector('#page-explore #facts')")
    nodes = [each for each in page.call("Accessibility.getFullAXTree")["nodes"] if not each["ignored"]]
    roles = [each["role"]["value"] for each in nodes]
    names = [each.get("name", {}).get("value") for each in nodes]
    assert [role for role, each in zip(roles, names, strict=True) if role in ROLES and not each] == []
    assert roles.count("main") == 1
    reached = set()
    for _ in range(40):
        page.key("Tab")
        reached.add(page.run(FOCUSED))
    assert set(page.run(USABLE)) <= reached


THREADS = """(async () => {
  const { WorkerTenon } = await import("./worker.mjs");
  const tenon = await WorkerTenon.load(undefined, { threads: 3 });
  const program = await tenon.openFrom("models/digits.tenon");
  const [{ data }] = await program.run([Float32Array.from({ length: 64 }, (_, i) => i / 64)]);
  tenon.terminate();
  return [crossOriginIsolated, tenon.threads, data.indexOf(Math.max(...data)), data.reduce((sum, each) => sum + each)];
})()"""


def test_threads_help_where_the_page_is_isolated(browser, address):
    results = []
    browser.errors.clear()
    with served(SITE, ISOLATED) as isolated:
        for place in (address, f"{isolated}/index.html"):
            browser.open(f"{place}#run")
            browser.wait("document.querySelector('#model[data-result]')")
            results.append(browser.run(THREADS))
    (_, _, digit, total), (*about, isolated_digit, isolated_total) = results
    assert results[0][:2] == [False, 1]
    assert about == [True, 3]
    assert digit == isolated_digit
    np.testing.assert_allclose([total, isolated_total], 1, rtol=1e-5)
    assert browser.errors == []


def test_the_site_is_small_and_names_no_other():
    files = [each for each in SITE.iterdir() if each.is_file()]
    for each in files:
        if each.suffix in (".html", ".css", ".mjs"):
            assert not re.search(r"https?://|//cdn", each.read_text()), each
    later = {"tenon-inspect.wasm", "tenon-threads.wasm", "thread.mjs", "explore.mjs", "train.mjs", *PLAYGROUND}
    first = [each for each in files if each.name not in later]
    weight = sum(len(gzip.compress(each.read_bytes())) for each in first)
    assert weight < 235_000, f"{weight} bytes, compressed"
