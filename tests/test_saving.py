"""Models on disk: the same model comes back, and what is not one is refused in one line."""

import hashlib
import io
import json
import os
import pickle
import random
import zipfile
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from cases import IGNORE_MAX_ITER, with_holes
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from test_common import data, every

import kernmend
from kernmend import KernelLowRank, KernelRecovery, OutlierPursuit, RobustPCA
from kernmend.io import model_file as saving
from kernmend.io.model_file import ModelError
from kernmend.model.kernels import RBF, Polynomial, RadialKernel

pytestmark = pytest.mark.usefixtures("quick_calibration")


def same(first, second, X):
    assert type(second) is type(first)
    assert vars(second).keys() == vars(first).keys()
    assert repr(second.get_params()) == repr(first.get_params())
    for name in ("recovered_", "outlier_scores_", "outliers_", "objective_", "threshold_"):
        value, again = getattr(first, name), getattr(second, name)
        np.testing.assert_array_equal(again, value)
        assert np.asarray(again).dtype == np.asarray(value).dtype
    assert second.summary() == first.summary()
    for name in ("transform", "predict", "score_samples", "decision_function"):
        if hasattr(first, name):
            np.testing.assert_array_equal(getattr(second, name)(X), getattr(first, name)(X))
    assert repr(second.report_data()) == repr(first.report_data())


def again(est, tmp_path):
    return kernmend.load(est.save(tmp_path / "model.kernmend"))


@every
@IGNORE_MAX_ITER
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_same_model_comes_back(make, dtype, tmp_path):
    _, X, _ = data()
    est = make().fit(X[:70].astype(dtype))
    same(est, again(est, tmp_path), X.astype(dtype))


@every
@IGNORE_MAX_ITER
def test_with_names_and_missing_entries(make, tmp_path):
    _, X, _ = data()
    X = with_holes(X) if get_tags(make()).input_tags.allow_nan else X
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(20)])
    est = make().fit(frame)
    loaded = again(est, tmp_path)
    same(est, loaded, frame)
    assert loaded.feature_names_in_.tolist() == frame.columns.tolist()
    if hasattr(est, "transform"):
        with pytest.raises(ValueError, match="feature names"):
            loaded.transform(frame.rename(columns={"c3": "d3"}))
        wide = loaded.set_output(transform="pandas").transform(frame)
        assert wide.columns.tolist() == frame.columns.tolist()


@IGNORE_MAX_ITER
@pytest.mark.parametrize(
    "est",
    [
        KernelLowRank(),
        KernelLowRank(error="entries", penalty="schatten"),
        KernelLowRank(solver="alternating-parallel", max_iter=5, gamma=0.01, lam=0.3, rho=1e4),
        KernelRecovery(kernel=Polynomial(3.0, 1.0), bounds=(-9.0, 9.0), contamination=0.1),
        KernelRecovery(kernel=RBF(0.02), bounds="data", error="entries", random_state=np.random.RandomState(7)),
    ],
)
def test_every_way_of_the_kernel_models(est, tmp_path):
    _, X, _ = data()
    est.fit(X)
    loaded = again(est, tmp_path)
    if isinstance(est.random_state, np.random.RandomState):
        assert loaded.random_state.randint(1 << 30) == est.random_state.randint(1 << 30)
        loaded.random_state = est.random_state
    same(est, loaded, X)
    refit = kernmend.load(tmp_path / "model.kernmend").fit(X)
    assert refit.recovered_.shape == X.shape


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    est = OutlierPursuit().fit(data(n=12, d=3)[1])
    return est.save(tmp_path_factory.mktemp("models") / "good.kernmend").read_bytes()


def refused(path, content, match=None):
    path.write_bytes(content)
    with pytest.raises(ModelError, match=match) as caught:
        kernmend.load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_wide_data_whose_mender_remembers_what_its_rows_span(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 100)) + 0.01 * rng.standard_normal((40, 100))
    X[3] += 3.0 * rng.standard_normal(100)
    est = KernelRecovery().fit(X)
    mended = est.transform(X)
    assert "_span" in vars(est._rows.mender)
    est.save(tmp_path / "model.km")
    loaded = kernmend.load(tmp_path / "model.km")
    assert "_span" not in vars(loaded._rows.mender)
    np.testing.assert_array_equal(loaded.transform(X), mended)


def test_every_changed_byte_is_noticed(model, tmp_path):
    assert len(model) < 60_000
    for place in {*range(0, len(model), 97), *range(200), *range(len(model) - 300, len(model))}:
        changed = bytearray(model)
        changed[place] ^= 0x41
        refused(tmp_path / "changed", bytes(changed))


