"""Explanations of rows: their numbers are those of the fit, and nothing happens without a stated reason."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from test_intervals import table

from kernmend import KernelRecovery
from kernmend.estimators._trust import believed, confidence
from kernmend.repair.changes import in_words
from kernmend.repair.explain import CellReason, Explanation

pytestmark = pytest.mark.usefixtures("quick_settings")

NAMES = ["temp", "wind", "rain", "sun", "fog", "ice"]


@pytest.fixture(scope="module")
def data():
    """Return a table with names of columns."""
    return pd.DataFrame(table()[1], columns=NAMES)


def fit(data, **params):
    known = {name: params.pop(name) for name in ("good", "wrong") if name in params}
    return KernelRecovery(**params).fit(data, **known)


@pytest.mark.parametrize("error", ["auto", "rows"])
def test_the_numbers_are_those_of_the_fit(data, error):
    est = fit(data, error=error)
    X = data.to_numpy()
    for told in est.explanations_:
        i = told.row
        assert told.flagged
        assert told.score == est.outlier_scores_[i]
        assert told.threshold == est.threshold_
        assert told.confidence == est.confidence_[i]
        assert told.whole == est.whole_rows_[i]
        assert told.changed == bool((est.recovered_[i] != X[i]).any())
        for cell in told.cells:
            j = cell.column
            assert cell.name == NAMES[j]
            np.testing.assert_equal(cell.old, X[i, j])
            assert cell.new == est.recovered_[i, j]
            assert cell.score == est.entry_scores_[i, j]
            if not cell.unsure:
                np.testing.assert_allclose(cell.high - cell.new, est.half_widths_[i, j], rtol=1e-6)
            np.testing.assert_equal(cell.confidence, est.entry_confidence_[i, j])
            good = X[~est.outliers_, j]
            assert cell.lowest <= np.nanmin(good)
            assert cell.highest >= np.nanmax(good)
            assert cell.spread > 0
    everywhere = (table()[0] != X).all(axis=1)
    assert est.whole_rows_.any()
    assert not (est.whole_rows_ & ~(everywhere if error == "auto" else est.outliers_)).any()


def test_changed_cells_are_all_told(data):
    est = fit(data)
    records = est.changes_.records
    for told in est.explanations_:
        changed = records["column"][records["row"] == told.row]
        assert {cell.column for cell in told.cells} >= set(changed.tolist())


def test_what_the_other_columns_say():
    """The expectation and its spread are those of a regression of the column on the others."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 6)) + 0.1 * rng.standard_normal((300, 6))
    X = truth.copy()
    X[5, 3] += 30.0
    est = KernelRecovery().fit(X)
    (cell,) = est.explain(5).cells
    assert not est.explain(5).whole
    others = np.delete(truth, 3, axis=1)
    line = LinearRegression().fit(np.delete(others, 5, axis=0), np.delete(truth[:, 3], 5))
    assert abs(cell.expected - line.predict(others[[5]])[0]) < 0.05
    assert cell.spread == pytest.approx(np.std(truth[:, 3] - line.predict(others)), rel=0.2)
    words = f"where the other columns of this row say {cell.expected:.4g}, give or take {cell.spread:.2g}"
    assert f"column 3 is {X[5, 3]:.4g} {words}, and no good row is above {cell.highest:.4g}" in str(est.explain(5))


def test_plus_minus_is_half_of_the_interval_wherever_it_is_said(data):
    """In explanations, their page, and the reasons of the list of changes; a standard deviation is in words."""
    est = fit(data)
    known = 0
    for change in est.changes_.records:
        half = (change["high"] - change["low"]) / 2.0
        cell = next(cell for cell in est.explain(change["row"]).cells if cell.column == change["column"])
        said = cell.sentence(whole=True)
        if "±" in change["reason"]:
            known += 1
            assert f"{in_words(change['new'])} ± {in_words(half, 2)}" in change["reason"]
            assert f"{in_words(change['new'])} ± {in_words(half, 2)}" in said
        assert said.count("±") == change["reason"].count("±") <= 1
    assert known > 3


