"""The page on SciPy: every snippet runs, in order, and prints what it says."""

import doctest
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scipy.md"
SNIPPETS = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
NAMES: dict = {}


def test_the_snippets_are_found():
    assert len(SNIPPETS) == PAGE.read_text().count("```pycon")


@pytest.mark.parametrize("k", range(len(SNIPPETS)))
def test_snippet(k, capsys):
    test = doctest.DocTestParser().get_doctest(SNIPPETS[k], NAMES, f"snippet {k}", str(PAGE), 0)
    names = test.globs
    outcome = doctest.DocTestRunner().run(test, clear_globs=False)
    NAMES.update(names)
    assert outcome.attempted and not outcome.failed, capsys.readouterr().out
