"""Linear algebra in compiled programs: as exact as LAPACK on larger matrices, and an error where PyTorch has one."""

import pytest
import tenon
import torch
from tenon import ops
from torch import nn
from torch.export import Dim, export

SIZES = (1, 7, 40, 130)


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def compiled(function, *args):
    program = tenon.compile(Call(function), args)
    assert program.unsupported == []
    return program


def random(*shape, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


def largest_error(mine, exact):
    return ((mine.double() - exact).abs().max() / exact.abs().max().clamp(min=1)).item()


FUNCTIONS = {
    "solve": lambda x: torch.linalg.solve(x, x[..., :2] + 1),
    "inv": torch.linalg.inv,
    "slogdet": lambda x: torch.linalg.slogdet(x)[1],
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)),
    "qr": lambda x: torch.linalg.qr(x)[0],
    "r": lambda x: torch.linalg.qr(x)[1],
    "eigvalsh": lambda x: torch.linalg.eigvalsh(x + x.mT),
    "svdvals": torch.linalg.svdvals,
    "pinv": torch.linalg.pinv,
    "matrix_exp": lambda x: torch.linalg.matrix_exp(x / 4),
    "nuclear norm": lambda x: torch.linalg.matrix_norm(x, "nuc"),
    "cond": torch.linalg.cond,
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_as_exact_as_torch(name, size):
    function = FUNCTIONS[name]
    for dtype, rounding in ((torch.float64, 1e-15), (torch.float32, 1e-6)):
        x = random(2, size, size, dtype=dtype)
        exact = function(x.double())
        mine, theirs = compiled(function, x)(x), function(x)
        assert largest_error(mine, exact) <= 4 * largest_error(theirs, exact) + 50 * size * rounding


def reconstructed(x):
    values, vectors = torch.linalg.eigh(x + x.mT)
    return vectors * values.unsqueeze(-2) @ vectors.mT, vectors.mT @ vectors


@pytest.mark.parametrize("size", SIZES)
def test_eigenvectors_are_orthonormal_and_give_the_matrix_back(size):
    x = random(2, size, size)
    mine, grams = compiled(reconstructed, x)(x)
    torch.testing.assert_close(mine, x + x.mT, rtol=0, atol=1e-12)
    torch.testing.assert_close(grams, torch.eye(size, dtype=x.dtype).expand(2, -1, -1), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "columns", "rank"), [(5, 5, 0), (6, 6, 3), (40, 7, 2), (7, 40, 7), (60, 60, 31), (1, 9, 1), (9, 1, 1)]
)
def test_singular_vectors_are_orthonormal_whatever_the_rank(rows, columns, rank):
    x = random(2, rows, rank) @ random(2, rank, columns)
    for full in (False, True):
        u, s, vh = compiled(lambda x, full=full: torch.linalg.svd(x, full_matrices=full), x)(x)
        count = s.shape[-1]
        torch.testing.assert_close(u[..., :count] * s.unsqueeze(-2) @ vh[..., :count, :], x, rtol=0, atol=1e-11)
        for columns_of in (u, vh.mT):
            eye = torch.eye(columns_of.shape[-1], dtype=x.dtype).expand(2, -1, -1)
            torch.testing.assert_close(columns_of.mT @ columns_of, eye, rtol=0, atol=1e-12)
        assert (s[..., :-1] >= s[..., 1:]).all()


def test_very_large_and_very_small_elements_neither_overflow_nor_vanish():
    x = random(4, 4)
    for scale in (1e300, 1e-300):
        for function in (torch.linalg.svdvals, torch.linalg.eigvalsh, lambda x: torch.linalg.qr(x)[1]):
            mine = compiled(function, x * scale)(x * scale)
            torch.testing.assert_close(mine / scale, function(x), rtol=1e-12, atol=1e-12)


def test_one_program_for_all_batches():
    batch = Dim("batch", min=1, max=64)
    program = tenon.compile(export(Call(torch.linalg.inv), (random(3, 4, 4),), dynamic_shapes=[({0: batch},)]))
    assert program.unsupported == []
    for count in (1, 5, 64):
        x = random(count, 4, 4) + 6 * torch.eye(4)
        torch.testing.assert_close(program(x), torch.linalg.inv(x))


# ---- errors ---------------------------------------------------------------------------------------------------------

SECOND_IS_SINGULAR = torch.stack([torch.eye(3), torch.ones(3, 3), torch.eye(3)])
SECOND_IS_NEGATIVE = torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, 1.0, -1.0]))])


