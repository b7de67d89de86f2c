"""Scores of rows against brute force, effects, injected rows, and the choice among scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernmend.detect.columns import CLIP
from kernmend.detect.scores import (
    EFFECT,
    FAR,
    MANY_COLUMNS,
    NEAREST,
    RANK_CAP,
    RIDGES,
    KernelSpan,
    Measure,
    choose_score,
    effects,
    error_units,
    inject,
    log_score,
    nearest_distances,
)
from kernmend.model.kernels import RBF

seeds = st.integers(0, 2**32 - 1)
ridges = st.sampled_from([1e-4, 1e-2, 1.0])


def rows(seed, n=14, d=4):
    return np.random.default_rng(seed).standard_normal((n, d))


def circle(seed, n=200, noise=0.03):
    rng = np.random.default_rng(seed)
    t = rng.uniform(0.0, 2.0 * np.pi, n)
    return np.stack([np.cos(t), np.sin(t)], axis=1) + noise * rng.standard_normal((n, 2))


def brute(kernel, L, x, eps, centre):
    """The squared distance of phi(x) from the span of L, with a ridge, and the error of kernel ridge regression."""
    K, k = kernel.gram(L), kernel.gram(x[np.newaxis], L)[0]
    w = np.linalg.solve(K + eps * np.eye(len(L)), k)
    return 1.0 - 2.0 * w @ k + w @ K @ w + eps * w @ w, x - centre - w @ (L - centre)


# --- the scores -------------------------------------------------------------------------------------------------------


@given(seed=seeds, eps=ridges, n=st.integers(2, 15))
def test_own_is_each_row_against_the_others(seed, eps, n):
    L, kernel = rows(seed, n), RBF(0.3)
    r, errors = KernelSpan.of(L, kernel).leave_one_out(eps)
    expected = [brute(kernel, np.delete(L, i, axis=0), L[i], eps, L.mean(axis=0)) for i in range(n)]
    np.testing.assert_allclose(r, [each[0] for each in expected], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(errors, [each[1] for each in expected], rtol=1e-6, atol=1e-9)


@given(seed=seeds, eps=ridges)
def test_new_rows_against_all(seed, eps):
    L, new, kernel = rows(seed), rows(seed + 1, 5), RBF(0.3)
    span = KernelSpan.of(L, kernel)
    r, errors = span.new_rows(new, span.project(new), eps)
    expected = [brute(kernel, L, x, eps, L.mean(axis=0)) for x in new]
    np.testing.assert_allclose(r, [each[0] for each in expected], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(errors, [each[1] for each in expected], rtol=1e-6, atol=1e-9)


@given(seed=seeds, eps=ridges)
def test_new_rows_with_a_row_left_out(seed, eps):
    L, new, kernel = rows(seed), rows(seed + 1, 5), RBF(0.3)
    left_out = np.random.default_rng(seed).integers(0, len(L), 5)
    span = KernelSpan.of(L, kernel)
    r, errors = span.new_rows(new, span.project(new), eps, left_out)
    expected = [
        brute(kernel, np.delete(L, i, axis=0), x, eps, L.mean(axis=0)) for i, x in zip(left_out, new, strict=True)
    ]
    np.testing.assert_allclose(r, [each[0] for each in expected], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(errors, [each[1] for each in expected], rtol=1e-6, atol=1e-9)


@given(seed=seeds, eps=ridges)
def test_a_row_with_itself_left_out_is_leave_one_out(seed, eps):
    L = rows(seed)
    span = KernelSpan.of(L, RBF(0.3))
    for got, expected in zip(
        span.new_rows(L, span.project(L), eps, np.arange(len(L))), span.leave_one_out(eps), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


def test_span_is_log_r_for_small_r_and_does_not_end_at_one():
    r = np.array([-1e-9, 0.0, 1e-12, 1e-6, 0.3, 0.9, 1.0 - 1e-9, 1.0, 1.0 + 1e-9])
    got = log_score("span", r, np.zeros((9, 1)), np.ones(1))
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got[2:4], np.log(r[2:4]), rtol=1e-6)
    assert (np.diff(got[1:8]) > 0).all()
    assert got[6] - got[5] > 2


@given(seed=seeds, d=st.sampled_from([3, 20, 60]))
def test_scores_of_errors_are_mean_squares_of_all_or_of_the_largest_twentieth(seed, d):
    errors = rows(seed, 7, d)
    units = 0.5 + np.random.default_rng(seed).uniform(size=d)
    squares = np.sort((errors / units) ** 2, axis=1)
    np.testing.assert_allclose(log_score("all", np.zeros(7), errors, units), np.log(squares.mean(axis=1)))
    top = {3: 1, 20: 1, 60: 3}[d]
    np.testing.assert_allclose(log_score("worst", np.zeros(7), errors, units), np.log(squares[:, -top:].mean(axis=1)))
    assert (log_score("worst", np.zeros(7), errors, units) >= log_score("all", np.zeros(7), errors, units)).all()


@given(seed=seeds, kind=st.sampled_from(["all", "worst"]))
def test_errors_are_in_units_of_their_column_and_of_the_nearest_rows(seed, kind):
    L, new, span = rows(seed, 40), rows(seed + 1, 5), KernelSpan.of(rows(seed, 40), RBF(0.3))
    measure = Measure.of(kind, 1e-2, span)
    own = span.leave_one_out(1e-2)[1]
    clipped = np.minimum(np.abs(own), CLIP * measure.units)
    units = []
    for x in new:
        nearest = np.argsort(np.square(L - x).sum(axis=1))[:NEAREST]
        units.append(np.sqrt(measure.units**2 + np.square(clipped[nearest]).mean(axis=0)))
    projected = span.project(new)
    expected = log_score(kind, *span.new_rows(new, projected, 1e-2), np.array(units))
    np.testing.assert_allclose(measure.scores(new, projected), expected, rtol=1e-6)


@given(seed=seeds, kind=st.sampled_from(["span", "all", "worst"]))
def test_a_row_of_the_span_has_one_score_leave_one_out(seed, kind):
    span = KernelSpan.of(rows(seed, 40), RBF(0.3))
    measure, every = Measure.of(kind, 1e-2, span), np.arange(40)
    left_out = measure.scores(span.L, span.project(span.L), every)
    np.testing.assert_allclose(left_out, measure.scores_of_span(), rtol=1e-6, atol=1e-8)


def test_one_error_counts_more_among_rows_that_are_easy_to_predict():
    """The same error in a plain row and in one whose like are noisy: only the first one stands out."""
    rng = np.random.default_rng(0)
    plain, lively = rng.standard_normal((2, 80, 1)) * np.ones(30)
    L = np.vstack([plain + 0.01 * rng.standard_normal(plain.shape), 20 + lively + rng.standard_normal(lively.shape)])
    L[[3, 90]] += 0.5 * rng.standard_normal(30)
    scores = Measure.of("all", 1e-2, KernelSpan.of(L, RBF(1e-3))).scores_of_span()
    assert scores[3] > np.delete(scores[:80], 3).max() + 1.0
    assert scores[90] < np.median(scores[80:]) + 2.0 * scores[80:].std()


@pytest.mark.parametrize("kind", ["span", "all", "worst"])
def test_scores_of_rows_without_any_error_are_finite(kind):
    units = error_units(np.zeros((5, 3)))
    assert (units > 0).all()
    assert np.isfinite(log_score(kind, np.zeros(5), np.zeros((5, 3)), units)).all()


def test_units_are_of_the_median_error_and_scale_with_it():
    errors = np.random.default_rng(0).standard_normal((4001, 3)) * [0.1, 1.0, 1.0]
    units = error_units(errors)
    together = 0.6745**2 * np.mean([0.01, 1.0, 1.0])
    np.testing.assert_allclose(units, np.sqrt(np.array([0.01, 1.0, 1.0]) + together), rtol=0.05)
    np.testing.assert_allclose(error_units(1e3 * errors), 1e3 * units)
    wild = errors.copy()
    wild[:400] = 1e6
    np.testing.assert_allclose(error_units(wild), units, rtol=0.3)


# --- injected rows and the choice -------------------------------------------------------------------------------------


@given(seed=seeds, d=st.integers(1, 6))
def test_injected_rows_are_mixed_from_the_entries_of_their_columns(seed, d):
    L = rows(seed, 12, d)
    mixed, source = inject(L, 50)
    assert mixed.shape == (50, d)
    for j in range(d):
        assert np.isin(mixed[:, j], L[:, j]).all()
    kept = mixed == L[source]
    assert np.mean(kept.all(axis=1)) < 0.3  # only where what was taken is what was there
    if d > 1:
        assert kept.any()
    np.testing.assert_array_equal(inject(L, 50)[0], mixed)


def test_few_columns_are_judged_by_the_span():
    choice = choose_score(circle(0))
    assert choice.kind == "span"
    assert choice.ranks.max() <= RANK_CAP
    assert choice.ranks.mean() > 0.65  # a circle: what is mixed is off it, mostly


def test_many_columns_of_low_rank_are_judged_by_errors():
    rng = np.random.default_rng(0)
    L = rng.standard_normal((100, 3)) @ rng.standard_normal((3, 40)) + 0.1 * rng.standard_normal((100, 40))
    choice, few = choose_score(L), choose_score(L[:, : MANY_COLUMNS - 1])
    assert few.kind == "span"
    assert choice.ranks.mean() > 0.75


# --- effects ----------------------------------------------------------------------------------------------------------


@given(seed=seeds, distance=st.floats(0.01, 0.5))
def test_an_effect_is_the_distance_from_a_plane_under_a_wide_kernel(seed, distance):
    rng = np.random.default_rng(seed)
    flat = np.concatenate([rng.standard_normal((60, 3)), np.zeros((60, 1))], axis=1)
    span = KernelSpan.of(flat, RBF(1e-3))
    off = np.array([[0.0, 0.0, 0.0, distance]])
    r, errors = span.new_rows(off, span.project(off), 1e-9)
    np.testing.assert_allclose(effects(r, np.zeros((1, 4)), 1e-3)[0], np.sqrt(2.0) * distance, rtol=0.02)
    np.testing.assert_allclose(effects(np.zeros(1), errors, 1e-3)[0], distance, rtol=0.02)


def test_nearest_distances_are_those_of_brute_force():
    L = rows(0, 9, 3)
    nearest = [min(np.linalg.norm(L[i] - L[j]) for j in range(9) if j != i) for i in range(9)]
    np.testing.assert_allclose(nearest_distances(L), nearest)
    assert nearest_distances(L[:1]) == 0.0


def test_rows_that_others_predict_to_three_digits_have_no_effect():
    rng = np.random.default_rng(0)
    both = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 10))
    flat, new = both[:100], both[100:]
    choice = choose_score(flat)
    measure = Measure.of(choice.kind, choice.eps, KernelSpan.of(flat, choice.kernel))
    assert measure.visible(new, measure.span.project(new)).mean() < 0.1
    off = new + rng.standard_normal(new.shape)
    assert measure.visible(off, measure.span.project(off)).all()


def test_effects_are_held_against_the_spacing_around_them():
    rng = np.random.default_rng(0)
    dense, sparse = rng.standard_normal((2, 60, 3)) * np.array([0.05, 1.0])[:, np.newaxis, np.newaxis]
    measure = Measure.of("span", 1e-6, KernelSpan.of(np.concatenate([dense, sparse + 20.0]), RBF(0.01)))
    rows = np.concatenate([dense[:20], sparse[:20] + 20.0]) + 0.1 * rng.standard_normal((40, 3))
    effect = effects(*measure.span.new_rows(rows, measure.span.project(rows), RIDGES[0]), 0.01)
    everywhere = Measure(
        measure.kind, measure.eps, measure.span, measure.units, np.full(120, np.median(measure.spacing))
    )
    seen, seen_by_one_spacing = (each.visible(rows, each.span.project(rows)) for each in (measure, everywhere))
    assert seen[:20].sum() > seen_by_one_spacing[:20].sum()
    distances = np.linalg.norm(rows[:, np.newaxis] - measure.span.L, axis=2)
    spacing = np.median(measure.spacing[np.argsort(distances, axis=1)[:, :NEAREST]], axis=1)
    expected = (effect >= EFFECT * spacing) | (distances.min(axis=1) >= FAR * spacing)
    np.testing.assert_array_equal(seen, expected)
