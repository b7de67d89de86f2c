"""Parameters by re-corruption: given numbers are used, one choice is no search, the chosen ones mend better."""

import numpy as np
import pytest

from kernmend import KernelRecovery
from kernmend.datasets import make_cubic_surface
from kernmend.datasets.corruption import gaussian_noise
from kernmend.datasets.metrics import snr
from kernmend.linalg.distances import median_squared_distance, squared_distances
from kernmend.model.errors import ERROR_MODELS, EntryError, RowError
from kernmend.model.kernels import RBF, Linear, Polynomial
from kernmend.repair.calibrate import CUTOFFS, FIRST_ROWS, Evidence, Injection, Mendings, calibrate
from kernmend.repair.mender import Mender, Settings

WIDTHS = (0.01, 0.03, 0.1, 0.3, 1.0)


def surface(seed, n=150, d=20):
    """Good rows, wrong rows, and what those should be."""
    truth = make_cubic_surface(n, d, random_state=seed)
    X, bad = gaussian_noise(truth, 0.1, random_state=seed)
    return X[~bad], X[bad], truth[bad]


def kernels(good):
    median = median_squared_distance(good)
    return [RBF(width / median) for width in WIDTHS]


def distance_in_typical_ones(good):
    """A score: the distance to the nearest good row, in units of a typical one."""
    scale = np.sqrt(median_squared_distance(good))
    return lambda A: np.sqrt(((A[:, np.newaxis] - good) ** 2).sum(axis=2)).min(axis=1) / scale


class Judge:
    """Scores with the threshold 1, made from good rows by a function."""

    threshold = 1.0

    def __init__(self, scores_against):
        self.scores_against = scores_against

    def rows_against(self, L):
        judge = Judge(self.scores_against)
        judge.row_scores = self.scores_against(L)
        return judge


# --- the mender -------------------------------------------------------------------------------------------------------


def test_given_numbers_are_used():
    good, wrong, _ = surface(0)
    settings = Settings(RBF(0.05), 1e-4, RowError, 0.5)
    mender = Mender(good, fixed_lam=0.123, fixed_cutoff=0.0456)
    assert mender.lam(settings) == 0.123
    assert mender.cutoff(settings) == 0.0456
    s = np.linalg.eigvalsh(RBF(0.05).gram(good))
    assert mender.reference(settings).rank == np.sum(s > 0.0456)
    held = Mender(good, fixed_lam=1e4).mend(wrong, settings)
    np.testing.assert_allclose(held, wrong, atol=1e-2)


def test_a_smaller_cutoff_of_the_same_kernel_is_not_cut_by_the_first(monkeypatch):
    """Of many rows only the eigenpairs above a cut-off are kept: one that is smaller needs more of them."""
    monkeypatch.setattr("kernmend.linalg.eigen._DENSE_BELOW", 300)
    good = make_cubic_surface(400, 5, random_state=0)
    settings = [Settings(RBF(0.05), cutoff, RowError, 0.5) for cutoff in (1e-3, 1e-5, 1e-4)]
    mender, s = Mender(good), np.linalg.eigvalsh(RBF(0.05).gram(good))
    for each in settings:
        expected = np.sum(s > each.cutoff * len(good))
        assert mender.rank(each) == mender.reference(each).rank == expected
    assert mender._spectra[RBF(0.05)][0].size < len(good)


def test_settings_that_take_turns_have_a_reference_each(monkeypatch):
    """Each block of rows is mended by two settings; what they span was made anew for each block."""
    good, wrong, _ = surface(0)
    turns = [Settings(RBF(gamma), 1e-4, RowError, 0.5) for gamma in (0.05, 0.1)]
    mender = Mender(good)
    made = [[mender.reference(settings) for settings in turns] for _ in range(4)]
    assert made[3][0] is made[2][0] is made[1][0]
    assert made[3][1] is made[2][1]
    np.testing.assert_array_equal(mender.mend(wrong, turns[0]), Mender(good).mend(wrong, turns[0]))
    monkeypatch.setattr("kernmend.repair.mender.BOTH", 1)  # of many rows one is kept, for they are large
    mender = Mender(good)
    made = [[mender.reference(settings) for settings in turns] for _ in range(3)]
    assert made[2][0] is not made[1][0]
    assert mender.reference(turns[1]) is made[2][1]


def test_the_cutoff_is_a_share_of_the_trace():
    good, _, _ = surface(0)
    settings = Settings(RBF(0.05), 1e-3, RowError, 0.5)
    assert Mender(good).cutoff(settings) == pytest.approx(1e-3 * len(good))  # k(a, a) = 1


