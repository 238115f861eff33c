"""PyTorch's tensors on NVIDIA GPUs, for the module's C++: their memory is PyTorch's, and so is the stream."""

from __future__ import annotations

import torch

from tenon.capture.captured import DTYPES

_TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}


def current_stream(device: int) -> int:
    return torch.cuda.current_stream(device).cuda_stream


def empty(shape: list[int], dtype: str, device: int) -> torch.Tensor:
    return torch.empty(shape, dtype=_TORCH_DTYPES[dtype], device=torch.device("cuda", device))


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with its elements in order, aligned as PyTorch aligns what it allocates."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)
