"""`tenon device sweep`: a model over a grid of a device's options; and the roofline of a report."""

import csv
import io
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from cli_binary import LOOPBACK, ROOT

ATALLA, VECTOR = LOOPBACK.with_name("atalla.so"), LOOPBACK.with_name("vector.so")
AREA = ROOT / "accelerators/atalla/area.py"

MODEL = """graph model(%x: bf16[64, 96]) {
  %w: bf16[128, 96] = parameter "w"
  %v: bf16[128, 32] = parameter "v"
  %hidden = linear(%x, %w, none)
  %active = relu(%hidden)
  %y = matmul(%active, %v)
  return %y
}"""
MACS = 64 * 96 * 128 + 64 * 128 * 32
ON_ATALLA = ("--plugin", ATALLA, "--device", "atalla:body=cycles")


def rows(tenon, *arguments, device=ON_ATALLA, model=MODEL):
    return tenon("device", "sweep", "m.tg", *device, *arguments, "-o", "s.csv", files={"m.tg": model})


@pytest.fixture
def table(tmp_path):
    return lambda: list(csv.DictReader(io.StringIO((tmp_path / "s.csv").read_text())))


def test_cycles_and_area_of_a_grid(tenon, table):
    done = rows(tenon, "--grid", "size=16,32;dma_bytes=4,16")
    assert done.code == 0, done.err
    points = table()
    assert [(point["size"], point["dma_bytes"]) for point in points] == [
        ("16", "4"), ("16", "16"), ("32", "4"), ("32", "16")
    ]  # fmt: skip
    cycles = [int(point["cycles"]) for point in points]
    assert cycles[1] < cycles[0]
    assert cycles[3] < cycles[2]
    assert cycles[3] < cycles[1]
    for point, count in zip(points, cycles, strict=True):
        assert float(point["utilization"]) == pytest.approx(MACS / int(point["size"]) ** 2 / count, abs=6e-4)
    area = next(name for name in points[0] if name.startswith("area, cells"))
    assert int(points[0][area]) < int(points[2][area])
    assert points[0][area] == points[1][area]  # the DMA's width is the memory's
    assert [line.split()[:2] for line in done.out.splitlines()[1:]] == [[p["size"], p["dma_bytes"]] for p in points]


def test_the_sweep_agrees_with_a_run(tenon, table, tmp_path):
    assert rows(tenon, "--grid", "size=16", "--area", "none").code == 0
    (point,) = table()
    assert "area" not in "".join(point)
    done = tenon("bench", "m.tg", *ON_ATALLA[:2], "--device", "atalla:body=cycles,size=16", "--rounds", "1")
    assert done.code == 0, done.err
    profile = tenon("inspect", "m.tg", *ON_ATALLA[:2], "--device", "atalla:body=cycles,size=16", "--html", "r.html")
    assert profile.code == 0, profile.err
    page = (tmp_path / "r.html").read_text()
    layers = [
        int(count) for count in re.findall(r"<td class=\"number\">(\d+)</td><td class=\"number\">[\d.]+%</td>", page)
    ]
    assert len(layers) == 2
    # Layers follow each other; of two, a little of the first's end overlaps with the second's beginning.
    assert 0.8 * sum(layers) <= int(point["cycles"]) <= 1.05 * sum(layers)


def test_a_point_that_is_refused_is_a_row(tenon, table):
    done = rows(tenon, "--grid", "size=12,16;scratchpad=64KiB,7")
    assert done.code == 0, done.err
    points = table()
    assert [bool(point["cycles"]) for point in points] == [False, False, True, False]
    assert "size" in points[0]["error"]
    assert points[2]["error"] == ""


@pytest.mark.parametrize(
    ("device", "error"),
    [
        (("--plugin", ATALLA, "--device", "atalla:body=model"), "the device does not tell how long its launches take"),
        (("--plugin", LOOPBACK, "--device", "loopback:ops=tanh"), "the device runs no node of the model"),
    ],
)
def test_a_device_without_times(tenon, table, device, error):
    done = rows(tenon, "--grid", "seed=1,2" if "loopback" in str(device[3]) else "size=8", device=device)
    assert done.code == 1
    assert "no point of the grid ran" in done.err
    assert {point["error"] for point in table()} == {error}


def test_another_machine(tenon, table):
    model = "graph g(%x: f32[4, 100], %w: f32[100, 64]) {\n  %y = matmul(%x, %w)\n  return %y\n}"
    done = rows(tenon, "--grid", "lanes=16,32,64", device=("--plugin", VECTOR, "--device", "vector"), model=model)
    assert done.code == 0, done.err
    assert [point["ns"] for point in table()] == ["1600", "800", "400"]


AREA_PROGRAM = """#!/bin/sh
[ "$1" = lanes=64 ] && { echo "no such unit" >&2; exit 3; }
echo "${1#lanes=}00 um2"
"""


def test_the_area_of_another_program(tenon, table, tmp_path):
    model = "graph g(%x: f32[64]) {\n  %y = relu(%x)\n  return %y\n}"
    program = tmp_path / "area.sh"
    program.write_text(AREA_PROGRAM)
    program.chmod(0o755)
    device = ("--plugin", VECTOR, "--device", "vector", "--area", program)
    assert rows(tenon, "--grid", "lanes=16,64", device=device, model=model).code == 0
    points = table()
    assert points[0]["area, um2"] == "1600"
    assert points[1]["error"].endswith("ended with 3: no such unit")
    program.write_text("#!/bin/sh\necho large")
    rows(tenon, "--grid", "lanes=16", device=device, model=model)
    assert "printed 'large'; its first line must be an amount and a unit" in table()[0]["error"]


