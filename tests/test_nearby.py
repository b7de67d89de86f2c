"""Groups of rows with a spread of their own: they are left alone, and wrong rows in them are found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernmend
from kernmend import KernelRecovery
from kernmend.nearby import NEARBY, closest, nearest_rows, usual
from kernmend.scoring import SUBSET, Bar, choose_scorer

seeds = st.integers(0, 2**32 - 1)


def groups(seed, d=30, sizes=(120, 90, 150, 70, 100)):
    """Clouds with centres and covariances of their own, five times wider or narrower; a tenth of the rows wrong."""
    rng = np.random.default_rng(seed)
    parts = []
    for n in sizes:
        shape = rng.normal(size=(d, d)) * 10 ** rng.uniform(-0.35, 0.35) / np.sqrt(d)
        parts.append(rng.normal(size=(n, d)) @ shape + 5.0 * rng.normal(size=d))
    truth = np.vstack(parts)
    wrong = np.zeros(len(truth), dtype=bool)
    wrong[rng.permutation(len(truth))[: len(truth) // 10]] = True
    X = truth.copy()
    X[wrong] += 0.7 * truth.std(axis=0) * rng.normal(size=(wrong.sum(), d))
    return truth, X, wrong


def flagged(X):
    _, line, scores = choose_scorer(X)
    return line.standardise(scores) > line.threshold


# --- the parts --------------------------------------------------------------------------------------------------------


@given(seeds, st.integers(2, 120), st.integers(1, 5))
def test_the_nearest_rows_are_nearer_than_all_others(seed, n, d):
    X = np.random.default_rng(seed).standard_normal((n, d))
    found = nearest_rows(X, block=7)
    count = min(max(NEARBY[0], int(NEARBY[1] * n)), n - 1)
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    for i, near in enumerate(found):
        others = np.delete(distances[i], i)
        assert i not in near
        assert len(set(near)) == count
        np.testing.assert_allclose(np.sort(distances[i][near]), np.sort(others)[:count], atol=1e-6)


def test_a_single_row_has_only_itself():
    assert nearest_rows(np.ones((1, 3))).tolist() == [[0]]
    assert closest(np.ones((2, 1))).tolist() == [[0], [0]]


def test_what_is_usual_is_the_median_and_never_nothing():
    scores = np.array([1.0, 2.0, 6.0, 0.0])
    np.testing.assert_array_equal(usual(scores, np.array([[0, 1, 2], [0, 0, 2]])), [2.0, 1.0])
    assert usual(np.zeros(3), np.array([[0, 1]])) > 0


@given(seeds)
def test_the_bar_is_higher_only_where_high_scores_are_usual(seed):
    rng = np.random.default_rng(seed)
    scores, nearby, bar = np.exp(rng.normal(size=50)), np.exp(rng.normal(size=50)), Bar(1.2, 1.5)
    too_high = np.where(nearby > bar.level, (scores > bar.level) & (scores > 1.5 * nearby), scores > bar.level)
    np.testing.assert_array_equal(bar.passed(scores, nearby) > 1.0, too_high)


# --- what it is for ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [30, 100])
@pytest.mark.parametrize("seed", range(5))
def test_clean_groups_of_different_spread_are_left_alone(seed, d):
    truth, _, _ = groups(seed, d)
    assert flagged(truth).mean() <= 0.01


def test_wrong_rows_in_groups_are_found_and_few_others():
    found, false = [], []
    for seed in range(6):
        _, X, wrong = groups(seed)
        flags = flagged(X)
        found.append(flags[wrong].mean())
        false.append((flags & ~wrong).sum() / wrong.sum())
    assert np.mean(found) > 0.85
    assert np.mean(false) < 0.1


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_units_and_origin_do_not_matter(factor):
    _, X, _ = groups(2)
    np.testing.assert_array_equal(flagged(factor * X + 7.0 * factor), flagged(X))


def test_most_of_a_few_wrong_rows_in_one_place_are_flagged():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 400)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[:20] = 0.3 * rng.uniform(-1.0, 1.0, (20, 2))
    flags = flagged(X)
    assert flags[:20].mean() > 0.9
    assert flags[20:].mean() < 0.03


def barred():
    """An estimator that has spared a group, and new rows of its data."""
    for seed in range(20):
        _, X, wrong = groups(seed, sizes=(240, 180, 300, 140, 200))
        half = np.arange(len(X)) % 2 == 0
        est = KernelRecovery(error="rows", landmarks=None).fit(X[half])
        if est._rows.judge.flags.scorer.bar is not None:
            return est, X[half], wrong[half], X[~half], wrong[~half]
    raise AssertionError("no group was spared")


def test_new_rows_of_a_spared_group_are_left_alone_and_a_file_keeps_it(tmp_path):
    est, X, wrong, new, new_wrong = barred()
    assert est.outliers_[~wrong].mean() < 0.02
    np.testing.assert_array_equal(est.predict(X) == -1, est.outliers_)
    flags = est.predict(new) == -1
    assert flags[~new_wrong].mean() < 0.03
    assert flags[new_wrong].mean() > 0.7
    again = kernmend.load(est.save(tmp_path / "a.kernmend"))
    np.testing.assert_array_equal(again.score_samples(new), est.score_samples(new))
    one_by_one = [est.score_samples(new[i : i + 1])[0] for i in range(5)]
    np.testing.assert_allclose(one_by_one, est.score_samples(new)[:5], rtol=1e-9)


def test_more_rows_than_the_subset_and_landmarks():
    truth, X, wrong = groups(3, sizes=(480, 360, 600, 280, 400))
    assert len(X) > SUBSET
    assert flagged(truth).mean() <= 0.01
    est = KernelRecovery(landmarks=900).fit(X)
    assert est.outliers_[wrong].mean() > 0.7
    assert est.outliers_[~wrong].mean() < 0.03
