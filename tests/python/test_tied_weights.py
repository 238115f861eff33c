"""Weights that several kernels read are in memory and in a file once, whatever reads them."""

import pytest
import tenon
import torch
from torch import nn

ROWS, WIDTH = 1003, 128
CODE = 60_000  # bytes of code and tables


class Tied(nn.Module):
    """An embedding whose table is the weight of the last product."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(ROWS, WIDTH)
        self.body = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, ROWS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.body(self.embedding(ids))))


class Twice(Tied):
    """As T5: two texts with one table, another embedding of the same kind, and the head."""

    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Embedding(ROWS, WIDTH)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        text = self.embedding(ids).mean(0)
        return self.head(self.body(self.embedding(ids + 1) + self.other(ids) + text))


class Shown(Tied):
    """Gives the table away, too."""

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return super().forward(ids), self.head.weight


class Scaled(Tied):
    """Reads the table element by element."""

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return super().forward(ids), ids[0] * self.head.weight


def made(kind: type[nn.Module], dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return kind().to(dtype).eval()


def size_of(module: nn.Module) -> int:
    return sum(parameter.nbytes for parameter in module.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", [Tied, Twice, Scaled])
@pytest.mark.parametrize("tokens", [1, 3, 40])
def test_a_file_holds_tied_weights_once(kind, dtype, tokens, tmp_path):
    module, ids = made(kind, dtype), torch.randint(0, ROWS - 1, (tokens,))
    program = tenon.compile(module, (ids,), fallback=False)
    program.save(tmp_path / "tied.tenon")
    assert (tmp_path / "tied.tenon").stat().st_size <= 1.03 * size_of(module) + CODE
    with torch.no_grad():
        eager = module(ids)
    torch.testing.assert_close(program(ids), eager)
    torch.testing.assert_close(tenon.load(tmp_path / "tied.tenon")(ids), eager)


def test_programs_of_any_size_hold_tied_weights_once(tmp_path):
    module, ids = made(Tied, torch.float32), torch.randint(0, ROWS, (40,))
    tokens = torch.export.Dim("tokens", min=2, max=64)
    program = tenon.compile(module, (ids,), dynamic_shapes={"ids": {0: tokens}})
    program.save(tmp_path / "tied.tenon")
    assert (tmp_path / "tied.tenon").stat().st_size <= 1.03 * size_of(module) + CODE
    for count in (2, 7, 40):
        torch.testing.assert_close(program(ids[:count]), module(ids[:count]))


def test_an_index_out_of_range_is_still_an_error():
    module, ids = made(Tied, torch.float32), torch.randint(0, ROWS, (40,))
    program = tenon.compile(module, (ids,))
    ids[3] = ROWS  # the layout of the product has such rows: they fill its last block
    with pytest.raises(tenon.Error, match="out of range"):
        program(ids)


def test_a_table_that_is_a_result():
    module, ids = made(Shown, torch.float32), torch.randint(0, ROWS, (40,))
    torch.testing.assert_close(tenon.compile(module, (ids,))(ids), module(ids))
