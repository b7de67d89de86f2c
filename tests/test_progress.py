"""Progress: what is shown of long work, and for how long it is said to go on."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernmend import KernelRecovery, RecoverySearch
from kernmend.cli.applying import _apply
from kernmend.datasets import make_cubic_surface
from kernmend.estimators import _progress
from kernmend.estimators._progress import counting_bar, seconds_left
from kernmend.repair.row_mender import BLOCK, RowMender


@pytest.fixture(scope="module")
def fitted():
    X = make_cubic_surface(150, 4, random_state=0)
    X[[3, 70]] += 2.0 * np.random.default_rng(0).standard_normal((2, 4))
    return KernelRecovery(random_state=0).fit(X)


@pytest.fixture(scope="module")
def many():
    X = np.tile(make_cubic_surface(150, 4, random_state=1), (12, 1))
    X[5, 2], X[1700] = np.nan, 3.0
    return X


@pytest.fixture
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")


@given(st.floats(0.01, 1e4), st.integers(1, 1000), st.integers(0, 1000))
def test_the_time_left_is_that_of_steps_as_long_as_those_before(elapsed, done, more):
    left = seconds_left(elapsed, done, done + more)
    assert left == pytest.approx(elapsed / done * more)
    # However many steps were told at once, the whole is the time up to now and the time left.
    assert elapsed + left == pytest.approx(elapsed * (done + more) / done)


def test_no_time_is_told_before_the_first_step(monkeypatch):
    class Task:
        elapsed, total, completed, finished = 100.0, 40, 0, False

    assert _progress._clock(Task) == "-:--:--"
    Task.completed = 10
    assert _progress._clock(Task) == "0:05:00"
    Task.completed, Task.finished = 40, True
    assert _progress._clock(Task) == "0:01:40"  # what it took
    Task.total, Task.completed, Task.finished = None, 0, False
    assert _progress._clock(Task) == "0:01:40"


@pytest.mark.parametrize("label", ["", "left"])
def test_a_bar_fits_a_terminal_of_80_columns(wide_terminal, capsys, label):
    with counting_bar("trying intervals", 100_000, label) as update:
        update(99_999, 1.23456789e-15)
    plain = re.sub(r"\x1b\[[0-9;?]*m", "", capsys.readouterr().err)
    lines = re.split(r"\r|\n|\x1b\[[0-9;?]*[A-Za-z]", plain)
    assert any("left = 1.23457e-15" in line for line in lines) == bool(label)
    assert any("99999/99999" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_what_was_stopped_before_its_first_step_has_its_length(wide_terminal, capsys):
    with counting_bar("calibrating", 40):
        pass
    assert "0/40" in capsys.readouterr().err.split("\n")[0]


def test_a_bar_of_unknown_length_is_gone_when_it_ends(wide_terminal, capsys):
    with counting_bar("finding", 0):
        pass
    assert capsys.readouterr().err.endswith("\x1b[2K")  # the line is erased


@pytest.mark.parametrize("call", ["transform", "predict", "changes_of"])
def test_many_new_rows_are_counted(fitted, many, capsys, monkeypatch, call):
    monkeypatch.setattr(fitted, "verbose", 1)
    getattr(fitted, call)(many[:BLOCK])
    assert capsys.readouterr().err == ""  # a single block is soon done
    getattr(fitted, call)(many)
    assert f"{len(many)}/{len(many)}" in capsys.readouterr().err


def test_rows_that_are_only_judged_are_counted(many, capsys):
    filled = np.where(np.isnan(many), 0.0, many)
    found = KernelRecovery(landmarks=100, verbose=1)._find_only(filled)
    assert f"{len(many)}/{len(many)} flagged = " in capsys.readouterr().err
    quiet = KernelRecovery(landmarks=100)._find_only(filled)
    assert capsys.readouterr().err == ""
    for one, other in zip(found, quiet, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_search_counts_new_rows_too(many, capsys):
    X = make_cubic_surface(60, 4, random_state=0)
    search = RecoverySearch(n_iter=2, n_splits=1).fit(X)
    search.verbose = 1
    assert np.array_equal(search.transform(many), search.best_estimator_.transform(many), equal_nan=True)
    assert f"{len(many)}/{len(many)}" in capsys.readouterr().err


@pytest.mark.parametrize("cells", [False, True])
def test_a_model_is_applied_in_one_pass(fitted, many, monkeypatch, cells):
    expected = fitted.transform(many), fitted.predict(many) == -1, -fitted.score_samples(many)
    records = fitted.changes_of(many).records
    passes = []
    mend = RowMender.mend

    def counting(self, X, *known, **options):
        passes.append(len(X))
        return mend(self, X, *known, **options)

    monkeypatch.setattr(RowMender, "mend", counting)
    monkeypatch.setattr(RowMender, "judge", None)
    *found, told = _apply(fitted, many, [0, 1, 2, 3], follow=False, cells=cells)
    assert sum(passes) == len(many)
    for one, other in zip(expected, found, strict=True):
        assert np.array_equal(one, other)
    if not cells:
        assert told is None
        return
    for name in records.dtype.names:
        np.testing.assert_array_equal(told[name], records[name])
