"""Whether every stage of the zoo's models parses back and compiles to the same program: `make zoo-stages`.

    python tests/python/zoo_stages.py [model ...]

Writes the text of each stage (`tenon compile --emit all`), compiles each text, and compares the last stage.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

TENON = Path(__file__).parents[2] / "build/bin/tenon"


def compiled(folder, *arguments):
    done = subprocess.run([TENON, "compile", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"tenon compile {' '.join(map(str, arguments))}: {done.stderr}"
    return done.stdout.rstrip("\n")


def check_stages(model, folder):
    """The names of the stages. Fails where the text of one does not compile to the same program."""
    program = torch.export.export(model.module, model.args, dynamic_shapes=model.dynamic_shapes)
    torch.export.save(program, folder / "model.pt2")
    compiled(folder, "model.pt2", "--emit", "all", "-o", "stages")
    *files, last = sorted((folder / "stages").glob("*.t*"))
    wanted = last.read_text().rstrip("\n")
    for file in files[1:]:  # the first is the graph as it was captured: --from begins after a stage
        assert compiled(folder, "--from", file, "model.pt2", "--emit", "memory") == wanted, file.name
    return [file.stem for file in [*files, last]]


def main():
    from zoo import ZOO

    failed = 0
    for name in sys.argv[1:] or ZOO:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                result = f"{len(check_stages(ZOO[name](small=True), Path(folder)))} stages"
            except AssertionError as error:
                failed += 1
                result = f"FAIL {error}"
        print(f"{name:14} {time.monotonic() - begin:6.1f} s  {result}", flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
