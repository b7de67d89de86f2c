"""Wrong rows and entries together: invariances, known rows, injected errors, clean data, odd inputs."""

import math
from functools import cache

import numpy as np
import pytest

from kernmend.detect import Detector
from kernmend.detect.detector import OTHERS, count_u, distinct, robust_sd
from kernmend.detect.scores import LANDMARKS


def circle(seed, n=200, noise=0.03):
    rng = np.random.default_rng(seed)
    t = rng.uniform(0.0, 2.0 * np.pi, n)
    return np.stack([np.cos(t), np.sin(t)], axis=1) + noise * rng.standard_normal((n, 2))


def normal(seed, n=200, d=10):
    return np.random.default_rng(seed).standard_normal((n, d))


def surface(seed, n=200, wrong=0):
    """Rows on a curve in eight columns; the last `wrong` ones off it."""
    rng = np.random.default_rng(seed)
    t = circle(seed, n, 0.0)
    X = np.concatenate([t, t**2, t[:, :1] * t[:, 1:], t**3, t.sum(axis=1, keepdims=True)], axis=1)
    X += 0.02 * rng.standard_normal(X.shape)
    X[n - wrong :] = 0.5 * rng.standard_normal((wrong, X.shape[1]))
    return X


def table(seed, n=200, d=8):
    """Correlated columns of different sizes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d)) + 0.3 * rng.standard_normal((n, d))
    return X * np.geomspace(0.1, 10.0, d)


def spiked(seed, rows=6, **shape):
    """A table with a spike of ten standard deviations in one entry of each of the first rows, and where."""
    X = table(seed, **shape)
    at = np.arange(rows), np.arange(rows) % X.shape[1]
    X[at] += 10.0 * X.std(axis=0)[at[1]]
    return X, at


def mixed_table(seed):
    """Wrong rows, wrong entries, good rows."""
    X, _ = spiked(seed, rows=4)
    X[-8:] = X.std(axis=0) * np.random.default_rng(seed + 100).standard_normal((8, X.shape[1]))
    return X


DATA = {"surface": surface(0, wrong=12), "table": mixed_table(0), "normal": normal(0), "circle": circle(0)}
every_data = pytest.mark.parametrize("name", DATA)


@cache
def fit(name):
    return Detector.fit(DATA[name])


def same(found, other, rtol=1e-2):
    for part in ("rows", "suspects", "entries"):
        np.testing.assert_array_equal(getattr(found, part), getattr(other, part))
    for part in ("scores", "entry_scores"):
        np.testing.assert_allclose(getattr(found, part), getattr(other, part), rtol=rtol, atol=rtol)


def check_consistent(detector, found):
    """What holds of every result."""
    for values in vars(found).values():
        assert np.isfinite(values).all()
    assert np.isfinite([detector.threshold, detector.suspect_threshold]).all()
    assert detector.suspect_threshold <= detector.threshold
    assert (found.scores >= 0).all()
    assert (found.entry_scores >= 0).all()
    assert not (found.suspects & found.rows).any()
    assert not (found.entries.any(axis=1) & ~found.rows).any()


# --- what must not matter ---------------------------------------------------------------------------------------------


@every_data
def test_the_order_of_the_rows_does_not_matter(name):
    order = np.random.default_rng(1).permutation(len(DATA[name]))
    here, there = fit(name), Detector.fit(DATA[name][order])
    for part, values in vars(here[1]).items():
        np.testing.assert_allclose(values[order], getattr(there[1], part), rtol=1e-9, atol=1e-12)
    assert here[0].threshold == pytest.approx(there[0].threshold, rel=1e-9)


def test_the_order_of_more_rows_than_landmarks_does_not_matter():
    X = surface(0, n=LANDMARKS + 50, wrong=10)
    order = np.random.default_rng(1).permutation(len(X))
    here, there = Detector.fit(X)[1], Detector.fit(X[order])[1]
    np.testing.assert_array_equal(here.rows[order], there.rows)
    np.testing.assert_allclose(here.scores[order], there.scores, rtol=1e-9)
    assert here.rows[-10:].all()
    assert here.rows[:-10].sum() <= 2


@pytest.mark.parametrize("factor", [1e-3, 1e3])
@every_data
def test_the_scale_does_not_matter(name, factor):
    found, scaled = fit(name)[1], Detector.fit(factor * DATA[name])[1]
    same(found, scaled)
    np.testing.assert_allclose(factor * found.filled, scaled.filled, rtol=1e-4, atol=1e-4 * factor)


@every_data
def test_a_shift_does_not_matter(name):
    shift = np.linspace(-100.0, 100.0, DATA[name].shape[1])
    found, shifted = fit(name)[1], Detector.fit(DATA[name] + shift)[1]
    same(found, shifted)
    np.testing.assert_allclose(found.filled + shift, shifted.filled, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["surface", "table"])
def test_repeated_rows_count_once(name):
    found, thrice = fit(name)[1], Detector.fit(np.repeat(DATA[name], 3, axis=0))[1]
    for part, values in vars(found).items():
        np.testing.assert_array_equal(np.repeat(values, 3, axis=0), getattr(thrice, part))


@pytest.mark.parametrize("times", [1, 2, 9])
@pytest.mark.parametrize("seed", range(2))
def test_equal_wrong_rows_do_not_vouch_for_each_other(seed, times):
    X = np.concatenate([surface(seed), np.tile(0.5 * normal(seed + 1, 1, 8), (times, 1))])
    found = Detector.fit(X)[1]
    assert found.rows[200:].all()
    assert found.rows[:200].sum() <= 2


def test_distinct_rows():
    X = normal(0, 30, 2)
    rows, where = distinct(np.concatenate([X, X[:5]]))
    assert rows.shape == X.shape
    np.testing.assert_array_equal(rows[where], np.concatenate([X, X[:5]]))
    copies = np.repeat(X[:3], 4, axis=0)
    few, where = distinct(copies)
    assert few.shape == (3, 2)
    np.testing.assert_array_equal(few[where], copies)


def test_the_spread_of_columns_where_many_entries_are_equal():
    rng = np.random.default_rng(0)
    X = np.zeros((1000, 4))
    X[:, 0] = 3.0 * rng.standard_normal(1000)
    X[:300, 1], X[300:600, 1] = 1.349, 2.698  # MAD of an uneven column; a quarter above the middle
    X[:100, 2] = 5.0
    spread = robust_sd(X)
    assert spread[0] == pytest.approx(3.0, rel=0.1)
    assert spread[2] == pytest.approx(1.5)
    assert spread[3] == 1.0
    assert (spread > 0).all()


# --- known rows -------------------------------------------------------------------------------------------------------


def mask(n, rows):
    out = np.zeros(n, dtype=bool)
    out[rows] = True
    return out


def test_rows_known_to_be_good_are_never_flagged():
    assert fit("surface")[1].rows[-12:].all()
    detector, found = Detector.fit(DATA["surface"], good=mask(200, [195, 199, 3]))
    assert not found.rows[[195, 199, 3]].any()
    assert not found.entries[[195, 199, 3]].any()
    assert found.rows[[194, 196, 198]].all()
    check_consistent(detector, found)


def test_rows_known_to_be_wrong_are_always_flagged_and_teach_nothing():
    X = surface(0, wrong=12)
    known = mask(200, [0, 1, 2, 199])  # three of them are good
    detector, found = Detector.fit(X, wrong=known)
    assert found.rows[known].all()
    check_consistent(detector, found)
    without, expected = Detector.fit(X[~known])
    for part, values in vars(expected).items():
        np.testing.assert_array_equal(getattr(found, part)[~known], values)
    assert detector.threshold == without.threshold
    changed = X.copy()
    changed[known] = 50.0
    again = Detector.fit(changed, wrong=known)[1]
    np.testing.assert_array_equal(again.scores[~known], found.scores[~known])


def test_known_rows_that_repeat():
    X = np.concatenate([surface(0), surface(0)[:3]])
    assert Detector.fit(X, wrong=mask(203, [200, 201, 202]))[1].rows.sum() <= 5
    assert not Detector.fit(X, good=mask(203, [200]))[1].rows[200]


# --- thresholds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.01, 0.05, 0.2, 0.5, 1.0])
@every_data
def test_a_share_that_is_asked_for_is_flagged(name, share):
    detector, found = fit(name)
    moved, flagged = detector.at_share(found, share)
    assert flagged.rows.sum() == round(share * len(DATA[name]))
    assert np.isfinite(moved.threshold)
    check_consistent(moved, flagged)
    if 0 < share < 1:
        assert found.scores[flagged.rows].min() >= moved.threshold >= found.scores[~flagged.rows].max()
    np.testing.assert_array_equal(flagged.scores, found.scores)


@every_data
def test_flags_are_scores_above_the_threshold(name):
    detector, found = fit(name)
    np.testing.assert_array_equal(found.rows, found.scores > detector.threshold)
    check_consistent(detector, found)
    check_consistent(detector, detector.find(DATA[name]))


def test_fewer_false_alarms_are_a_higher_threshold():
    X = circle(0)
    thresholds = [Detector.fit(X, alpha=alpha)[0].threshold for alpha in (1.0, 0.05, 1e-4)]
    assert thresholds == sorted(thresholds)


# --- what is found ----------------------------------------------------------------------------------------------------

CLEAN = {
    "circle": circle,
    "surface": surface,
    "normal, 1 column": lambda seed: normal(seed, d=1),
    "normal, 10 columns": normal,
    "normal, 60 columns": lambda seed: normal(seed, 100, 60),
}
WITHOUT_STRUCTURE = {  # the scores of one group are fitted by two, with a share of up to a half
    "normal, 2 columns": lambda seed: normal(seed, d=2),
    "normal, 3 columns": lambda seed: normal(seed, d=3),
    "lognormal, 5 columns": lambda seed: np.exp(normal(seed, d=5)),
}


def most_flagged(draw):
    return max(float(Detector.fit(draw(seed))[1].rows.mean()) for seed in range(5))


@pytest.mark.parametrize("name", CLEAN)
def test_clean_data_is_left_alone(name):
    assert most_flagged(CLEAN[name]) <= 0.01


@pytest.mark.parametrize("name", WITHOUT_STRUCTURE)
def test_clean_data_of_few_columns_is_left_alone(name):
    assert most_flagged(WITHOUT_STRUCTURE[name]) <= 0.01


@pytest.mark.parametrize("seed", range(3))
def test_a_spike_is_that_entry_and_no_other(seed):
    X, at = spiked(seed)
    found = Detector.fit(X)[1]
    assert found.rows[at[0]].all()
    expected = np.zeros(X.shape, dtype=bool)
    expected[at] = True
    np.testing.assert_array_equal(found.entries[at[0]], expected[at[0]])
    clean = table(seed)
    assert (np.abs(found.filled - clean)[at] < 2.0 * clean.std(axis=0)[at[1]]).all()
    np.testing.assert_allclose(found.filled[~expected], X[~expected], rtol=1e-9, atol=1e-9)


def test_where_columns_are_many_an_entry_alone_makes_no_row_wrong():
    X = table(0, n=40, d=30)
    X[0, 0] += 10.0 * X[:, 0].std()
    detector, found = Detector.fit(X)
    assert not detector.entries_decide
    np.testing.assert_array_equal(found.rows, found.scores > detector.threshold)
    assert not (found.entries.any(axis=1) & ~found.rows).any()


@pytest.mark.parametrize("seed", range(5))
def test_wrong_rows_are_found(seed):
    found = Detector.fit(surface(seed, wrong=12))[1]
    assert found.rows[-12:].sum() >= 11
    assert found.rows[:-12].sum() <= 2
    assert found.scores[-12:].min() > np.median(found.scores[:-12])


@pytest.mark.parametrize("seed", range(3))
def test_new_rows_after_a_clean_fit(seed):
    detector, found = Detector.fit(surface(seed))
    assert found.rows.sum() <= 2
    bad = 0.5 * normal(seed + 70, 50, 8)
    assert detector.find(surface(seed + 50)).rows.mean() <= 0.02
    assert detector.find(bad).rows.mean() >= 0.98


@pytest.mark.parametrize("seed", range(3))
def test_new_rows_inside_and_outside_a_circle(seed):
    detector, _ = Detector.fit(circle(seed))
    assert detector.find(circle(seed + 50)).rows.mean() <= 0.02
    assert detector.find(0.3 * circle(seed)).rows.mean() >= 0.95
    assert detector.find(2.0 * circle(seed)).rows.mean() >= 0.95


def test_new_rows_are_judged_one_by_one():
    X, _ = spiked(0)
    detector, _ = Detector.fit(table(1))
    together = detector.find(X[:10])
    for i in range(10):
        alone = detector.find(X[i : i + 1])
        for part, values in vars(together).items():
            np.testing.assert_allclose(values[i : i + 1], getattr(alone, part), rtol=1e-7, atol=1e-9)


# --- odd inputs -------------------------------------------------------------------------------------------------------

rng = np.random.default_rng(0)
ODD = {
    "1 column": normal(0, 100, 1),
    "1 column of few values": rng.integers(0, 3, (100, 1)).astype(float),
    "1 row": normal(0, 1, 3),
    "1 entry": np.ones((1, 1)),
    "2 rows": normal(0, 2, 3),
    "2 rows, 1 column": normal(0, 2, 1),
    "2 rows, 50 columns": normal(0, 2, 50),
    "2 equal rows": np.ones((2, 3)),
    "5 rows": normal(0, 5, 3),
    "5 rows, 1 column": normal(0, 5, 1),
    "19 rows": normal(0, 19, 3),
    "20 rows": normal(0, 20, 3),
    "all rows equal": np.full((40, 3), 0.1),
    "all rows equal and large": np.full((5, 2), 1e8 + 0.1),
    "all zero": np.zeros((40, 3)),
    "two rows many times": np.repeat(normal(0, 2, 3), 50, axis=0),
    "a constant column": np.c_[normal(0, 100, 3), np.full(100, 0.1)],
    "one column that is not constant": np.c_[np.zeros((100, 3)), normal(0, 100, 1)],
    "a column with ten entries": np.c_[normal(0, 100, 2), np.r_[np.zeros(90), np.arange(10.0)]],
    "the least number": np.c_[normal(0, 100, 2), np.r_[np.zeros(99), 5e-324]],
    "equal columns": np.tile(normal(0, 80, 1), (1, 5)),
    "low rank": normal(0, 80, 2) @ normal(1, 2, 10),
    "zeros and ones": rng.integers(0, 2, (200, 6)).astype(float),
    "few ones": (rng.uniform(size=(200, 10)) < 0.05).astype(float),
    "a grid": np.stack(np.meshgrid(np.arange(10.0), np.arange(10.0)), -1).reshape(-1, 2),
    "more columns than rows": normal(0, 30, 100),
    "large": 1e100 * normal(0, 60, 3),
    "small": 1e-100 * normal(0, 60, 3),
    "far from zero": 1e8 + normal(0, 60, 3),
    "one huge entry": np.r_[normal(0, 60, 3), [[1e30, 0.0, 0.0]]],
    "one huge row": np.r_[normal(0, 60, 3), [[1e30, -1e30, 1e30]]],
    "no mean": np.random.default_rng(0).standard_cauchy((200, 4)),
}


@cache
def fit_odd(name):
    return Detector.fit(ODD[name])


@pytest.mark.parametrize("name", ODD)
def test_odd_inputs(name):
    X = ODD[name]
    detector, found = fit_odd(name)
    assert found.scores.shape == (len(X),)
    assert found.entry_scores.shape == found.filled.shape == X.shape
    check_consistent(detector, found)
    check_consistent(detector, detector.find(X))
    check_consistent(detector, detector.find(np.zeros((1, X.shape[1]))))


@pytest.mark.parametrize("name", ["1 column", "2 rows", "5 rows", "20 rows", "all rows equal", "a constant column"])
def test_the_first_row_of_odd_inputs_known_to_be_wrong(name):
    detector, found = Detector.fit(ODD[name], wrong=mask(len(ODD[name]), 0))
    assert found.rows[0]
    check_consistent(detector, found)


NOTHING_WRONG = [
    "1 column",
    "1 column of few values",
    "2 rows",
    "2 rows, 50 columns",
    "2 equal rows",
    "5 rows",
    "all rows equal",
    "all zero",
    "two rows many times",
    "a constant column",
    "one column that is not constant",
    "zeros and ones",
    "a grid",
]


@pytest.mark.parametrize("name", NOTHING_WRONG)
def test_odd_inputs_without_anything_wrong(name):
    assert not fit_odd(name)[1].rows.any()


@pytest.mark.parametrize("name", ["one huge entry", "one huge row"])
def test_a_huge_row_is_flagged(name):
    assert fit_odd(name)[1].rows[-1]


def test_the_chance_of_a_number_of_wrong_entries():
    d = 6
    chances = [math.comb(d - 1, k) * OTHERS**k * (1.0 - OTHERS) ** (d - 1 - k) for k in range(d)]
    expected = [0.0] + [-np.log(sum(chances[count - 1 :])) for count in range(1, d + 1)]
    np.testing.assert_allclose(count_u(np.arange(d + 1), d), expected, rtol=1e-10, atol=1e-12)


def test_rows_of_many_wrong_entries_are_wrong_as_a_whole_and_those_of_one_are_not():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 8)) + 0.1 * rng.standard_normal((200, 8))
    X[:5] += 6.0 * X.std(axis=0) * rng.choice([-1.0, 1.0], (5, 8))
    X[np.arange(5, 10), np.arange(5)] += 6.0 * X.std(axis=0)[:5]
    found = Detector.fit(X)[1]
    np.testing.assert_array_equal(np.flatnonzero(found.rows), np.arange(10))
    np.testing.assert_array_equal(np.flatnonzero(found.whole), np.arange(5))


@pytest.mark.parametrize("seed", range(3))
def test_one_wrong_cell_on_a_curve(seed):
    """Its row is not wrong as a whole, though the linear guess is off the curve and the kernel is wide."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0.0, 1.0, 120)
    X = np.column_stack([8 * np.sin(6 * t), 20 * np.cos(5 * t), 30 * t**2, 3 * t]) + 0.1 * rng.standard_normal((120, 4))
    X[[5, 40], [1, 3]] = -999.0, 38.0
    found = Detector.fit(X)[1]
    assert found.rows[[5, 40]].all()
    assert not found.whole.any()
    np.testing.assert_array_equal(np.argwhere(found.entries)[:2], [[5, 1], [40, 3]])


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_another_kind_are_found(seed):
    """Smooth curves among noise: the span of the others holds them, so that only their many large entries tell."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((100, 60)) @ rng.standard_normal((60, 60)) / 8.0
    bad = np.arange(5)
    X[bad] = 6.0 * np.sin(np.linspace(0, 6, 60) + rng.uniform(0, 6, (5, 1)))
    detector, found = Detector.fit(X)
    assert found.rows[bad].all()
    assert found.rows.sum() <= 6
    assert found.whole[bad].all()
    assert detector.find(X[bad]).rows.all()
    assert detector.find(X[5:]).rows.sum() <= 1


@pytest.mark.parametrize("codes", [[1.0] * 13 + [-1.0] * 12, [1.0] * 350 + [0.0] * 50 + [2.0] * 30, [3.0] * 40 + [4.0]])
@pytest.mark.parametrize("columns", [1, 3])
def test_the_rarer_of_a_few_codes_is_not_wrong(codes, columns):
    """Twelve of 25 rows were replaced in a column of 13 times 1 and 12 times -1, since equal rows were compared."""
    X = np.repeat(np.array(codes)[:, np.newaxis], columns, axis=1)
    assert not Detector.fit(X)[1].rows.any()


def test_rows_of_a_constant_table_are_not_unusual():
    """One distinct row in all was beyond the chance of one in one."""
    _, found = Detector.fit(np.ones((50, 4)))
    assert not found.rows.any()
    assert not found.suspects.any()