@pytest.mark.parametrize("kernel", [RBF(0.05), Linear(), Polynomial(2, 1.0)], ids=str)
@pytest.mark.parametrize("error", ["rows", "entries", "kernel"])
def test_a_force_of_one_holds_every_row(error, kernel):
    """No pull of the span exceeds the length of a step in the kernel space: at lam = 1 rows may not gain by moving."""
    good, _, _ = surface(1)
    settings = Settings(kernel, 1e-3, ERROR_MODELS[error], 1.0)
    mender = Mender(good)
    assert mender.lam(settings) > 0
    assert Mender(10.0 * good).lam(settings) > 0
    step = np.median(np.linalg.norm(mender.mend(good[:20], settings) - good[:20], axis=1))
    assert step < 0.15 * mender.scale


def test_the_force_is_per_length_so_that_units_do_not_matter():
    good, wrong, _ = surface(1)
    plain = Mender(good).mend(wrong, Settings(RBF(0.05), 1e-4, RowError, 0.1))
    scaled = Mender(100.0 * good).mend(100.0 * wrong, Settings(RBF(0.05 / 1e4), 1e-4, RowError, 0.1))
    np.testing.assert_allclose(scaled / 100.0, plain, atol=1e-3)


@pytest.mark.parametrize("error", ["rows", "entries", "kernel"])
def test_mended_rows_stay_in_bounds(error):
    good, wrong, _ = surface(2)
    low, high = np.percentile(good, [10, 90], axis=0)
    settings = Settings(RBF(0.05), 1e-4, ERROR_MODELS[error], 0.1)
    free, held = (Mender(good, bounds).mend(wrong, settings) for bounds in (None, (low, high)))
    assert np.any((free < low) | (free > high))  # else bounds would have nothing to do
    assert np.all((held >= low) & (held <= high))


# --- the search -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["rows", "entries", "kernel"])
def test_one_choice_is_no_search(error):
    good, wrong, _ = surface(0)
    settings, share, _ = calibrate(
        Evidence(Mender(good, None, 0.01, 1e-3), wrong), kernels=[RBF(0.05)], errors=[ERROR_MODELS[error]]
    )
    assert (settings.kernel, settings.error.name) == (RBF(0.05), error)
    assert np.isfinite(share)
    mender = Mender(good, None, 0.01, 1e-3)
    assert (mender.lam(settings), mender.cutoff(settings)) == (0.01, 1e-3)


def test_what_is_given_is_kept_and_the_rest_comes_from_the_grid():
    good, wrong, _ = surface(0)
    choices = kernels(good)
    settings, share, _ = calibrate(Evidence(Mender(good), wrong), kernels=choices)
    assert settings.kernel in choices
    assert settings.cutoff in CUTOFFS
    assert settings.force in settings.error.forces
    assert 0 < share < 0.5
    only = calibrate(Evidence(Mender(good), wrong), kernels=choices[:2], errors=[EntryError])[0]
    assert only.error is EntryError


@pytest.mark.parametrize("seed", range(3))
def test_the_chosen_settings_mend_better_than_the_first_ones(seed):
    good, wrong, truth = surface(seed)
    choices = kernels(good)
    settings, share, _ = calibrate(Evidence(Mender(good), wrong), kernels=choices)
    mender = Mender(good)
    rough = Settings(choices[2], *FIRST_ROWS)
    before, first, chosen = (snr(truth, A) for A in (wrong, mender.mend(wrong, rough), mender.mend(wrong, settings)))
    assert chosen > before + 5.0
    assert chosen > first - 0.3
    # the share of planted corruption that stays is what really stays, within a factor
    left = np.sum((mender.mend(wrong, settings) - truth) ** 2) / np.sum((wrong - truth) ** 2)
    assert left / 3.0 < share < 3.0 * left


def test_the_same_seed_gives_the_same_settings():
    good, wrong, _ = surface(3)
    first, second = (calibrate(Evidence(Mender(good), wrong), kernels=kernels(good)[1:4], seed=7) for _ in range(2))
    assert first == second


def test_the_data_is_left_alone():
    good, wrong, _ = surface(3)
    copies = good.copy(), wrong.copy()
    calibrate(Evidence(Mender(good), wrong), kernels=kernels(good)[:2])
    np.testing.assert_array_equal(good, copies[0])
    np.testing.assert_array_equal(wrong, copies[1])


