"""Where compiled kernels, programs and the lazy device's extension are kept between processes."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path | None:
    """None: nothing is kept. The same rules as in src/codegen/cache.h."""
    if os.environ.get("TENON_CACHE") == "off":
        return None
    if folder := os.environ.get("TENON_CACHE"):
        return Path(folder)
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder) / "tenon"
    return Path(os.environ["HOME"]) / ".cache" / "tenon" if os.environ.get("HOME") else None