def test_an_interval_that_a_bound_has_cut_off_is_told_by_its_ends():
    X = np.abs(np.random.default_rng(0).standard_normal((200, 2)) @ np.random.default_rng(1).random((2, 5)))
    X[3, 2] = 30.0
    est = KernelRecovery(bounds=(0.0, 60.0), interval=0.99).fit(X)
    assert not est.unsure_[3].all()
    for change in est.changes_.records:
        new, low, high = (float(change[name]) for name in ("new", "low", "high"))
        even = abs((high - new) - (new - low)) <= 0.01 * (high - low)
        words = f"± {in_words((high - low) / 2, 2)}" if even else f"({in_words(low)} to {in_words(high)})"
        assert est.unsure_[change["row"], change["column"]] or words in change["reason"]


def test_the_nearest_rows_are_good_and_near(data):
    est = fit(data)
    for told in list(est.explanations_)[:5]:
        assert len(told.nearest) == 5
        assert not est.outliers_[list(told.nearest)].any()
        good = np.flatnonzero(~est.outliers_)
        inside = est._rows.enter(est.recovered_)
        distances = np.square(inside[good] - inside[told.row]).sum(axis=1)
        np.testing.assert_array_equal(told.nearest, good[np.argsort(distances, kind="stable")[:5]])


def test_rows_that_are_not_flagged(data):
    est = fit(data)
    fine = int(np.flatnonzero(~est.outliers_ & ~np.isnan(data.to_numpy()).any(axis=1))[0])
    told = est.explain(fine)
    assert [told.flagged, told.changed, told.whole, told.cells] == [False, False, False, ()]
    assert np.isnan(told.confidence)
    assert fine not in told.nearest
    lacks = int(np.flatnonzero(~est.outliers_ & np.isnan(data.to_numpy()).any(axis=1))[0])
    told = est.explain(lacks)
    assert told.changed
    assert "is missing, and similar rows say" in str(told)


def test_known_rows_are_said_to_be_known(data):
    plain = fit(data)
    fine, wrong = int(np.argmin(plain.outlier_scores_)), int(np.argmax(plain.outlier_scores_))
    number = np.arange(len(data))
    est = fit(data, good=number == wrong, wrong=number == fine)
    assert "was given as wrong, though it would not have been flagged" in str(est.explain(fine))
    assert est.explain(fine).confidence == 1.0
    assert "was given as good" in str(est.explain(wrong))
    assert not est.explain(wrong).changed


def test_a_share_is_said_to_be_one(data):
    est = fit(data, contamination=0.3)
    least = np.flatnonzero(est.outliers_)[np.argmin(est.outlier_scores_[est.outliers_])]
    assert "one of the share that was asked for" in str(est.explain(int(least)))


@pytest.mark.parametrize(("unsure", "words"), [("blank", "left blank"), ("keep", "it stays"), ("mend", "unsure")])
def test_flagged_and_not_changed_has_a_reason(unsure, words):
    """A point beside a circle may come from anywhere on it: what becomes of it is said."""
    angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[[7, 30, 60]] = [[0.3, 0.2], [-0.2, 0.4], [1.6, 1.2]]
    est = KernelRecovery(unsure=unsure).fit(X)
    told = est.explain(7)
    assert told.flagged
    assert told.changed == (unsure != "keep")
    assert len(told.cells) == 2
    assert all(cell.unsure for cell in told.cells)
    assert words in str(told)
    assert all(np.hypot(cell.expected, 0) <= 1.2 for cell in told.cells)


def test_every_row_has_a_sentence(data):
    est = fit(data, unsure="keep")
    for row in range(0, len(data), 7):
        told = est.explain(row)
        assert str(told).startswith(f"Row {row} ")
        assert told.flagged == bool(told.cells) or not told.flagged or "Nothing was changed" in str(told)


