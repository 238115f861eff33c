"""How long the .pt2 of BERT-base takes to become a Graph, in C++, and how much memory: `tenon compile` says both."""

import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/python"))
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import zoo  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "bert.pt2")
    model = zoo.bert(small=False)
    torch.export.save(torch.export.export(model.module, model.args, strict=False), path)
    for _ in range(3):
        output = subprocess.run(["build/bin/tenon", "compile", path], check=True, capture_output=True, text=True).stdout
        print("\n".join(output.splitlines()[-2:]))
print("the bars: 150 ms, 5% of the weights")
