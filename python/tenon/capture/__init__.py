"""From PyTorch to a Graph: what `src/capture` is in C++, for models that live in this process."""
