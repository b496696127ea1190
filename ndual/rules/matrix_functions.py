"""Rules for scipy.linalg: functions of a matrix by Fréchet's derivative, polar and triangular factors, Riccati."""

from __future__ import annotations

from typing import Any

from ndual.rules import decompose, linalg
from ndual.rules.registry import structured
from ndual.rules.support import add, adjoint, conj, dense_vjp, lane_count, refuse, scipy_linalg
from ndual.rules.triangular import tri_part

Arrays = tuple[Any, ...]


def _frechet(xp: Any, name: str, a: Any, t: Any, *rest: Any) -> Any:
    """The upper right block of f([[A, dA], [0, A]]), one by one: the library has no stacks (Higham 2008, 3.6)."""
    n = a.shape[-1]
    wide = xp.broadcast_to(a, t.shape)
    whole = xp.concatenate((xp.concatenate((wide, t), -1), xp.concatenate((xp.zeros_like(wide), wide), -1)), -2)
    function = getattr(scipy_linalg(xp), name)
    blocks = whole.reshape(-1, 2 * n, 2 * n)
    found = xp.stack([function(block, *rest) for block in blocks])
    return found.reshape(*t.shape[:-2], 2 * n, 2 * n)[..., :n, n:]


# Options of older versions: by disp=False these return an estimate of their error beside the matrix.
_DISPLAYS: dict[str, dict[str, Any]] = {
    "sqrtm": {"disp": None, "blocksize": None},
    "logm": {"disp": None},
    "signm": {"disp": None},
}


def _register(name: str, exponent: bool = False) -> None:
    def real(y: Any, t: Any) -> Any:
        return t.real if y.dtype.kind != "c" and t.dtype.kind == "c" else t

    def rest(params: dict[str, Any]) -> tuple[Any, ...]:
        return (params["t"],) if exponent else ()

    def vjp(xp: Any, w: Any, y: Any, x: Arrays, **params: Any) -> Arrays:
        g = _frechet(xp, name, adjoint(xp, x[0]), xp.asarray(w)[None], *rest(params))[0]
        return (g.real if x[0].dtype.kind != "c" and g.dtype.kind == "c" else g,)

    @structured(f"scipy.linalg.{name}", "A (t)" if exponent else "A", vjp, **_DISPLAYS.get(name, {}))
    def jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, **params: Any) -> Any:
        if isinstance(y, tuple):
            raise refuse(f"scipy.linalg.{name}", "disp=False", "Leave it out.")
        return real(y, _frechet(xp, name, x[0], dx[0], *rest(params)))

    jvp.__doc__ = f"{name}: Fréchet's derivative, a block of the function of a block triangular matrix."


for _name in ("sqrtm", "logm", "signm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm"):
    _register(_name)
_register("fractional_matrix_power", exponent=True)


def _polar_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, side: str) -> Arrays:
    (a,), (t,), (u, p) = x, dx, y
    if side == "left":
        a, t, u = adjoint(xp, a), adjoint(xp, t), adjoint(xp, u)
    s, v = xp.linalg.eigh(p)
    turned = xp.matmul(adjoint(xp, u), t)
    skew = xp.matmul(xp.matmul(adjoint(xp, v), turned - adjoint(xp, turned)), v)
    sums = s[..., :, None] + s[..., None, :]
    with xp.errstate(all="ignore"):
        omega = xp.matmul(xp.matmul(v, skew / sums), adjoint(xp, v))
    dp = turned - xp.matmul(omega, p)
    du = xp.matmul(u, omega)
    if u.shape[-2] > u.shape[-1]:
        rest = t - xp.matmul(u, turned)
        du = du + xp.matmul(rest, xp.linalg.inv(p))
    return adjoint(xp, du) if side == "left" else du, dp


@structured("scipy.linalg.polar", "a", dense_vjp(_polar_jvp), side="right")
def polar(xp: Any, y: Arrays, x: Arrays, dx: Arrays, side: str) -> Arrays:
    """With P = V S V^H: dU is U times the antisymmetric solution of a Sylvester equation, also for equal values."""
    rows, columns = x[0].shape[-2:]
    if (rows < columns) if side == "right" else (rows > columns):
        raise refuse("scipy.linalg.polar", "a singular positive factor", "Take the other side=.")
    return _polar_jvp(xp, y, x, dx, side)


