"""The command line under test."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
TENON = Path(os.environ.get("TENON_CLI", ROOT / "build/bin/tenon"))
LOOPBACK = TENON.parents[1] / "accelerators/loopback.so"
