"""Gradients of random graphs, compiled, against torch.autograd. `make gradients` tries 2,000 of them."""

import os

import pytest
import tenon
import torch
from random_graphs import RandomGraph
from tenon._tenon import compile_graph
from torch.testing import assert_close

GRAPHS = int(os.environ.get("TENON_RANDOM_GRAPHS", "60"))
AT_ONCE = 20


BEFORE = [504]  # that failed once


@pytest.mark.parametrize("seeds", [BEFORE, *(range(i, i + AT_ONCE) for i in range(0, GRAPHS, AT_ONCE))], ids=str)
def test_gradients_are_those_of_autograd(seeds):
    for seed in seeds:
        made = RandomGraph(seed)
        names = [name for name, _ in made.leaves]
        leaves = [twin.tensor for _, twin in made.leaves]
        wanted = torch.autograd.grad(made.loss, leaves, allow_unused=True)
        wanted = [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, wanted, strict=True)]
        gradients = compile_graph(tenon.differentiate(made.graph, names))
        found = gradients.run([*(x.detach() for x in leaves), torch.ones((), dtype=torch.float64)])
        assert_close(
            found, wanted, rtol=1e-7, atol=1e-9, equal_nan=True, msg=lambda text, seed=seed: f"graph {seed}: {text}"
        )
