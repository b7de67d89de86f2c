"""The contract of all estimators. They are discovered: whatever `kernmend.estimators` exports is tested here."""

import inspect
from dataclasses import is_dataclass
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from cases import IGNORE_MAX_ITER, with_holes
from convex import low_rank, wrong_rows
from sklearn.base import clone, is_outlier_detector
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_outliers_fit_predict, check_outliers_train, parametrize_with_checks

import kernmend
from kernmend import KernelRecovery, estimators
from kernmend.estimators._base import Recovery
from kernmend.solvers.result import History

CLASSES = {
    name: value
    for name, value in vars(estimators).items()
    if inspect.isclass(value) and issubclass(value, Recovery) and value is not Recovery
}
QUICK = {"RecoverySearch": {"n_iter": 2, "n_splits": 1}}  # what makes an estimator quick enough for so many tests


def quick(name):
    if name not in QUICK:
        return CLASSES[name]
    make = partial(CLASSES[name], **QUICK[name])
    make.__name__, make.transform = name, CLASSES[name].transform
    return make


ESTIMATORS = {name: quick(name) for name in CLASSES}
pytestmark = pytest.mark.filterwarnings("ignore::kernmend.NothingMendedWarning")
# These draw every row towards the others, right or wrong: good rows move a little, and where whole rows are wrong they
# are not the method for it. What they must do is in their own tests; here the limits are wider.
SMOOTHING = {"GraphRobustPCA", "KernelLowRank", "KernelPCADenoiser", "RobustKernelPCA"}
# A fit moves all rows together, `transform` each one against those recovered: a seen row may end elsewhere.
JOINT = {"KernelLowRank"}
EXACT = {name: partial(CLASSES[name], tol=1e-10, max_iter=2000) for name in JOINT}
STOP_REASONS = {"converged", "max_iter", "stalled", "interrupted"}


def each(names):
    """The mark of a test of some estimators."""
    return pytest.mark.parametrize("make", [ESTIMATORS[name] for name in names], ids=list(names))


every = each(ESTIMATORS)
transforming = each([name for name in ESTIMATORS if hasattr(CLASSES[name], "transform")])


def at_share(make, share):
    """An estimator that flags a share of the rows, where it can; "auto" is what it finds by itself."""
    if make.__name__ in QUICK:
        return make(estimator=KernelRecovery(contamination=share))
    return make(contamination=share) if "contamination" in make().get_params() else make()


NONE_FOUND = "scikit-learn wants rows of its clean blobs flagged; by itself the estimator finds nothing wrong there"
FINDS_SOME = {"GraphRobustPCA", "KernelPCADenoiser", "RobustKernelPCA"}  # on those blobs, which they draw together


def expected_failures(est):
    if type(est).__name__ in FINDS_SOME:
        return {}
    checks = ["check_outliers_fit_predict", *(["check_outliers_train"] if hasattr(est, "predict") else [])]
    return dict.fromkeys(checks, NONE_FOUND)


@IGNORE_MAX_ITER
@pytest.mark.usefixtures("quick_calibration")
@parametrize_with_checks([make() for make in ESTIMATORS.values()], expected_failed_checks=expected_failures)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# Those that find something pass these checks above. `KernelLowRank` judges seen rows otherwise than its fit, which
# moves all of them together; and the blobs have two features, of full rank: `OutlierPursuit` sees no error in them.
@each([name for name in ESTIMATORS if name not in {*FINDS_SOME, *JOINT, "OutlierPursuit"}])
@IGNORE_MAX_ITER
@pytest.mark.usefixtures("quick_calibration")
def test_scikit_learn_contract_of_outlier_detectors(make):
    est = at_share(make, 0.1)
    check_outliers_fit_predict(make.__name__, est)
    if hasattr(est, "predict"):
        check_outliers_train(make.__name__, est, readonly_memmap=True)


def data(seed=0, n=80, d=20):
    """Two dimensions of 20, a tenth of the rows random."""
    truth = low_rank(n, d, 2, seed)
    return truth, *wrong_rows(truth, seed=seed)


@cache
def fitted(make):
    """A default fit to `data()`, shared by tests that only read it."""
    return make().fit(data()[1])


