"""Saves a small classifier, for any batch from 1 to 64, as a .pt2 file: export_mlp.py FILE"""

import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(dim=-1)).eval()
batch = torch.export.Dim("batch", min=1, max=64)
exported = torch.export.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
torch.export.save(exported, sys.argv[1])
