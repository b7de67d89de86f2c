"""A table in which every row lacks something: `fit`, `transform`, Dask, `partial_fit` and files fill it in as well."""

import json
import sys

import numpy as np
import pytest

from kernmend import KernelRecovery
from kernmend.cli.main import _run
from kernmend.datasets import make_cubic_surface
from kernmend.repair import completion
from kernmend.repair.completion import fill_missing

N, D, LANDMARKS = 700, 8, 300
COLUMNS = [f"c{j}" for j in range(D)]


@pytest.fixture(scope="module")
def table():
    """Return the truth, what is missing, at least one entry of each row, and the rest."""
    rng = np.random.default_rng(5)
    truth = make_cubic_surface(N, D, random_state=3)
    holes = rng.random(truth.shape) < 0.05
    holes[np.arange(N), rng.integers(0, D, N)] = True
    return truth, holes, np.where(holes, np.nan, truth)


@pytest.fixture(autouse=True)
def few_rows_together(monkeypatch):
    monkeypatch.setattr(completion, "TOGETHER", 200)


def check(A, truth, holes, share=0.2):
    """Known entries stay, and of the error of the nearest rows no more than this share is left."""
    A = np.asarray(A)
    np.testing.assert_array_equal(A[~holes], truth[~holes])
    nearest = fill_missing(np.where(holes, np.nan, truth))[holes] - truth[holes]
    assert np.linalg.norm(A[holes] - truth[holes]) < share * np.linalg.norm(nearest)


@pytest.fixture(scope="module")
def fitted(table):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completion, "TOGETHER", 200)
        return KernelRecovery(landmarks=LANDMARKS, contamination=0.0).fit(table[2])


def test_a_fit(fitted, table):
    assert table[1].any(axis=1).all()
    check(fitted.recovered_, *table[:2])


def test_new_rows(fitted, table):
    check(fitted.transform(table[2]), *table[:2])


def test_dask(fitted, table):
    array = pytest.importorskip("dask.array")
    lazy = array.from_array(table[2], chunks=(160, D))
    est = KernelRecovery(landmarks=LANDMARKS, contamination=0.0).fit(lazy)
    check(est.recovered_.compute(), *table[:2])
    np.testing.assert_allclose(est.recovered_.compute(), fitted.recovered_, atol=1e-3 * table[0].std())
    filled = table[1] & (est.predict(lazy).compute() == 1)[:, np.newaxis]  # of a lazy fit new rows may be flagged
    again = np.where(filled, est.transform(lazy).compute(), fitted.recovered_)
    check(again, *table[:2])


def test_batches(table):
    truth, holes, X = table
    est = KernelRecovery(landmarks=LANDMARKS, contamination=0.0)
    for some in (slice(0, 350), slice(350, 500), slice(500, 700)):
        check(est.partial_fit(X[some]).recovered_, truth[some], holes[some])


def test_files(fitted, table, tmp_path, capfd, monkeypatch):
    truth, holes, X = table
    model, source = fitted.save(tmp_path / "model.kernmend"), tmp_path / "new.npy"
    np.save(source, X)
    monkeypatch.setattr(sys, "argv", ["kernmend", "apply", str(model), str(source), "--json"])
    assert _run(type("Never", (), {"code": None})()) == 0
    check(np.load(json.loads(capfd.readouterr().out)["output"]), truth, holes)
