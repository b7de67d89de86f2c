"""A second fit leaves nothing of the first, and a refused one says so before it takes anything away."""

from dataclasses import fields, is_dataclass

import numpy as np
import pandas as pd
import pytest
from cases import IGNORE_MAX_ITER, with_holes
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from test_common import ESTIMATORS, data, every, transforming

import kernmend
from kernmend import KernelRecovery
from kernmend.model.errors import RowError
from kernmend.model.kernels import RBF
from kernmend.repair.mender import Settings

pytestmark = pytest.mark.usefixtures("quick_calibration")

# Other settings of a first fit, which sets attributes that a fit with the defaults does not.
FIRST = {
    "GraphRobustPCA": {"penalty": "graphs"},
    "KernelPCADenoiser": {"preimage": "ridge"},
    "KernelRecovery": {"landmarks": 30},
    "RecoverySearch": {"estimator": KernelRecovery(landmarks=30)},
    "RobustPCA": {"rank": 2},
}


def assert_same(one, other, path=""):
    """Fail unless two objects are equal in all of their parts, whatever they are made of; times are not compared."""
    assert type(one) is type(other), path
    if isinstance(one, np.ndarray) and one.dtype != object:
        np.testing.assert_array_equal(one, other, err_msg=path, strict=True)
    elif issparse(one):
        assert_same(one.toarray(), other.toarray(), path)
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for name in one.keys() - {"seconds"}:
            assert_same(one[name], other[name], f"{path}.{name}")
    elif isinstance(one, (list, tuple, np.ndarray)):
        assert len(one) == len(other), path
        for k, (first, second) in enumerate(zip(one, other, strict=True)):
            assert_same(first, second, f"{path}[{k}]")
    elif is_dataclass(one) and not isinstance(one, type):
        parts = ({field.name: getattr(each, field.name) for field in fields(each)} for each in (one, other))
        assert_same(*parts, path)
    elif hasattr(one, "__dict__") and not callable(one):
        assert_same(vars(one), vars(other), path)
    else:
        assert one == other or (one != one and other != other), path  # NaN is what it is


@every
@IGNORE_MAX_ITER
def test_a_second_fit_leaves_nothing_of_the_first(make):
    _, X, _ = data(n=60)
    other = data(seed=1, n=50, d=8)[1]
    other = with_holes(other) if get_tags(make()).input_tags.allow_nan else other
    est = make()
    defaults = est.get_params(deep=False)
    est.set_params(**FIRST.get(make.__name__, {}))
    est.fit(pd.DataFrame(other, columns=list("abcdefgh")))
    est.left_over_ = 1
    est.set_params(**defaults).fit(X)
    fresh = make().fit(X)
    assert_same(est, fresh)
    assert est.summary() == fresh.summary()


def test_a_fit_after_batches_is_a_fit():
    _, X, _ = data(n=60)
    assert_same(KernelRecovery().partial_fit(X).partial_fit(X).fit(X), KernelRecovery().fit(X))


@pytest.mark.parametrize("method", ["kernel", "search"])
def test_a_fit_after_one_with_more_good_rows_is_a_fit(method):
    truth, X, _ = data(n=60)
    params = {"n_iter": 2, "n_splits": 1} if method == "search" else {}
    est = kernmend.mend(X, method=method, good=truth, **params).estimator
    assert len(est.recovered_) == len(X)
    fresh = clone(est).fit(X)
    assert_same(est.fit(X), fresh)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.zeros(3), np.zeros(3, np.float32)),
        ([1, 2], [1, 2, 3]),
        ({"a": 1}, {"b": 1}),
        (KernelRecovery(), KernelRecovery(alpha=0.1)),
        (Settings(RBF(1.0), 1e-5, RowError, 0.5), Settings(RBF(2.0), 1e-5, RowError, 0.5)),
    ],
)
def test_other_parts_are_not_the_same(one, other):
    with pytest.raises(AssertionError):
        assert_same(one, other)


@every
@IGNORE_MAX_ITER
def test_refused_parameters_leave_the_fit_as_it_was(make):
    est = make().fit(data(n=60)[1])
    before = dict(vars(est))
    name = "max_iter" if "max_iter" in est.get_params() else "n_iter"
    value = getattr(est, name)
    with pytest.raises(ValueError, match=f"{name} must be"):
        est.set_params(**{name: 0}).fit(data(seed=1, n=50, d=8)[1])
    est.set_params(**{name: value})
    assert vars(est).keys() == before.keys()
    assert all(vars(est)[name] is part for name, part in before.items())


@every
@IGNORE_MAX_ITER
def test_refused_data_leave_no_fit_that_mixes_two(make):
    est = make().fit(data(n=60)[1])
    other = data(seed=1, n=50, d=8)[1]
    other[3, 4] = np.inf
    with pytest.raises(ValueError, match="X contains inf"):
        est.fit(other)
    with pytest.raises(NotFittedError):
        est.summary()


@transforming
@IGNORE_MAX_ITER
def test_what_scikit_learn_was_told_stays(make):
    frame = pd.DataFrame(data(n=60)[1], columns=[f"c{j}" for j in range(20)])
    est = make().set_output(transform="pandas")
    for _ in range(2):
        assert est.fit(frame).transform(frame).columns.equals(frame.columns)


def test_all_estimators_are_here():
    assert FIRST.keys() <= ESTIMATORS.keys()