def test_all_are_exported():
    assert len(CLASSES) >= 4
    for name, make in CLASSES.items():
        assert name in estimators.__all__
        assert name in kernmend.__all__
        assert getattr(kernmend, name) is make
    assert kernmend.__all__ == sorted(kernmend.__all__)
    assert estimators.__all__ == sorted(estimators.__all__)


@pytest.mark.parametrize("make", CLASSES.values(), ids=list(CLASSES))
def test_signature_and_docstring(make):
    parameters = inspect.signature(make.__init__).parameters
    assert all(p.kind is p.KEYWORD_ONLY for name, p in parameters.items() if name != "self")
    text = inspect.getdoc(make)
    for section in ("Parameters", "Attributes", "Examples"):
        assert f"{section}\n---" in text
    for name in parameters:
        assert name == "self" or name in text
    assert is_outlier_detector(make())
    assert not is_dataclass(make)  # Dask would compare the parameters only, and take two fits for the same


@every
@pytest.mark.usefixtures("quick_calibration")
@IGNORE_MAX_ITER
def test_attributes(make):
    _, X, _ = data()
    est = make()
    A = est.fit_transform(X)
    np.testing.assert_array_equal(A, est.recovered_)
    assert A.shape == X.shape
    assert np.isfinite(A).all()
    assert est.outlier_scores_.shape == (len(X),)
    assert np.isfinite(est.outlier_scores_).all()
    assert est.outliers_.dtype == bool
    assert est.outliers_.shape == (len(X),)
    np.testing.assert_array_equal(est.outliers_, est.outlier_scores_ > est.threshold_)
    assert np.isfinite(est.threshold_)
    assert est.objective_.shape == (est.n_iter_ + 1,)
    assert np.isfinite(est.objective_).all()
    assert est.stop_reason_ in STOP_REASONS
    assert 0 <= est.rank_ <= len(X)
    if hasattr(est, "history_"):
        assert [record.objective for record in est.history_] == est.objective_.tolist()
    np.testing.assert_array_equal(make().fit_predict(X), np.where(est.outliers_, -1, 1))
    assert f"{est.outliers_.sum()} of {len(X)} rows flagged" in est.summary()


@every
@IGNORE_MAX_ITER
def test_clean_data_is_not_destroyed(make):
    truth, _, _ = data()
    est = make().fit(truth)
    allowed = 0.2 if make.__name__ in SMOOTHING else 0.05
    assert np.linalg.norm(est.recovered_ - truth) < allowed * np.linalg.norm(truth)
    assert est.outliers_.mean() <= (0.1 if make.__name__ in SMOOTHING else 0.05)


def separated(make, scores, bad):
    """Whether the corrupted rows score highest, nearly so for methods that smooth."""
    if make.__name__ in SMOOTHING:
        return np.median(scores[bad]) > np.percentile(scores[~bad], 90)
    return scores[bad].min() > scores[~bad].max()


@every
@IGNORE_MAX_ITER
def test_the_corrupted_rows_score_highest_and_come_nearer_to_the_subspace(make):
    truth, X, bad = data()
    est = fitted(make)
    assert separated(make, est.outlier_scores_, bad)
    basis = np.linalg.svd(truth, full_matrices=False)[2][:2]

    def off(A):
        return np.linalg.norm(A[bad] - A[bad] @ basis.T @ basis)

    assert off(est.recovered_) < (0.9 if make.__name__ in SMOOTHING else 0.5) * off(X)


@every
@IGNORE_MAX_ITER
def test_missing_entries_are_filled_in_or_refused(make):
    _, X, _ = data()
    holes = with_holes(X)
    if not get_tags(make()).input_tags.allow_nan:
        row, column = np.argwhere(np.isnan(holes))[0]
        with pytest.raises(ValueError, match=f"NaN: row {row} has it in column {column}"):
            make().fit(holes)
        return
    est = make().fit(holes)
    assert np.isfinite(est.recovered_).all()
    holes[:, 3] = np.nan
    with pytest.raises(ValueError, match="nothing is observed in column 3"):
        make().fit(holes)
    if hasattr(est, "transform"):
        empty = np.where(np.arange(4)[:, np.newaxis] == 2, np.nan, X[:4])
        with pytest.raises(ValueError, match="nothing is observed in row 2: drop it"):
            est.transform(empty)