def test_pictures(tenon, tmp_path):
    for name in ("s.svg", "s.html"):
        done = tenon("device", "sweep", "m.tg", *ON_ATALLA, "--grid", "size=4,8,16;dma_bytes=4,16", "-o", name,
                     files={"m.tg": MODEL})  # fmt: skip
        assert done.code == 0, done.err
    svg = ET.parse(tmp_path / "s.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    points = svg.findall(f"{space}circle")
    assert len(points) == 6
    best = ["best" in point.get("class") for point in points]
    assert best[1::2] == [True] * 3  # size=8 with half of the beats is as large as with all of them, and slower
    assert not best[2]
    assert all(0 < float(point.get("cx")) < 860 and 0 < float(point.get("cy")) < 480 for point in points)
    assert "size=16 dma_bytes=16" in points[-1].find(f"{space}title").text
    page = (tmp_path / "s.html").read_text()
    assert page.count("<circle") == 6
    assert page.count("<tr>") == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--grid", "size"), "--grid: 'size' is no axis: say it as size=8,16,32"),
        (("--grid", "size=8,"), "--grid: option size has an empty value"),
        (("--grid", "size=8;size=16"), "--grid: option size is there twice"),
        (("--grid", "body=model"), "option body is in --device and in --grid"),
        (("--grid", ";".join(f"o{i}=1,2" for i in range(13))), "--grid: there are more than 4096 points"),
        (("--grid", "size=8", "-o", "s.png"), "--output s.png: the file is a .csv, .html or .svg"),
        (("--grid", "size=8", "--device", "cpu"), "a sweep needs one --device"),
    ],
)
def test_errors(tenon, arguments, message):
    done = tenon("device", "sweep", "m.tg", *ON_ATALLA, *arguments, files={"m.tg": MODEL})
    assert done.code == 1
    assert message in done.err


# ---- the area of Atalla


def area(*options):
    done = subprocess.run([sys.executable, AREA, *options], capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def test_estimates_are_what_yosys_counts():
    """The numbers that stand for yosys where it is not installed."""
    if shutil.which("yosys") is None:
        pytest.skip("there is no yosys: make area installs it")
    text = AREA.read_text()
    kept = re.search(r"MULTIPLIER_CELLS, ADDER_CELLS = (\d+), (\d+)", text).groups()
    assert area("--count") == (0, f"{kept[0]} cells of a multiplier, {kept[1]} of an adder")


def test_area_grows_with_the_machine():
    amounts = [int(area(*options)[1].split()[0]) for options in (["size=8"], [], ["size=32"], ["scratchpad=512KiB"])]
    assert amounts[0] < amounts[1] < amounts[2]
    assert amounts[3] - amounts[1] == 256 * 1024 * 8 // 4
    assert area("size=many") == (1, "option size is 'many', which is no number")


# ---- the roofline


def test_the_roofline_of_a_page(tenon, tmp_path):
    device = ("--plugin", ATALLA, "--device", "atalla:body=cycles,dma_bytes=4")
    done = tenon("inspect", "m.tg", *device, "--html", "r.html", files={"m.tg": MODEL})
    assert done.code == 0, done.err
    page = (tmp_path / "r.html").read_text()
    body = re.search(r'<table class="layers">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)[1]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("</tr>")[:-1]]
    assert [row[1] for row in cells] == ["64x96 -&gt; 128", "64x128 -&gt; 32"]
    assert [int(row[2]) for row in cells] == [64 * 96 * 128, 64 * 128 * 32]
    assert [float(row[4]) for row in cells] == [3072, 1024]  # multiplications of a 16x16 array
    for row in cells:
        dma, cycles = float(row[5]), float(row[7])
        assert row[6] == "DMA"  # 4 bytes in a cycle
        assert cycles >= max(dma, float(row[4]))
        assert float(row[8][:-1]) == pytest.approx(100 * max(dma, float(row[4])) / cycles, abs=0.06)
        assert float(row[9][:-1]) == pytest.approx(100 * float(row[4]) / cycles, abs=0.06)
    assert page.count('<circle class="layer"') == 2
    assert '<path class="roof"' in page
    wide = tenon(
        "inspect", "m.tg", "--plugin", ATALLA, "--device", "atalla:body=cycles,dma_bytes=64", "--html", "w.html"
    )
    assert wide.code == 0, wide.err
    assert "<td>array</td>" in (tmp_path / "w.html").read_text()


def test_the_roofline_of_two_layers_that_share_a_launch(tenon, tmp_path):
    """The first layer's result is scratch of the launch; its weights come at run time."""
    model = (ROOT / "accelerators/template/model.tg").read_text()
    done = tenon("inspect", "m.tg", *ON_ATALLA, "--html", "r.html", files={"m.tg": model})
    assert done.code == 0, done.err
    assert (tmp_path / "r.html").read_text().count('<circle class="layer"') == 2


def test_the_roofline_of_a_device_without_times(tenon, tmp_path):
    device = ("--plugin", ATALLA, "--device", "atalla:body=model")
    assert tenon("inspect", "m.tg", *device, "--html", "r.html", files={"m.tg": MODEL}).code == 0
    page = (tmp_path / "r.html").read_text()
    assert "The device does not tell how many cycles its launches take." in page
    assert '<circle class="layer"' not in page


def test_a_page_without_a_tile_machine_has_no_roofline(tenon, tmp_path):
    assert tenon("inspect", "m.tg", "--html", "r.html", files={"m.tg": MODEL}).code == 0
    assert 'id="roofline"' not in (tmp_path / "r.html").read_text()
