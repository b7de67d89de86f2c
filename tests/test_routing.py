"""Metadata routing: what `fit` takes besides the data goes through a pipeline."""

import numpy as np
import pytest
import sklearn
from cases import IGNORE_MAX_ITER
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from test_common import ESTIMATORS, data

import kernmend
from kernmend import GraphRobustPCA, KernelRecovery

pytestmark = pytest.mark.usefixtures("quick_calibration")


@pytest.fixture(autouse=True)
def _routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


KNOW = ["KernelRecovery", "RecoverySearch"]  # take rows that are known


@pytest.mark.parametrize("name", KNOW)
@IGNORE_MAX_ITER
def test_known_rows_reach_the_fit_in_a_pipeline(name):
    _, X, bad = data(n=60)
    est = ESTIMATORS[name]()
    if name == "RecoverySearch":
        est.set_params(estimator=KernelRecovery())
    # What becomes of the rows does not matter here, nor how sure that is.
    quick = {"max_iter": 5, "interval": None, "error": "rows"}
    est.set_params(**{name: quick[key] for name in est.get_params() if (key := name.split("__")[-1]) in quick})
    good, wrong = np.flatnonzero(bad)[0], np.flatnonzero(~bad)[0]
    masks = {"good": np.arange(len(X)) == good, "wrong": np.arange(len(X)) == wrong}
    plain = clone(est).fit(X, **masks)
    assert not plain.outliers_[good]
    assert plain.outliers_[wrong]

    est.set_fit_request(good=True, wrong=True)
    inside = Pipeline([("mend", clone(est)), ("scale", StandardScaler())])
    scaled = inside.fit_transform(X, **masks)
    np.testing.assert_array_equal(inside["mend"].recovered_, plain.recovered_)
    np.testing.assert_array_equal(scaled, StandardScaler().fit_transform(plain.recovered_))

    last = make_pipeline(FunctionTransformer(), clone(est))
    np.testing.assert_array_equal(last.fit_predict(X, **masks), np.where(plain.outliers_, -1, 1))
    np.testing.assert_array_equal(last.fit(X, **masks)[-1].outliers_, plain.outliers_)  # the request is not forgotten


@pytest.mark.parametrize("name", KNOW)
def test_without_a_request_known_rows_are_refused(name):
    _, X, bad = data(n=60)
    with pytest.raises((TypeError, UnsetMetadataPassedError), match="good"):
        make_pipeline(ESTIMATORS[name](), StandardScaler()).fit(X, good=~bad)


@IGNORE_MAX_ITER
def test_graphs_reach_the_fit_in_a_pipeline():
    _, X, _ = data(n=60)
    rows, columns = (kneighbors_graph(A, 4) for A in (X, X.T))
    graphs = {"graph": (rows + rows.T) / 2, "feature_graph": (columns + columns.T) / 2}
    est = GraphRobustPCA(penalty="graphs")
    plain = clone(est).fit(X, **graphs)
    assert not np.array_equal(plain.recovered_, clone(est).fit(X).recovered_)
    pipeline = make_pipeline(FunctionTransformer(), est.set_fit_request(graph=True, feature_graph=True))
    np.testing.assert_array_equal(pipeline.fit(X, **graphs)[-1].recovered_, plain.recovered_)
    np.testing.assert_array_equal(pipeline.fit_transform(X, **graphs), plain.recovered_)


@pytest.mark.parametrize("name", KNOW)
def test_a_model_with_a_request_can_be_saved(name, tmp_path):
    _, X, bad = data(n=60)
    est = ESTIMATORS[name]().set_fit_request(good=True).fit(X, good=~bad)
    loaded = kernmend.load(est.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(X), est.predict(X))
