"""Good and wrong rows by their scores: f0 against integrals and scipy.stats, the mixture against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import logsumexp

from kernmend.detect import groups
from kernmend.detect.columns import FEWEST
from kernmend.detect.groups import (
    PRIOR_SHARES,
    RANGE,
    SHARES,
    LogGamma,
    TwoGroups,
    _alternatives,
    effective_dimensions,
)

seeds = st.integers(0, 2**32 - 1)
SKEWNESSES = [-1.0, -0.5, -0.1, -0.02, 0.0, 0.02, 0.1, 0.5, 1.0, 2.0]
DEEP = 280 * np.log(10)  # u where the chance gives way to its asymptote

# --- LogGamma ---------------------------------------------------------------------------------------------------------


def log_integral(distribution, low, high, count=200_001):
    """Log of the integral of the density, by Simpson's rule in logarithms: at any depth of the tail."""
    x, step = np.linspace(low, high, count, retstep=True)
    weights = np.full(count, 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return logsumexp(distribution.log_density(x), b=weights * step / 3.0)


def tail_end(distribution, start):
    """Where the chance is e^40 less than at the start."""
    step = np.geomspace(1e-3, 1e5, 500)
    return start + step[np.flatnonzero(distribution.u(start + step) > distribution.u(np.array([start])) + 40)[0]]


@pytest.mark.parametrize("q", SKEWNESSES)
def test_the_density_integrates_to_one(q):
    distribution = LogGamma(0.3, np.log(0.7), q)
    reach = 0.7 * (15.0 + 30.0 * abs(q))  # the longer tail is that of e^(w / q)
    assert log_integral(distribution, 0.3 - reach, 0.3 + reach) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("q", SKEWNESSES)
@pytest.mark.parametrize("w", [-3.0, -1.0, 0.0, 1.0, 3.0, 6.0])
def test_u_is_that_of_the_integrated_upper_tail(q, w):
    distribution = LogGamma(-0.2, np.log(1.5), q)
    x = -0.2 + 1.5 * w
    got = float(distribution.u(np.array([x]))[0])
    if got < DEEP:
        assert got == pytest.approx(-log_integral(distribution, x, tail_end(distribution, x)), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("q", [q for q in SKEWNESSES if q] + [-0.0101, 0.0101])
def test_u_does_not_jump_where_the_asymptote_takes_over(q):
    distribution = LogGamma(0.0, 0.0, q)
    low, high = 0.0, 2e3
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if distribution.u(np.array([middle]))[0] <= DEEP else (low, middle)
    before, after = distribution.u(np.array([low, high]))
    assert before <= after <= 1.003 * before
    assert after == pytest.approx(-log_integral(distribution, high, tail_end(distribution, high)), rel=3e-3)


@pytest.mark.parametrize("q", [-0.0101, 0.0101])
def test_the_density_goes_over_to_the_normal_one_as_its_series_says(q):
    w = np.linspace(-5.0, 5.0, 41)
    got = LogGamma(0.0, 0.0, q).log_density(w)
    np.testing.assert_array_less(np.abs(got - (stats.norm.logpdf(w) - q * w**3 / 6)), q**2 * (w**4 / 20 + 0.2))


def test_u_goes_over_to_the_normal_one():
    w = np.linspace(-5.0, 5.0, 41)
    normal = LogGamma(0.0, 0.0, 0.0).u(w)
    np.testing.assert_allclose(normal, -stats.norm.logsf(w), rtol=1e-10)
    np.testing.assert_array_equal(LogGamma(0.0, 0.0, 0.009).u(w), normal)
    left, right = (LogGamma(0.0, 0.0, q).u(w) for q in (-0.0101, 0.0101))
    second_order = 0.0101**2 * (w**6 / 60 + 4)  # the term odd in q cancels
    np.testing.assert_array_less(np.abs(0.5 * (left + right) - normal), second_order * normal)
    np.testing.assert_allclose(right, normal, rtol=0.02, atol=2e-3)


@given(
    q=st.floats(0.05, 2.0),
    location=st.floats(-3.0, 3.0),
    log_scale=st.floats(-3.0, 3.0),
    mirror=st.booleans(),
    seed=seeds,
)
def test_it_is_the_logarithm_of_a_gamma_variable(q, location, log_scale, mirror, seed):
    scale, sign = np.exp(log_scale), -1.0 if mirror else 1.0
    x = location + scale * np.random.default_rng(seed).uniform(-4.0, 4.0, 20)
    k = q**-2
    y = sign * (x - location) * q / scale + np.log(k)
    known = stats.loggamma(k)
    distribution = LogGamma(location, log_scale, sign * q)
    tail = known.cdf(y) if mirror else known.sf(y)
    seen = tail > 1e-200
    np.testing.assert_allclose(distribution.u(x)[seen], -np.log(tail[seen]), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(distribution.log_density(x), known.logpdf(y) + np.log(q / scale), rtol=1e-8, atol=1e-6)


@pytest.mark.parametrize("q", [*SKEWNESSES, -0.0101, 0.0101])
def test_u_is_monotone_and_finite_however_far_out(q):
    far = np.concatenate([np.linspace(0.0, 100.0, 5001), np.geomspace(101.0, 1e150, 300)])
    x = np.concatenate([-far[:0:-1], far])
    u = LogGamma(0.1, 0.0, q).u(x)
    assert np.isfinite(u).all()
    assert (np.diff(u) >= -1e-12).all()
    assert u[0] == pytest.approx(0.0, abs=1e-12)
    assert u[-1] > 600
    assert np.isfinite(LogGamma(0.1, 0.0, q).log_density(x)).all()


# --- TwoGroups --------------------------------------------------------------------------------------------------------

LEAST = 0.1


def injected_group(seed, n=400, share=0.1, location=3.0):
    """Scores of good rows, of wrong ones, and of injected rows like the wrong ones."""
    rng = np.random.default_rng(seed)
    wrong = round(share * n)
    return 0.5 * rng.standard_normal(n - wrong), location + 0.5 * rng.standard_normal(wrong), rng


@pytest.mark.parametrize("dimensions", [2.0, 20.0])
@pytest.mark.parametrize("share", [0.03, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_a_group_like_the_injected_rows_is_found(seed, share, dimensions):
    good, wrong, rng = injected_group(seed, share=share)
    injected = 3.0 + 0.5 * rng.standard_normal(300)
    groups = TwoGroups.of(np.concatenate([good, wrong]), injected, least=LEAST, dimensions=dimensions)
    assert groups.any_wrong > 0.99
    threshold = groups.threshold(0.7)
    assert np.mean(good > threshold) < 0.02
    assert np.mean(wrong > threshold) >= 0.95


@pytest.mark.parametrize("seed", range(3))
def test_a_group_apart_is_found_where_injected_rows_are_elsewhere_or_unknown(seed):
    good, wrong, rng = injected_group(seed, location=8.0)
    for injected in (2.0 + 0.3 * rng.standard_normal(300), None):
        groups = TwoGroups.of(np.concatenate([good, wrong]), injected, least=LEAST)
        assert good.max() < groups.threshold(0.7) < wrong.min()


@pytest.mark.parametrize("dimensions", [2.0, 20.0])
@pytest.mark.parametrize("seed", range(5))
def test_one_group_has_no_threshold_and_finite_u(seed, dimensions):
    good, _, rng = injected_group(seed, share=0.0)
    groups = TwoGroups.of(good, 3.0 + 0.5 * rng.standard_normal(300), least=LEAST, dimensions=dimensions)
    assert groups.any_wrong < 0.5
    assert groups.threshold(0.7) == np.inf
    assert np.isfinite(groups.u(np.array([-1e6, *good, 1e6]))).all()


@given(seed=seeds, share=st.sampled_from([0.0, 0.03, 0.2]))
@settings(max_examples=15)
def test_shares_that_scores_do_not_show_are_less_plausible_for_other_scores(seed, share):
    """No share gains, the most plausible one keeps its probability, and none wrong gets what the others lose."""
    good, wrong, _ = injected_group(seed, share=share)
    before = TwoGroups.of(np.concatenate([good, wrong]), None, least=LEAST)
    prior = before.plausible_shares()
    assert prior.sum() == pytest.approx(1.0)
    assert (prior[1:] <= PRIOR_SHARES[1:] + 1e-12).all()
    likeliest = 1 + before.shares[1:].argmax()
    kept = slice(max(likeliest - 1, 1), likeliest + 2)  # shares agree within a factor of two
    np.testing.assert_allclose(prior[kept], PRIOR_SHARES[kept])


@pytest.mark.parametrize("seed", range(3))
def test_prior_shares_decide_where_scores_leave_it_open(seed):
    """The same scores with a long upper tail: a share that is excluded before is not found in them."""
    good, wrong, _ = injected_group(seed, share=0.1)
    scores = np.concatenate([good, wrong])
    none, some = (np.append(1.0, np.zeros(SHARES.size)), np.append(0.0, np.full(SHARES.size, 1.0 / SHARES.size)))
    assert TwoGroups.of(scores, None, least=LEAST, shares=none).any_wrong == 0.0
    assert TwoGroups.of(scores, None, least=LEAST, shares=some).any_wrong == pytest.approx(1.0)
    np.testing.assert_allclose(
        TwoGroups.of(scores, None, least=LEAST, shares=none).u(scores),
        TwoGroups.of(scores, None, least=LEAST, only_good=True).u(scores),
    )


def test_of_few_scores_none_is_believed_wrong():
    good, wrong, rng = injected_group(0)
    few = np.concatenate([good[: FEWEST - 3], wrong[:2]])
    groups = TwoGroups.of(few, 3.0 + 0.5 * rng.standard_normal(300), least=LEAST)
    assert groups.any_wrong == 0.0
    assert groups.threshold(0.5) == np.inf


def brute_force(scores, injected, least):
    """Probability of being wrong and chance of each score, combination by combination: unbinned, on one fine grid."""
    middle, low = np.percentile(scores, [50.0, 15.87])
    unit = max(middle - low, least)
    x, z = (scores - middle) / unit, (injected - middle) / unit
    grid = np.linspace(min(-3.0, x.min()) - 0.1, max(3.0, x.max(), z.max()) + 0.1, 2001)
    width = max(1.06 * z.std() * z.size**-0.2, 0.25)
    shapes = [np.where(grid > 0, np.exp(-0.5 * ((grid / m - 1) / 0.3) ** 2), 0) for m in np.geomspace(2.5, grid[-1], 3)]
    shapes.append(np.exp(-0.5 * ((grid[:, np.newaxis] - z) / width) ** 2).sum(axis=1))
    f1s = [0.1 * (grid > 0) / grid[-1] + 0.9 * shape / integrate.trapezoid(shape, grid) for shape in shapes]
    f1s = [np.interp(x, grid, f1) for f1 in f1s]
    found = []
    for median in np.linspace(-0.7, 0.3, 11):
        for log_scale in np.linspace(np.log(0.5), np.log(2.0), 15):
            for q in np.linspace(-3.0, 1.5, 19):
                f0 = LogGamma(0.0, log_scale, q)
                at = x - median + np.interp(np.log(2.0), f0.u(grid), grid)
                good = np.exp(f0.log_density(at)) + 1e-300
                prior = -0.5 * (log_scale / 0.35) ** 2 - 0.5 * ((q + 0.25) / 0.775) ** 2 + np.log(0.5)
                found.append((prior + np.log(good).sum(), np.zeros(x.size), np.exp(-f0.u(at))))
                for f1, weight in zip(f1s, [1 / 6, 1 / 6, 1 / 6, 0.5], strict=True):
                    for share in SHARES:
                        both = (1 - share) * good + share * f1
                        log_weight = prior + np.log(weight / SHARES.size) + np.log(both).sum()
                        found.append((log_weight, share * f1 / both, found[-1][2]))
    log_weights, belongs, chances = (np.array(part) for part in zip(*found, strict=True))
    weights = np.exp(log_weights - logsumexp(log_weights))
    return weights @ belongs, weights @ chances


@pytest.mark.parametrize(("n", "share", "location"), [(60, 0.1, 2.0), (120, 0.05, 3.0), (60, 0.0, 2.0)])
def test_beliefs_are_those_of_brute_force(n, share, location):
    good, wrong, rng = injected_group(3, n=n, share=share, location=location)
    scores, injected = np.concatenate([good, wrong]), 2.0 + 0.7 * rng.standard_normal(80)
    expected, chance = brute_force(scores, injected, LEAST)
    groups = TwoGroups.of(scores, injected, least=LEAST)
    x = (scores - groups.middle) / groups.unit
    order = np.argsort(x)
    rising = np.maximum.accumulate(np.where(x > 0, expected, 0.0)[order])
    np.testing.assert_allclose(np.interp(x[order], groups.grid, groups.wrong), rising, atol=0.03)
    np.testing.assert_allclose(np.exp(-groups.u(scores)), chance, rtol=0.1, atol=0.01)


def test_probabilities_are_frequencies_where_the_scores_follow_the_prior():
    """Of rows that are wrong with a probability from a to b a share between a and b is wrong, in 300 tables."""
    rng = np.random.default_rng(0)
    probability, truth = [], []
    for _ in range(300):
        q = np.clip(rng.normal(-0.1, 0.45), -1.9, 1.4)
        share = rng.choice(SHARES) if rng.uniform() < 0.5 else 0.0
        x = loggamma(rng, q, 150)
        wrong = rng.uniform(size=150) < share
        mean = rng.uniform(2.5, 8.0)
        x[wrong] = np.abs(rng.normal(mean, 0.3 * mean, wrong.sum()))
        groups = TwoGroups.of(x, dimensions=20.0)
        probability.append(np.interp((x - groups.middle) / groups.unit, groups.grid, groups.wrong))
        truth.append(wrong)
    probability, truth = np.concatenate(probability), np.concatenate(truth)
    for low, high in ((0.0, 0.1), (0.2, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.0)):
        inside = (probability >= low) & (probability <= high)
        assert inside.sum() > 30
        assert low - 0.12 < truth[inside].mean() < high + 0.12


def loggamma(rng, q, n):
    if abs(q) < 1e-2:
        return rng.standard_normal(n)
    k = q**-2
    return (np.log(rng.gamma(k, size=n)) - np.log(k)) / q


@pytest.mark.parametrize("seed", range(3))
def test_the_threshold_grows_with_how_sure_one_is(seed):
    good, wrong, rng = injected_group(seed, share=0.15, location=2.0)
    groups = TwoGroups.of(np.concatenate([good, wrong]), 2.0 + 0.7 * rng.standard_normal(300), least=LEAST)
    thresholds = [groups.threshold(sure) for sure in np.linspace(0.01, 0.9, 60)]
    assert np.isfinite(thresholds).all()
    assert thresholds == sorted(thresholds)
    assert thresholds[0] < thresholds[-1]


@pytest.mark.parametrize("dimensions", [2.0, 20.0])
@pytest.mark.parametrize("seed", range(3))
def test_chances_of_scores_are_those_of_fresh_ones(seed, dimensions):
    rng = np.random.default_rng(seed)
    fitted, fresh = (np.log(rng.chisquare(6, n) / 6) for n in (500, 200_000))
    u = TwoGroups.of(fitted, least=LEAST, dimensions=dimensions).u(fresh)
    for p in (0.1, 0.01, 0.001):
        assert p / 3 < np.mean(u > -np.log(p)) < p * 3


@settings(max_examples=20)
@given(seed=seeds, shift=st.sampled_from([-20.0, 0.1, 7.0]), factor=st.sampled_from([0.01, 1.0, 50.0]))
def test_beliefs_do_not_depend_on_the_units_of_the_scores(seed, shift, factor):
    rng = np.random.default_rng(seed)
    scores, injected = rng.standard_normal(40), 4.0 + rng.standard_normal(30)
    groups = TwoGroups.of(scores, injected, least=1e-6)
    moved = TwoGroups.of(factor * scores + shift, factor * injected + shift, least=1e-6)
    np.testing.assert_allclose(moved.u(factor * scores + shift), groups.u(scores), rtol=1e-3, atol=1e-4)
    assert moved.any_wrong == pytest.approx(groups.any_wrong, abs=1e-3)
    assert moved.evidence == pytest.approx(groups.evidence - 40 * np.log(factor), abs=1e-2)


@given(seed=seeds, n=st.integers(FEWEST, 80))
def test_u_grows_with_the_score_and_fewer_scores_make_it_smaller(seed, n):
    rng = np.random.default_rng(seed)
    groups = TwoGroups.of(rng.standard_normal(n), least=LEAST)
    far = np.linspace(-50.0, 200.0, 400)
    assert (np.diff(groups.u(far)) >= -1e-9).all()
    assert groups.u(np.array([1e300]))[0] > 30.0


@pytest.mark.parametrize("dimensions", [2.0, 20.0])
@pytest.mark.parametrize("n", [20, 300])
def test_u_between_the_nodes_is_that_of_nodes_ten_times_as_close(n, dimensions, monkeypatch):
    scores = np.random.default_rng(n).standard_normal(n)
    at = np.linspace(-5.0, 25.0, 1234)
    between = TwoGroups.of(scores, least=LEAST, dimensions=dimensions).u(at)
    monkeypatch.setattr(groups, "NODES", np.linspace(*RANGE, 10 * (groups.NODES.size - 1) + 1))
    exact = TwoGroups.of(scores, least=LEAST, dimensions=dimensions).u(at)
    np.testing.assert_allclose(between, exact, rtol=1e-3, atol=1e-3)


def test_small_tables_are_cautious():
    quantiles = stats.norm.ppf((np.arange(40) + 0.5) / 40)
    fewer, more = (TwoGroups.of(np.tile(quantiles, times), least=LEAST) for times in (1, 20))
    assert fewer.u(np.array([4.0]))[0] < more.u(np.array([4.0]))[0]


@given(seed=seeds, scale=st.sampled_from([1e-150, 1.0, 1e150]))
def test_effective_dimensions_are_those_of_the_variances(seed, scale):
    Y = np.random.default_rng(seed).standard_normal((30, 6)) * np.array([5.0, 3.0, 1.0, 1.0, 0.1, 0.0])
    variances = np.linalg.eigvalsh(np.cov(Y.T))
    expected = variances.sum() ** 2 / np.square(variances).sum()
    assert effective_dimensions(scale * Y) == pytest.approx(expected, rel=1e-6)
    assert effective_dimensions(scale * Y[:4]) <= 3.0 + 1e-9
    assert effective_dimensions(np.ones((5, 3))) == 1.0


@pytest.mark.parametrize("scores", [np.zeros(1), np.zeros(2), np.zeros(40), np.r_[np.zeros(40), 60.0]])
@pytest.mark.parametrize("injected", [np.zeros(300), np.full(300, -70.0), np.full(300, 5.0), np.full(300, 1e9)])
def test_scores_without_spread(scores, injected):
    groups = TwoGroups.of(scores, injected, least=LEAST)
    assert np.isfinite(groups.u(scores)).all()
    assert not np.isnan(groups.threshold(0.9))
    assert (np.diff(groups.u(np.sort(scores))) >= 0).all()
    assert groups.grid[-1] <= RANGE[1] + 0.2


def test_a_new_row_may_be_wrong_though_all_rows_so_far_were_good():
    rng = np.random.default_rng(0)
    groups = TwoGroups.of(rng.standard_normal(300), 8.0 + 0.5 * rng.standard_normal(300), least=LEAST, dimensions=20.0)
    assert groups.any_wrong < 0.5
    assert groups.threshold(0.75) > 6.0
    assert 2.5 < groups.threshold(0.75, new=True) < 6.0


def test_the_probability_of_a_new_row_is_that_of_bayes_where_good_scores_are_known():
    """With 20,000 normal scores f0 is known, and nothing is learned of f1: its prior mean counts."""
    rng = np.random.default_rng(1)
    injected = 6.0 + rng.standard_normal(300)
    groups = TwoGroups.of(rng.standard_normal(20_000), injected, least=LEAST, dimensions=1e9)
    densities, log_prior = _alternatives(groups.grid, (injected - groups.middle) / groups.unit)
    wrong = 0.5 * SHARES.mean() * (np.exp(log_prior) @ densities)
    good = (1.0 - 0.5 * SHARES.mean()) * np.exp(-0.5 * groups.grid**2) / np.sqrt(2.0 * np.pi)
    inside = (groups.grid > 0.5) & (groups.grid < 6.0)
    expected = np.maximum.accumulate((wrong / (good + wrong))[inside])
    np.testing.assert_allclose(groups.new_wrong[inside], expected, atol=0.05)
    assert groups.new_wrong[groups.grid <= 0.0].max() == 0.0
