"""Real code that nobody here wrote: every function does what the manifest says, and the manifest is good enough.

The libraries come with ``pip install ndual[real]``; ``make real`` does that and runs this.
"""

from __future__ import annotations

import numpy as np
import pytest

import ndual

for _library in ("lmfit", "opfunu", "statsmodels"):
    pytest.importorskip(_library, reason="make real installs the libraries")

from real_code import manifest, proof, reference  # noqa: E402 (they need the libraries)

MANIFEST = manifest.read()
ENTRIES = {entry.name: entry for entry in proof.entries()}


@pytest.mark.parametrize("name", ENTRIES)
def test_as_the_manifest_says(name):
    result = proof.prove(ENTRIES[name])
    assert manifest.kind_of(result) != manifest.WRONG, result
    assert result == MANIFEST.get(name), "run tests/real/write_manifest.py if this is better than before"


def test_the_manifest_names_the_functions_there_are():
    assert list(MANIFEST) == sorted(ENTRIES)
    assert manifest.PATH.read_text().splitlines()[:3] == manifest.heading(MANIFEST)


def test_the_manifest_is_good_enough():
    counts = manifest.count(MANIFEST)
    total = sum(counts.values())
    assert total >= 500
    assert counts[manifest.WRONG] == 0
    assert counts[manifest.RIGHT] >= 0.97 * total
    assert counts[manifest.RIGHT] + counts[manifest.WITH_LIFT] >= 0.99 * total
    for result in MANIFEST.values():
        if manifest.kind_of(result) == manifest.REFUSED:
            assert issubclass(getattr(ndual, result.split(": ")[1]), ndual.NdualError)


def test_the_reference_finds_a_derivative():
    (found,), error = reference.jacobian(lambda x: np.array([np.sin(x[0]) * x[1], x[1]]), (np.array([0.7, 2.0]),), (0,))
    assert found == pytest.approx(np.array([[2 * np.cos(0.7), np.sin(0.7)], [0, 1]]), rel=1e-10, abs=1e-10)
    assert reference.certain([found], error)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: np.abs(x - 1.0001), 1.0),
        (lambda x: np.sqrt(x), 0.0),
        (lambda x: np.floor(3e5 * x), 0.71234567),
        (lambda x: 1e9 + x, 1.0),
    ],
)
def test_the_reference_does_not_trust_itself_everywhere(f, x):
    found, error = reference.jacobian(f, (x,), (0,))
    assert not reference.certain(found, error)


def test_a_wrong_derivative_is_found():
    def f(x):
        return ndual.stop_gradient(x) * x

    assert proof.prove(proof.Entry("f", [proof.Case(f, [(2.0,)])])).startswith(manifest.WRONG)


def test_a_refusal_is_named():
    store = np.zeros(1)

    def f(x):
        store[0] = x
        return store[0]

    result = proof.prove(proof.Entry("f", [proof.Case(f, [(2.0,)])]))
    assert result == "refused: DerivativeLostError"
