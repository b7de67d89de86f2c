"""What settings leave of injected errors: a race gives the best settings their cost, and spends less on others."""

from dataclasses import replace

import numpy as np
import pytest

from kernmend.datasets import make_cubic_surface
from kernmend.datasets.corruption import gaussian_noise
from kernmend.linalg.distances import median_squared_distance
from kernmend.model.errors import EntryError, RowError
from kernmend.model.kernels import RBF
from kernmend.repair.calibrate import CUTOFFS, Evidence
from kernmend.repair.cost import DOUBT, FIRST, RIVAL
from kernmend.repair.mender import Settings


@pytest.fixture(autouse=True)
def always_worth_it(monkeypatch):
    """Small data are raced too, as large ones are."""
    monkeypatch.setattr("kernmend.repair.cost.WORTH", 0)


def injection(seed, n=260, d=20):
    """Return an injection of noise into rows of a curved surface, and the kernels to try."""
    X, bad = gaussian_noise(make_cubic_surface(n, d, random_state=seed), 0.1, random_state=seed)
    median = median_squared_distance(X[~bad])
    return Evidence(X[~bad], X[bad]).hold_out(0), [RBF(width / median) for width in (0.03, 0.1, 0.3)]


def settings_of(kernels):
    forces = [(error, force) for error in (RowError, EntryError) for force in error.forces[1::3]]
    return [Settings(kernel, 1e-4, error, force) for kernel in kernels for error, force in forces]


@pytest.mark.parametrize("seed", range(3))
def test_a_race_finds_the_best_settings_and_the_same_rivals(seed):
    trials, kernels = injection(seed)
    start, tried = Settings(kernels[1], 1e-4, RowError, 0.1), settings_of(kernels)
    whole, race = (trials.cost(start, whole=False, racing=racing) for racing in (False, True))
    exact, raced = (np.array([cost(each) for each in tried]) for cost in (whole, race))
    best = int(exact.argmin())
    assert raced.argmin() == best
    is_exact = np.isclose(raced, exact, rtol=1e-3)  # fewer rows at once are rounded in another way
    assert is_exact[best]
    assert is_exact.mean() < 0.8  # else it saves nothing
    lowest = np.minimum.accumulate(raced)
    assert (raced[~is_exact] > lowest[~is_exact]).all()  # an estimate never wins
    assert (raced[~is_exact] > DOUBT * exact[best]).all()
    assert race.rivals(tried[best]) == whole.rivals(tried[best])


def test_settings_that_are_left_early_have_cost_a_part_of_the_rows():
    trials, kernels = injection(0)
    cost = trials.cost(Settings(kernels[1], 1e-4, RowError, 0.1), whole=False, racing=True)
    rows, mend = [], cost.mender.mend
    cost.mender.mend = lambda X, *args, **options: rows.append(len(X)) or mend(X, *args, **options)
    good, bad = Settings(kernels[1], 1e-4, RowError, 0.35), Settings(kernels[1], 1e-4, RowError, 0.9)
    assert cost(good) * DOUBT < cost(bad)
    first = int(FIRST * len(trials.held))
    assert rows == [first, len(trials.held) - first, first]


def test_another_error_model_is_left_only_if_it_is_no_rival():
    trials, kernels = injection(1)
    cost = trials.cost(Settings(kernels[1], 1e-4, RowError, 0.1), whole=False, racing=True)
    rows = cost(Settings(kernels[1], 1e-4, RowError, 0.35))
    exact = trials.cost(Settings(kernels[1], 1e-4, RowError, 0.1), whole=False)
    for force in EntryError.forces:
        settings = Settings(kernels[1], 1e-4, EntryError, force)
        if exact(settings) < RIVAL * rows:
            assert cost(settings) == pytest.approx(exact(settings), rel=1e-3)