@every
def test_the_infinite_cell_is_named(make):
    frame = pd.DataFrame(data()[1], columns=[f"c{j}" for j in range(20)])
    frame.iloc[17, 4] = np.inf
    with pytest.raises(ValueError, match=r"inf: row 17 has it in column 'c4'"):
        make().fit(frame)
    with pytest.raises(ValueError, match=r"inf: row 17 has it in column 4"):
        make().fit(frame.to_numpy())


@every
@pytest.mark.usefixtures("quick_calibration")
@IGNORE_MAX_ITER
def test_dataframes_stay_dataframes(make):
    frame = pd.DataFrame(data()[1], columns=[f"c{j}" for j in range(20)], index=[f"r{i}" for i in range(80)])
    out = make().set_output(transform="pandas").fit_transform(frame) if hasattr(make, "transform") else None
    est = make().fit(frame)
    assert est.feature_names_in_.tolist() == frame.columns.tolist()
    assert est.get_feature_names_out().tolist() == frame.columns.tolist()
    if out is not None:
        assert out.columns.equals(frame.columns)
        assert out.index.equals(frame.index)


@every
@pytest.mark.usefixtures("quick_calibration")
@IGNORE_MAX_ITER
def test_the_same_again(make):
    _, X, _ = data()
    est = make()
    if "random_state" in est.get_params():
        est.set_params(random_state=3)
    first = est.fit(X).recovered_
    np.testing.assert_array_equal(clone(est).fit(X).recovered_, first)
    np.testing.assert_array_equal(est.fit(X).recovered_, first)


@every
@IGNORE_MAX_ITER
def test_the_order_of_the_rows_does_not_matter(make):
    truth, X, _ = data()
    order = np.random.default_rng(4).permutation(len(X))
    plain, mixed = fitted(make), make().fit(X[order])
    np.testing.assert_array_equal(mixed.outliers_, plain.outliers_[order])
    distance = np.linalg.norm(mixed.recovered_ - plain.recovered_[order])
    assert distance < 0.01 * np.linalg.norm(truth)


@every
@pytest.mark.parametrize("scale", [1e-3, 1e3])
@IGNORE_MAX_ITER
def test_units_do_not_matter(make, scale):
    truth, X, _ = data()
    if make.__name__ in JOINT:  # else rounding decides when it stops
        make = EXACT[make.__name__]
    plain, scaled = fitted(make), make().fit(scale * X)
    np.testing.assert_array_equal(scaled.outliers_, plain.outliers_)
    np.testing.assert_allclose(scaled.outlier_scores_, plain.outlier_scores_, rtol=1e-3, atol=1e-3)
    assert np.linalg.norm(scaled.recovered_ / scale - plain.recovered_) < 1e-3 * np.linalg.norm(truth)


@every
@IGNORE_MAX_ITER
def test_float32_stays_float32(make):
    truth, X, _ = data()
    single, double = make().fit(X.astype(np.float32)), fitted(make)
    assert single.recovered_.dtype == np.float32
    # A row whose score is the threshold but for a twentieth may be on either side of it in single precision.
    clear = np.abs(double.outlier_scores_ / double.threshold_ - 1.0) > 0.05
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(single.outliers_[clear], double.outliers_[clear])
    assert np.linalg.norm(single.recovered_ - double.recovered_) < 0.02 * np.linalg.norm(truth)
    if hasattr(make, "transform"):
        assert single.transform(X[:5].astype(np.float32)).dtype == np.float32


@each([name for name in ESTIMATORS if hasattr(CLASSES[name], "transform") and name not in JOINT])
@IGNORE_MAX_ITER
def test_seen_rows_are_mended_as_in_the_fit(make):
    truth, X, bad = data()
    est = fitted(make)
    assert np.linalg.norm(est.transform(X) - est.recovered_) < 1e-2 * np.linalg.norm(truth)
    np.testing.assert_array_equal(est.predict(X), np.where(est.outliers_, -1, 1))
    scores = -est.score_samples(X)
    assert separated(make, scores, bad)


