"""PyTorch's catalogue of what torch.export can do: each case that exports gives what PyTorch gives."""

import pytest
import tenon
import torch
import torch.utils._pytree as pytree
from torch._export.db.case import SupportLevel
from torch._export.db.examples import all_examples

CASES = {name: case for name, case in all_examples().items() if case.support_level is SupportLevel.SUPPORTED}


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    case = CASES[name]
    try:
        program = torch.export.export(
            case.model, case.example_args, case.example_kwargs, dynamic_shapes=case.dynamic_shapes, strict=False
        )
    except Exception as error:  # what PyTorch cannot export is no case
        pytest.skip(f"torch.export: {type(error).__name__}")
    compiled = tenon.compile(program)
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (case.example_args, case.example_kwargs))
    expected = program.module()(*case.example_args, **case.example_kwargs)
    torch.testing.assert_close(compiled(*args, **kwargs), expected)
