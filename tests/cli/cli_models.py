"""Models that several tests of the command line export."""

import torch


class Returning(torch.nn.Module):
    """Returns an argument and a weight as they are, and promises something of its data and of its sizes."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4.0))

    def forward(self, x):
        torch.ops.aten._assert_async.msg(x.select(0, 0).select(0, 0).relu(), "the first element is not positive")
        return (x * self.weight).relu(), x, self.weight
