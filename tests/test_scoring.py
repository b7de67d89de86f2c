"""Which rows do not fit: scores against brute force, invariance, clean data left alone, outliers found."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import random_rotation
from sklearn.datasets import make_blobs, make_moons

from kernmend import KernelRecovery
from kernmend.kernels import RBF
from kernmend.scoring import FLAT, MIN_FEATURES, SUBSET, TOP_SHARE, Scorer, _flattened, _Spectrum, choose_scorer
from kernmend.separation import GUARD, MIN_GAIN, draw_line

seeds = st.integers(0, 2**32 - 1)


def rows(seed, n=14, d=4):
    return np.random.default_rng(seed).standard_normal((n, d))


def left_out(X, i):
    return np.delete(X, i, axis=0)


def brute_span(kernel, X, eps, i):
    """min_w |phi(x_i) - sum_j w_j phi(x_j)|^2 + eps |w|^2 over the others, from the normal equations."""
    L = left_out(X, i)
    K, k = kernel.gram(L), kernel.gram(X[i : i + 1], L)[0]
    w = np.linalg.solve(K + eps * np.eye(len(L)), k)
    return 1.0 - 2.0 * w @ k + w @ K @ w + eps * w @ w


def brute_prediction(kernel, X, eps, i, centre):
    """Kernel ridge regression of the other rows, at x_i."""
    L = left_out(X, i)
    k = kernel.gram(X[i : i + 1], L)[0]
    return centre + k @ np.linalg.solve(kernel.gram(L) + eps * np.eye(len(L)), L - centre)


def summarised(squares, kind):
    if kind == "rows":
        return squares.mean()
    top = max(1, int(TOP_SHARE * squares.size))
    return np.sort(squares)[-top:].mean()


# --- the scores -------------------------------------------------------------------------------------------------------


@given(seed=seeds, eps=st.sampled_from([1e-4, 1e-2, 1.0]))
def test_span_is_the_regularised_distance_from_the_others(seed, eps):
    X, kernel = rows(seed), RBF(0.3)
    expected = [brute_span(kernel, X, eps, i) for i in range(len(X))]
    np.testing.assert_allclose(Scorer("span", kernel, eps).leave_one_out(X), expected, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("kind", ["rows", "entries"])
@given(seed=seeds, d=st.sampled_from([3, 25, 60]))
def test_residuals_of_kernel_ridge_regression_on_the_others(kind, seed, d):
    X, kernel, eps = rows(seed, d=d), RBF(0.5 / d), 1e-2
    centre = np.median(X, axis=0)
    expected = [summarised((X[i] - brute_prediction(kernel, X, eps, i, centre)) ** 2, kind) for i in range(len(X))]
    np.testing.assert_allclose(Scorer(kind, kernel, eps).leave_one_out(X), expected, rtol=1e-6)


@given(seed=seeds)
def test_a_new_row_has_the_score_it_would_have_among_the_others(seed):
    L, new = rows(seed, n=13), rows(seed + 1, n=3)
    scorer = Scorer("span", RBF(0.3), 1e-3)
    expected = [scorer.leave_one_out(np.vstack([L, x]))[-1] for x in new]
    np.testing.assert_allclose(scorer.against(L).score(new), expected, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("kind", ["rows", "entries"])
def test_a_new_row_has_the_residual_it_would_have_among_the_others(kind):
    L, new = rows(0, n=13, d=20), rows(1, n=3, d=20)
    scorer = Scorer(kind, RBF(0.03), 1e-2)
    reference = scorer.against(L)
    for x in new:
        stacked = np.vstack([L, x])
        centre = np.median(stacked, axis=0)  # one more row moves the median: the two agree where it is the same
        same = replace(reference, centre=centre)
        np.testing.assert_allclose(same.score(x[np.newaxis]), scorer.leave_one_out(stacked)[-1:], rtol=1e-7)
        np.testing.assert_allclose(reference.score(x[np.newaxis]), scorer.leave_one_out(stacked)[-1:], rtol=0.2)


@pytest.mark.parametrize("kind", ["span", "rows", "entries"])
def test_new_rows_are_scored_one_by_one(kind):
    L, new = rows(2, d=20), rows(3, n=4, d=20)
    reference = Scorer(kind, RBF(0.03), 1e-2).against(L)
    alone = np.concatenate([reference.score(x[np.newaxis]) for x in new])
    np.testing.assert_allclose(reference.score(new), alone, rtol=1e-8)


@pytest.mark.parametrize("kind", ["span", "rows", "entries"])
def test_a_reference_scores_its_own_rows_as_without_them(kind):
    L = rows(7, d=20)
    scorer = Scorer(kind, RBF(0.03), 1e-2)
    np.testing.assert_allclose(scorer.against(L).leave_one_out(), scorer.leave_one_out(L), rtol=1e-7)


# --- invariance -------------------------------------------------------------------------------------------------------


def corrupted(seed, n=120, d=4):
    """A curved sheet in d dimensions with a tenth of its rows replaced."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1.0, 1.0, (n, 2))
    X = np.column_stack([Z, Z**2])[:, :d] if d <= 4 else np.column_stack([Z, Z**2]) @ rng.standard_normal((4, d))
    X[: n // 10] += 0.7 * X.std() * rng.standard_normal((n // 10, d))
    return X


@pytest.mark.parametrize("d", [4, 20])
@pytest.mark.parametrize("change", ["scale", "shift", "rotate", "permute"])
def test_standardised_scores_do_not_depend_on_units_or_axes(change, d):
    X = corrupted(0, d=d)
    order = np.arange(len(X))
    if change == "permute":
        order = np.random.default_rng(1).permutation(len(X))
    other = {
        "scale": 1e3 * X,
        "shift": X + 100.0,
        "rotate": X @ random_rotation(2, d),
        "permute": X[order],
    }[change]
    scorer, line, _ = choose_scorer(X)
    changed_scorer, changed_line, _ = choose_scorer(other)
    assert changed_scorer.kind == scorer.kind
    z = line.standardise(scorer.leave_one_out(X))
    changed = changed_line.standardise(changed_scorer.leave_one_out(other))
    if change == "rotate" and scorer.kind != "span":
        pytest.skip("residuals per entry and a centre of medians know the axes")
    np.testing.assert_allclose(changed, z[order], atol=1e-5 * max(1.0, np.abs(z).max()))
    assert changed_line.threshold == pytest.approx(line.threshold, rel=1e-5)


def test_zero_is_typical_and_minus_one_the_sixteenth_percentile():
    X = corrupted(1)
    scorer, line, _ = choose_scorer(X)
    z = line.standardise(scorer.leave_one_out(X))
    assert np.median(z) == pytest.approx(0.0, abs=1e-9)
    assert np.percentile(z, 15.87) == pytest.approx(-1.0, abs=1e-9)


# --- clean data -------------------------------------------------------------------------------------------------------


def circle(n, rng):
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def sphere(n, rng):
    X = rng.standard_normal((n, 3))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def torus(n, rng):
    u, v = rng.uniform(0.0, 2.0 * np.pi, (2, n))
    return np.column_stack([(1.0 + 0.4 * np.cos(v)) * np.cos(u), (1.0 + 0.4 * np.cos(v)) * np.sin(u), 0.4 * np.sin(v)])


CLEAN = {
    "circle": circle,
    "sphere": sphere,
    "moons": lambda n, rng: make_moons(n, noise=0.05, random_state=int(rng.integers(2**31)))[0],
    "blobs": lambda n, rng: make_blobs(n, centers=4, random_state=int(rng.integers(2**31)))[0],
    "gaussian": lambda n, rng: rng.standard_normal((n, 5)),
}
DISTANCE = {
    "circle": lambda X: np.abs(np.linalg.norm(X, axis=1) - 1.0),
    "sphere": lambda X: np.abs(np.linalg.norm(X, axis=1) - 1.0),
    "torus": lambda X: np.abs(np.hypot(np.hypot(X[:, 0], X[:, 1]) - 1.0, X[:, 2]) - 0.4),
}


def flag(X):
    scorer, line, _ = choose_scorer(X)
    z = line.standardise(scorer.leave_one_out(X))
    assert np.isfinite(z).all()
    return z > line.threshold


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("seed", range(3))
def test_clean_data_is_left_alone(name, seed):
    X = CLEAN[name](200, np.random.default_rng(seed))
    assert flag(X).mean() <= 0.03


@pytest.mark.parametrize("make", [circle, sphere, torus])
@pytest.mark.parametrize("seed", range(2))
def test_outliers_in_a_box_are_found(make, seed):
    rng = np.random.default_rng(seed)
    X = make(300, rng)
    extent = np.ptp(X, axis=0).max()
    middle, half = 0.5 * (X.max(axis=0) + X.min(axis=0)), 0.75 * np.ptp(X, axis=0)
    replaced = np.zeros(300, dtype=bool)
    replaced[rng.choice(300, 30, replace=False)] = True
    X[replaced] = middle + half * rng.uniform(-1.0, 1.0, (30, X.shape[1]))
    wrong = replaced & (DISTANCE[make.__name__](X) > 0.05 * extent)
    ignored = replaced & ~wrong
    flagged = flag(X)
    hits = np.sum(flagged & wrong)
    assert 2.0 * hits / (np.sum(flagged & ~ignored) + wrong.sum()) >= 0.8


# --- odd data ---------------------------------------------------------------------------------------------------------

ODD = {
    "duplicated rows": lambda rng: np.repeat(rng.standard_normal((15, 3)), 4, axis=0),
    "mostly one row": lambda rng: np.vstack([np.ones((30, 3)), rng.standard_normal((5, 3))]),
    "constant columns": lambda rng: np.column_stack([rng.standard_normal((40, 2)), np.full((40, 18), 5.0)]),
    "all rows equal": lambda rng: np.full((20, 3), 0.1),
    "zeros": lambda rng: np.zeros((20, 20)),
    "n = 2": lambda rng: rng.standard_normal((2, 3)),
    "n = 3": lambda rng: rng.standard_normal((3, 20)),
    "n = 4": lambda rng: rng.standard_normal((4, 3)),
    "one feature": lambda rng: rng.standard_normal((50, 1)),
    "tiny units": lambda rng: 1e-150 * rng.standard_normal((30, 3)),
    "one row far away": lambda rng: np.vstack([rng.standard_normal((40, 3)), np.full((1, 3), 1e6)]),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_data_gives_numbers(name):
    X = ODD[name](np.random.default_rng(0))
    scorer, line, _ = choose_scorer(X)
    z = line.standardise(scorer.leave_one_out(X))
    assert np.isfinite(z).all()
    assert not np.isnan(line.threshold)
    assert np.isfinite(scorer.against(X).score(X + 0.1)).all()
    if name in ("all rows equal", "zeros"):
        assert not (z > line.threshold).any()


def test_more_rows_than_the_subset():
    rng = np.random.default_rng(0)
    X = circle(SUBSET + 50, rng)
    X[:40] = 0.3 * rng.uniform(-1.0, 1.0, (40, 2))
    scorer, line, _ = choose_scorer(X, seed=1)
    again, same, _ = choose_scorer(X, seed=1)
    assert (scorer, line) == (again, same)
    flagged = line.standardise(scorer.leave_one_out(X)) > line.threshold
    assert flagged[:40].mean() > 0.9
    assert flagged[40:].mean() < 0.03


# --- the line ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_the_gap_between_two_groups(share, seed):
    rng = np.random.default_rng(seed)
    few = round(300 * share)
    z = np.concatenate([rng.standard_normal(300 - few), 12.0 + rng.standard_normal(few)])
    line = draw_line(np.exp(z))
    assert line.gain >= MIN_GAIN
    np.testing.assert_array_equal(line.standardise(np.exp(z)) > line.threshold, np.arange(300) >= 300 - few)


@pytest.mark.parametrize("seed", range(5))
def test_one_group_has_no_line(seed):
    line = draw_line(np.exp(np.random.default_rng(seed).standard_normal(300)))
    assert line.threshold == np.inf
    assert line.gain < MIN_GAIN


@given(seed=seeds, factor=st.floats(1e-6, 1e6))
def test_the_line_does_not_depend_on_the_units_of_the_score(seed, factor):
    rng = np.random.default_rng(seed)
    scores = np.exp(np.concatenate([rng.standard_normal(90), 9.0 + rng.standard_normal(10)]))
    plain, scaled = draw_line(scores), draw_line(factor * scores)
    assert scaled.threshold == pytest.approx(plain.threshold, rel=1e-6)
    assert scaled.gain == pytest.approx(plain.gain, rel=1e-6)
    assert plain.threshold >= GUARD


# --- planting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["span", "rows", "entries"])
def test_a_row_put_in_the_place_of_another_is_scored_without_it(kind):
    X, planted, eps = rows(4, d=20), rows(5, n=3, d=20), 1e-2
    kernel, places = RBF(0.03), np.array([2, 7, 2])
    got = _Spectrum.of(kernel, X).scores_in_place(planted, places, kind, eps)
    centre = np.median(X, axis=0)
    for i, (row, place) in enumerate(zip(planted, places, strict=True)):
        changed = X.copy()
        changed[place] = row
        if kind == "span":
            expected = brute_span(kernel, changed, eps, place)
        else:
            expected = summarised((row - brute_prediction(kernel, changed, eps, place, centre)) ** 2, kind)
        assert got[i] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("n", [60, 300])
def test_the_edge_of_a_cloud_that_fills_its_space_is_rare_not_wrong(n, d):
    flagged = 0
    for seed in range(40, 50):
        X = np.random.default_rng(seed).standard_normal((n, d))
        flagged += (choose_scorer(X).line.standardise(choose_scorer(X).scores) > choose_scorer(X).line.threshold).sum()
    assert flagged <= 0.002 * 10 * n


def test_far_rows_of_such_a_cloud_are_still_found():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 2))
    X[:10] = rng.choice([-1.0, 1.0], (10, 2)) * rng.uniform(15.0, 25.0, (10, 2))
    choice = choose_scorer(X)
    flags = choice.line.standardise(choice.scores) > choice.line.threshold
    assert flags[:10].all()
    assert flags[10:].sum() <= 4


