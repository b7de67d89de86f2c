"""Dask arrays and dataframes: the same numbers as in memory, nothing computed before it is asked for."""

import os
import sys

import numpy as np
import pytest

from kernmend import KernelRecovery, load
from kernmend.datasets import make_cubic_surface
from kernmend.datasets.corruption import gaussian_noise
from kernmend.large import landmarks as _large

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.usefixtures("quick_calibration")  # what is lazy is compared with what is in memory
CHUNKS = ((201, 7, 0, 242), (13, 7))
PYTHON = sys.executable


def noisy(n=450, d=20, seed=0):
    return gaussian_noise(make_cubic_surface(n, d, random_state=seed), 0.1, random_state=seed)[0]


def with_holes(n=260):
    X = noisy(n)
    X[[3, 120, n - 1], [0, 5, 19]] = np.nan
    return X


def far_out(n=260):
    X = noisy(n)
    X[[3, 120, n - 1], [0, 5, 19]] = 1e200, -1e180, 1e160
    return X


def recovery(**params):
    return KernelRecovery(**{"landmarks": 200, "random_state": 1, **params})


def check_same(lazy, known):
    """A lazy fit says the same as one in memory, but for the rounding of products of other sizes."""
    np.testing.assert_allclose(np.asarray(lazy.recovered_), known.recovered_, atol=1e-3)
    np.testing.assert_array_equal(lazy.outliers_.compute(), known.outliers_)
    np.testing.assert_allclose(lazy.outlier_scores_.compute(), known.outlier_scores_, atol=1e-2)
    assert lazy.threshold_ == known.threshold_
    assert (lazy.gamma_, lazy.lam_, lazy.rho_) == (known.gamma_, known.lam_, known.rho_)


@pytest.mark.parametrize("landmarks", ["auto", 200])
def test_bounds_are_refused_before_the_work(landmarks, monkeypatch):
    monkeypatch.setattr("kernmend.repair.learn.Detector", None)
    with pytest.raises(ValueError, match="bounds must have low <= high"):
        recovery(bounds=(1.0, 0.0), landmarks=landmarks).fit(da.from_array(noisy(), chunks=(150, 20)))


# --- the same numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        pytest.param(noisy(), id="odd chunks"),
        pytest.param(noisy().astype(np.float32), id="float32"),
        pytest.param(with_holes(), id="missing"),
        pytest.param(far_out(), id="values whose squares are infinite"),
        pytest.param(np.round(100 * noisy()).astype(np.int16), id="integers"),
    ],
)
def test_arrays_give_the_same_numbers_as_in_memory(X):
    chunks = CHUNKS if len(X) == 450 else ((100, 160), (13, 7))
    lazy = da.from_array(X, chunks=chunks)
    # Integers of some hundreds: at a tol of 1e-6 rows in a flat valley end 1.5e-3 apart on some processors.
    est, known = recovery(tol=1e-9).fit(lazy), recovery(tol=1e-9).fit(X)
    check_same(est, known)
    assert est.recovered_.dtype == est.recovered_.compute().dtype == known.recovered_.dtype
    assert est.recovered_.chunks[1] == lazy.chunks[1]
    assert est.recovered_.shape == X.shape
    assert est.n_missing_ == np.isnan(X).sum()
    kept = ~known.outliers_[:, np.newaxis] & ~np.isnan(X)
    np.testing.assert_array_equal(est.recovered_.compute()[kept], X[kept])
    for method in ("transform", "predict", "score_samples", "decision_function"):
        out, expected = getattr(est, method)(lazy), getattr(known, method)(X)
        assert isinstance(out, da.Array)
        assert out.dtype == out.compute().dtype == expected.dtype
        np.testing.assert_allclose(out.compute(), expected, atol=1e-2 if "_" in method else 1e-3)


def test_fit_transform_and_fit_predict_are_lazy():
    X = da.from_array(noisy(300), chunks=(100, 20))
    assert recovery().fit_transform(X).chunks == X.chunks
    np.testing.assert_array_equal(recovery().fit_predict(X).compute(), recovery().fit_predict(X.compute()))