def test_scores_of_mended_rows_are_made_from_the_reference_and_add_to_the_cost():
    good, wrong, _ = surface(4)
    settings, seen = Settings(RBF(0.05), 1e-4, RowError, 0.1), []

    def costs(scores):
        evidence = Evidence(Mender(good), wrong, judge=scores and Judge(scores))
        return evidence.hold_out(0).cost(settings, whole=False)

    def half_of_what_is_not_good(L):
        seen.append(len(L))
        return lambda A: np.where((A[:, np.newaxis] == good).all(axis=2).any(axis=1), 0.0, 0.5)

    without, judged = costs(None), costs(half_of_what_is_not_good)
    assert seen == [len(good) - 27]  # the held-out fifth is not in the reference
    assert judged(settings) == pytest.approx(without(settings) + 0.5)
    assert judged.share(settings) == without.share(settings)
    natural = costs(lambda L: lambda A: np.ones(len(A)))  # what good rows have too does not count
    assert natural(settings) == without(settings)


def test_with_scores_of_distance_the_settings_bring_rows_nearer_to_good_ones():
    """On the first six surfaces together; on none are they farther."""

    def far(L):
        return lambda A: 5.0 * distance_in_typical_ones(L)(A)

    def distance(good, wrong, judge):
        evidence = Evidence(Mender(good), wrong, judge=judge)
        settings = calibrate(evidence, kernels=kernels(good), errors=[RowError]).settings
        return distance_in_typical_ones(good)(Mender(good).mend(wrong, settings)).mean()

    surfaces = [surface(seed)[:2] for seed in range(6)]
    ratios = [distance(*rows, Judge(far)) / distance(*rows, None) for rows in surfaces]
    assert np.mean(ratios) < 0.95
    assert max(ratios) <= 1.0


@pytest.mark.parametrize("n", [5, 6])
@pytest.mark.parametrize("d", [2, 20])
@pytest.mark.parametrize("wrong", [1, 30])
def test_few_good_rows(n, d, wrong):
    rng = np.random.default_rng(n)
    good, flagged = rng.standard_normal((n, d)), 5.0 * rng.standard_normal((wrong, d))
    settings, share, _ = calibrate(Evidence(Mender(good), flagged), kernels=kernels(good))
    assert share > 0
    before, after = (squared_distances(A, good).min(axis=1) for A in (flagged, Mender(good).mend(flagged, settings)))
    assert (after <= before + 1e-9).all()
    assert after.mean() < 0.9 * before.mean()


def test_flagged_rows_that_are_no_different():
    """Nothing to inject: no division by zero, some settings all the same."""
    good = np.random.default_rng(0).standard_normal((30, 3))
    settings, share, _ = calibrate(Evidence(Mender(good), good[:3]), kernels=kernels(good))
    assert 0 < share <= 1
    assert settings.kernel in kernels(good)


def test_equal_good_rows():
    good = np.ones((20, 3))
    settings, share, _ = calibrate(Evidence(Mender(good), np.zeros((2, 3))), kernels=[RBF(1.0)])
    assert share < 1e-6
    np.testing.assert_allclose(Mender(good).mend(np.zeros((2, 3)), settings), 1.0, atol=1e-3)


def test_ctrl_c_keeps_the_best_settings_so_far():
    good, wrong, _ = surface(0)
    seen = []

    def callback(tried, left):
        seen.append((tried, left))
        if tried == 5:
            raise KeyboardInterrupt

    settings, share, interrupted = calibrate(Evidence(Mender(good), wrong), kernels=kernels(good), callback=callback)
    assert interrupted
    assert 1 <= len(seen) <= 30
    assert share == pytest.approx(min(left for _, left in seen))
    assert settings.kernel in kernels(good)


@pytest.mark.parametrize("name", ["hold_out", "first_settings", "cost", "prepare"])
def test_ctrl_c_before_any_settings_were_tried_takes_those_in_the_middle(name, monkeypatch):
    good, wrong, _ = surface(0)

    def stop(*args, **options):
        raise KeyboardInterrupt

    owner = {"hold_out": Evidence, "prepare": Mendings}.get(name, Injection)
    monkeypatch.setattr(owner, name, stop)
    settings, share, interrupted = calibrate(Evidence(Mender(good), wrong), kernels=kernels(good))
    assert interrupted
    assert share == 1.0
    assert settings.kernel == kernels(good)[len(kernels(good)) // 2]


def test_ctrl_c_while_choosing_how_to_fill_in_wrong_entries_keeps_the_fit(monkeypatch):
    good, _, _ = surface(0)
    X = good.copy()
    X[:6, 3] += 10.0 * X.std()
    assert KernelRecovery().fit(X).stop_reason_ == "converged"

    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("kernmend.repair.learn.choose_filling", stop)
    with pytest.warns(UserWarning, match="interrupted: what was being chosen is the best so far"):
        est = KernelRecovery().fit(X)
    assert est.stop_reason_ == "interrupted"
    assert est.outliers_[:6].all()
    assert np.abs(est.recovered_ - good)[:6, 3].max() < np.abs(X - good)[:6, 3].min()
