"""Factorisations and solves in both modes: eight lanes in one pass, and value and gradient of a sum in reverse."""

import sys
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

import ndual

sys.path.insert(0, str(Path(__file__).parents[1]))
from problems import cholesky_by_loops, kalman_data, kalman_filter

LANES = 8
FUNCTIONS = {
    "cholesky": np.linalg.cholesky,
    "solve": lambda a: np.linalg.solve(a, a[0] * 0.0 + 1.0),
    "inv": np.linalg.inv,
    "slogdet": lambda a: np.linalg.slogdet(a)[1],
    "eigvalsh": np.linalg.eigvalsh,
    "eigh": lambda a: np.linalg.eigh(a)[1],
    "svdvals": np.linalg.svdvals,
    "qr": lambda a: np.linalg.qr(a)[1],
    "lu": lambda a: scipy.linalg.lu(a)[2],
    "expm": lambda a: scipy.linalg.expm(a / a.shape[0]),
}


def definite(n):
    """A symmetric positive definite matrix with values that differ."""
    a = np.random.default_rng(n).standard_normal((n, n))
    return a @ a.T / n + np.diag(np.linspace(1.0, 2.0, n))


class Factorisations:
    """One matrix, all of it active."""

    params = (list(FUNCTIONS), [8, 64, 256])
    param_names = ("function", "n")

    def setup(self, function, n):
        self.function, self.a = FUNCTIONS[function], definite(n)
        rng = np.random.default_rng(1)
        self.directions = [rng.standard_normal((n, n)) for _ in range(LANES)]
        # Eight parameters of one matrix: a pass of eight lanes through the function.
        self.forward = ndual.prepare_gradient(self.mixed, np.zeros(LANES), mode="forward")
        self.reverse = ndual.prepare_gradient(lambda a: np.sum(self.function(a)), self.a, mode="reverse")

    def mixed(self, p):
        """The sum over the function of a matrix that eight parameters move."""
        a = self.a
        for k in range(LANES):
            a = a + p[k] * self.directions[k]
        return np.sum(self.function((a + a.T) / 2))

    def time_eight_parameters(self, function, n):
        self.forward(np.zeros(LANES))

    def time_reverse(self, function, n):
        self.reverse(self.a)

    def time_value(self, function, n):
        self.function(self.a)


class KalmanFilter:
    """A likelihood by a plain loop of 500 steps over small matrices, updated in place."""

    params = (["forward", "reverse"],)
    param_names = ("mode",)

    def setup(self, mode):
        self.p, self.seen = kalman_data()
        self.gradient = ndual.prepare_gradient(lambda p: kalman_filter(p, self.seen), self.p, mode=mode)

    def time_gradient(self, mode):
        self.gradient(self.p)

    def time_value(self, mode):
        kalman_filter(self.p, self.seen)


class Loops:
    """A factorisation written by hand."""

    params = ([10, 40],)
    param_names = ("n",)

    def setup(self, n):
        self.a = definite(n)
        self.gradient = ndual.prepare_gradient(cholesky_by_loops, self.a, mode="reverse")

    def time_reverse(self, n):
        self.gradient(self.a)

    def time_value(self, n):
        cholesky_by_loops(self.a)


def conductivities(k):
    """The matrix of a diffusion on a square grid, from the conductivities of its cells, and a source."""
    n = k.shape[0]
    down, right = (k[:-1] + k[1:]) / 2, (k[:, :-1] + k[:, 1:]) / 2
    cells = np.arange(n * n).reshape(n, n)
    i = np.concatenate([cells[:-1].ravel(), cells[:, :-1].ravel()])
    j = np.concatenate([cells[1:].ravel(), cells[:, 1:].ravel()])
    v = np.concatenate([down.ravel(), right.ravel()])
    between = scipy.sparse.csr_array((np.concatenate([v, v]), (np.concatenate([i, j]), np.concatenate([j, i]))))
    return scipy.sparse.diags_array(between.sum(axis=1) + 0.1, format="csr") - between


SPARSE = {
    "spsolve": lambda a, b: scipy.sparse.linalg.spsolve(a.tocsc(), b),
    "cg": lambda a, b: scipy.sparse.linalg.cg(a, b, rtol=1e-8)[0],
    "gmres": lambda a, b: scipy.sparse.linalg.gmres(a, b, rtol=1e-8)[0],
    "eigsh": lambda a, b: scipy.sparse.linalg.eigsh(a, k=4, sigma=0.0)[0],
}


class Sparse:
    """A sparse matrix of duals, made and solved with: value and gradient by the conductivities of all cells."""

    params = (list(SPARSE), [16, 48])
    param_names = ("function", "n")

    def setup(self, function, n):
        rng = np.random.default_rng(n)
        self.k, b = np.exp(rng.standard_normal((n, n)) / 2), rng.standard_normal(n * n)
        solve = SPARSE[function]
        self.f = lambda k: np.sum(solve(conductivities(k), b) ** 2)
        self.reverse = ndual.prepare_gradient(self.f, self.k, mode="reverse")

    def time_plain(self, function, n):
        self.f(self.k)

    def time_reverse(self, function, n):
        self.reverse(self.k)
