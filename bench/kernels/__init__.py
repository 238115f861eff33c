"""The kernels of Tenon's cpu backend against PyTorch's own CPU ops: `make bench-kernels`.

case.py says what a row is, cases.py lists them, harness.py compiles, checks and times one, report.py prints them and
judges the bars.
"""
