"""Whole models: Tenon beside PyTorch eager, Inductor, ONNX Runtime and OpenVINO: `make bench`.

cases.py lists the models, engines.py the ways to run one, rounds.py times them in turns, worker.py is a process that
measures, report.py prints tables and judges the bars, picture.py draws.
"""
