"""Rules for scipy.linalg: functions of a matrix by Fréchet's derivative, polar factors, and forms unlike NumPy's."""

from __future__ import annotations

from typing import Any

from ndual.rules import decompose, linalg
from ndual.rules.registry import structured
from ndual.rules.stacks import stacked
from ndual.rules.support import add, adjoint, conj, dense_vjp, refuse, scipy_linalg
from ndual.rules.triangular import whole

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


def _unitary_lanes(xp: Any, u: Any, p: Any, t: Any) -> Any:
    """Lanes of the unitary factor of a tall matrix U P: U times the antisymmetric solution of a Sylvester equation."""
    s, v = xp.linalg.eigh(p)
    turned = xp.matmul(adjoint(xp, u), t)
    skew = xp.matmul(xp.matmul(adjoint(xp, v), turned - adjoint(xp, turned)), v)
    sums = s[..., :, None] + s[..., None, :]
    with xp.errstate(all="ignore"):
        omega = xp.matmul(xp.matmul(v, skew / sums), adjoint(xp, v))
    du = xp.matmul(u, omega)
    if u.shape[-2] > u.shape[-1]:
        rest = t - xp.matmul(u, turned)
        du = du + xp.matmul(rest, xp.linalg.inv(p))
    return du


def _positive(xp: Any, u: Any, a: Any) -> Any:
    p = xp.matmul(adjoint(xp, u), a)
    return (p + adjoint(xp, p)) / 2


def _polar_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, side: str) -> Arrays:
    (a,), (t,), u = x, dx, y[0]
    # The unitary factor is the same from either side; where it is tall, its positive factor has full rank.
    if a.shape[-2] >= a.shape[-1]:
        du = _unitary_lanes(xp, u, _positive(xp, u, a), t)
    else:
        uh, ah, th = adjoint(xp, u), adjoint(xp, a), adjoint(xp, t)
        du = adjoint(xp, _unitary_lanes(xp, uh, _positive(xp, uh, ah), th))
    if side == "right":
        return du, xp.matmul(adjoint(xp, du), a) + xp.matmul(adjoint(xp, u), t)
    return du, xp.matmul(t, adjoint(xp, u)) + xp.matmul(a, adjoint(xp, du))


@structured("scipy.linalg.polar", "a", dense_vjp(_polar_jvp), side="right")
def polar(xp: Any, y: Arrays, x: Arrays, dx: Arrays, side: str) -> Arrays:
    """The positive factor is U^H A, or A U^H; both have derivatives at full rank, also for equal values."""
    return _polar_jvp(xp, y, x, dx, side)


def _procrustes_jvp(xp: Any, y: Arrays, x: Arrays, dx: Arrays, check_finite: bool = True) -> Arrays:
    (a, b), (da, db) = x, dx
    m = xp.matmul(adjoint(xp, a), b)
    t = None if da is None else xp.matmul(adjoint(xp, da), b)
    t = t if db is None else add(xp, xp.matmul(adjoint(xp, a), db), t)
    u, scale = xp.asarray(y[0]), y[1]
    du = _unitary_lanes(xp, u, _positive(xp, u, m), t)
    # The sum of the singular values moves by the trace of U^H dM.
    return du, (conj(xp, u) * t).real.sum(axis=(-2, -1)) + 0 * scale


@stacked("scipy.linalg.orthogonal_procrustes", "A B", "2 2", dense_vjp(_procrustes_jvp), check_finite=True)
def orthogonal_procrustes(xp: Any, y: Arrays, x: Arrays, dx: Arrays, check_finite: bool) -> Arrays:
    """The polar factor of A^H B, and the sum of its singular values."""
    return _procrustes_jvp(xp, y, x, dx)


def _quotient(xp: Any, x: Arrays, dx: Arrays) -> Arrays:
    """The matrix B^-1 A and its lanes: A v = w B v has its values and vectors."""
    (a, b), (t, db) = x, dx
    if b is None:
        return a, t
    a = xp.linalg.solve(b, a)
    if db is not None:
        t = add(xp, -xp.matmul(db, a), t)
    return a, linalg.solve_lanes(xp, b, t)


def _eig_jvp(xp: Any, y: Any, x: Arrays, dx: Arrays, left: Any, right: Any, homogeneous_eigvals: Any, **_: Any) -> Any:
    if x[1] is not None and homogeneous_eigvals:
        raise refuse("scipy.linalg.eig", "homogeneous_eigvals= with b=", "Only their quotients are determined.")
    found = y if left or right else (y,)
    # SciPy's values are always complex.
    values = found[0][0] if homogeneous_eigvals else found[0]
    a, t = _quotient(xp, x, dx)
    if not (left or right):
        dw = decompose.eigvals(xp, values, (a,), (t,))
    out, vectors = [], list(found[1:])
    if left:  # A^H u = conj(w) B^H u
        turned = tuple(None if m is None else adjoint(xp, m) for m in (*x, *dx))
        pair = _quotient(xp, turned[:2], turned[2:])
        dw, du = decompose.eig(xp, (conj(xp, values), vectors[0]), (pair[0],), (pair[1],))
        dw = conj(xp, dw)
        out.append(du)
    if right:
        dw, dv = decompose.eig(xp, (values, vectors[-1]), (a,), (t,))
        out.append(dv)
    dw = dw.astype(values.dtype)
    dw = xp.stack((dw, xp.zeros_like(dw)), 1) if homogeneous_eigvals else dw
    if x[1] is not None:  # LAPACK's vectors have a phase by chance, which is kept
        out = [dv - v * (conj(xp, v) * dv).sum(axis=-2, keepdims=True) for v, dv in zip(vectors, out, strict=True)]
    out = [dv if v.dtype.kind == "c" else dv.real for v, dv in zip(vectors, out, strict=True)]
    return (dw, *out) if out else dw


@stacked(
    "scipy.linalg.eig",
    "a b?",
    "2 2",
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


@stacked(
    "scipy.linalg.eigvals",
    "a b?",
    "2 2",
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
    if dr is not None:
        dr = (dr if residuals.ndim else dr[:, 0]).astype(residuals.dtype)  # complex from SciPy 1.18 on
    return dz, dr, rank, None if y[3] is None else ds


@stacked(
    "scipy.linalg.lstsq",
    "a b",
    "2 v",
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
        a, t = whole(xp, a, lower), whole(xp, t, lower)
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
