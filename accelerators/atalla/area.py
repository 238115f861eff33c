#!/usr/bin/env python3
"""The area of Atalla with given options: `area.py size=8 scratchpad=64KiB`, as `tenon device sweep` runs it.

With yosys, the multipliers of the array and the adders of the accumulators are counted in cells: their arithmetic is
taken from rtl/atalla_pkg.sv as it is there. yosys reads no arrays of ports, so control and DMA are left out. Without
yosys, the counts are those that yosys 0.23 gave, and the unit says so. A bit of memory counts as a quarter of a cell.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "rtl/atalla_pkg.sv"
MULTIPLIER_CELLS, ADDER_CELLS = 4834, 1981  # `area.py --count` says these with yosys 0.23
CELLS_OF_BIT = 0.25
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
DEFAULTS = {"size": "16", "scratchpad": "256KiB", "accumulators": "128KiB", "queue": "16"}
COMMAND_BITS = 256

# A multiplier has two weights, the row's activation, and a partial sum that comes from above.
MULTIPLIER = """module multiplier(input clk, input load, input load_select, input select, input is_float,
  input [15:0] in, input [15:0] weight, input [31:0] above, output reg [31:0] sum);
{functions}
  reg [15:0] weights [0:1], a;
  wire [15:0] w = weights[select];
  always @(posedge clk) begin
    if (load) weights[load_select] <= weight;
    a <= in;
    sum <= is_float ? fadd(above, bmul(a, w)) : above + {{{{16{{a[15]}}}}, a}} * {{{{16{{w[15]}}}}, w}};
  end
endmodule
"""
ADDER = """module adder(input clk, input is_float, input adds, input [31:0] old, input [31:0] in,
  output reg [31:0] sum);
{functions}
  always @(posedge clk) sum <= is_float ? fadd(adds ? old : 32'b0, in) : (adds ? old : 32'b0) + in;
endmodule
"""


def function(name):
    """A function of the package as Verilog: it has one `return`, at its end."""
    text = PACKAGE.read_text()
    head = re.search(rf"function automatic logic (\[\d+:0\]) {name}\((.*?)\);\n(.*?)endfunction", text, re.DOTALL)
    width, arguments, body = head.groups()
    inputs = "".join(f"    {argument.strip().replace('logic ', '')};\n" for argument in arguments.split(","))
    body = re.sub(r"\blogic\b", "reg", body)
    body = re.sub(r"`BUG\(\d+\)", "1'b0", body).replace("NAN", "32'h7fc00000")
    assert body.count("return ") == 1, name
    body = body.replace("return ", f"{name} = ")
    return f"  function {width} {name};\n{inputs}    begin : inside\n{body}    end\n  endfunction\n"


def kept(text):
    """A file for the count of this text; none without a cache."""
    folder = os.environ.get("TENON_CACHE", str(Path.home() / ".cache/tenon"))
    if folder == "off":
        return None
    return Path(folder) / f"atalla-cells-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def cells(module, template, functions):
    text = template.format(functions="".join(map(function, functions)))
    place = kept(text)
    if place and place.exists():
        return int(place.read_text())
    count = counted(module, text)
    if place and place.parent.is_dir():
        place.write_text(str(count))
    return count


def counted(module, text):
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"{module}.v"
        source.write_text(text)
        script = f"read_verilog {source}; synth -flatten -top {module}; abc -g simple; stat"
        done = subprocess.run(["yosys", "-p", script], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"yosys failed for the {module}: {done.stderr.strip()}")
    return int(re.findall(r"Number of cells: +(\d+)", done.stdout)[-1])


def number(options, name):
    text = options.get(name, DEFAULTS[name])
    value, unit = re.fullmatch(r"(\d+)(\w*)", text).groups() if re.fullmatch(r"\d+\w*", text) else ("", "?")
    if unit not in UNITS:
        sys.exit(f"option {name} is '{text}', which is no number")
    return int(value) * UNITS[unit]


def main(arguments):
    if not PACKAGE.exists():
        sys.exit(f"there is no {PACKAGE}")
    has_yosys = shutil.which("yosys") is not None
    multiplier, adder = MULTIPLIER_CELLS, ADDER_CELLS
    if has_yosys:
        multiplier = cells("multiplier", MULTIPLIER, ("fadd", "bmul"))
        adder = cells("adder", ADDER, ("fadd",))
    if arguments == ["--count"]:
        print(f"{multiplier} cells of a multiplier, {adder} of an adder")
        return
    options = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    size = number(options, "size")
    bits = 8 * (number(options, "scratchpad") + number(options, "accumulators"))
    bits += 3 * COMMAND_BITS * number(options, "queue")
    total = size * size * multiplier + size * adder + round(bits * CELLS_OF_BIT)
    print(total, "cells" if has_yosys else "cells (estimated, without yosys)")


main(sys.argv[1:])
