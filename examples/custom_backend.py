"""A backend of one's own in Python: it measures the kernels that it is given, and lets the interpreter run them."""

import time

import numpy as np
import tenon.loops as tl


# [backend]
class Timed(tl.Backend):
    name = "timed"

    def compile(self, tree):
        return TimedKernel(tree)


class TimedKernel:
    def __init__(self, tree):
        self.flops, self.kernel = int(tl.flops(tree)), tl.compile(tree, "interpreter")

    def run(self, memory):  # the inputs, then the outputs
        start = time.perf_counter()
        self.kernel.run(memory)
        print(f"{self.flops} operations, {self.flops / (time.perf_counter() - start) / 1e9:.3f} GFLOP/s")


tl.register_backend(Timed())
# [backend]

s = tl.SymbolGenerator()
x, y = np.ones((32, 16), np.float32), np.ones((16, 8), np.float32)
product = (tl.Tensor(x).to(s.m, s.k) * tl.Tensor(y).to(s.k, s.n)).sum(s.k).backend("timed").numpy()
assert (product == 16).all()
