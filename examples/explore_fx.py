"""From what FX sees to what Tenon runs: a module, its symbolic trace, its exported program, its Graph."""

import tenon
import torch
from torch import fx, nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 8)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


block, x = Block().eval(), torch.randn(2, 8)

traced = fx.symbolic_trace(block)
print("What symbolic_trace sees, modules and functions:")
for node in traced.graph.nodes:
    print(f"  {node.op:14} {node.name:8} {node.target}")

program = tenon.compile(traced, (x,))
print("\nWhat is left of it as ATen calls, and where each runs:")
for node in program.nodes:
    print(f"  {node.op:14} {node.name:12} {node.target:28} {node.type}")

print(f"\nThe Graph that Tenon makes of them:\n{program.graph}")
print("What it runs:")
for number, (kind, ops) in enumerate(program.segments):
    print(f"  Segment {number}: {kind} ({len(ops)} ops)")
torch.testing.assert_close(program(x), block(x))
