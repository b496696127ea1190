"""What every rule owes: the whole public signature, one line about its formula."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.special  # noqa: F401

from ndual.errors import NoRuleError
from ndual.rules import registry
from ndual.rules.registry import RULES, Bilinear, Linear, Structured

RESOLVED = sorted((name, rule) for name, rule in RULES.items() if registry.lookup(name) is not None)
IGNORED = {"out", "like", "device", "subok", "casting", "signature"}


def public_parameters(function):
    try:
        return [p for p in inspect.signature(function).parameters.values() if p.name not in IGNORED]
    except (TypeError, ValueError):
        return []


def formula_parameters(rule):
    """The names and order of what a rule's formula takes of the public call, and whether it takes any keyword."""
    if isinstance(rule, Structured):
        return None
    body, skip = {Linear: (getattr(rule, "lanes", None), 2), Bilinear: (getattr(rule, "lanes", None), 5)}.get(
        type(rule), (getattr(rule, "body", None), 1)
    )
    found = list(inspect.signature(body).parameters.values())
    return found[skip:]


@pytest.mark.parametrize(("name", "rule"), RESOLVED, ids=[n for n, _ in RESOLVED])
def test_no_argument_is_left_out(name, rule):
    if isinstance(rule, registry.Passive) or isinstance(registry.lookup(name), np.ufunc):
        return
    public = public_parameters(registry.lookup(name))
    names = [p.name for p in public if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY)]
    if isinstance(rule, Structured):
        tokens = [t.strip("*?=().") for t in rule.arrays]
        known = set(tokens) | set(rule.defaults)
        missing = [n for n in names[1:] if n not in known]
        first = [n for n in names if n in rule.defaults]
        ours = [n for n in rule.defaults if n in first]
        assert [n for n in ours if n in first] == first, f"order of {name}: {ours} against {first}"
    else:
        found = formula_parameters(rule)
        open_ended = any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in found)
        missing = (
            []
            if open_ended
            else [n for n in names[2 if isinstance(rule, Bilinear) else 1 :] if n not in {p.name for p in found}]
        )
    assert not missing, f"{name} lacks {missing}"


@pytest.mark.parametrize(("name", "rule"), RESOLVED, ids=[n for n, _ in RESOLVED])
def test_every_formula_is_described(name, rule):
    formula = getattr(rule, "lanes", None) or getattr(rule, "jvp", None) or getattr(rule, "body", None)
    assert isinstance(rule, registry.Passive) or formula.__doc__ or formula.__name__ == "jvp"


def test_binding():
    rule = RULES["numpy.sum"]
    x, axis = np.ones(3), 0
    assert rule.bind((x,), {})[0][0] is x
    arrays, params = rule.bind((x, axis), {"keepdims": True, "initial": 2.0})
    assert arrays[1] == 2.0
    assert params == {"axis": 0, "dtype": None, "keepdims": True, "where": True}
    assert rule.bind((), {"a": x})[0][0] is x
    with pytest.raises(NoRuleError, match="out= by keyword"):
        rule.bind((x, 0, None, np.ones(())), {})
    with pytest.raises(NoRuleError, match="colour"):
        rule.bind((x,), {"colour": 1})
    with pytest.raises(NoRuleError, match="needs an argument"):
        rule.bind((), {})
    arrays, params = RULES["numpy.concatenate"].bind(([x, x], 1), {})
    assert len(arrays) == 2
    assert params["axis"] == 1
    arrays, params = RULES["scipy.special.logsumexp"].bind((x, 0, x), {})
    assert arrays[1] is x
    assert params == {"axis": 0, "keepdims": False, "return_sign": False}
    assert RULES["numpy.squeeze"].bind((), {"a": x, "axis": 0})[1:] == ((), {"axis": 0})
    with pytest.raises(NoRuleError):
        RULES["numpy.dot"].bind((x,), {})


def test_a_name_has_one_rule():
    with pytest.raises(ValueError, match="two rules"):
        registry.passive("numpy.sum")


def test_unknown_names_resolve_to_nothing():
    assert registry.lookup("numpy.no_such_function") is None
    assert registry.lookup("no_such_library.f") is None
    assert np.sum in registry.resolve("numpy")
