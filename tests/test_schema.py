"""What a model file holds is written down: for each class by name, and nothing else is written or read."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cases import IGNORE_MAX_ITER, with_holes
from sklearn.decomposition import KernelPCA
from sklearn.utils import get_tags
from test_common import data, every
from test_refit import FIRST
from test_saving import Trap, again, forged, npy, refused

import kernmend
from kernmend import KernelPCADenoiser, KernelRecovery, OutlierPursuit, RobustKernelPCA
from kernmend.io import model_file
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


# --- arrays that do not belong together, and models of earlier versions ----------------------------------------------

MODELS = Path(__file__).parent / "models"


def with_array(est, path, where, change):
    """Return the bytes of a saved model after a change to one of its arrays, which is found by the names on the way."""
    with zipfile.ZipFile(est.save(path, force=True)) as archive:
        document = json.loads(archive.read("model.json"))
        members = {name: archive.read(name) for name in archive.namelist()[1:]}
    part = document["model"]
    for name in where:
        part = part["state"][name]
    member = f"{part['name']}.npy"
    members[member] = npy(change(np.load(io.BytesIO(members[member]))))
    return forged(document, members.items())


def spoilt(array):
    array = array.copy()
    array.flat[0] = np.nan
    return array


@pytest.mark.parametrize(
    ("where", "change", "match"),
    [
        (
            ["outlier_scores_"],
            lambda a: a[:-1],
            r"outlier_scores_ is \(29,\), which does not belong to the other arrays",
        ),
        (["recovered_"], lambda a: a[:, :-1], "recovered_ is .* does not belong"),
        (["_rows", "mender", "L"], lambda a: a[:, 1:], "mender.L is .* does not belong"),
        (["_rows", "detector", "centre"], lambda a: a[1:], "detector.centre is .* does not belong"),
        (["_changed_rows"], lambda a: a + 10**6, "changed rows that are not there"),
        (["recovered_"], spoilt, "KernelRecovery.recovered_ has NaN"),
        (["_rows", "mender", "L"], spoilt, "mender.L has NaN"),
        (["_rows", "detector", "scale"], spoilt, "detector.scale has NaN"),
    ],
)
def test_arrays_that_do_not_belong_together_or_have_nan_are_refused(where, change, match, tmp_path):
    X = data(n=30)[1].copy()
    X[3] += 9.0
    est = KernelRecovery(contamination=0.1).fit(X)
    refused(tmp_path / "changed", with_array(est, tmp_path / "model", where, change), match)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.kernmend")), ids=lambda path: path.stem)
def test_models_of_earlier_versions(path):
    """A change of what a class holds needs another `FORMAT` and another file: see tests/models/make.py."""
    version = int(path.stem.removeprefix("format-"))
    if version < model_file.FORMAT:
        with pytest.raises(model_file.ModelError, match="fit and save the model again"):
            kernmend.load(path)
        return
    answers = json.loads(path.with_suffix(".json").read_text())
    est = kernmend.load(path)
    assert est.feature_names_in_.tolist() == ["x", "y", "z"]
    del est.feature_names_in_
    np.testing.assert_allclose(est.transform(answers["rows"]), answers["mended"], atol=1e-5)
    assert est.predict(answers["rows"]).tolist() == answers["fits"]


def test_there_is_a_model_of_this_format():
    assert (MODELS / f"format-{model_file.FORMAT}.kernmend").exists()
