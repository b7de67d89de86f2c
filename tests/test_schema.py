"""What a model file holds is written down: for each class by name, and nothing else is written or read."""

import json
import zipfile

import pandas as pd
import pytest
from cases import IGNORE_MAX_ITER, with_holes
from sklearn.decomposition import KernelPCA
from sklearn.utils import get_tags
from test_common import data, every
from test_refit import FIRST
from test_saving import Trap, again, forged, refused

import kernmend
from kernmend import KernelPCADenoiser, KernelRecovery, OutlierPursuit, RobustKernelPCA
from kernmend.io._encoding import known_classes, schema

pytestmark = pytest.mark.usefixtures("quick_calibration")


def unlisted(est):
    """Attributes that a fit set and no list names."""
    return vars(est).keys() - {*schema(type(est)), *est._caches}


@every
@IGNORE_MAX_ITER
def test_everything_that_a_fit_sets_is_listed(make):
    _, X, _ = data(n=60)
    X = with_holes(X) if get_tags(make()).input_tags.allow_nan else X
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(20)])
    for params in ({}, FIRST.get(make.__name__, {})):
        est = make().set_params(**params).fit(frame)
        for name in ("transform", "predict"):
            if hasattr(est, name):
                getattr(est, name)(frame)
        est.summary()
        assert not unlisted(est)
        if hasattr(est, "partial_fit"):
            assert not unlisted(est.partial_fit(frame))


def test_what_a_fit_to_a_lazy_array_sets_is_listed():
    array = pytest.importorskip("dask.array")
    est = KernelRecovery(landmarks=40).fit(array.from_array(data()[1], chunks=20))
    est.summary()
    assert est._caches[0] in vars(est)
    assert not unlisted(est)


@pytest.mark.parametrize("params", [{}, {"preimage": "ridge", "kernel": "poly"}], ids=["fixed-point", "ridge"])
def test_everything_in_the_components_of_scikit_learn_is_listed(params):
    est = KernelPCADenoiser(**params).fit(data()[1]).kernel_pca_
    assert isinstance(est, KernelPCA)
    assert vars(est).keys() <= set(schema(KernelPCA))
    assert vars(est._centerer).keys() <= set(schema(type(est._centerer)))


def test_parameters_are_listed():
    for name in kernmend.estimators.__all__:
        cls = known_classes()[name]
        assert set(cls().get_params(deep=False)) <= set(schema(cls))
        assert len(schema(cls)) == len(set(schema(cls)))


def test_what_is_not_listed_is_not_written(tmp_path):
    est = OutlierPursuit().fit(data(n=12, d=3)[1])
    plain = est.save(tmp_path / "plain").read_bytes()
    est.note_, est._note = Trap(), "mine"
    assert est.save(tmp_path / "other").read_bytes() == plain


def with_state(est, path, change):
    """The bytes of a saved model after a change to the state of the estimator."""
    with zipfile.ZipFile(est.save(path)) as archive:
        document = json.loads(archive.read("model.json"))
        members = [(name, archive.read(name)) for name in archive.namelist()[1:]]
    change(document["model"]["state"])
    return forged(document, members)


def test_what_is_not_listed_is_not_read(tmp_path):
    est = RobustKernelPCA().fit(data(n=30)[1])
    changes = {
        "RobustKernelPCA has no 'note_'": lambda state: state.update(note_=1),
        "RobustKernelPCA has no '_caches'": lambda state: state.update(_caches=[]),
        "TwoGroups has no 'u'": lambda state: state["_groups"]["state"].update(u=1),
        "a TwoGroups without 'unit'": lambda state: state["_groups"]["state"].pop("unit"),
        "Reference has no '_inverse'": lambda state: state["_subspace"]["state"].update(_inverse=None),
    }
    for match, change in changes.items():
        refused(tmp_path / "changed", with_state(est, tmp_path / "model", change), match)
        (tmp_path / "model").unlink()
    same = with_state(est, tmp_path / "model", lambda state: None)
    (tmp_path / "same").write_bytes(same)
    assert type(kernmend.load(tmp_path / "same")) is RobustKernelPCA


@IGNORE_MAX_ITER
def test_a_model_knows_its_output(tmp_path):
    frame = pd.DataFrame(data()[1], columns=[f"c{j}" for j in range(20)])
    est = OutlierPursuit().set_output(transform="pandas").fit(frame)
    pd.testing.assert_frame_equal(again(est, tmp_path).transform(frame), est.transform(frame))
