"""Tenon behind device "lazy", for tests. The extension takes a minute to build: all of them share one."""

import os
from pathlib import Path
from unittest import mock

import tenon.lazy

CACHE = Path(__file__).parents[2] / "build" / "lazy"


def start() -> None:
    with mock.patch.dict(os.environ, {"TENON_CACHE": str(CACHE)}):
        tenon.lazy.init()
    tenon.lazy.reset_metrics()
