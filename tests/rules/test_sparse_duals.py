"""Sparse matrices made of duals: every way to make and to use one, against SciPy run on plain numbers.

The functions are polynomials or quotients of their values, so that differences of fourth order are exact to rounding.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla

import ndual

ROWS, COLUMNS = np.array([0, 2, 1, 0, 2, 1]), np.array([1, 0, 1, 0, 2, 2])
INDICES, INDPTR = np.array([2, 0, 1, 2, 0, 2]), np.array([0, 2, 4, 6])
TWICE = np.array([0, 2, 1, 0, 2, 0])  # the last cell is the first one again
RNG = np.random.default_rng(3)
X = np.array([4.0, 1.5, 3.0, 5.0, -1.0, 6.0])
V, M = RNG.normal(size=3), RNG.normal(size=(3, 2))
DENSE = RNG.normal(size=(3, 3))
C = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0], [4, 0, 5]]))
H = 1e-2


def array(kind):
    return kind.endswith("array")


def csr(x, kind="csr_array"):
    return getattr(sp, kind)((x, INDICES, INDPTR), shape=(3, 3))


def coo(x, kind="coo_array"):
    return getattr(sp, kind)((x, (ROWS, COLUMNS)), shape=(3, 3))


def twice(x, kind="csr_array"):
    return getattr(sp, kind)((x, (TWICE, np.array([1, 0, 1, 0, 2, 1]))), shape=(3, 3))


def flat(out):
    return np.concatenate([np.ravel(part) for part in out]) if isinstance(out, tuple) else np.ravel(out)


def differences(f, x, t):
    def at(h):
        return f(x + h * t)

    return (8 * (at(H) - at(-H)) - (at(2 * H) - at(-2 * H))) / (12 * H)


def check(f, x=X, tolerance=1e-6, exact=True):
    """Value, Jacobian in both modes and a second derivative of a function of the values."""

    def g(x):
        return flat(f(x))

    plain = g(x)
    value, _ = ndual.jvp(g, (x,), (x,))
    (np.testing.assert_array_equal if exact else np.testing.assert_allclose)(value, plain)
    assert value.dtype == plain.dtype
    unit = np.eye(x.size)
    want = np.stack([differences(g, x, e) for e in unit], -1)
    if x.dtype.kind != "c":
        for mode in ("forward", "reverse"):
            got = ndual.jacobian(g, mode=mode)(x)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    w = np.random.default_rng(1).normal(size=plain.shape) + (0.5j if plain.dtype.kind == "c" else 0)

    def slope(x):
        return ndual.grad(lambda x: np.sum(np.real(np.conj(w) * g(x) * g(x))), mode="reverse")(x)

    t = np.cos(np.arange(x.size)) + (0.3j * np.arange(x.size) if x.dtype.kind == "c" else 0)
    np.testing.assert_allclose(
        np.real(np.sum(np.conj(slope(x)) * t)), np.real(np.sum(np.conj(w) * 2 * plain * differences(g, x, t))),
        rtol=10 * tolerance, atol=10 * tolerance,
    )  # fmt: skip
    np.testing.assert_allclose(
        ndual.jvp(slope, (x,), (t,))[1], differences(slope, x, t), rtol=100 * tolerance, atol=100 * tolerance
    )


KINDS = ["csr_matrix", "csr_array", "csc_matrix", "csc_array"]
MADE = {
    **{f"{kind} of index arrays": lambda x, k=kind: csr(x, k) @ V for kind in KINDS},
    **{f"{kind} of coordinates": lambda x, k=kind: coo(x, k) @ V for kind in (*KINDS, "coo_matrix", "coo_array")},
    **{f"{kind} with a cell twice": lambda x, k=kind: twice(x, k) @ V for kind in (*KINDS, "coo_array")},
    "dia": lambda x: sp.dia_array((x.reshape(2, 3), [0, 1]), shape=(3, 3)) @ V,
    "bsr": lambda x: sp.bsr_array((x[:4].reshape(1, 2, 2), [0], [0, 1]), shape=(2, 2)) @ V[:2],
    "dense": lambda x: sp.csr_matrix(x.reshape(2, 3)) @ V,
    "lists": lambda x: sp.csr_array([[x[0], 0.0], [x[1], x[2]]]) @ V[:2],
    "numbers in a list": lambda x: sp.csr_array(([x[0], 2.0, x[1]], ([0, 1, 1], [0, 0, 1])), shape=(2, 2)) @ V[:2],
    "diags": lambda x: sp.diags([x[:3], x[3:5]], [0, -1]) @ V,
    "diags of one": lambda x: sp.diags(x[:3]) @ V,
    "diags of numbers": lambda x: sp.diags([x[0], -2.0, x[1]], [-1, 0, 1], shape=(3, 3), format="csr") @ V,
    "diags_array": lambda x: sp.diags_array([x[:3], x[3:5]], offsets=[0, 1], format="csc") @ V,
    "spdiags": lambda x: sp.spdiags(x.reshape(2, 3), [0, 1], 3, 3) @ V,
    "data of a plain matrix": lambda x: _with_data(x) @ V,
    "plain matrix times a number": lambda x: (C * x[0] + x[1] * C) @ V,
    "matrix times a number": lambda x: (sp.csr_matrix(C) * x[0] + x[1] * sp.csr_matrix(C)) @ V,
    "quotient": lambda x: (C / x[0]) @ V,
    "plain matrix by rows": lambda x: C.multiply(x[:3, None]) @ V,
    "hstack": lambda x: sp.hstack([csr(x), C]) @ np.concatenate([V, V]),
    "bmat": lambda x: (
        sp.bmat([[csr(x, "csr_matrix"), None], [sp.csr_matrix(C), coo(x, "coo_matrix")]], format="csr")
        @ np.concatenate([V, V])
    ),
    "block_diag": lambda x: sp.block_diag([csr(x), C, csr(x * x)]) @ np.arange(9.0),
    "kron": lambda x: sp.kron(csr(x), sp.csr_array(np.ones((1, 2)))) @ np.arange(6.0),
    "kron of two": lambda x: sp.kron(coo(x), csr(x)) @ np.arange(9.0),
    "constructor": lambda x: sp.csr_matrix(sp.csc_array(coo(x)), copy=True) @ V,
    "keyword": lambda x: sp.csr_array(arg1=(x, INDICES, INDPTR), shape=(3, 3)) @ V,
    "type of another": lambda x: type(C)((x, INDICES, INDPTR), (3, 3)) @ V,
    "tril": lambda x: sp.tril(csr(x)) @ V,
}


def _with_data(x):
    a = csr(np.ones(6))
    a.data = x
    return a


USED = {
    "matrix": lambda a: a @ M,
    "from the left": lambda a: V @ a,
    "transpose": lambda a: a.T @ M,
    "dot": lambda a: a.dot(V),
    "toarray": lambda a: a.toarray(),
    "diagonal": lambda a: a.diagonal(),
    "diagonal above": lambda a: a.diagonal(1),
    "trace": lambda a: a.trace(),
    "sum": lambda a: a.sum(),
    "scaled": lambda a: (2.0 * a / 3.0) @ V,
    "by itself": lambda a: (a * a.sum()).toarray(),
    "sum of two": lambda a: (a + C.T - 2 * a.T).toarray(),
    "minus": lambda a: (C - a).toarray(),
    "product of two": lambda a: (a @ a.T).toarray(),
    "product with a plain one": lambda a: (C @ a @ C).toarray(),
    "multiply sparse": lambda a: a.multiply(C).toarray(),
    "multiply dense": lambda a: a.multiply(DENSE).toarray(),
    "multiply rows": lambda a: a.multiply(V[:, None]).toarray(),
    "tocsc": lambda a: a.tocsc() @ V,
    "tocoo": lambda a: a.tocoo().toarray(),
    "row and cell": lambda a: (a[1:2, :] @ V)[0] * a[0, 0],
    "row": lambda a: a[[0, 2], :].toarray(),
    "power": lambda a: a.power(3).toarray(),
    "sine": lambda a: a.sin().toarray(),
    "values": lambda a: a.data,
    "conjugate": lambda a: a.conj().T @ V,
}


@pytest.mark.parametrize("name", MADE)
def test_made(name):
    check(MADE[name])


@pytest.mark.parametrize("name", USED)
@pytest.mark.parametrize("kind", ["csr_matrix", "csc_array"])
def test_used(name, kind):
    check(lambda x: USED[name](csr(x, kind)), exact=False)


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_rows(axis):
    check(lambda x: csr(x).sum(axis=axis), exact=False)


def test_both_operands():
    check(lambda x: csr(x) @ x[:3])
    check(lambda x: csr(x).T @ x.reshape(3, 2))
    check(lambda x: x[:3] @ coo(x))
    check(lambda x: csr(x).multiply(x.reshape(3, 2) @ M.T).toarray(), exact=False)


FUNCTIONS = {
    "abs": lambda a: np.abs(a).toarray(),
    "sqrt": lambda a: np.sqrt(abs(a)).toarray(),
    "sin": lambda a: np.sin(a) @ V,
    "negative": lambda a: np.negative(a) @ V,
    "a number on the left": lambda a: (np.float64(2.0) * a) @ V,
    "an array on the left": lambda a: DENSE @ a,
    "an array beside a sum": lambda a: DENSE + a,
    "an array that is added to": lambda a: _added(a),
    "operators by name": lambda a: np.add(a, a.T).toarray() @ np.subtract(a, C).toarray(),
}


def _added(a):
    total = np.ones((3, 3))
    total += a
    return total


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_numpy(name):
    check(lambda x: FUNCTIONS[name](csr(x)), exact=False)


def test_rectangular_and_complex():
    def wide(x):
        return sp.csr_array((x, [0, 3, 1, 2, 3, 0], [0, 2, 6]), shape=(2, 4))

    check(lambda x: wide(x) @ np.arange(1.0, 5.0))
    check(lambda x: wide(x).T @ V[:2])
    z = X * (1 + 0.5j)
    check(lambda x: csr(x) @ (V + 1j))
    check(lambda x: csr(x) @ x[:3] + csr(x).conj().T @ x[:3], z)
    check(lambda x: sla.spsolve(csr(x), x[:3]), z)
    check(lambda x: sla.spsolve(csr(x), V + 1j))


SOLVED = {
    "spsolve csc": lambda x: sla.spsolve(csr(x, "csc_array"), V),
    "spsolve csr": lambda x: sla.spsolve(csr(x), x[:3]),
    "spsolve columns": lambda x: sla.spsolve(csr(x, "csc_matrix"), x.reshape(3, 2)),
    "spsolve one column": lambda x: sla.spsolve(csr(x, "csc_matrix"), x[:3, None]),
    "spsolve with a cell twice": lambda x: sla.spsolve(twice(x), V),
    "spsolve permc_spec": lambda x: sla.spsolve(csr(x), V, permc_spec="NATURAL"),
    "splu": lambda x: sla.splu(csr(x, "csc_matrix")).solve(V),
    "splu T": lambda x: sla.splu(csr(x, "csc_array")).solve(x[:3], "T"),
    "splu H": lambda x: sla.splu(csr(x, "csc_array")).solve(x.reshape(3, 2), trans="H"),
    "factorized": lambda x: sla.factorized(csr(x, "csc_array"))(V * x[0]),
    "twice with one factorisation": lambda x: _two(sla.splu(csr(x, "csc_array")), x),
}


def _two(lu, x):
    return lu.solve(lu.solve(x[:3]))


@pytest.mark.parametrize("name", SOLVED)
def test_solved(name):
    check(SOLVED[name])


@pytest.mark.parametrize("trans", ["T", "H"])
def test_solved_with_a_transpose_of_complex_numbers(trans):
    check(lambda x: sla.splu(csr(x, "csc_array")).solve(x[:3], trans), X * (1 + 0.5j))


OUTSIDE = sla.splu(csr(X, "csc_array"))
BOUND = sla.factorized(csr(X, "csc_array"))


@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_a_factorisation_from_outside(trans):
    check(lambda x: OUTSIDE.solve(x[:3], trans))
    check(lambda x: OUTSIDE.solve(x.reshape(3, 2), trans=trans))
    np.testing.assert_array_equal(OUTSIDE.solve(rhs=V), OUTSIDE.solve(V))


def test_a_bound_method_from_outside():
    check(lambda x: BOUND(x[:3]))


def test_one_factorisation_serves_all(monkeypatch):
    made = []
    splu = sla.splu

    def counting(*args, **kwargs):
        made.append(1)
        return splu(*args, **kwargs)

    monkeypatch.setattr(sla, "splu", counting)
    for mode in ("forward", "reverse"):
        made.clear()
        ndual.grad(lambda x: np.sum(sla.spsolve(csr(x, "csc_array"), x[:3])), mode=mode)(X)
        assert len(made) == 1


def test_a_singular_matrix_has_no_derivative():
    def f(x):
        return sla.spsolve(sp.csc_array((x, ([0, 1], [0, 1])), shape=(2, 2)), np.ones(2))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isnan(ndual.jacobian(f)(np.array([1.0, 0.0]))).all()
    with pytest.raises(RuntimeError, match="singular"):
        ndual.jacobian(lambda x: sla.splu(sp.diags(x, format="csc")).solve(V))(np.array([1.0, 0.0, 2.0]))


def test_a_cell_that_is_zero_keeps_its_derivative():
    def f(x):
        return (sp.csr_array(np.diag(x)) + sp.diags(x)) @ V[:2]

    for mode in ("forward", "reverse"):
        np.testing.assert_array_equal(ndual.jacobian(f, mode=mode)(np.array([0.0, 1.0])), np.diag(2 * V[:2]))


@pytest.mark.parametrize("char", "fdFD")
def test_a_quotient_has_scipys_value_and_type(char):
    x = (X * (1 + 0.5j if char in "FD" else 1)).astype(char)
    value, tangent = ndual.jvp(lambda x: (csr(x) / 3.0).data, (x,), (x,))
    assert value.dtype == tangent.dtype == (csr(x) / 3.0).dtype
    np.testing.assert_array_equal(value, (csr(x) / 3.0).data)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_single_precision_stays(mode):
    x = X.astype(np.float32)
    for f in (lambda x: csr(x) @ V.astype("f4"), lambda x: sla.spsolve(csr(x), V.astype("f4")), lambda x: csr(x).sum()):
        value = f(x)
        assert ndual.jvp(f, (x,), (x,))[1].dtype == value.dtype == np.float32
        assert ndual.grad(lambda x, f=f: np.sum(f(x)), mode=mode)(x).dtype == np.float32


def test_at_every_depth_and_width():
    def f(x):
        return np.sum(sla.spsolve(csr(x), x[:3]) * (csr(x).T @ V)) ** 2

    want = ndual.grad(f, mode="reverse")(X)
    for width in (1, 4):
        np.testing.assert_allclose(ndual.grad(f, mode="forward", chunk_size=width)(X), want, rtol=1e-12, atol=1e-12)
    with ndual.config(debug=True):
        np.testing.assert_allclose(ndual.grad(f, mode="forward")(X), want, rtol=1e-12, atol=1e-12)
    h = ndual.hessian(f)(X)
    twice = ndual.jacfwd(ndual.jacfwd(f))(X)
    np.testing.assert_allclose(h, twice, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(h, np.stack([differences(ndual.grad(f), X, e) for e in np.eye(6)]), rtol=1e-5, atol=1e-5)


def test_data_that_was_set_is_never_lost():
    for use in (lambda a: a.toarray(), lambda a: (a + a).toarray(), lambda a: a.sum(), lambda a: a.copy() @ V):
        for mode in ("forward", "reverse"):
            try:
                got = ndual.jacobian(lambda x, use=use: flat(use(_with_data(x))), mode=mode)(X)
            except ndual.NdualError:
                continue
            want = np.stack([flat(use(csr(e))) for e in np.eye(6)], -1)  # linear in the values
            np.testing.assert_allclose(got, want)


REFUSED = {
    "onenormest": (lambda a: sla.onenormest(a), "onenormest"),
    "todense": (lambda a: a.todense(), "matrix"),
    "dense sum": (lambda a: a + DENSE, "matrix"),
    "maximum": (lambda a: a.maximum(C), "maximum"),
    "asarray": (lambda a: np.asarray(a), "toarray"),
    "exp": (lambda a: np.exp(a), r"numpy\.exp"),
    "swapaxes": (lambda a: sp.swapaxes(a, 0, 1), "swapaxes"),
    "factors": (lambda a: sla.splu(a.tocsc()).L, "solve"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_what_is_not_reached_says_so(name, mode):
    use, match = REFUSED[name]
    with pytest.raises(ndual.NdualError, match=match):
        ndual.grad(lambda x: np.sum(use(csr(x, "csr_matrix"))), mode=mode)(X)


def test_scipys_own_errors():
    with pytest.raises(ValueError, match="mismatch"):
        ndual.jacobian(lambda x: csr(x) @ x)(X)
    with pytest.raises(ValueError, match="inconsistent"):
        ndual.jacobian(lambda x: (csr(x) + sp.eye_array(2)) @ x)(X)
    with pytest.raises(ValueError, match="mismatch"):
        ndual.jacobian(lambda x: sla.spsolve(csr(x), x))(X)


def test_what_they_answer():
    def f(x):
        a = csr(x)
        assert sp.issparse(a)
        assert a.shape == (3, 3) and a.nnz == 6 and a.format == "csr" and a.dtype == x.dtype
        assert (a.indices == INDICES).all() and (a.indptr == INDPTR).all()
        assert "csr" in repr(a)
        return a.data

    assert (ndual.jacobian(f)(X) == np.eye(6)).all()


def test_plain_matrices_are_scipys_after_derivatives():
    ndual.jacobian(lambda x: csr(x) @ V)(X)
    assert type(csr(X) * 2.0) is sp.csr_array
    np.testing.assert_array_equal((C.multiply(DENSE) + C / 2.0).toarray(), C.toarray() * DENSE + C.toarray() / 2.0)


BOTH_KINDS = [sp.csr_array, sp.csc_matrix, sp.coo_array]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_it_is_an_instance_of_its_class(kind, mode):
    plain = kind(np.diag([1.0, 2.0]))

    def f(x):
        a = kind((x, ([0, 1], [0, 1])), shape=(2, 2))
        assert isinstance(a, kind)
        assert isinstance(a, sp.sparray) == isinstance(plain, sp.sparray)
        assert not isinstance(a, np.ndarray)
        return ((plain + a) @ (plain - a)).sum() + (a - plain).sum()  # x² from the left, with the sign of the right

    np.testing.assert_allclose(ndual.grad(f, mode=mode)(np.array([3.0, 5.0])), 1 - 2 * np.array([3.0, 5.0]))


@pytest.mark.filterwarnings("ignore:Comparing two sparse matrices")
@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_comparisons_are_constants(kind, mode):
    def f(x):
        a = kind((x, ([0, 1, 1], [0, 1, 0])), shape=(2, 2))
        other = kind((2 * x, ([0, 1, 1], [0, 1, 0])), shape=(2, 2))
        count = (a != other).sum() + 10 * (a > 2.0).sum() + 100 * (a < other).sum() + 1000 * (a == a).sum()
        assert count == 3 + 10 * 2 + 100 * 2 + 1000 * 4
        return (a > 2.0).astype(float).multiply(a).sum() * count

    np.testing.assert_allclose(ndual.grad(f, mode=mode)(np.array([3.0, -1.0, 5.0])), [4223.0, 0.0, 4223.0])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_scaling_in_place_is_seen_by_other_names(kind, mode):
    def f(x):
        a = kind((x * x, ([0, 1], [0, 1])), shape=(2, 2))
        same = a
        a *= x[0]
        a /= 2.0
        assert same is a
        return same.sum()

    x = np.array([3.0, 5.0])
    want = [(3 * x[0] ** 2 + x[1] ** 2) / 2, x[0] * x[1]]
    np.testing.assert_allclose(ndual.grad(f, mode=mode)(x), want)
