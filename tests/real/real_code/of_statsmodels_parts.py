"""What the likelihoods of statsmodels are made of: families, links, robust norms, penalties, copulas."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from statsmodels.base import _penalties as penalties
from statsmodels.distributions.copula import api as copulas
from statsmodels.distributions.copula import depfunc_ev, transforms
from statsmodels.genmod import families
from statsmodels.genmod.families import links, varfuncs
from statsmodels.robust import norms
from statsmodels.tsa import arima_process, tsatools
from statsmodels.tsa.statespace import tools as statespace_tools

from real_code.entries import Case, Entry, entry, generator

TRIES, SIZE = 8, 5
Draw = Callable[[np.random.Generator], Any]


def uniform(low: float, high: float, shape: Any = SIZE) -> Draw:
    """Numbers between two bounds."""
    return lambda rng: rng.uniform(low, high, shape)


def number(low: float, high: float) -> Draw:
    """One number between two bounds."""
    return lambda rng: float(rng.uniform(low, high))


def constant(value: Any) -> Draw:
    """The same at every point."""
    return lambda rng: value


def drawn(name: str, function: Callable[..., Any], draws: list[Draw], argnums: tuple[int, ...] = (0,)) -> Entry:
    """A function whose arguments are drawn independently."""
    rng = generator(name)
    points = [tuple(draw(rng) for draw in draws) for _ in range(TRIES)]
    return entry(f"statsmodels.{name}", [Case(function, points, argnums, wanted=2)])


def of_families() -> Iterator[Entry]:
    """The likelihood and the residuals of each family by the mean, and by the scale where it has one."""
    counts, shares, positive = (
        np.array([0.0, 1, 4, 2, 7]),
        np.array([0.0, 1, 1, 0, 1]),
        np.array([0.4, 1.1, 2.0, 0.7, 3.0]),
    )
    for family, data, mean in (
        (families.Gaussian(), positive, uniform(0.3, 2)),
        (families.Binomial(), shares, uniform(0.2, 0.8)),
        (families.Poisson(), counts, uniform(0.5, 3)),
        (families.Gamma(), positive, uniform(0.5, 3)),
        (families.InverseGaussian(), positive, uniform(0.5, 3)),
        (families.NegativeBinomial(alpha=0.7), counts, uniform(0.5, 3)),
        (families.Tweedie(var_power=1.5, eql=True), positive, uniform(0.5, 3)),
    ):
        name = f"families.{type(family).__name__}"
        scaled = isinstance(family, families.Gaussian | families.Gamma | families.InverseGaussian | families.Tweedie)
        for method in ("loglike_obs", "loglike", "deviance"):
            function = getattr(family, method)
            draws = [constant(data), mean, constant(1.0), *([constant(1.0)] if method != "loglike_obs" else [])]
            by = (1, len(draws)) if scaled and method != "deviance" else (1,)
            yield drawn(f"{name}.{method}", function, [*draws, number(0.6, 1.5) if len(by) == 2 else constant(1.0)], by)
        yield drawn(f"{name}.resid_dev", family.resid_dev, [constant(data + 0.05 * (data == 0)), mean], (1,))
        yield drawn(f"{name}.weights", family.weights, [mean])
        yield drawn(f"{name}.variance", family.variance, [mean])


def of_links() -> Iterator[Entry]:
    """Each link, its inverse and the derivatives of both."""
    given = {links.Power: (0.7,), links.NegativeBinomial: (0.8,)}
    for kind in vars(links).values():
        # The names in small letters are older spellings of the same classes.
        if (
            not (inspect.isclass(kind) and issubclass(kind, links.Link))
            or kind is links.Link
            or kind.__name__.islower()
        ):
            continue
        link = kind(*given.get(kind, ()))
        far = isinstance(link, links.LogC)
        argument = uniform(-1.5, -0.3) if far else uniform(0.3, 1.5)
        yield drawn(f"links.{kind.__name__}.__call__", link, [uniform(0.2, 0.8)])
        for method in ("deriv", "deriv2"):
            yield drawn(f"links.{kind.__name__}.{method}", getattr(link, method), [uniform(0.2, 0.8)])
        for method in ("inverse", "inverse_deriv", "inverse_deriv2"):
            yield drawn(f"links.{kind.__name__}.{method}", getattr(link, method), [argument])


def of_variances() -> Iterator[Entry]:
    """Variance functions and their derivatives."""
    for name, variance in (
        ("Power", varfuncs.Power(1.5)), ("Binomial", varfuncs.Binomial(3)),
        ("NegativeBinomial", varfuncs.NegativeBinomial(0.6)),
    ):  # fmt: skip
        yield drawn(f"varfuncs.{name}.__call__", variance, [uniform(0.3, 0.9)])
        yield drawn(f"varfuncs.{name}.deriv", variance.deriv, [uniform(0.3, 0.9)])


def of_norms() -> Iterator[Entry]:
    """Robust norms, on both sides of their thresholds."""
    for kind in vars(norms).values():
        if not (inspect.isclass(kind) and issubclass(kind, norms.RobustNorm)) or kind is norms.RobustNorm:
            continue
        norm = norms.MQuantileNorm(0.3, norms.HuberT()) if kind is norms.MQuantileNorm else None
        norm = norms.StudentT(df=4) if kind.__name__ == "StudentT" else norm or kind()
        spread = np.array([0.2, 1.7, -2.6, -0.9, 9.0, 4.4])
        for method in ("rho", "psi", "weights", "psi_deriv"):
            moved: Draw = lambda rng, spread=spread: spread * rng.uniform(0.9, 1.1, spread.size)  # noqa: E731
            yield drawn(f"norms.{kind.__name__}.{method}", getattr(norm, method), [moved])


def of_penalties() -> Iterator[Entry]:
    """Penalties of parameters."""
    for penalty in (
        penalties.L2(), penalties.PseudoHuber(0.7), penalties.SCAD(1.2), penalties.SCADSmoothed(1.2, c0=0.1),
        penalties.L2ConstraintsPenalty(restriction=np.array([[1.0, -1, 0, 0, 0], [0, 0, 1, 1, 0]])),
    ):  # fmt: skip
        name = f"penalties.{type(penalty).__name__}"
        for method in ("func", "deriv", "deriv2"):
            yield drawn(
                f"{name}.{method}",
                getattr(penalty, method),
                [lambda rng: np.array([0.03, -0.6, 1.5, 3.1, -6.0]) * rng.uniform(0.9, 1.1, 5)],
            )


def of_copulas() -> Iterator[Entry]:
    """Distribution functions and densities by the point and, where it is one number, by the parameter."""
    square = uniform(0.2, 0.8, (4, 2))
    for copula, theta in (
        (copulas.ClaytonCopula(theta=1.4), 1.4), (copulas.FrankCopula(theta=2.1), 2.1),
        (copulas.GumbelCopula(theta=1.6), 1.6),
    ):  # fmt: skip
        name = f"copula.{type(copula).__name__}"
        for method in ("cdf", "pdf", "logpdf"):
            function = getattr(copula, method)
            yield drawn(
                f"{name}.{method}",
                lambda u, t, function=function: function(u, (t,)),
                [square, number(theta - 0.2, theta + 0.2)],
                (0, 1),
            )
        yield drawn(f"{name}.tau", copula.tau, [number(theta - 0.2, theta + 0.2)])
    yield drawn("copula.GaussianCopula.pdf", copulas.GaussianCopula(corr=0.4).pdf, [square])
    yield drawn("copula.StudentTCopula.pdf", copulas.StudentTCopula(corr=0.4, df=5).pdf, [square])
    for kind, args in (("TransfFrank", 2.1), ("TransfClayton", 1.4), ("TransfGumbel", 1.6), ("TransfIndep", 1.0)):
        transform = getattr(transforms, kind)()
        for method in ("evaluate", "inverse", "deriv", "deriv2", "deriv2_inverse", "deriv3_inverse", "deriv4_inverse"):
            # This one raises -1 to the parameter.
            whole = (kind, method) == ("TransfGumbel", "deriv2")
            draws = [uniform(0.2, 0.9), constant(2.0) if whole else number(args, args + 0.3)]
            yield drawn(f"copula.{kind}.{method}", getattr(transform, method), draws, (0,) if whole else (0, 1))
    for kind, limits in (
        ("AsymLogistic", ((0.3, 0.5), (0.5, 0.8), (1.5, 2))), ("AsymNegLogistic", ((0.3, 0.5), (0.5, 0.8), (1.5, 2))),
        ("AsymMixed", ((0.5, 0.7), (0.1, 0.2))), ("HR", ((0.8, 1.5),)),
    ):  # fmt: skip
        dependence = getattr(depfunc_ev, kind)()
        draws = [uniform(0.2, 0.8), *(number(*pair) for pair in limits)]
        for method in ("evaluate", "deriv", "deriv2"):
            yield drawn(f"copula.{kind}.{method}", getattr(dependence, method), draws, tuple(range(len(draws))))


def of_series() -> Iterator[Entry]:
    """Functions of the coefficients of time series."""
    polynomial: Draw = lambda rng: np.r_[1.0, rng.uniform(-0.4, 0.4, 2)]  # noqa: E731
    yield drawn(
        "tsa.arma_impulse_response",
        lambda a, m: arima_process.arma_impulse_response(a, m, 8),
        [polynomial, polynomial],
        (0, 1),
    )
    yield drawn("tsa.arma_acovf", lambda a, m: arima_process.arma_acovf(a, m, 8), [polynomial, polynomial], (0, 1))
    yield drawn("tsa.arma2ar", lambda a, m: arima_process.arma2ar(a, m, 8), [polynomial, polynomial], (0, 1))
    yield drawn("tsa.arma2ma", lambda a, m: arima_process.arma2ma(a, m, 8), [polynomial, polynomial], (0, 1))
    for name in ("constrain_stationary_univariate", "unconstrain_stationary_univariate"):
        yield drawn(f"statespace.{name}", getattr(statespace_tools, name), [uniform(-0.4, 0.4, 3)])
    yield drawn("tsa.detrend", tsatools.detrend, [uniform(-1, 1, 7)])
    yield drawn("tsa.lagmat", lambda x: tsatools.lagmat(x, 1), [uniform(-1, 1, 7)])


def entries() -> Iterator[Entry]:
    """All of them."""
    for source in (of_families, of_links, of_variances, of_norms, of_penalties, of_copulas, of_series):
        yield from source()
