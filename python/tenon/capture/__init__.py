"""From PyTorch to a Graph: what `src/capture` is in C++, for models that live in this process."""

from tenon.pytorch_version import warn_if_unsupported

warn_if_unsupported()  # before this folder's imports of PyTorch's inside, which may fail