def _procrustes_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, check_finite: bool = True) -> Arrays:
    (a, b), (da, db) = x, dx
    m = xp.matmul(adjoint(xp, a), b)
    t = None if da is None else xp.matmul(adjoint(xp, da), b)
    t = t if db is None else add(xp, xp.matmul(adjoint(xp, a), db), t)
    u, scale = xp.asarray(y[0]), y[1]
    p = xp.matmul(adjoint(xp, u), m)
    du, _ = _polar_jvp(xp, (u, (p + adjoint(xp, p)) / 2), (m,), (t,), "right")
    # The sum of the singular values moves by the trace of U^H dM.
    return du, (conj(xp, u) * t).real.sum(axis=(-2, -1)) + 0 * scale


@structured("scipy.linalg.orthogonal_procrustes", "A B", dense_vjp(_procrustes_jvp), check_finite=True)
def orthogonal_procrustes(xp: Any, y: Arrays, x: Arrays, dx: Arrays, check_finite: bool) -> Arrays:
    """The polar factor of A^H B, and the sum of its singular values."""
    return _procrustes_jvp(xp, y, x, dx)


def _lu_lanes(xp: Any, lower: Any, upper: Any, pa: Any) -> Arrays:
    """From the permuted dA, dL and dU: with F = L^-1 dA U^-1, L times its lower and its upper triangle times U."""
    f = xp.linalg.solve(lower, pa)
    f = xp.swapaxes(xp.linalg.solve(xp.swapaxes(upper, -1, -2), xp.swapaxes(f, -1, -2)), -1, -2)
    strict = tri_part(xp, f, True, True)
    return xp.matmul(lower, strict), xp.matmul(f - strict, upper)


def _square(name: str, a: Any) -> None:
    if a.shape[-1] != a.shape[-2]:
        raise refuse(name, "a matrix that is not square", "Take scipy.linalg.qr.")


def _lu_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, permute_l: Any, p_indices: Any, **_: Any) -> Arrays:
    a, t = x[0], dx[0]
    _square("scipy.linalg.lu", a)
    if permute_l:
        p, lower, upper = scipy_linalg(xp).lu(a)
    else:
        p, lower, upper = y
    # A = P L U, or A = (L U)[p] if indices were asked for.
    if p_indices and not permute_l:
        p = xp.eye(a.shape[-1], dtype=a.dtype)[p]
    dl, du = _lu_lanes(xp, lower, upper, xp.matmul(xp.swapaxes(p, -1, -2), t))
    return (xp.matmul(p, dl), du) if permute_l else (None, dl, du)


@structured(
    "scipy.linalg.lu",
    "a",
    dense_vjp(_lu_jvp),
    permute_l=False,
    overwrite_a=False,
    check_finite=True,
    p_indices=False,
)
def lu(xp: Any, y: Arrays, x: Arrays, dx: Arrays, permute_l: Any, p_indices: Any, **_: Any) -> Arrays:
    """Triangles of L^-1 dA U^-1, the pivots staying where they are."""
    return _lu_jvp(xp, y, x, dx, permute_l, p_indices)


def _permutation(xp: Any, pivots: Any) -> list[int]:
    rows = list(range(len(pivots)))
    for i, k in enumerate(pivots.tolist()):
        rows[i], rows[k] = rows[k], rows[i]
    return rows


def _packed(xp: Any, packed: Any) -> Arrays:
    strict = tri_part(xp, packed, True, True)
    return strict + xp.eye(packed.shape[-1], dtype=packed.dtype), packed - strict


def _lu_factor_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **_: Any) -> Arrays:
    _square("scipy.linalg.lu_factor", x[0])
    if x[0].ndim != 2:
        raise refuse("scipy.linalg.lu_factor", "a stack of matrices", "Factor them one by one.")
    lower, upper = _packed(xp, y[0])
    dl, du = _lu_lanes(xp, lower, upper, dx[0][:, _permutation(xp, y[1])])
    return dl + du, None


