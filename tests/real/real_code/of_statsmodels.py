"""The likelihoods of statsmodels that are written in Python and NumPy, each by the parameters of its model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import statsmodels.api as sm
from statsmodels.discrete import conditional_models as conditional
from statsmodels.discrete import count_model as inflated
from statsmodels.discrete import discrete_model as discrete
from statsmodels.discrete import truncated_model as truncated
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.genmod import families
from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM, PoissonBayesMixedGLM
from statsmodels.miscmodels import count, ordinal_model, tmodel
from statsmodels.othermod.betareg import BetaModel
from statsmodels.regression.mixed_linear_model import MixedLM
from statsmodels.regression.process_regression import GaussianCovariance, ProcessMLE
from statsmodels.tsa.ar_model import AutoReg
from statsmodels.tsa.vector_ar import svar_model, var_model

from real_code.entries import Case, Entry, entry, generator

ROWS, TRIES = 60, 6
_rng = np.random.default_rng(20)
X = np.column_stack([np.ones(ROWS), _rng.normal(size=(ROWS, 2))])
NOISE = _rng.normal(size=ROWS)
ETA = X @ np.array([0.3, 0.5, -0.4])
REAL = ETA + 0.7 * NOISE
BINARY = (REAL > 0.2).astype(float)
COUNTS = _rng.poisson(np.exp(ETA)).astype(float)
POSITIVE_COUNTS = COUNTS + 1.0
CLASSES = np.digitize(REAL, [-0.3, 0.8])
POSITIVE = np.exp(0.5 * REAL)
SHARES = 1 / (1 + np.exp(-REAL))
GROUPS = np.repeat(np.arange(ROWS // 6), 6)
SERIES = np.cumsum(NOISE) * 0.2 + NOISE
EVENTS = (_rng.uniform(size=ROWS) > 0.3).astype(int)
PLAIN = np.zeros(0)


def around(*center: float, spread: float = 0.15) -> Callable[[Any], np.ndarray]:
    """Parameters near `center`."""
    return lambda rng: np.asarray(center) + spread * rng.uniform(-1, 1, len(center))


def family_models() -> Iterator[tuple[str, Any, Any]]:
    """Generalised linear models: each family, with its data."""
    for family, data in (
        (families.Gaussian(), REAL), (families.Binomial(), BINARY), (families.Poisson(), COUNTS),
        (families.Gamma(families.links.Log()), POSITIVE), (families.InverseGaussian(families.links.Log()), POSITIVE),
        (families.NegativeBinomial(alpha=0.7), COUNTS),
        (families.Tweedie(families.links.Log(), var_power=1.5, eql=True), POSITIVE),
    ):  # fmt: skip
        yield f"GLM[{type(family).__name__}]", sm.GLM(data, X, family=family), around(0.3, 0.4, -0.3)


def discrete_models() -> Iterator[tuple[str, Any, Any]]:
    """Binary, counted, truncated, inflated and ordered outcomes."""
    beta = (0.3, 0.4, -0.3)
    alone = X[:, 1:]
    yield "Logit", discrete.Logit(BINARY, X), around(*beta)
    yield "Probit", discrete.Probit(BINARY, X), around(*beta)
    yield "Poisson", discrete.Poisson(COUNTS, X), around(*beta)
    yield "Poisson[exposure]", discrete.Poisson(COUNTS, X, exposure=POSITIVE), around(*beta)
    for method in ("nb1", "nb2", "geometric"):
        ancillary = () if method == "geometric" else (0.6,)
        model = discrete.NegativeBinomial(COUNTS, X, loglike_method=method)
        yield f"NegativeBinomial[{method}]", model, around(*beta, *ancillary)
    for p in (1, 2):
        yield f"NegativeBinomialP[{p}]", discrete.NegativeBinomialP(COUNTS, X, p=p), around(*beta, 0.6)
        yield f"GeneralizedPoisson[{p}]", discrete.GeneralizedPoisson(COUNTS, X, p=p), around(*beta, 0.3)
    yield "MNLogit", discrete.MNLogit(CLASSES, X), around(0.2, 0.3, -0.2, 0.1, -0.3, 0.2)
    yield "ZeroInflatedPoisson", inflated.ZeroInflatedPoisson(COUNTS, X), around(-0.6, *beta)
    yield (
        "ZeroInflatedPoisson[probit]",
        inflated.ZeroInflatedPoisson(COUNTS, X, inflation="probit"),
        around(-0.6, *beta),
    )
    yield "ZeroInflatedGeneralizedPoisson", inflated.ZeroInflatedGeneralizedPoisson(COUNTS, X), around(-0.6, *beta, 0.3)
    yield (
        "ZeroInflatedNegativeBinomialP", inflated.ZeroInflatedNegativeBinomialP(COUNTS, X), around(-0.6, *beta, 0.6)
    )  # fmt: skip
    yield "TruncatedLFPoisson", truncated.TruncatedLFPoisson(POSITIVE_COUNTS, X), around(*beta)
    yield (
        "TruncatedLFNegativeBinomialP", truncated.TruncatedLFNegativeBinomialP(POSITIVE_COUNTS, X),
        around(*beta, 0.6),
    )  # fmt: skip
    yield (
        "TruncatedLFGeneralizedPoisson",
        truncated.TruncatedLFGeneralizedPoisson(POSITIVE_COUNTS, X),
        around(*beta, 0.3),
    )
    yield "HurdleCountModel", truncated.HurdleCountModel(COUNTS, X), around(*beta, *beta)
    for distribution in ("probit", "logit"):
        model = ordinal_model.OrderedModel(CLASSES, alone, distr=distribution)
        yield f"OrderedModel[{distribution}]", model, around(0.4, -0.3, -0.3, 0.1)
    yield "ConditionalLogit", conditional.ConditionalLogit(BINARY, alone, groups=GROUPS), around(0.4, -0.3)
    yield "ConditionalPoisson", conditional.ConditionalPoisson(COUNTS, alone, groups=GROUPS), around(0.4, -0.3)
    yield (
        "ConditionalMNLogit", conditional.ConditionalMNLogit(CLASSES, alone, groups=GROUPS),
        around(0.4, -0.3, 0.1, 0.2),
    )  # fmt: skip
    yield "PoissonGMLE", count.PoissonGMLE(COUNTS, X), around(*beta)
    yield "PoissonOffsetGMLE", count.PoissonOffsetGMLE(COUNTS, X, offset=0.1 * NOISE), around(*beta)
    yield "PoissonZiGMLE", count.PoissonZiGMLE(COUNTS, X), around(*beta, -0.6)
    yield "BetaModel", BetaModel(SHARES, X), around(*beta, 1.2)


def other_models() -> Iterator[tuple[str, Any, Any]]:
    """Regressions, mixed models, durations and series."""
    beta = (0.3, 0.4, -0.3)
    yield "OLS", sm.OLS(REAL, X), around(*beta)
    yield "WLS", sm.WLS(REAL, X, weights=POSITIVE), around(*beta)
    yield "GLS", sm.GLS(REAL, X, sigma=np.eye(ROWS) + 0.3), around(*beta)
    yield "GLSAR", sm.GLSAR(REAL, X, rho=1), around(*beta)
    yield "TLinearModel", tmodel.TLinearModel(REAL, X), around(*beta, 4.0, 0.8)
    mixed = MixedLM(REAL, X, groups=GROUPS)
    mixed.cov_pen = mixed.fe_pen = None
    yield "MixedLM", mixed, around(*beta, 0.7)
    yield "PHReg[breslow]", PHReg(POSITIVE, X[:, 1:], status=EVENTS, ties="breslow"), around(0.4, -0.3)
    yield "PHReg[efron]", PHReg(np.round(POSITIVE, 1), X[:, 1:], status=EVENTS, ties="efron"), around(0.4, -0.3)
    yield "AutoReg", AutoReg(SERIES, lags=2), around(0.1, 0.4, 0.2)
    process = ProcessMLE(
        REAL, X, X[:, :2], X[:, :1], X[:, :1], time=np.tile(np.arange(6.0), ROWS // 6), groups=GROUPS,
        cov=GaussianCovariance(),
    )  # fmt: skip
    yield "ProcessMLE", process, around(*beta, 0.2, 0.1, 0.3, -0.4)
    structure = np.array([["E", "0"], ["E", "E"]], dtype=object)
    pair = np.column_stack([SERIES, REAL])
    svar = svar_model.SVAR(pair, svar_type="B", B=structure)
    svar.sigma_u, svar.nobs = np.array([[1.2, 0.3], [0.3, 0.8]]), ROWS
    yield "SVAR", svar, around(1.0, 0.3, 0.9)


def methods() -> Iterator[tuple[str, Any, Any]]:
    """The likelihoods of all models, and their written derivatives as functions to differentiate again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [*family_models(), *discrete_models(), *other_models()]
    for name, model, start in models:
        for method in ("loglike", "loglikeobs", "nloglikeobs", "score", "score_obs"):
            # A class may name a method of its base that the base leaves to others.
            if hasattr(model, method):
                yield f"{name}.{method}", getattr(model, method), start