def test_a_notebook_shows_a_table_and_escapes_names():
    X = pd.DataFrame(table()[1], columns=["<b>", *NAMES[1:]])
    est = fit(X)
    told = next(told for told in est.explanations_ if any(cell.name == "<b>" for cell in told.cells))
    page = told._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert page.count("<tr>") == 1 + len(told.cells)


def test_explanations_are_a_sequence(data):
    est = fit(data)
    rows = np.flatnonzero(est.outliers_)
    assert len(est.explanations_) == rows.size
    assert est.explanations_[-1] == est.explain(int(rows[-1]))
    assert [told.row for told in est.explanations_[1:3]] == rows[1:3].tolist()
    assert repr(est.explanations_) == f"<Explanations of {rows.size} flagged rows>"


@pytest.mark.parametrize("row", [-1, 150, 1.0, "0", True, None])
def test_rows_that_are_not_there(data, row):
    with pytest.raises(IndexError, match="row must be a number from 0 to 149"):
        fit(data, interval=None, contamination=0.0).explain(row)


def test_columns_without_names_have_numbers():
    est = fit(table()[1])
    assert {cell.name for told in est.explanations_ for cell in told.cells} <= {f"column {j}" for j in range(6)}


def test_an_explanation_is_fixed():
    cell = CellReason(0, "a", 1.0, 2.0, 1.5, 2.5, 3.0, 2.0, 0.1, 0.0, 1.0)
    told = Explanation(0, True, False, True, 5.0, 3.0, 0.9, False, (cell,), (), ("Row 0.",))
    with pytest.raises(AttributeError):
        told.row = 1


@pytest.mark.parametrize(
    "params", [{}, {"unsure": "keep"}, {"unsure": "blank"}, {"error": "rows"}, {"contamination": 0.2}], ids=str
)
def test_nothing_happens_without_a_stated_reason(data, params):
    """Each row says why it is flagged; each cell that was found wrong or changed says what became of it, and why."""
    est = fit(data, **params)
    X = data.to_numpy()
    for row in range(len(X)):
        told = est.explain(row)
        verdict = told.sentences[0]
        assert f"its score is {est.outlier_scores_[row]:.3g}" in verdict
        changed = ~((est.recovered_[row] == X[row]) | (np.isnan(est.recovered_[row]) & np.isnan(X[row])))
        cells = {cell.column: cell.sentence(whole=told.whole or not told.flagged) for cell in told.cells}
        assert set(np.flatnonzero(changed)) <= set(cells)
        if told.flagged and not changed.any():
            assert "Nothing was changed" in str(told) or any("it stays, since" in text for text in cells.values())
        if changed.any() and not told.flagged:
            assert np.isnan(X[row, changed]).all()
            assert all("is missing" in cells[j] for j in np.flatnonzero(changed))
        if told.flagged and "contamination" not in params:
            assert "% of the rows that are as far out are wrong" in verdict


# --- how sure it is that a row is wrong ------------------------------------------------------------------------------


def test_confidence_by_brute_force():
    rng = np.random.default_rng(0)
    scores = np.round(np.r_[rng.exponential(0.4, 200), rng.uniform(1, 9, 20)], 1)
    found = confidence(scores, scores > 1.5, 1.5)
    for i, score in enumerate(scores):
        if score <= 1.5:
            assert np.isnan(found[i])
            continue
        below = scores[scores <= score]
        least = min(min(1.0, scores.size * 10.0**-s / np.sum(scores >= s)) for s in below)
        assert found[i] == pytest.approx(1.0 - least)


def test_confidence_is_that_share_of_wrong_rows():
    """Scores of good rows are -log10 of uniform numbers: of the rows with a confidence of c, a share of c is wrong."""
    right, sure = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        bad = np.arange(300) < 30
        scores = -np.log10(rng.uniform(size=300)) + bad * rng.uniform(0, 3, 300)
        flags = scores > 1.3
        found = confidence(scores, flags, 1.3)
        least = np.nanmin(found)
        right.append(bad[flags].mean())
        sure.append(least)  # of all rows from the threshold on
    assert abs(np.mean(right) - np.mean(sure)) < 0.05