def test_cut_offs_that_keep_the_same_eigenvectors_are_tried_once():
    trials, kernels = injection(2, n=60)
    cost = trials.cost(Settings(kernels[1], 1e-4, RowError, 0.1), whole=False)
    tried, mend = [], cost.mender.mend
    cost.mender.mend = lambda X, settings, **options: tried.append(settings) or mend(X, settings, **options)
    narrow = RBF(30.0 * kernels[2].gamma)
    same = [Settings(narrow, cutoff, RowError, 0.35) for cutoff in CUTOFFS]
    costs = [cost(each) for each in same]
    ranks = [cost.mender.rank(each) for each in same]
    assert ranks == [cost.mender.reference(each).rank for each in same]
    assert len(tried) == len(set(ranks)) < len(same)
    for one, two in ((0, 1), (3, 4)):
        assert (costs[one] == costs[two]) == (ranks[one] == ranks[two])


def test_few_rows_are_tried_all_at_once():
    trials, kernels = injection(0, n=60)
    start = Settings(kernels[1], 1e-4, RowError, 0.1)
    whole, race = (trials.cost(start, whole=False, racing=racing) for racing in (False, True))
    assert [whole(each) for each in settings_of(kernels)] == [race(each) for each in settings_of(kernels)]


class HalfWrong:
    """A judge to whom every row looks half as wrong as a wrong one, and who counts the rows."""

    threshold, judged = 1.0, 0

    def row_scores(self, X):
        self.judged += len(X)
        return np.full(len(X), 0.5)

    def rows_against(self, L):
        return self


def test_settings_that_are_prepared_cost_the_same_and_are_judged_at_once(monkeypatch):
    monkeypatch.setattr("kernmend.repair.cost.WORTH", 10**9)
    trials, kernels = injection(0, n=60)
    start, tried = Settings(kernels[1], 1e-4, RowError, 0.1), settings_of(kernels)
    calls = []

    class Far(HalfWrong):
        """A judge to whom rows look wrong that are far from the origin."""

        def row_scores(self, X):
            calls.append(len(X))
            return np.minimum(np.linalg.norm(X, axis=1) / 10.0, 1.0)

    plain, prepared = (replace(trials, judge=Far()).cost(start, whole=False, racing=True) for _ in range(2))
    expected = [plain(each) for each in tried]
    one_by_one, calls[:] = len(calls), []
    prepared.prepare(tried)
    prepared.prepare(tried)  # what is ready is not tried again
    assert prepared.known == {}
    np.testing.assert_allclose([prepared(each) for each in tried], expected, rtol=1e-12)
    assert len(calls) == 2 < one_by_one  # the good rows themselves, and all others
    prepared.prepare(tried)
    assert len(calls) == 2


def test_rows_are_judged_only_where_their_errors_do_not_tell():
    trials, kernels = injection(0, n=60)
    judges = HalfWrong(), HalfWrong()
    start, tried = Settings(kernels[1], 1e-4, RowError, 0.1), settings_of(kernels)
    whole, race = (
        replace(trials, judge=judge).cost(start, whole=False, racing=racing)
        for judge, racing in zip(judges, (False, True), strict=True)
    )
    for cost in (whole, race):  # good rows look right
        cost._natural = np.zeros(len(trials.held))
    exact, raced = (np.array([cost(each) for each in tried]) for cost in (whole, race))
    assert judges[1].judged < judges[0].judged
    is_exact = raced == exact
    assert is_exact[exact.argmin()]
    assert (raced <= exact).all()
    lowest = np.minimum.accumulate(exact)
    assert (raced[~is_exact] >= lowest[~is_exact]).all()  # what was not judged does not win
    best = tried[int(exact.argmin())]
    assert race.rivals(best) == whole.rivals(best)


def test_small_data_are_tried_all_at_once(monkeypatch):
    monkeypatch.setattr("kernmend.repair.cost.WORTH", 10**9)
    trials, kernels = injection(0)
    start = Settings(kernels[1], 1e-4, RowError, 0.1)
    whole, race = (trials.cost(start, whole=False, racing=racing) for racing in (False, True))
    assert [whole(each) for each in settings_of(kernels)[:6]] == [race(each) for each in settings_of(kernels)[:6]]
