"""What all Python tests share."""

import atexit
import os
import shutil
import sys
import tempfile

sys.path.append(f"{sys.prefix}/pt2e")  # torchao: python/requirements-pt2e.txt

# Tests leave the user's cache alone, and start from an empty one: kernels that several tests need are compiled once.
# The workers of pytest-xdist inherit the folder from the process that starts them.
if "TENON_CACHE" not in os.environ:
    os.environ["TENON_CACHE"] = tempfile.mkdtemp(prefix="tenon-tests-")
    atexit.register(shutil.rmtree, os.environ["TENON_CACHE"], ignore_errors=True)