def bayes() -> Iterator[tuple[str, Any, Any]]:
    """Posteriors of mixed models."""
    draws = (GROUPS[:, None] == np.arange(ROWS // 6)).astype(float)
    count = X.shape[1] + 1 + draws.shape[1]
    for kind, data in ((BinomialBayesMixedGLM, BINARY), (PoissonBayesMixedGLM, COUNTS)):
        model = kind(data, X, draws, np.zeros(draws.shape[1], dtype=int))
        for method in ("logposterior", "logposterior_grad"):
            yield f"{kind.__name__}.{method}", getattr(model, method), around(*[0.2] * count)


def entries() -> Iterator[Entry]:
    """One entry for each method."""
    for name, function, start in (*methods(), *bayes()):
        rng = generator(name)
        yield entry(f"statsmodels.{name}", [Case(function, [(start(rng),) for _ in range(TRIES)], wanted=2)])
    yield from series()


def series() -> Iterator[Entry]:
    """Functions of series that take more than one argument."""
    rng = generator("var_loglike")
    points = []
    for _ in range(TRIES):
        root = rng.normal(size=(2, 2))
        points.append((rng.normal(size=(20, 2)), root @ root.T + np.eye(2), 20))
    yield entry("statsmodels.var_loglike", [Case(var_model.var_loglike, points, (0, 1))])
