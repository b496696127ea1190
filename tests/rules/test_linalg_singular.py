"""Points where factors have no derivative, but a function of them may: values by hand, in both modes."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg as sl

import ndual

la = np.linalg
EYE = np.eye(3)
DIAGONAL = np.diag([2.0, 2.0, 5.0])


def outer(i, j):
    return np.outer(EYE[i], EYE[j])


# The gradient of a sum over all values does not ask which is which; det has the cofactors at every rank.
POINTS = {
    "sum of equal eigenvalues": (lambda a: np.sum(la.eigvalsh(a)), DIAGONAL, EYE),
    "squares of equal eigenvalues": (lambda a: np.sum(la.eigvalsh(a) ** 2), DIAGONAL, 2 * DIAGONAL),
    "eigenvalues of a general solver": (lambda a: np.sum(la.eigvals(a)).real, DIAGONAL, EYE),
    "squares of equal singular values": (lambda a: np.sum(la.svdvals(a) ** 2), DIAGONAL, 2 * DIAGONAL),
    "nuclear norm": (lambda a: la.norm(a, "nuc"), DIAGONAL, EYE),
    "nuclear norm at zero": (lambda a: la.norm(a, "nuc"), 0 * EYE, 0 * EYE),
    "largest of two equal singular values": (lambda a: la.norm(a, 2), np.diag([5.0, 5, 2]), (EYE - outer(2, 2)) / 2),
    "polar factor of equal values": (lambda a: sl.polar(a)[0][0, 1], 2 * EYE, (outer(0, 1) - outer(1, 0)) / 4),
    "det, rank 2": (la.det, np.diag([2.0, 3.0, 0.0]), 6 * outer(2, 2)),
    "det, rank 1": (la.det, np.diag([2.0, 0.0, 0.0]), 0 * EYE),
    "SciPy's det, rank 2": (sl.det, np.diag([0.0, 3.0, 4.0]), 12 * outer(0, 0)),
    "sqrtm at equal values": (lambda a: sl.sqrtm(a)[0, 1], 4 * EYE, outer(0, 1) / 4),
    "logm at the unit matrix": (lambda a: sl.logm(a)[1, 2], EYE, outer(1, 2)),
    "expm at zero": (lambda a: sl.expm(a)[2, 0], 0 * EYE, outer(2, 0)),
    "Frobenius norm at zero": (la.norm, 0 * EYE, 0 * EYE),
    "SciPy's norm at zero": (sl.norm, 0 * EYE, 0 * EYE),
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", POINTS)
def test_gradient(name, mode):
    f, a, want = POINTS[name]
    np.testing.assert_allclose(ndual.grad(f, mode=mode)(a), want, atol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("f", [lambda a: la.eigh(a)[1], lambda a: la.svd(a)[0]])
def test_vectors_of_equal_values(f, mode):
    with pytest.raises(ndual.NdualError, match="equal"):
        ndual.grad(lambda a: np.sum(f(a) * np.arange(9.0).reshape(3, 3)), mode=mode)(DIAGONAL)


def test_cholesky_by_loops(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "asv_bench")
    by_loops = importlib.import_module("problems").cholesky_by_loops
    rng = np.random.default_rng(0)
    sizes = []
    for n in (10, 20, 40):
        a = rng.normal(size=(n, n))
        a = a @ a.T / n + np.eye(n)
        inverse = la.inv(a)
        want = 2 * np.tril(inverse) - np.diag(np.diag(inverse))
        prepared = ndual.prepare_gradient(by_loops, a, mode="reverse")
        np.testing.assert_allclose(prepared(a)[1], want, atol=1e-12)
        if n < 40:
            np.testing.assert_allclose(ndual.grad(by_loops, mode="forward")(a), want, atol=1e-12)
        sizes.append(int(repr(prepared).partition("tape ")[2].split()[0]))
    # Twice the size, eight times the operations and the memory.
    assert sizes[2] < 9 * sizes[1] < 81 * sizes[0]