def test_wrong_entries_and_units():
    X = noisy(300, 18)
    X[::9, :3] += 4.0
    params = {"landmarks": 120, "error": "entries", "scale": [1.0, 2.0] * 9, "contamination": 0.15}
    est, known = recovery(**params).fit(da.from_array(X, chunks=(170, 18))), recovery(**params).fit(X)
    assert isinstance(est.entry_outliers_, da.Array)
    np.testing.assert_array_equal(est.outliers_.compute(), known.outliers_)
    # Whether an entry is replaced may hang on the last bit, and the others of its row on it.
    assert (np.abs(est.recovered_.compute() - known.recovered_) > 1e-3).mean() < 0.05
    assert (est.entry_outliers_.compute() != known.entry_outliers_).mean() < 0.05


def test_chunks_that_end_where_blocks_in_memory_do_give_the_same_bits(monkeypatch):
    blocks = _large.blocks
    monkeypatch.setattr(_large, "blocks", lambda n, **first: blocks(n, 50, **first))
    X = noisy(260, 18)
    X[::9, :3] += 4.0
    est, known = (
        recovery(error="entries", landmarks=120).fit(da.from_array(X, chunks=(150, 18))),
        recovery(error="entries", landmarks=120).fit(X),
    )
    for name in ("recovered_", "outlier_scores_", "outliers_", "entry_outliers_"):
        np.testing.assert_array_equal(getattr(est, name).compute(), getattr(known, name))


def test_few_rows_are_all_landmarks():
    X = noisy(120)
    check_same(KernelRecovery().fit(da.from_array(X, chunks=50)), KernelRecovery().fit(X))


def test_chunks_of_unknown_size():
    X = noisy(400)
    lazy = da.from_array(X, chunks=(130, 20))
    lazy = lazy[lazy[:, 0] > -np.inf]
    assert np.isnan(lazy.shape[0])
    est = recovery().fit(lazy)
    check_same(est, recovery().fit(X))
    assert est.transform(lazy).compute().shape == X.shape


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dataframes(dtype):
    X = with_holes().astype(dtype)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(20)], index=np.arange(len(X)) * 3)
    lazy = dd.from_pandas(frame, npartitions=3)
    est, known = recovery().fit(lazy), recovery().fit(frame)
    check_same(est, known)
    assert est.feature_names_in_.tolist() == list(frame.columns)
    assert est.recovered_.divisions == lazy.divisions
    for out in (est.recovered_, est.transform(lazy)):
        assert (out.dtypes == dtype).all()
        assert (out.compute().dtypes == dtype).all()
        assert out.compute().index.equals(frame.index)
        assert list(out.columns) == list(frame.columns)
    assert est.predict(lazy).compute().shape == (len(X),)
    assert est.score_samples(lazy[lazy["c1"] > 1e9]).compute().shape == (0,)
    assert est.transform(lazy[lazy["c1"] > 1e9]).compute().shape == (0, 20)


def test_dataframes_with_whole_numbers_and_empty_partitions():
    frame = pd.DataFrame(np.round(50 * noisy(400, 6)), columns=list("abcdef")).astype({"a": "int64", "b": "Int64"})
    frame.loc[7, "b"] = pd.NA
    lazy = dd.from_pandas(frame, npartitions=4)
    lazy = dd.concat([lazy, lazy[lazy["a"] > 10**9]])
    check_same(recovery().fit(lazy), recovery().fit(frame))


# --- laziness ---------------------------------------------------------------------------------------------------------


def counted(X, size, calls):
    """Return X as a lazy array that notes each block it is asked for."""

    def read(start):
        calls.append(start)
        return X[start : start + size]

    blocks = [
        da.from_delayed(dask.delayed(read)(k), (min(size, len(X) - k), X.shape[1]), X.dtype)
        for k in range(0, len(X), size)
    ]
    return da.concatenate(blocks)


