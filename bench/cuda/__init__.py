"""What runs on an NVIDIA GPU, beside PyTorch there. Each command prints a table; docs/cuda.md says what they measure.

python -m bench.cuda.checks        is it right? against PyTorch on CUDA
python -m bench.cuda.copies        bytes that kernels move in a second, against a copy
python -m bench.cuda.models        whole models, against eager in a CUDA graph and Inductor
"""