@structured("scipy.linalg.lu_factor", "a", dense_vjp(_lu_factor_jvp), overwrite_a=False, check_finite=True)
def lu_factor(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **_: Any) -> Arrays:
    """Both triangles in one matrix."""
    return _lu_factor_jvp(xp, y, x, dx)


def _lu_solve_jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, trans: int, **_: Any) -> Any:
    (packed, pivots, b), (dpacked, _p, db) = x, dx
    lower, upper = _packed(xp, packed)
    back = xp.argsort(xp.asarray(_permutation(xp, xp.asarray(pivots))))
    a = xp.matmul(lower, upper)[back]
    column = b.ndim == 1
    r = None if db is None else db[..., None] if column else db
    if dpacked is not None:
        dl = tri_part(xp, dpacked, True, True)
        da = (xp.matmul(dl, upper) + xp.matmul(lower, dpacked - dl))[:, back]
        da = da if trans == 0 else xp.swapaxes(da, -1, -2) if trans == 1 else adjoint(xp, da)
        r = add(xp, -xp.matmul(da, y[:, None] if column else y), r)
    a = a if trans == 0 else a.T if trans == 1 else adjoint(xp, a)
    out = xp.linalg.solve(a, r)
    return out[..., 0] if column else out


@structured(
    "scipy.linalg.lu_solve", "*lu_and_piv b", dense_vjp(_lu_solve_jvp), trans=0, overwrite_b=False, check_finite=True
)
def lu_solve(xp: Any, y: Any, x: Arrays, dx: Arrays, trans: int, **_: Any) -> Any:
    """A dx = db - dA x with the matrix that the factors stand for."""
    return _lu_solve_jvp(xp, y, x, dx, trans)


def _riccati(name: str, lyapunov: str, discrete: bool) -> None:
    def jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, e: Any, s: Any, balanced: Any) -> Any:
        if e is not None or s is not None:
            raise refuse(f"scipy.linalg.{name}", "e= or s=", "Transform the equation to one without them.")
        (a, b, _q, r), (da, db, dq, dr) = x, dx
        solve = xp.linalg.solve
        if discrete:
            gain = solve(r + adjoint(xp, b) @ y @ b, adjoint(xp, b) @ y @ a)
        else:
            gain = solve(r, adjoint(xp, b) @ y)
        closed = a - b @ gain
        # What the equation changes by at a fixed X and gain; the gain is where it does not move X.
        right: Any = xp.zeros((lane_count(dx), *y.shape), y.dtype)
        if dq is not None:
            right = right + dq
        if dr is not None:
            right = right + adjoint(xp, gain) @ dr @ gain
        moved: Any = 0 if da is None else da
        moved = moved if db is None else moved - db @ gain
        if not isinstance(moved, int):
            half = adjoint(xp, closed) @ y @ moved if discrete else xp.matmul(y, moved)
            right = right + half + adjoint(xp, half)
        lyap = getattr(scipy_linalg(xp), lyapunov)
        sign = 1 if discrete else -1
        return xp.stack([lyap(adjoint(xp, closed), sign * one) for one in right])

    structured(f"scipy.linalg.{name}", "a b q r", dense_vjp(jvp), e=None, s=None, balanced=True)(jvp)
    jvp.__doc__ = f"{name}: a Lyapunov equation of the closed loop."


_riccati("solve_continuous_are", "solve_continuous_lyapunov", False)
_riccati("solve_discrete_are", "solve_discrete_lyapunov", True)


def _eig_jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, left: Any, right: Any, homogeneous_eigvals: Any, **_: Any) -> Any:
    if x[1] is not None or left or homogeneous_eigvals:
        raise refuse("scipy.linalg.eig", "b=, left= or homogeneous_eigvals=", "Use numpy.linalg.eig of solve(b, a).")
    # SciPy's values are always complex.
    if not right:
        return decompose.eigvals(xp, y, x[:1], dx[:1]).astype(y.dtype)
    dw, dv = decompose.eig(xp, y, x[:1], dx[:1])
    return dw.astype(y[0].dtype), (dv if y[1].dtype.kind == "c" else dv.real)


