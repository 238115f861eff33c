"""PyTorch's catalogue of what torch.export can do: every case gives what PyTorch gives, but for those that PyTorch
itself does not export."""

import pytest
import tenon
import torch
import torch.utils._pytree as pytree
from torch._export.db.examples import all_examples

CASES = all_examples()
# By name, with what PyTorch says. A case that goes missing here, or that PyTorch learns to export, is a failure.
NOT_EXPORTED = {"dynamic_shape_round": "Constraints violated"}


def export(name):
    case = CASES[name]
    return torch.export.export(
        case.model, case.example_args, case.example_kwargs, dynamic_shapes=case.dynamic_shapes, strict=False
    )


@pytest.mark.parametrize("name", sorted(CASES.keys() - NOT_EXPORTED.keys()))
def test_case(name):
    case = CASES[name]
    program = export(name)
    compiled = tenon.compile(program)
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (case.example_args, case.example_kwargs))
    expected = program.module()(*case.example_args, **case.example_kwargs)
    torch.testing.assert_close(compiled(*args, **kwargs), expected)


@pytest.mark.parametrize("name", NOT_EXPORTED)
def test_what_pytorch_does_not_export(name):
    with pytest.raises(torch._dynamo.exc.UserError, match=NOT_EXPORTED[name]):
        export(name)