def test_confidence_allows_for_rows_that_are_far_out_by_nature():
    """A row that is alone is as sure as docs/intervals.md says; of many such rows fewer can be good."""
    for score, sure in ((4.0, 0.48), (6.0, 0.76), (10.0, 0.95), (20.0, 0.999)):
        scores = np.zeros(200)
        scores[0] = score
        assert confidence(believed(scores), scores > 3.0, -np.inf)[0] == pytest.approx(sure, abs=0.005)
        scores[:20] = score
        assert confidence(believed(scores), scores > 3.0, -np.inf)[0] == pytest.approx(1 - (1 - sure) / 20, abs=5e-4)
    assert (np.diff(believed(np.linspace(0.0, 12.0, 50))) > 0).all()  # the order of the rows stays


def test_rows_that_were_given_as_wrong_are_wrong(data):
    wrong = np.zeros(len(data), dtype=bool)
    wrong[np.flatnonzero(~fit(data).outliers_)[:2]] = True
    est = KernelRecovery().fit(data, wrong=wrong)
    np.testing.assert_array_equal(est.confidence_[wrong], 1.0)
    others = est.outliers_ & ~wrong
    assert (est.confidence_[others] < 1.0).all()
    assert (est.confidence_[others] > 0.5).all()


def test_confidence_of_entries_is_that_of_the_row_times_the_share_in_the_trials(data):
    est = fit(data)
    sure, marked = est.entry_confidence_, est.entry_outliers_
    np.testing.assert_array_equal(np.isnan(sure), ~marked)
    assert ((sure[marked] >= 0) & (sure[marked] <= 1)).all()
    share = est._rows.intervals.wrong
    assert ((share > 0.3) & (share <= 1)).all()
    one = marked & (marked.sum(axis=1) == 1)[:, np.newaxis] & ~est.whole_rows_[:, np.newaxis]
    rows = np.nonzero(one)[0]
    np.testing.assert_allclose(sure[one], est.confidence_[rows] * share[1])
    plain = fit(data, interval=None)
    np.testing.assert_array_equal(plain.entry_confidence_[one], plain.confidence_[rows])


def test_confidence_of_entries_is_the_share_that_is_wrong():
    """Over tables with wrong cells, within 0.1: what is said to be wrong with a probability of p is so p times."""
    said, wrong = [], []
    for seed in range(8):
        truth, X = table(seed)
        est = KernelRecovery().fit(X)
        known = ~np.isnan(est.entry_confidence_) & ~np.isnan(X)
        said += est.entry_confidence_[known].tolist()
        wrong += (truth != X)[known].tolist()
    assert len(said) > 100
    assert abs(np.mean(said) - np.mean(wrong)) < 0.1


def test_reasons_are_written_as_people_write_numbers():
    """No exponents where none is needed, no number first, and the value it became with its interval."""
    rng = np.random.default_rng(0)
    X = 20_000 * (3 + rng.standard_normal((200, 2)) @ rng.standard_normal((2, 6)))
    X += 300 * rng.standard_normal(X.shape)
    X[5, 3] = -700_000.0
    est = KernelRecovery().fit(X)
    told = est.explain(5)
    (change,) = (one for one in est.changes_ if one["row"] == 5)
    assert change["reason"].startswith("it is -700000 where the other columns of this row say ")
    half = (change["high"] - change["low"]) / 2.0
    assert f"; it became {change['new']:.0f} ± {in_words(half, 2)}." in str(told)
    for text in (change["reason"], str(told), told._repr_html_()):
        assert "e+0" not in text
    assert repr(told) == f"<Explanation: {told.sentences[0]}>"
    assert "nearest good rows" in told._repr_html_()