@structured(
    "scipy.linalg.eig",
    "a b?",
    dense_vjp(_eig_jvp),
    left=False,
    right=True,
    overwrite_a=False,
    overwrite_b=False,
    check_finite=True,
    homogeneous_eigvals=False,
)
def eig(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """As numpy.linalg.eig."""
    return _eig_jvp(xp, y, x, dx, **options)


def _eigvals_jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, homogeneous_eigvals: Any, **_: Any) -> Any:
    return _eig_jvp(xp, y, x, dx, False, False, homogeneous_eigvals)


@structured(
    "scipy.linalg.eigvals",
    "a b?",
    dense_vjp(_eigvals_jvp),
    overwrite_a=False,
    check_finite=True,
    homogeneous_eigvals=False,
)
def eigvals(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """As numpy.linalg.eigvals."""
    return _eigvals_jvp(xp, y, x, dx, **options)


def _lstsq_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, cond: Any, **_: Any) -> Arrays:
    residuals = xp.asarray(y[1])
    given = (y[0], residuals.reshape(-1) if residuals.ndim == 0 else residuals, *y[2:])
    dz, dr, rank, ds = linalg.lstsq(xp, given, x, dx, cond)
    dr = dr if dr is None or residuals.ndim else dr[:, 0]
    return dz, dr, rank, None if y[3] is None else ds


@structured(
    "scipy.linalg.lstsq",
    "a b",
    dense_vjp(_lstsq_jvp),
    cond=None,
    overwrite_a=False,
    overwrite_b=False,
    check_finite=True,
    lapack_driver=None,
)
def lstsq(xp: Any, y: Arrays, x: Arrays, dx: Arrays, **options: Any) -> Arrays:
    """As numpy.linalg.lstsq."""
    return _lstsq_jvp(xp, y, x, dx, **options)


def _pinv_jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, return_rank: Any, lower: Any = None, **_: Any) -> Any:
    value = y[0] if return_rank else y
    a, t = x[0], dx[0]
    if lower is not None:
        a, t = decompose.hermitian(xp, a, lower), decompose.hermitian(xp, t, lower)
    out = linalg.pinv(xp, value, (a,), (t,), rcond=None, hermitian=False, rtol=None)
    return (out, None) if return_rank else out


@structured("scipy.linalg.pinv", "a", dense_vjp(_pinv_jvp), atol=None, rtol=None, return_rank=False, check_finite=True)
def pinv(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """As numpy.linalg.pinv, at constant rank."""
    return _pinv_jvp(xp, y, x, dx, **options)


@structured(
    "scipy.linalg.pinvh",
    "a",
    dense_vjp(_pinv_jvp),
    atol=None,
    rtol=None,
    lower=True,
    return_rank=False,
    check_finite=True,
)
def pinvh(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """The same of the matrix that one triangle stands for."""
    return _pinv_jvp(xp, y, x, dx, **options)


def _qr_jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, mode: str, pivoting: Any, **_: Any) -> Any:
    modes = {"full": "complete", "economic": "reduced", "r": "r"}
    if mode not in modes:
        raise refuse("scipy.linalg.qr", f"mode={mode!r}", "Use mode='economic'.")
    a, t = x[0], dx[0]
    if pivoting:
        a, t = a[..., y[-1]], t[..., y[-1]]
    first = y[:-1] if pivoting else y
    if mode == "r":
        q, r = xp.linalg.qr(a)
        # SciPy gives a tuple of one matrix, with rows of zeros below.
        dr = decompose.qr(xp, (q, r), (a,), (t,), "reduced")[1]
        missing = first[0].shape[-2] - dr.shape[-2]
        out: Any = (xp.concatenate((dr, xp.zeros((*dr.shape[:-2], missing, dr.shape[-1]), dr.dtype)), -2),)
    else:
        out = decompose.qr(xp, first, (a,), (t,), modes[mode])
    return (*out, None) if pivoting else out


@structured(
    "scipy.linalg.qr",
    "a",
    dense_vjp(_qr_jvp),
    overwrite_a=False,
    lwork=None,
    mode="full",
    pivoting=False,
    check_finite=True,
)
def qr(xp: Any, y: Any, x: Arrays, dx: Arrays, **options: Any) -> Any:
    """As numpy.linalg.qr; pivots stay where they are."""
    return _qr_jvp(xp, y, x, dx, **options)
