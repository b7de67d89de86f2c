"""A second fit leaves nothing of the first, and a refused one says so before it takes anything away."""

import numpy as np
import pandas as pd
import pytest
from cases import IGNORE_MAX_ITER, with_holes
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from test_common import ESTIMATORS, data, every

from kernmend import KernelRecovery

pytestmark = pytest.mark.usefixtures("quick_calibration")

# Other settings of a first fit, which sets attributes that a fit with the defaults does not.
FIRST = {
    "GraphRobustPCA": {"penalty": "graphs"},
    "KernelPCADenoiser": {"preimage": "ridge"},
    "KernelRecovery": {"landmarks": 30},
    "RecoverySearch": {"estimator": KernelRecovery(landmarks=30)},
    "RobustPCA": {"rank": 2},
}


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
    assert vars(est).keys() == vars(fresh).keys()
    np.testing.assert_array_equal(est.recovered_, fresh.recovered_)
    assert est.summary() == fresh.summary()


def test_a_fit_after_batches_is_a_fit():
    _, X, _ = data(n=60)
    est = KernelRecovery().partial_fit(X).partial_fit(X).fit(X)
    assert vars(est).keys() == vars(KernelRecovery().fit(X)).keys()


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


@every
@IGNORE_MAX_ITER
def test_what_scikit_learn_was_told_stays(make):
    if not hasattr(make, "transform"):
        pytest.skip("has no transform")
    frame = pd.DataFrame(data(n=60)[1], columns=[f"c{j}" for j in range(20)])
    est = make().set_output(transform="pandas")
    for _ in range(2):
        assert est.fit(frame).transform(frame).columns.equals(frame.columns)


def test_all_estimators_are_here():
    assert FIRST.keys() <= ESTIMATORS.keys()