def test_rows_along_a_line_leave_freedom_to_a_narrower_kernel():
    rng = np.random.default_rng(0)
    X = np.outer(np.sort(rng.uniform(-1.0, 1.0, 400)), [1.0, 2.0, -1.0])
    X[::40] += 0.5 * rng.standard_normal((10, 3))
    choice = choose_scorer(X)
    flags = choice.line.standardise(choice.scores) > choice.line.threshold
    assert flags[::40].sum() >= 9
    assert flags.sum() <= 12


def test_scores_that_differ_by_rounding_only_rank_nothing():
    X = np.repeat(rows(6, n=5, d=3), 20, axis=0)
    choice = choose_scorer(X)
    assert choice.line.at_rounding
    assert np.abs(choice.line.standardise(choice.scores)).max() < 0.1
    assert not choose_scorer(corrupted(2)).line.at_rounding


# --- regular grids ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [100, 200, 400])
def test_neighbours_of_a_wrong_row_on_a_regular_grid_are_not_flagged(n):
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[[7, n // 2]] = [[0.4, 0.4], [2.0, 1.0]]
    np.testing.assert_array_equal(np.flatnonzero(KernelRecovery().fit(X).outliers_), [7, n // 2])


@pytest.mark.parametrize("n", [100, 300])
@pytest.mark.parametrize("seed", range(3))
def test_the_ends_of_a_curve_are_not_wrong(n, seed):
    t = np.random.default_rng(seed).uniform(0, 1, n)
    X = np.column_stack([t, t**2, np.sin(6 * t)])
    assert KernelRecovery().fit(X).outliers_.mean() <= 0.04


# --- rows that span few of many dimensions ----------------------------------------------------------------------------


def low_rank(seed, d, rank=5, n=400):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + 0.02 * rng.standard_normal((n, d))


def flagged(X):
    _, line, scores = choose_scorer(X)
    return line.standardise(scores) > line.threshold


@pytest.mark.parametrize("d", [20, 60, 300])
def test_clean_rows_of_low_rank_are_left_alone(d):
    shares = [flagged(low_rank(seed, d)).mean() for seed in range(4)]
    assert np.mean(shares) < 0.015
    assert max(shares) < 0.04


@pytest.mark.parametrize("d", [20, 60, 300])
def test_wrong_rows_beside_a_flat_are_found(d):
    X = low_rank(10, d)
    X[:40] += 0.5 * X.std(axis=0) * np.random.default_rng(11).standard_normal((40, d))
    flags = flagged(X)
    assert flags[:40].mean() > 0.9
    assert flags[40:].mean() < 0.02


def test_wrong_rows_within_a_flat_are_found():
    rng = np.random.default_rng(0)
    X = circle(300, rng)
    X[:30] = rng.uniform(-1.2, 1.2, (30, 2))
    off = np.abs(np.linalg.norm(X, axis=1) - 1.0) > 0.15
    X = X @ rng.standard_normal((2, 20)) + 0.01 * rng.standard_normal((300, 20))
    flags = flagged(X)
    assert flags[off].mean() > 0.9
    assert flags[~off].mean() < 0.02


def test_flattened_rows_are_their_projections_on_the_axes_of_the_good_ones():
    X, good = low_rank(0, 40, rank=3, n=90), np.arange(90) < 80
    X[~good] += 1.0
    flat = _flattened(X, good)
    centre = X[good].mean(axis=0)
    variance, axes = np.linalg.eigh(np.cov(X[good].T))
    kept = axes[:, -3:]
    np.testing.assert_allclose(flat, centre + (X - centre) @ kept @ kept.T, atol=1e-9)
    assert variance[-2:].sum() < FLAT * variance.sum() <= variance[-3:].sum()


def test_few_features_are_flat_as_they_are_and_many_dimensions_are_not():
    X = rows(0, n=60, d=MIN_FEATURES - 1)
    assert _flattened(X, np.ones(60, dtype=bool)) is X
    assert _flattened(rows(0, n=60, d=40), np.ones(60, dtype=bool)) is None