def test_nothing_is_computed_before_it_is_asked_for():
    calls = []
    X = counted(noisy(500), 100, calls)
    with dask.config.set(scheduler="synchronous"):
        est = recovery().fit(X)
        assert sorted(calls) == [0, 100, 200, 300, 400]  # one pass for the landmarks
        calls.clear()
        out = [est.transform(X), est.predict(X), est.score_samples(X), est.recovered_, est.outliers_]
        assert not calls
        assert "of 500 rows flagged" in est.summary()
        assert len(calls) == 5
        assert est.summary()
        assert len(calls) == 5  # known by now
        calls.clear()
        dask.compute(est.recovered_, est.outlier_scores_, est.outliers_)
        assert len(calls) == 5  # together, for one price
        calls.clear()
        out[0][:50].compute()
        assert calls == [0]


def test_dask_is_not_imported_for_arrays_in_memory():
    code = "import numpy as np, sys, kernmend; kernmend.KernelRecovery().fit(np.random.default_rng(0).random((30, 2)))"
    done = os.spawnlp(os.P_WAIT, "sh", "sh", "-c", f"{PYTHON} -c \"{code}; sys.exit('dask' in sys.modules)\"")
    assert done == 0


# --- what else an estimator does --------------------------------------------------------------------------------------


def test_summary_model_and_report_after_a_lazy_fit(tmp_path):
    X = noisy(500)
    est, known = recovery().fit(da.from_array(X, chunks=(200, 20))), recovery().fit(X)
    assert est.summary().splitlines()[0] == known.summary().splitlines()[0]
    again = load(est.save(tmp_path / "model"))
    np.testing.assert_allclose(again.transform(X), known.transform(X), atol=1e-3)
    facts = est.report_data()
    assert facts["n_rows"] == 200  # it is about the landmarks: nothing else is in memory
    est.report(tmp_path / "page.html")
    est.fit(X)
    assert isinstance(est.recovered_, np.ndarray)
    assert not hasattr(est, "n_missing_")


def test_a_lazy_fit_can_go_on_in_batches():
    X = noisy(500)
    est = recovery().fit(da.from_array(X, chunks=(200, 20)))
    est.partial_fit(noisy(100, seed=3))
    assert isinstance(est.recovered_, np.ndarray)
    assert "of 100 rows" in est.summary()
    with pytest.raises(ValueError, match="takes rows in memory"):
        est.partial_fit(da.from_array(X))


# --- what is refused --------------------------------------------------------------------------------------------------


def changed(X, **values):
    X = X.copy()
    for key, value in values.items():
        row, column = (slice(None) if part == "all" else int(part) for part in key[1:].split("_"))
        X[row, column] = value
    return X


@pytest.mark.parametrize(
    ("X", "params", "words"),
    [
        (changed(noisy(300), _250_3=np.inf), {}, "begins at row 200: X contains inf: row 50 has it in column 3"),
        (changed(noisy(300), _all_3=np.nan), {}, "nothing is observed in column 3"),
        (changed(noisy(300), _150_all=np.nan), {}, "begins at row 100: nothing is observed in row 50"),
        (noisy(300)[:, 0], {}, "rows and columns"),
        (noisy(300).astype(str), {}, "must hold numbers"),
        (noisy(300), {"landmarks": 0}, "landmarks must be"),
    ],
)
def test_what_is_refused(X, params, words):
    with pytest.raises(ValueError, match=words):
        KernelRecovery(**{"landmarks": 100, **params}).fit(da.from_array(X, chunks=100))


def test_dataframes_that_are_refused():
    frame = dd.from_pandas(pd.DataFrame({"x": [1.0, 2.0, 3.0], "name": ["a", "b", "c"]}), npartitions=1)
    with pytest.raises(ValueError, match="column 'name' of X does not hold numbers"):
        KernelRecovery().fit(frame)
    with pytest.raises(ValueError, match="rows and columns"):
        KernelRecovery().fit(frame["x"])


def test_other_columns_are_refused_before_any_work():
    est = recovery().fit(noisy(300))
    with pytest.raises(ValueError, match="X has 19 features"):
        est.transform(da.from_array(noisy(300)[:, 1:], chunks=100))