@every
@pytest.mark.usefixtures("quick_calibration")
@IGNORE_MAX_ITER
@pytest.mark.parametrize("share", ["auto", 0.3])
def test_flags_are_the_scores_above_the_threshold(make, share):
    _, X, _ = data(n=60)
    est = at_share(make, share).fit(X)
    np.testing.assert_array_equal(est.outliers_, est.outlier_scores_ > est.threshold_)
    if share != "auto" and hasattr(getattr(est, "estimator", est), "contamination"):
        assert est.outliers_.mean() <= share
    assert est.offset_ == -est.threshold_
    if not hasattr(make, "transform"):
        return
    new = np.vstack([X, data(seed=1, n=60)[1]])
    decision = est.decision_function(new)
    np.testing.assert_array_equal(est.predict(new), np.where(decision >= 0, 1, -1))
    np.testing.assert_array_equal(decision, est.score_samples(new) - est.offset_)
    if make.__name__ not in JOINT:  # seen rows are flagged as in the fit
        np.testing.assert_array_equal(decision[: len(X)] < 0, est.outliers_)


@each([name for name in ESTIMATORS if "random_state" in CLASSES[name]().get_params()])
@IGNORE_MAX_ITER
def test_a_fit_draws_one_number_of_a_random_state(make):
    """So that which fit comes next, and with what seed, does not depend on how a fit is made."""
    _, X, _ = data()
    used, once = np.random.RandomState(0), np.random.RandomState(0)
    make(random_state=used).fit(X)
    once.randint(2**31 - 1)
    assert used.randint(2**31 - 1) == once.randint(2**31 - 1)


@every
@IGNORE_MAX_ITER
def test_what_is_handed_out_is_a_copy(make):
    _, X, _ = data()
    given, est = X.copy(), make()
    out = est.fit_transform(given)
    recovered = est.recovered_.copy()
    scores = est.score_samples(X) if hasattr(make, "transform") else None
    out[...] = 0.0
    given[...] = 0.0
    np.testing.assert_array_equal(est.recovered_, recovered)
    if scores is not None:
        np.testing.assert_array_equal(est.score_samples(X), scores)
        out = est.transform(X)
        np.testing.assert_array_equal(est.recovered_, recovered)
        assert not np.shares_memory(out, est.recovered_)


# These two have no solver with a history: tests/test_search.py and tests/test_large.py interrupt their loops.
@each([name for name in ESTIMATORS if name not in {*QUICK, "KernelRecovery"}])
@IGNORE_MAX_ITER
def test_interruption_keeps_what_there_is(make, monkeypatch):
    _, X, _ = data()
    est = make()
    add = History.add

    def interrupted(self, *arguments, **options):
        add(self, *arguments, **options)
        if len(self.records) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(History, "add", interrupted)
    with pytest.warns(UserWarning, match="interrupted"):
        est.fit(X)
    assert est.stop_reason_ == "interrupted"
    assert est.recovered_.shape == X.shape
    assert np.isfinite(est.recovered_).all()
    assert est.n_iter_ == 3


@every
@pytest.mark.parametrize("value", [0.0, 3.7, 1e8])
@IGNORE_MAX_ITER
def test_constant_data(make, value):
    X = np.full((20, 3), value)
    est = make().fit(X)
    np.testing.assert_allclose(est.recovered_, X, rtol=0.02)
    assert not est.outliers_.any()


@every
@pytest.mark.parametrize("shape", [(2, 1), (2, 5), (3, 200), (40, 1)])
@pytest.mark.parametrize("scale", [1e-8, 1e8])
@IGNORE_MAX_ITER
def test_odd_shapes_and_scales(make, shape, scale):
    X = scale * np.random.default_rng(0).standard_normal(shape)
    est = make().fit(X)
    assert np.abs(est.recovered_).max() <= 1.001 * np.abs(X).max()  # nothing is taken farther out than the data
    assert np.isfinite(est.objective_).all()
    assert np.isfinite(est.outlier_scores_).all()
