"""Models that several tests capture."""

import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 3)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))