def test_every_cut_is_noticed(model, tmp_path):
    for length in {0, 1, 2, 3, *range(5, len(model), 211), len(model) - 1}:
        refused(tmp_path / "cut", model[:length])
        refused(tmp_path / "cut", model[len(model) - length :] if length else b"")
    assert "cut off" in refused(tmp_path / "cut", model[:-10])
    refused(tmp_path / "longer", model + b"\0")


class Trap:
    """Leaves a mark if it is ever unpickled."""

    def __reduce__(self):
        return pytest.fail, ("something was run",)


def npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Trap()),
        npz(a=np.array([Trap()], dtype=object)),
        npz(a=np.arange(3)),
        json.dumps({"format": 1, "class": "RobustPCA"}).encode(),
        b"PK\x05\x06" + b"\0" * 18,
        b"a,b\n1,2\n",
        b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
    ],
    ids=["pickle", "npz of objects", "npz", "json", "empty zip", "csv", "png"],
)
def test_foreign_files(content, tmp_path):
    refused(tmp_path / "foreign", content, "is not a kernmend model")


def test_what_is_not_a_file(tmp_path):
    with pytest.raises(ModelError, match="No such file"):
        kernmend.load(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for ever
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ModelError, match="is not a file"):
            kernmend.load(path)


# --- files with a right checksum, made by someone who knows the format -----------------------------------------------


def sealed(archive):
    """The bytes of a zip file with the comment of a model."""
    start = archive[:-2] + (len(saving.MARK) + 64).to_bytes(2, "little") + saving.MARK
    return start + hashlib.sha256(start).hexdigest().encode()


def forged(about, members=(), compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        archive.writestr("model.json", about if isinstance(about, str) else json.dumps(about))
        for name, content in members:
            archive.writestr(name, content)
    return sealed(out.getvalue())


def about(model, **changes):
    return {"format": saving.FORMAT, "kernmend": "0.1", "class": "RobustPCA", "model": model} | changes


def npy(array, **options):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **options)
    return out.getvalue()


def test_a_later_format(tmp_path):
    later = saving.FORMAT + 1
    content = forged(about(None, format=later, kernmend="9.9"))
    assert "kernmend 9.9, use that or a later one" in refused(tmp_path / "later", content, f"is of format {later}")


def test_an_earlier_format(tmp_path):
    content = forged(about(None, format=1, kernmend="0.1"))
    assert "fit and save the model again" in refused(tmp_path / "earlier", content, "is of format 1")


ARRAY = {"@": "array", "name": "0", "backwards": []}
OBJECT = {"@": "object", "class": "RobustPCA", "state": {"recovered_": ARRAY}}
HUGE = b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}".ljust(118)


@pytest.mark.parametrize(
    ("document", "members", "match"),
    [
        (about({"@": "object", "class": "Popen", "state": {}}), (), "'Popen' is not a class"),
        (about({"@": "object", "class": "os.system", "state": {}}), (), "not a class"),
        (about({"@": "object", "class": ["RobustPCA"], "state": {}}), (), "not a class"),
        (about({"@": "object", "class": "RBF", "state": {"gamma": 1.0}}), (), "not one of kernmend's estimators"),
        (about({"@": "object", "class": "KernelPCA", "state": {}}, **{"class": "KernelPCA"}), (), "not one of"),
        (about({"@": "object", "class": "RobustPCA", "state": {}}), (), "it lacks"),
        (about({"@": "object", "class": "Kernel", "state": {}}), (), "."),
        (about({"@": "object", "class": "RBF", "state": {}}), (), "a RBF without 'gamma'"),
        (about({"@": "object", "class": "RBF", "state": {"gamma": 1.0, "gram": 1}}), (), "RBF has no 'gram'"),
        (about({"@": "object", "class": "RBF", "state": {"gamma": -1.0}}), (), "gamma"),
        (about({"@": "object", "class": "RobustPCA", "state": {"transform": 1}}), (), "RobustPCA has no 'transform'"),
        (about({"@": "object", "class": "RadialKernel", "state": {}}), (), "nothing says"),
        (about({"@": "object", "class": "RobustPCA", "state": []}), (), "."),
        (about({"@": "exec", "code": "1"}), (), "kind 'exec'"),
        (about({"@": ["array"]}), (), "kind"),
        (about({"@": "bytes", "hex": "zz"}), (), "hex"),
        (about({"@": "dtype", "name": "not one"}), (), "."),
        (about({"@": "dict", "keys": [[1]], "values": [1]}), (), "."),
        (about({"@": "random", "state": {"@": "dict", "keys": [], "values": []}}), (), "."),
        (about(OBJECT), (), "0.npy"),
        (about(OBJECT), [("0.npy", npy(np.array([Trap()], dtype=object), allow_pickle=True))], "not one of numbers"),
        (about(OBJECT), [("0.npy", npy(np.zeros(3, "f8,i4")))], "not one of numbers"),
        (about(OBJECT), [("0.npy", HUGE + b"\0" * 8)], "not the size"),
        (about(OBJECT), [("0.npy", npy(np.zeros(3))[:-1])], "not the size"),
        (about(OBJECT), [("0.npy", b"\x93NUMPY\x03\x00" + b"\0" * 90)], "another version"),
        (about(OBJECT), [("0.npy", b"")], "."),
        ("[" * 100_000, (), "."),
        ("[1, 2]", (), "."),
        ("{}", (), "format"),
        ("\0", (), "."),
        ("", (), "."),
    ],
)
def test_forged_files_are_refused_and_run_nothing(document, members, match, tmp_path):
    refused(tmp_path / "forged", forged(document, members), match)


