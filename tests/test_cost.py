"""What settings leave of injected errors: each is tried once, and rows are judged only where that may decide."""

from dataclasses import replace

import numpy as np
import pytest

from kernmend.datasets import make_cubic_surface
from kernmend.datasets.corruption import gaussian_noise
from kernmend.linalg.distances import median_squared_distance
from kernmend.model.errors import EntryError, RowError
from kernmend.model.kernels import RBF
from kernmend.repair.calibrate import (
    CUTOFFS,
    ENOUGH_ENTRIES,
    FEWEST_INJECTED,
    MAX_INJECTED,
    REFITS,
    Evidence,
    calibrate,
)
from kernmend.repair.mender import Mender, Settings


def injection(seed, n=260, d=20):
    """Return an injection of noise into rows of a curved surface, and the kernels to try."""
    X, bad = gaussian_noise(make_cubic_surface(n, d, random_state=seed), 0.1, random_state=seed)
    median = median_squared_distance(X[~bad])
    return Evidence(Mender(X[~bad]), X[bad]).hold_out(0), [RBF(width / median) for width in (0.03, 0.1, 0.3)]


def settings_of(kernels):
    forces = [(error, force) for error in (RowError, EntryError) for force in error.forces[1::3]]
    return [Settings(kernel, 1e-4, error, force) for kernel in kernels for error, force in forces]


def test_cut_offs_that_keep_the_same_eigenvectors_are_tried_once():
    trials, kernels = injection(2, n=60)
    cost = trials.cost(Settings(kernels[1], 1e-4, RowError, 0.1), whole=False)
    tried, mend = [], cost.injected.mender.mend
    cost.injected.mender.mend = lambda X, settings, **options: tried.append(settings) or mend(X, settings, **options)
    narrow = RBF(30.0 * kernels[2].gamma)
    same = [Settings(narrow, cutoff, RowError, 0.35) for cutoff in CUTOFFS]
    costs = [cost(each) for each in same]
    ranks = [cost.injected.mender.rank(each) for each in same]
    assert ranks == [cost.injected.mender.reference(each).rank for each in same]
    assert len(tried) == len(set(ranks)) < len(same)
    for one, two in ((0, 1), (3, 4)):
        assert (costs[one] == costs[two]) == (ranks[one] == ranks[two])


class HalfWrong:
    """A judge to whom every row looks half as wrong as a wrong one, and who counts the rows."""

    threshold, judged = 1.0, 0

    def row_scores(self, X):
        self.judged += len(X)
        return np.full(len(X), 0.5)

    def rows_against(self, L):
        return self


def test_rows_are_judged_only_where_their_errors_do_not_tell():
    trials, kernels = injection(0, n=60)
    judges = HalfWrong(), HalfWrong()
    start, tried = Settings(kernels[1], 1e-4, RowError, 0.1), settings_of(kernels)
    whole, race = (
        replace(trials, judge=judge).cost(start, whole=False, racing=racing)
        for judge, racing in zip(judges, (False, True), strict=True)
    )
    for cost in (whole, race):  # good rows look right
        cost._natural = 0.0
    exact, raced = (np.array([cost(each) for each in tried]) for cost in (whole, race))
    assert judges[1].judged < judges[0].judged
    is_exact = raced == exact
    assert is_exact[exact.argmin()]
    assert (raced <= exact).all()
    lowest = np.minimum.accumulate(exact)
    assert (raced[~is_exact] >= lowest[~is_exact]).all()  # what was not judged does not win
    best = tried[int(exact.argmin())]
    assert race.rivals(best) == whole.rivals(best)


def test_settings_that_differ_in_the_refit_share_what_goes_before_it():
    trials, kernels = injection(0, n=60)
    start = Settings(kernels[1], 1e-4, EntryError, 0.5)
    cost, fresh = (trials.cost(start, whole=False) for _ in range(2))
    mended, mend = [], cost.injected.mender.mend
    cost.injected.mender.mend = lambda X, settings, **options: mended.append(settings) or mend(X, settings, **options)
    several = [replace(start, refit=refit, grow=grow) for refit, grow in REFITS]
    costs = [cost(each) for each in several]
    assert mended == [start]
    del cost.injected.mender.mend
    for each, value in zip(several[::3], costs[::3], strict=True):
        A = fresh.injected.mender.mend(fresh.injected.X, each, max_iter=25, tol=1e-4)
        assert value == pytest.approx(np.sum((A - fresh.truth) ** 2) / fresh._error, rel=1e-9)


