"""python -m tenon doctor: what this machine has, and what is wrong with a remedy for each.
python -m tenon demo: BERT-base from PyTorch to machine code.
python -m tenon COMMAND ...: any command of the command line `tenon`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> int:
    match sys.argv[1:]:
        case ["doctor", *arguments]:
            from tenon import doctor  # imported here: another command must not wait for it

            return doctor.main(arguments)
        case ["demo", *arguments]:
            from tenon import demo

            return demo.main(arguments)
        case [] | ["-h" | "--help"]:
            print(__doc__)
            return 0
        case arguments:
            program = str(Path(__file__).parent / "bin" / "tenon")
            return os.execv(program, [program, *arguments])


sys.exit(main())
