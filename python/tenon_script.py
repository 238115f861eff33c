#!python
# `tenon` on the PATH of an environment: runs the command line inside of the package, without importing it.
import importlib.util
import os
import sys

spec = importlib.util.find_spec("tenon")
if spec is None:
    sys.exit("error: tenon is not installed in this environment; run: pip install tenon")
program = os.path.join(os.path.dirname(spec.origin), "bin", "tenon")
os.execv(program, [program, *sys.argv[1:]])
