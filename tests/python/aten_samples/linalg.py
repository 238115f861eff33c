"""Linear algebra: factors, systems of equations, determinants, spectra."""

import aten_calls
import torch
from core_aten_samples import F64, call, f


def positive(*shape, dtype=torch.float32):
    """Positive definite matrices."""
    x = f(*shape, dtype=dtype)
    return x @ x.mT + 2 * torch.eye(shape[-1], dtype=dtype)


def regular(*shape, dtype=torch.float32):
    """Square matrices that are far from singular."""
    return f(*shape, dtype=dtype) + 8 * torch.eye(shape[-1], dtype=dtype)


def singular():
    """A batch of which the second matrix is singular."""
    return torch.stack([torch.eye(2), torch.ones(2, 2)])


def low_rank(rows, columns, rank, *batch, dtype=F64):
    return f(*batch, rows, rank, dtype=dtype) @ f(*batch, rank, columns, dtype=dtype)


def factored(x):
    return torch.linalg.lu_factor(x)


def reflected(x):
    return torch.geqrf(x)


SQUARES = [regular(3, 3), regular(2, 4, 4), regular(2, 3, 2, 2, dtype=F64), regular(1, 1), f(0, 0), f(0, 3, 3)]
MATRICES = [f(3, 3), f(2, 4, 3), f(2, 3, 5, dtype=F64), f(1, 1), f(3, 0), f(0, 2), f(0, 3, 2)]
POSITIVE = [positive(3, 3), positive(2, 4, 4), positive(2, 3, 2, 2, dtype=F64), f(0, 0)]
SYSTEMS = [
    call(regular(3, 3), f(3, 2)),
    call(regular(3, 3), f(3)),
    call(regular(2, 4, 4), f(2, 4)),
    call(regular(2, 4, 4), f(4, 3)),
    call(regular(3, 3, dtype=F64), f(2, 3, 5, dtype=F64)),
    call(regular(2, 1, 3, 3), f(4, 3, 2)),
    call(regular(3, 3), f(2, 3), left=False),
    call(regular(2, 3, 3), f(2, 4, 3), left=False),
    call(f(0, 0), f(0, 2)),
]

# ---- what is unique up to signs, or to a rotation --------------------------------------------------------------------


def check_types(mine, theirs):
    aten_calls.check_alike(mine, theirs)
    return mine


def is_orthonormal(columns):
    eye = torch.eye(columns.shape[-1], dtype=columns.dtype)
    torch.testing.assert_close(columns.mT @ columns, eye.expand(*columns.shape[:-2], *eye.shape), rtol=1e-5, atol=1e-5)


def check_eigh(call, name, args, kwargs):
    mine, theirs = call.evaluate(), aten_calls.eager(name, args, kwargs)
    values, vectors = check_types(mine, theirs)
    torch.testing.assert_close(values, theirs[0], rtol=1e-5, atol=1e-5)
    x, triangle, computes_vectors = [*args, "L", True][:3] if len(args) < 3 else args
    if not computes_vectors or vectors.numel() == 0:
        return
    is_orthonormal(vectors)
    lower = x if triangle == "L" else x.mT
    symmetric = lower.tril() + lower.tril(-1).mT
    torch.testing.assert_close(vectors * values.unsqueeze(-2) @ vectors.mT, symmetric, rtol=1e-5, atol=1e-4)


def check_svd(call, name, args, kwargs):
    mine, theirs = call.evaluate(), aten_calls.eager(name, args, kwargs)
    u, s, vh = check_types(mine, theirs)
    torch.testing.assert_close(s, theirs[1], rtol=1e-5, atol=1e-5)
    if u.dim() == 1:
        return
    is_orthonormal(u)
    is_orthonormal(vh.mT)
    count = s.shape[-1]
    again = u[..., :count] * s.unsqueeze(-2) @ vh[..., :count, :]
    torch.testing.assert_close(again, args[0], rtol=1e-5, atol=1e-5)


SPECTRA = [f(3, 3), f(2, 4, 4), f(2, 3, 2, 2, dtype=F64), f(1, 1), f(0, 0), f(0, 2, 2), torch.eye(3), torch.zeros(3, 3)]
TALL_AND_WIDE = [*MATRICES, low_rank(6, 5, 2), low_rank(3, 7, 1, 2), torch.zeros(3, 4), torch.ones(4, 4)]
SINGLE_TAU = f(2, 5, 3, dtype=F64), f(2, 2, dtype=F64)

