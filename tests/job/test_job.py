"""The job as a user starts it: models have the right derivatives, the table lines up, the picture is where it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import rosen_der

import ndual
from ndual.job import kalman, report, rosenbrock, run, solve


@pytest.fixture
def small_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The job at sizes that take a second, in a folder of its own."""
    monkeypatch.setattr(solve, "REPEATS", 0)
    monkeypatch.setattr(solve, "ROSENBROCK_SIZES", (4, 6))
    monkeypatch.setattr(solve, "KALMAN_SIZES", (2, 3))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("n", [2, 3, 8])
def test_kalman_gradient_is_that_of_the_complex_step(n: int) -> None:
    model, p = kalman.example(n)
    np.testing.assert_allclose(ndual.grad(model)(p), kalman.complex_step(model, p), rtol=1e-9, atol=1e-11)


def test_rosenbrock_gradient_is_that_of_scipy() -> None:
    x = rosenbrock.start(30)
    np.testing.assert_allclose(ndual.grad(rosenbrock.rosenbrock)(x), rosen_der(x), rtol=1e-13)


def test_job_prints_a_table_and_saves_the_picture(small_job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert run.main() == 0
    printed = capsys.readouterr().out
    assert "Thurber, start 2" in printed
    picture = small_job / "out" / "ndual.png"
    assert str(picture) in printed
    assert picture.stat().st_size > 10_000


def test_the_picture_goes_where_it_is_wanted(small_job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert run.main(["--picture", "there/it.svg"]) == 0
    assert (small_job / "there" / "it.svg").stat().st_size > 10_000
    assert not (small_job / "out").exists()


@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), (["--picture", "out/"], 2), (["--other"], 2)])
def test_what_runs_nothing(
    arguments: list[str], status: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run.solve, "fits", None)
    with pytest.raises(SystemExit) as end:
        run.main(arguments)
    assert end.value.code == status
    printed = capsys.readouterr()
    assert "--picture" in printed.out + printed.err


def test_job_says_why_there_is_no_picture(
    small_job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run.importlib.util, "find_spec", lambda name: None)
    assert run.main() == 0
    assert "matplotlib is not installed" in capsys.readouterr().out
    assert not (small_job / "out").exists()


def test_table_columns_line_up() -> None:
    outcome = solve.Outcome(np.ones(1), 9.5, 12, 0.0025)
    comparisons = [solve.Comparison(name, 1, outcome, outcome) for name in ("short", "a longer name")]
    *_, first, second = report.table(comparisons).splitlines()
    assert first.removeprefix("short").strip() == second.removeprefix("a longer name").strip()
    assert len(first) == len(second)
