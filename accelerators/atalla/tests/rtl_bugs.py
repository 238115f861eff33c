"""Whether the public tools find each mistake of rtl/bugs.svh: `make rtl-bugs`.

Each mistake is looked for with `tenon device diff`, whose command must belong to the unit that goes wrong first.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ATALLA = Path(__file__).parents[1]
ROOT = ATALLA.parents[1]
LETTERS = {"l": "load", "c": "compute", "s": "store"}
NAMED_AT_LEAST = 28
# Mistakes about order disturb another unit than their own, and which one comes first depends on the stream.
DISTURBED = {
    7: {"compute", "store"},  # read lines that are not written yet
    8: {"load", "compute", "store"},  # wait for the token that is lost
    9: {"compute", "store"},  # read lines that are overwritten early
    10: {"compute", "store"},  # the store reads sums that are overwritten early
}


def mistakes():
    """What each one is, by number."""
    lines = re.findall(r"^//\s+(\d+)\s+(.*)$", (ATALLA / "rtl/bugs.svh").read_text(), re.MULTILINE)
    return {int(number): text for number, text in lines}


def right_units(bug):
    """Units of the first command that goes wrong: the one that the body's own test has, or those that are disturbed."""
    text = (ATALLA / "tests/rtl_bugs_test.cpp").read_text()
    return DISTURBED.get(bug, {LETTERS[re.search(r'kUnitsOfBugs = "([lcs]+)"', text)[1][bug - 1]]})


def find(bug, tenon, plugin, arguments=()):
    """What `tenon device diff` finds: a record with the command, or None."""
    command = [tenon, "device", "diff", "--plugin", plugin, "-a", "model", "-b", f"rtl,bug={bug}", "--json", *arguments]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout).get("difference")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bugs", nargs="*", type=int, help="numbers; all without any")
    parser.add_argument("--tenon", default=ROOT / "build/bin/tenon")
    parser.add_argument("--plugin", default=ROOT / "build/accelerators/atalla.so")
    options = parser.parse_args()
    texts = mistakes()
    bugs = options.bugs or sorted(texts)
    found = named = 0
    for bug in bugs:
        difference = find(bug, options.tenon, options.plugin)
        unit = difference["unit"] if difference else ""
        found += difference is not None
        named += unit in right_units(bug)
        what = difference["text"].split(" wait=")[0][:40] if difference else "NOT FOUND"
        where = f"{difference['launch']}, command {difference['command']}" if difference else ""
        verdict = "" if unit in right_units(bug) else f" (wrong: {', '.join(right_units(bug))})"
        print(f"{bug:2} {texts[bug][:62]:<62} {unit:<8}{verdict} {what:<40} {where}", flush=True)
    print(f"{found} of {len(bugs)} found, {named} with a command of the right unit")
    sys.exit(found < len(bugs) or named < len(bugs) - (len(texts) - NAMED_AT_LEAST))


if __name__ == "__main__":
    main()