SAMPLES = {
    "aten.cholesky.default": [*map(call, POSITIVE), call(positive(3, 3), True)],
    "aten.linalg_cholesky.default": [*map(call, POSITIVE), call(positive(2, 3, 3), upper=True)],
    "aten.linalg_cholesky_ex.default": [
        *map(call, POSITIVE),
        call(positive(2, 3, 3), upper=True, check_errors=True),
    ],
    "aten.cholesky_solve.default": [
        call(f(3, 2), torch.linalg.cholesky(positive(3, 3))),
        call(f(2, 3, 2), torch.linalg.cholesky(positive(3, 3))),
        call(f(3, 2), torch.linalg.cholesky(positive(2, 3, 3)).mT, True),
    ],
    "aten.cholesky_inverse.default": [
        call(torch.linalg.cholesky(positive(3, 3))),
        call(torch.linalg.cholesky(positive(2, 3, 3)).mT, True),
    ],
    "aten.linalg_solve_triangular.default": [
        call(regular(3, 3), f(3, 2), upper=True),
        call(regular(2, 3, 3), f(3, 2), upper=False),
        call(regular(3, 3), f(2, 2, 3), upper=False, left=False),
        call(f(3, 3), f(3, 2), upper=True, unitriangular=True),
        call(f(2, 3, 3), f(2, 4, 3), upper=True, left=False, unitriangular=True),
    ],
    "aten.triangular_solve.default": [
        call(f(3, 2), regular(3, 3)),
        call(f(3, 2), regular(2, 3, 3), False),
        call(f(2, 3, 2), regular(3, 3), True, True),
        call(f(3, 2), f(3, 3), False, True, True),
    ],
    "aten.linalg_lu_factor.default": [*map(call, SQUARES), call(f(2, 4, 3)), call(f(3, 5))],
    "aten.linalg_lu_factor_ex.default": [
        *map(call, MATRICES),
        call(singular()),
        call(regular(3, 3), check_errors=True),
    ],
    "aten.linalg_lu.default": [*map(call, MATRICES)],
    "aten.lu_unpack.default": [
        *(call(*factored(x)) for x in (f(3, 3), f(2, 4, 3), f(2, 3, 5))),
        call(*factored(f(3, 3)), False),
        call(*factored(f(3, 3)), True, False),
    ],
    "aten.linalg_lu_solve.default": [
        call(*factored(regular(3, 3)), f(3, 2)),
        call(*factored(regular(2, 3, 3)), f(3, 2)),
        call(*factored(regular(3, 3)), f(2, 3, 2), adjoint=True),
        call(*factored(regular(3, 3)), f(2, 3), left=False),
        call(*factored(regular(4, 4)), f(2, 4), left=False, adjoint=True),
        call(*factored(f(5, 5, dtype=F64)), f(5, 2, dtype=F64)),
        call(*factored(f(5, 5, dtype=F64)), f(5, 2, dtype=F64), adjoint=True),
    ],
    "aten.linalg_solve.default": SYSTEMS,
    "aten.linalg_solve_ex.default": [*SYSTEMS, call(regular(3, 3), f(3, 2), check_errors=True)],
    "aten.linalg_inv.default": [*map(call, SQUARES)],
    "aten.inverse.default": [*map(call, SQUARES)],
    "aten.linalg_inv_ex.default": [*map(call, SQUARES), call(regular(3, 3), check_errors=True)],
    "aten.linalg_tensorinv.default": [
        call(regular(6, 6).reshape(2, 3, 2, 3)),
        call(regular(6, 6).reshape(2, 3, 6), 2),
        call(regular(6, 6).reshape(6, 2, 3), 1),
    ],
    "aten.linalg_tensorsolve.default": [
        call(regular(6, 6).reshape(2, 3, 6), f(2, 3)),
        call(regular(6, 6).reshape(2, 3, 3, 2), f(2, 3)),
        call(f(6, 2, 3), f(2, 3), [0]),
    ],
    "aten.linalg_det.default": [*map(call, SQUARES), call(f(5, 5)), call(singular())],
    "aten.det.default": [*map(call, SQUARES), call(f(2, 5, 5, dtype=F64))],
    "aten.linalg_slogdet.default": [*map(call, SQUARES), call(f(4, 3, 3)), call(singular())],
    "aten.slogdet.default": [*map(call, SQUARES), call(f(4, 3, 3))],
    "aten.logdet.default": [*map(call, SQUARES), call(f(6, 3, 3)), call(singular())],
    "aten.linalg_qr.default": [
        *(call(x, mode) for x in MATRICES for mode in ("reduced", "complete", "r")),
        call(torch.tensor([[3.0, 1.0], [0.0, 2.0], [0.0, 0.0]])),
    ],
    "aten.geqrf.default": [*map(call, MATRICES)],
    "aten.linalg_householder_product.default": [
        *(call(*reflected(x)) for x in (f(3, 3), f(2, 4, 3))),
        call(*SINGLE_TAU),
    ],
    "aten.ormqr.default": [
        call(*reflected(f(3, 3)), f(3, 2)),
        call(*reflected(f(4, 3)), f(4, 2), True, True),
        call(*reflected(f(2, 4, 3)), f(2, 5, 4), False),
        call(*reflected(f(2, 4, 3)), f(2, 5, 4), False, True),
    ],
    "aten._linalg_eigh.default": [*map(call, SPECTRA), call(f(3, 3), "U"), call(f(3, 3), "L", False)],
    "aten._linalg_svd.default": [
        *map(call, TALL_AND_WIDE),
        *(call(x, True) for x in TALL_AND_WIDE),
        call(f(3, 4), False, False),
    ],
    "aten.linalg_pinv.atol_rtol_tensor": [
        call(f(4, 3)),
        call(f(2, 3, 4, dtype=F64)),
        call(low_rank(6, 5, 2)),
        call(positive(3, 3), hermitian=True),
        call(low_rank(5, 3, 3), rtol=torch.tensor(1e-15, dtype=F64)),
        call(torch.diag(torch.tensor([4.0, 1.0, 0.5])), rtol=torch.tensor(0.2)),
        call(torch.diag(torch.tensor([4.0, 1.0, 0.5])), atol=torch.tensor(0.7)),
        call(torch.diag(torch.tensor([4.0, -1.0, 0.5])), atol=torch.tensor(0.7), hermitian=True),
        call(f(3, 0)),
        call(f(2, 0, 3)),
    ],
    "aten.linalg_matrix_exp.default": [
        call(f(3, 3)),
        call(f(2, 4, 4, dtype=F64)),
        call(f(1, 1)),
        call(f(0, 0)),
        call(torch.zeros(2, 2)),
        call(30 * f(3, 3, dtype=F64)),
    ],
}

CHECKS = {"aten._linalg_eigh.default": check_eigh, "aten._linalg_svd.default": check_svd}