@pytest.mark.parametrize("d", [5, 200])
@pytest.mark.parametrize("error", [RowError, EntryError])
def test_several_forces_at_once_are_those_one_by_one(error, d):
    """Rows in coordinates of the good ones (200 columns) and in their own."""
    X, bad = gaussian_noise(make_cubic_surface(60, d, random_state=0), 0.1, random_state=1)
    mender = Mender(X[~bad])
    several = [Settings(RBF(0.1 / mender.median), 1e-4, error, force) for force in (0.1, 0.5, 0.9)]
    start = mender.start(X[bad], error)
    found = mender.mend_by_forces(X[bad], several, start, max_iter=5)
    for settings, A in zip(several, found, strict=True):
        expected = mender.mend(X[bad], settings, start=start, max_iter=5)
        np.testing.assert_allclose(A, expected, rtol=1e-6, atol=1e-6 * np.abs(X).max())
    assert np.abs(found[0] - found[2]).max() > 1e-3


@pytest.mark.parametrize("d", [3, 60, 300])
def test_fewer_rows_are_held_out_where_they_are_wide(d, monkeypatch):
    """So many that they have enough entries together."""
    seen, hold_out = [], Evidence.hold_out
    monkeypatch.setattr(Evidence, "hold_out", lambda *args: seen.append(hold_out(*args)) or seen[-1])
    monkeypatch.setattr("kernmend.repair.calibrate.PASSES", 0)
    X, bad = gaussian_noise(make_cubic_surface(280, d, random_state=0), 0.1, random_state=0)
    calibrate(Evidence(Mender(X[~bad]), X[bad]), kernels=[RBF(0.1 / median_squared_distance(X))], errors=[RowError])
    n = len(seen[0].held)
    assert FEWEST_INJECTED <= n <= MAX_INJECTED
    assert n in (FEWEST_INJECTED, MAX_INJECTED) or n == ENOUGH_ENTRIES // d
    assert n * d >= ENOUGH_ENTRIES - d or n == MAX_INJECTED


def test_the_same_part_is_mended_by_the_same_mender():
    """So that a kernel is decomposed once, also where wrong entries and wrong rows are both tried."""
    X, bad = gaussian_noise(make_cubic_surface(80, 5, random_state=0), 0.1, random_state=1)
    good = Mender(X[~bad], (X.min(axis=0), X.max(axis=0)), 0.1, 1e-3)
    evidence = Evidence(good, X[bad])
    held, mender, _ = evidence.part(7)
    injection, again = evidence.hold_out(7), evidence.part(7)
    assert injection.mender is mender is again[1]
    np.testing.assert_array_equal(held, again[0])
    np.testing.assert_array_equal(held, injection.held)
    assert (mender.fixed_lam, mender.fixed_cutoff, mender.bounds) == (0.1, 1e-3, good.bounds)
    fresh = Evidence(good, X[bad])
    assert fresh.part(7)[1] is not mender
    assert (fresh.hold_out(7).donors == injection.donors).all()  # what is known does not change what is drawn
    other = evidence.part(8)[1]
    assert other is not mender
    assert not np.array_equal(other.L, mender.L)
    rows = {row.tobytes() for row in X[~bad]}
    assert {row.tobytes() for row in held} | {row.tobytes() for row in mender.L} == rows  # every good row, once
    assert len(held) + len(mender.L) == len(rows)


@pytest.mark.parametrize("refit", [0.0, 0.6])
def test_flagged_rows_are_mended_once_by_the_same_settings(refit, monkeypatch):
    X, bad = gaussian_noise(make_cubic_surface(80, 20, random_state=0), 0.1, random_state=1)
    injection = Evidence(Mender(X[~bad]), X[bad]).hold_out(0)
    settings = Settings(RBF(0.1 / injection.mender.median), 1e-4, EntryError, 0.5, refit)
    expected = injection.mender.mend(injection.donors, settings, max_iter=25, tol=1e-4)
    mended, mend = [], Mender.mend
    monkeypatch.setattr(Mender, "mend", lambda self, *args, **kw: mended.append(args[1]) or mend(self, *args, **kw))
    for _ in range(2):
        np.testing.assert_array_equal(injection.mended.by(settings), expected)
    assert mended == [Settings(settings.kernel, 1e-4, EntryError, 0.5)]