@pytest.mark.parametrize(
    ("function", "x", "message"),
    [
        (torch.linalg.inv, SECOND_IS_SINGULAR, "matrix 1 of the batch is singular: a pivot is zero (info = 2)"),
        (torch.inverse, torch.zeros(2, 2), "the matrix is singular: a pivot is zero (info = 1)"),
        (lambda x: torch.linalg.solve(x, x), SECOND_IS_SINGULAR, "matrix 1 of the batch is singular"),
        (lambda x: torch.linalg.matrix_power(x, -2), SECOND_IS_SINGULAR, "matrix 1 of the batch is singular"),
        (torch.linalg.lu_factor, SECOND_IS_SINGULAR, "matrix 1 of the batch is singular"),
        (torch.linalg.cholesky, SECOND_IS_NEGATIVE, "matrix 1 of the batch is not positive definite"),
        (torch.linalg.cholesky, torch.full((2, 2), torch.nan), "the matrix is not positive definite"),
        (lambda x: torch.linalg.inv_ex(x, check_errors=True)[0], SECOND_IS_SINGULAR, "matrix 1 of the batch"),
        (torch.linalg.eigh, torch.full((3, 3), torch.nan), "eigh: matrix 0 of the batch has NaN or infinite elements"),
        (
            torch.linalg.svdvals,
            torch.full((2, 3), torch.nan),
            "svd: matrix 0 of the batch has NaN or infinite elements",
        ),
    ],
)
def test_what_has_no_result_is_an_error_as_in_torch(function, x, message):
    with pytest.raises(RuntimeError):
        function(x)
    program = compiled(function, torch.eye(x.shape[-2], x.shape[-1]).expand(x.shape).contiguous())
    with pytest.raises(tenon.Error) as error:
        program(x)
    assert message in error.value.message


@pytest.mark.parametrize("name", ["eigh", "svd"])
def test_an_infinity_has_no_spectrum(name):
    """LAPACK gives NaN or an error, as the size of the matrix has it."""
    graph = tenon.Graph("g")
    graph.output(*getattr(ops, name)(graph.input("x", "f32[3, 2, 2]")))
    x = torch.zeros(3, 2, 2)
    x[2, 1, 0] = torch.inf
    with pytest.raises(tenon.Error, match=f"{name}: matrix 2 of the batch has NaN or infinite elements"):
        graph.evaluate(x)


def test_the_exponential_of_bf16_is_that_of_f32_rounded():
    """PyTorch's own is NaN."""
    x = random(2, 5, 5, dtype=torch.bfloat16)
    mine = compiled(torch.linalg.matrix_exp, x)(x)
    torch.testing.assert_close(mine, torch.linalg.matrix_exp(x.double()).bfloat16())


def test_the_overloads_with_info_give_it_instead():
    x = SECOND_IS_SINGULAR
    assert compiled(torch.linalg.inv_ex, x)(x)[1].tolist() == [0, 2, 0]
    assert compiled(lambda x: torch.linalg.solve_ex(x, x), x)(x)[1].tolist() == [0, 2, 0]
    assert compiled(torch.linalg.lu_factor_ex, x)(x)[2].tolist() == [0, 2, 0]
    x = SECOND_IS_NEGATIVE
    assert compiled(torch.linalg.cholesky_ex, x)(x)[1].tolist() == [0, 3]


@pytest.mark.parametrize(
    ("name", "types", "attrs", "message"),
    [
        ("cholesky", ["f32[2, 3]"], {}, "must be a batch of square matrices, got f32[2, 3]"),
        ("eigh", ["f32[3]"], {}, "must be a batch of matrices, got f32[3]"),
        ("svd", ["bf16[3, 3]"], {}, "has dtype bf16, which is not one of f64, f32"),
        ("triangular_solve", ["f32[3, 3]", "f32[4, 2]"], {"upper": True}, "'b' must have the batch [3], got f32[4, 2]"),
        ("triangular_solve", ["f32[3, 3]", "f64[3, 2]"], {"upper": True}, "must have the same dtype and rank"),
        ("householder_product", ["f32[2, 3]", "f32[2]"], {}, "got f32[2, 3] and f32[2]"),
        ("householder_product", ["f32[3, 2]", "f32[3]"], {}, "got f32[3, 2] and f32[3]"),
        ("pivots_to_permutation", ["i32[4]"], {"rows": 3}, "4 pivots are not known to be at most 3 rows"),
    ],
)
def test_types_that_do_not_fit_are_errors(name, types, attrs, message):
    graph = tenon.Graph("g")
    operands = [graph.input(f"x{i}", type) for i, type in enumerate(types)]
    with pytest.raises(tenon.Error) as error:
        getattr(ops, name)(*operands, **attrs)
    assert message in error.value.message


def test_a_pivot_out_of_range_is_an_error():
    graph = tenon.Graph("g")
    graph.output(ops.pivots_to_permutation(graph.input("pivots", "i32[2]"), rows=2))
    for pivots in ([1, 3], [0, 2]):
        with pytest.raises(tenon.Error, match=r"a pivot is not in \[1, 2\]"):
            graph.evaluate(torch.tensor(pivots, dtype=torch.int32))