def mutated(value, chance):
    """A JSON document with some of its parts replaced, dropped or renamed."""
    others = [None, -1, 10**400, "inf", "0", "RBF", "KernelRecovery", [], {}, [[]], {"@": "tuple", "items": 3}, ARRAY]
    if chance.random() < 0.02:
        return chance.choice(others)
    if isinstance(value, list):
        return [mutated(item, chance) for item in value if chance.random() > 0.01]
    if isinstance(value, dict):
        return {key: mutated(item, chance) for key, item in value.items() if chance.random() > 0.005}
    return value


def test_models_with_random_changes_and_a_right_checksum_load_or_are_refused(tmp_path):
    est = KernelRecovery().fit(with_holes(data(n=30)[1]))
    with zipfile.ZipFile(est.save(tmp_path / "model")) as archive:
        document = json.loads(archive.read("model.json"))
        members = [(name, archive.read(name)) for name in archive.namelist()[1:]]
    assert type(kernmend.load(tmp_path / "model")) is KernelRecovery
    refusals = []
    for seed in range(300):
        content = forged(mutated(document, random.Random(seed)), members)
        (tmp_path / "forged").write_bytes(content)
        try:
            kernmend.load(tmp_path / "forged")
        except ModelError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert all(len(text.splitlines()) == 1 for text in refusals)


def test_a_zip_bomb_is_not_unfolded(tmp_path):
    bomb = forged(about(OBJECT), [("0.npy", b"\0" * 50_000_000)], zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    refused(tmp_path / "bomb", bomb, "compressed")


def test_a_sparse_matrix_that_points_outside_is_refused(tmp_path):
    parts = [np.ones(1), np.array([99_999_999]), np.array([0, 1])]
    names = dict(zip(("data", "indices", "indptr"), ({**ARRAY, "name": str(k)} for k in range(3)), strict=True))
    members = [(f"{k}.npy", npy(part)) for k, part in enumerate(parts)]
    refused(tmp_path / "sparse", forged(about({"@": "sparse", "shape": [1, 1], **names}), members))


# --- what cannot be saved, or not there ------------------------------------------------------------------------------


def test_an_unfitted_estimator(tmp_path):
    with pytest.raises(NotFittedError):
        RobustPCA().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@dataclass(frozen=True)
class Mine(RadialKernel):
    """A user's kernel."""

    def profile(self, d2):
        return np.exp(-d2)

    def slope(self, d2, k):
        return -k


class RBFOfMine(RBF):
    """Has the name of none of ours."""


@pytest.mark.parametrize("kernel", [Mine(), RBFOfMine(1.0), type("RBF", (RBF,), {})(1.0)], ids=["new", "sub", "named"])
def test_a_kernel_of_the_users_own(kernel, tmp_path):
    est = KernelRecovery().fit(data()[1])
    est.kernel = kernel
    with pytest.raises(ModelError, match=r"KernelRecovery\.kernel is a \w+ of (test_saving|abc)"):
        est.save(tmp_path / "model")
    est.kernel = np.array([kernel])
    with pytest.raises(ModelError, match=r"KernelRecovery\.kernel is an array of object"):
        est.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_existing_files_stay_unless_forced(tmp_path):
    est = OutlierPursuit().fit(data()[1])
    path = tmp_path / "model.kernmend"
    path.write_text("mine")
    with pytest.raises(ModelError, match="force=True"):
        est.save(path)
    assert path.read_text() == "mine"
    assert est.save(str(path), force=True) == path
    assert path.read_bytes() == est.save(tmp_path / "other").read_bytes()


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    est = OutlierPursuit().fit(data()[1])
    with pytest.raises(ModelError, match="cannot write"):
        est.save(tmp_path / "missing" / "model")

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(ModelError, match="No space left on device"):
        est.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())
