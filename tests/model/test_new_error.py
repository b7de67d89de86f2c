"""An error model of one's own, the one of docs/new_error.md, wherever an error model can be given."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime
from sklearn.base import clone

import kernmend
from kernmend import KernelLowRank, KernelRecovery, RecoverySearch
from kernmend.io.model_file import ModelError
from kernmend.model import errors

pytestmark = pytest.mark.usefixtures("quick_calibration")
PAGE = Path(__file__).parents[2] / "docs" / "new_error.md"


@pytest.fixture
def named(page, monkeypatch):
    """The class with a line in the table: its name is accepted everywhere."""
    monkeypatch.setitem(errors.ERROR_MODELS, "huber", page["HuberEntryError"])
    return page


@pytest.mark.parametrize("missing", [False, True])
def test_the_gradient(page, missing):
    rng = np.random.default_rng(0)
    X, A = rng.standard_normal((2, 3, 4))
    if missing:
        X[1, 2] = np.nan
    model = page["HuberEntryError"](X, 0.5)
    value, gradient = model.evaluate(A)
    expected = approx_fprime(A.ravel(), lambda a: model.evaluate(a.reshape(A.shape))[0], 1e-7)
    np.testing.assert_allclose(gradient.ravel(), expected, atol=1e-5)
    assert value > 0
    assert model.rows(slice(1, 2)).evaluate(A[1:2])[0] == pytest.approx(model.evaluate_rows(A)[0][1])
    if missing:
        assert gradient[1, 2] == 0


def test_the_class_is_accepted_and_used(page):
    model, X = page["HuberEntryError"], page["X"]
    est = KernelRecovery(error=model).fit(X)
    assert est._rows.settings.error is model
    assert "'huber'" in est.summary()
    assert clone(est).error is model
    low = KernelLowRank(error=model).fit(X)
    assert low.error_ == "huber"
    assert low.entry_outliers_.shape == X.shape
    search = RecoverySearch(estimator=KernelRecovery(error=model), n_iter=2, n_splits=1).fit(X)
    assert search.error_ == "huber"


def test_a_model_file_does_not_hold_foreign_classes(page, tmp_path):
    with pytest.raises(ModelError, match="cannot save this model"):
        KernelRecovery(error=page["HuberEntryError"]).fit(page["X"]).save(tmp_path / "model")


METHODS = {
    "kernel": lambda: KernelRecovery(error="huber"),
    "joint": lambda: KernelLowRank(error="huber"),
    "search": lambda: RecoverySearch(estimator=KernelRecovery(error="huber"), n_iter=2, n_splits=1),
}


@pytest.mark.parametrize("method", METHODS)
def test_with_a_line_in_the_table_its_name_is_accepted_in_python(named, method, tmp_path):
    X, quick = named["X"], {"n_iter": 2, "n_splits": 1} if method == "search" else {}
    est = METHODS[method]().fit(X)
    assert est.error_ == "huber"
    assert "'huber'" in est.summary()
    used = {fact["name"]: fact["used"] for fact in est.report_data()["parameters"]}
    assert used["error"] == "huber"
    loaded = kernmend.load(est.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.transform(X), est.transform(X))
    np.testing.assert_array_equal(kernmend.mend(X, method=method, error="huber", **quick).data, est.recovered_)


@pytest.mark.parametrize("method", METHODS)
def test_with_a_line_in_the_table_its_name_is_accepted_by_the_commands(named, method, kernmend_command, tmp_path):
    pd.DataFrame(named["X"]).to_csv(tmp_path / "X.csv", index=False)
    error = ("--method", method, "--error", "huber", "--json")
    done = kernmend_command("mend", tmp_path / "X.csv", *error, "-o", tmp_path / "A.csv")
    assert json.loads(done.stdout)["error"] == "huber"
    done = kernmend_command("inspect", tmp_path / "X.csv", *error)
    assert json.loads(done.stdout)["flagged"] == 8


def test_the_name_is_that_of_the_class(named):
    by_name, by_class = (KernelRecovery(error=error).fit(named["X"]) for error in ("huber", named["HuberEntryError"]))
    np.testing.assert_array_equal(by_name.recovered_, by_class.recovered_)


def test_a_name_that_is_not_in_the_table(kernmend_command, tmp_path):
    pd.DataFrame(np.eye(5)).to_csv(tmp_path / "X.csv", index=False)
    done = kernmend_command("mend", tmp_path / "X.csv", "--error", "huber", code=2)
    assert "error must be one of 'auto', 'rows', 'entries', 'kernel', got 'huber'" in done.stderr


@pytest.fixture
def kernmend_command(request):
    """The command line; the module `kernmend` has that name here."""
    return request.getfixturevalue("kernmend")
