"""`kernmend.mend`: the same type comes back, and what was not wrong is what it was."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow
import pytest
from cases import IGNORE_MAX_ITER
from convex import low_rank, wrong_rows
from scipy.sparse import csr_array

import kernmend
from kernmend import estimators
from kernmend._mend import METHODS, make_estimator
from kernmend.estimators._base import Recovery
from kernmend.io.frames import as_table, settle

pytestmark = pytest.mark.usefixtures("quick_calibration")


def circle(n=200, bad=(7, 80), scale=1.0):
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, n)
    X = scale * np.column_stack([np.cos(angle), np.sin(angle)])
    X[list(bad)] = scale * np.array([[0.4, 0.4], [1.7, 1.0]])[: len(bad)]
    return X


def test_arrays():
    X = circle()
    before = X.copy()
    mended = kernmend.mend(X)
    assert isinstance(mended.data, np.ndarray)
    np.testing.assert_array_equal(X, before)
    assert np.flatnonzero(mended.flags).tolist() == [7, 80]
    assert mended.scores[[7, 80]].min() > np.delete(mended.scores, [7, 80]).max()
    np.testing.assert_array_equal(mended.data[~mended.flags], X[~mended.flags])
    np.testing.assert_allclose(np.linalg.norm(mended.data, axis=1), 1.0, atol=0.05)
    assert mended.changed.any(axis=1).nonzero()[0].tolist() == [7, 80]
    assert mended.summary() == mended.estimator.summary()
    assert "2 of 200 rows flagged" in mended.summary()
    assert kernmend.mend(X.tolist()).data.tolist() == mended.data.tolist()
    assert kernmend.mend(X.astype(object)).data.tolist() == mended.data.tolist()
    with pytest.raises(ValueError, match=r"X must have rows and columns, got 200: one column is X.reshape\(-1, 1\)"):
        kernmend.mend(X[:, 0])
    with pytest.raises(ValueError, match="X must have rows and columns, got 50x2x4"):
        kernmend.mend(X.reshape(50, 2, 4))
    with pytest.raises(ValueError, match=r"X is a sparse matrix, .*: pass X.toarray\(\)"):
        kernmend.mend(csr_array(X))
    with pytest.raises(ValueError, match="did not come from a file"):
        mended.write("anywhere")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int16, np.uint8, np.int64])
def test_the_dtype_of_an_array_stays(dtype):
    X = (circle(scale=100.0) + 110).astype(dtype)
    mended = kernmend.mend(X)
    assert mended.data.dtype == dtype
    np.testing.assert_array_equal(mended.data[~mended.flags], X[~mended.flags])
    assert mended.flags[[7, 80]].all()
    assert abs(np.hypot(*(mended.data[80].astype(float) - 110)) - 100) < 12


def test_integers_that_no_float_holds_survive_and_ranges_are_kept():
    X = np.array([[2**62 + 1, 5], [3, 250]])
    out = as_table(X.copy()).restore(np.array([[2.0**62, 5.4], [3.0, 300.0]]))
    assert out.tolist() == [[2**62 + 1, 5], [3, 300]]
    small = as_table(X.astype(np.uint8)[:, 1:])
    assert small.restore(np.array([[-7.0], [300.0]])).tolist() == [[0], [255]]


def frame(n=200):
    X = circle(n)
    return pd.DataFrame(
        {
            "when": pd.date_range("2020-01-01", periods=n),
            "x": X[:, 0],
            "name": [f"row {i}" for i in range(n)],
            "y": X[:, 1],
            "good": np.arange(n) % 2 == 0,
            "kind": pd.Categorical(["a", "b"] * (n // 2)),
        },
        index=[f"i{i}" for i in range(n)],
    )


def made_of_codes():
    """Forty rows of five codes, two of them far off: what they were cannot be known."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 5, (40, 6))
    X[[1, 5]] = rng.integers(-900, 900, (2, 6))
    return X


FRAMES = {
    "pandas": pd.DataFrame,
    "nullable": lambda X: pd.DataFrame(X).astype("Int64"),
    "arrow": lambda X: pd.DataFrame(X).astype("int64[pyarrow]"),
    "objects": lambda X: pd.DataFrame(X).astype(object),
    "polars": lambda X: pl.DataFrame(X, schema=list("abcdef")),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_integers_of_a_table_are_left_blank(make):
    X = made_of_codes()
    mended = kernmend.mend(make(X), unsure="blank")
    assert mended.estimator.unsure_.any()
    columns = [mended.data[name].to_list() for name in mended.data.columns]
    blank = np.array([[one is None or one is pd.NA for one in column] for column in columns]).T
    np.testing.assert_array_equal(blank, mended.estimator.unsure_)
    kept = [[one for one, gone in zip(*both, strict=True) if not gone] for both in zip(columns, blank.T, strict=True)]
    assert all(isinstance(one, int) for column in kept for one in column)
    assert len(mended.changes) == mended.changed.sum()


def test_integers_of_an_array_are_left_blank():
    X = made_of_codes()
    mended = kernmend.mend(X, unsure="blank")
    assert mended.data.dtype == np.float64
    np.testing.assert_array_equal(np.isnan(mended.data), mended.estimator.unsure_)
    np.testing.assert_array_equal(mended.data[~mended.flags], X[~mended.flags])
    assert kernmend.mend(X).data.dtype == X.dtype


def test_masked_values_are_missing():
    X = np.ma.masked_array((100 * circle()).astype(int), np.arange(400).reshape(200, 2) % 37 == 0)
    mended = kernmend.mend(X)
    np.testing.assert_array_equal(mended.data, kernmend.mend(X.astype(float).filled(np.nan)).data)
    assert mended.changed[X.mask].all()


def test_one_name_is_one_column(tmp_path):
    frame = pd.DataFrame(circle(), columns=["ab", "a"])
    frame["b"] = np.linspace(0, 1, len(frame)) ** 2
    assert kernmend.mend(frame, columns="ab").estimator.feature_names_in_.tolist() == ["ab"]
    assert kernmend.mend(frame, keep="ab").estimator.feature_names_in_.tolist() == ["a", "b"]
    frame.iloc[4, 0], frame.iloc[9, 0] = -999, 9
    frame.to_csv(tmp_path / "a.csv", index=False)
    for missing in ("-999", -999):
        source = kernmend.mend(tmp_path / "a.csv", keep="b", missing=missing)._source
        assert np.argwhere(np.isnan(source.X)).tolist() == [[4, 0]]
        assert source.X[9, 0] == 9


@pytest.mark.parametrize("told", [{"missing": "-999"}, {"missing": [0]}, {"layout": {"decimal": ","}}])
def test_what_is_said_of_files_is_not_passed_over_in_silence(told):
    with pytest.raises(ValueError, match="missing and layout are for files: in X put NaN where a value is missing"):
        kernmend.mend(circle(), **told)


def test_a_table_without_rows():
    with pytest.raises(ValueError, match="X has columns and no rows"):
        kernmend.mend(pd.DataFrame({"x": [], "y": []}))


def test_pandas():
    X = frame()
    before = X.copy(deep=True)
    mended = kernmend.mend(X)
    pd.testing.assert_frame_equal(X, before)
    assert np.flatnonzero(mended.flags).tolist() == [7, 80]
    assert mended.data.columns.equals(X.columns)
    assert mended.data.dtypes.equals(X.dtypes)
    pd.testing.assert_frame_equal(mended.data[~mended.flags], X[~mended.flags])
    pd.testing.assert_frame_equal(mended.data.drop(columns=["x", "y"]), X.drop(columns=["x", "y"]))
    np.testing.assert_allclose(np.hypot(mended.data["x"], mended.data["y"]), 1.0, atol=0.05)
    assert "Passed through untouched: when, name, good, kind." in mended.summary()
    assert mended.estimator.feature_names_in_.tolist() == ["x", "y"]


@pytest.mark.parametrize("integer", ["int64", "Int64", "uint16", "int32[pyarrow]", "Sparse[int64]"])
def test_pandas_integers_stay_integers(integer):
    X = pd.DataFrame(circle(scale=1000.0) + 2000, columns=["x", "y"]).round().astype(integer)
    mended = kernmend.mend(X)
    assert mended.flags[[7, 80]].all()
    assert mended.data.dtypes.equals(X.dtypes)
    pd.testing.assert_frame_equal(mended.data[~mended.flags], X[~mended.flags])
    assert (mended.data.loc[80] != X.loc[80]).any()


def test_pandas_missing_values_are_filled_in_and_names_may_be_double():
    X = pd.DataFrame(circle(scale=1000.0), columns=["x", "x"]).round().astype("Int64")
    X.iloc[20, 0] = pd.NA
    mended = kernmend.mend(X)
    assert not mended.data.isna().to_numpy().any()
    assert mended.data.dtypes.tolist() == X.dtypes.tolist()
    assert abs(np.hypot(*mended.data.iloc[20].to_numpy(dtype=float)) - 1000) < 100
    assert mended.changed[20].tolist() == [True, False]


def test_polars():
    X = pl.from_pandas(frame().reset_index(drop=True)).with_columns(pl.lit(2**62 + 1).alias("big"))
    mended = kernmend.mend(X, columns=["x", "y"])
    assert isinstance(mended.data, pl.DataFrame)
    assert mended.data.schema == X.schema
    assert np.flatnonzero(mended.flags).tolist() == [7, 80]
    assert mended.data.filter(~mended.flags).equals(X.filter(~mended.flags))
    assert mended.data.drop("x", "y").equals(X.drop("x", "y"))
    np.testing.assert_allclose(np.hypot(mended.data["x"], mended.data["y"]), 1.0, atol=0.05)


def test_a_table_of_arrow():
    data = frame().reset_index(drop=True)
    X = pyarrow.Table.from_pandas(data, preserve_index=False).append_column(
        "big", pyarrow.array([2**62 + 1] * len(data))
    )
    mended = kernmend.mend(X, keep=["big"])
    assert isinstance(mended.data, pyarrow.Table)
    assert mended.data.schema.equals(X.schema)
    assert mended.data["big"].equals(X["big"])
    expected = kernmend.mend(data)
    np.testing.assert_array_equal(mended.flags, expected.flags)
    assert mended.data.drop_columns("big").to_pandas().equals(expected.data)
    with pytest.raises(ValueError, match="there is no column 'q' to keep"):
        kernmend.mend(X, keep=["q"])


def test_polars_integers_and_nulls():
    rounded = pl.DataFrame((circle(scale=70.0) + 120).round(), schema=["x", "y"]).cast(pl.UInt8)
    X = rounded.with_columns(pl.when(pl.int_range(pl.len()) == 20).then(None).otherwise(pl.col("x")).alias("x"))
    mended = kernmend.mend(X)
    assert mended.data.schema == X.schema
    assert mended.data.null_count().row(0) == (0, 0)
    assert abs(mended.data["x"][20] - rounded["x"][20]) < 25


def test_columns_are_chosen_by_name():
    X = frame().assign(z=range(200))
    mended = kernmend.mend(X, columns=["y", "x"])
    assert mended.data["z"].equals(X["z"])
    assert mended.estimator.n_features_in_ == 2
    with pytest.raises(ValueError, match="there is no column 'w'"):
        kernmend.mend(X, columns=["x", "w"])
    with pytest.raises(ValueError, match="column 'name' does not hold numbers"):
        kernmend.mend(X, columns=["name"])
    with pytest.raises(ValueError, match="must be a DataFrame"):
        kernmend.mend(circle(), columns=["x"])
    with pytest.raises(ValueError, match="no column of numbers"):
        kernmend.mend(X[["name", "when"]])


def test_changed_values_stay_in_the_natural_range():
    table = as_table(np.array([[300.0, 1.0], [2.0, 3.0]]))
    table = type(table)(table.X, table.restore, bounds=(0.0, 255.0), integer=np.array([False, True]))
    A = settle(np.array([[300.0, -4.0], [260.5, 2.6]]), table)
    assert A.tolist() == [[300.0, 0.0], [255.0, 3.0]]


# --- rows known to be good ------------------------------------------------------------------------------------------


def good_circle(n=300, scale=1.0):
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, n)
    return scale * np.column_stack([np.cos(angle), np.sin(angle)])


def test_good_rows_are_learned_from_and_what_comes_back_is_about_the_data(tmp_path):
    scattered = np.random.default_rng(1).uniform(-4, 4, (60, 2))
    scattered = scattered[abs(np.hypot(*scattered.T) - 1) > 0.5][:20]
    X = np.vstack([circle(20, bad=()), scattered])
    wrong = np.arange(40) >= 20
    mended = kernmend.mend(X, good=good_circle())
    np.testing.assert_array_equal(mended.flags, wrong)
    assert mended.data.shape == X.shape
    np.testing.assert_array_equal(mended.data[~wrong], X[~wrong])
    np.testing.assert_allclose(np.linalg.norm(mended.data, axis=1), 1.0, atol=0.05)
    est = mended.estimator
    for name in ("recovered_", "outlier_scores_", "outliers_", "suspects_", "entry_scores_", "entry_outliers_"):
        assert len(getattr(est, name)) == 40, name
    stacked = kernmend.KernelRecovery().fit(np.vstack([X, good_circle()]), good=np.arange(340) >= 40)
    np.testing.assert_array_equal(mended.scores, stacked.outlier_scores_[:40])
    np.testing.assert_array_equal(mended.data, stacked.recovered_[:40])
    assert "20 of 40 rows flagged, 50.0 %" in mended.summary()
    assert "300 more rows, known to be good, were learned from." in mended.summary()
    again = kernmend.load(est.save(tmp_path / "model.kernmend"))
    assert again.summary() == est.summary()
    np.testing.assert_array_equal(again.transform(X), est.transform(X))
    assert "too few" not in mended.summary()  # there are 340 to compare with
    assert est.report_data()["n_rows"] == 40
    assert "known to be good" not in est.fit(X).summary()


def test_good_rows_of_any_type_are_found_by_the_names_of_their_columns(tmp_path):
    X, good = frame(100), good_circle(150)
    expected = kernmend.mend(circle(100), good=good).scores
    turned = pd.DataFrame({"more": 1, "y": good[:, 1], "x": good[:, 0], "kind": "a"})
    turned.to_csv(tmp_path / "good.csv", index=False)
    for rows in (
        good,
        good.tolist(),
        turned,
        pl.from_pandas(turned),
        tmp_path / "good.csv",
        str(tmp_path / "good.csv"),
    ):
        np.testing.assert_array_equal(kernmend.mend(X, good=rows).scores, expected)
    single = kernmend.mend(circle(100).astype(np.float32), good=good)
    assert single.data.dtype == single.estimator.recovered_.dtype == np.float32


def test_the_search_takes_good_rows_too():
    X, good = circle(), good_circle()
    mended = kernmend.mend(X, good=good, method="search", n_iter=2, n_splits=1)
    assert np.flatnonzero(mended.flags).tolist() == [7, 80]
    assert len(mended.estimator.best_estimator_.outliers_) == len(mended.data) == 200
    search = kernmend.RecoverySearch(n_iter=2, n_splits=1)
    known = np.arange(200) == 80
    assert search.fit(X, wrong=known).outliers_[80]
    assert not search.fit(X, good=known).outliers_[80]


@pytest.mark.parametrize(
    ("good", "options", "words"),
    [
        (np.zeros((5, 3)), {}, r"good must be rows of 2 numbers, as the data are, got \(5, 3\)"),
        (np.zeros((0, 2)), {}, r"good must be rows of 2 numbers, as the data are, got \(0, 2\)"),
        (np.zeros(5), {}, r"good must be rows of 2 numbers"),
        (np.array([[1.0, np.inf]]), {}, "good: X contains inf: row 0 has it in column 'y'"),
        (pd.DataFrame({"x": [1.0], "z": [1.0]}), {}, "good has no column 'y', which the data have"),
        (pd.DataFrame({"x": [1.0], "y": ["a"]}), {}, "column 'y' does not hold numbers"),
        (
            good_circle(),
            {"method": "robust-pca"},
            "good rows are for the methods kernel and search, not for robust-pca",
        ),
        (good_circle(), {"contamination": 0.1}, r"contamination=0\.1 is a share of all rows"),
        (
            good_circle(),
            {"method": "joint"},
            "good rows are for the methods kernel and search, not for joint",
        ),
        ("nowhere.csv", {}, r"nowhere\.csv: no such file"),
    ],
)
def test_good_rows_that_cannot_be(good, options, words):
    with pytest.raises(ValueError, match=words):
        kernmend.mend(frame(), good=good, **options)


def test_unusual_rows_are_told_and_not_changed():
    X = np.random.default_rng(1).standard_t(4, (300, 3))
    mended = kernmend.mend(X)
    assert mended.suspects.any()
    assert not (mended.suspects & (mended.flags | mended.changed.any(axis=1))).any()
    linear = kernmend.mend(X, method="outlier-pursuit")
    assert not linear.suspects.any()


# --- methods ----------------------------------------------------------------------------------------------------------


def test_every_estimator_has_a_name():
    classes = {name for name in estimators.__all__ if issubclass(getattr(estimators, name), Recovery)}
    assert set(METHODS.values()) == classes


@IGNORE_MAX_ITER
@pytest.mark.parametrize("method", METHODS)
def test_every_method(method):
    X, bad = wrong_rows(low_rank(60, 10, 2, 0), seed=0)
    options = {"n_iter": 2, "n_splits": 1, "contamination": 0.1} if method == "search" else {}
    mended = kernmend.mend(X, method=method, **options)
    assert type(mended.estimator).__name__ == METHODS[method]
    assert mended.data.shape == X.shape
    assert mended.scores[bad].mean() > mended.scores[~bad].mean()


def test_parameters_reach_the_estimator():
    assert make_estimator("kernel", {"error": "rows"}).error == "rows"
    search = make_estimator("search", {"n_iter": 3, "error": "rows", "verbose": 1}, bounds=(0, 255))
    assert (search.n_iter, search.verbose, search.estimator.error, search.estimator.bounds) == (3, 1, "rows", (0, 255))
    assert make_estimator("kernel", {}, bounds=(0, 255)).bounds == (0, 255)
    assert make_estimator("kernel", {"bounds": "data"}, bounds=(0, 255)).bounds == "data"
    make_estimator("robust-pca", {}, bounds=(0, 255))
    with pytest.raises(ValueError, match="'robust-pca' has no parameter 'kernel'; it has contamination, lam"):
        make_estimator("robust-pca", {"kernel": "rbf"})
    with pytest.raises(ValueError, match="'search' has no parameter 'wrong'"):
        make_estimator("search", {"wrong": "rbf"})
    with pytest.raises(ValueError, match="method must be one of 'kernel'"):
        kernmend.mend(circle(), method="magic")


@pytest.mark.parametrize("shape", [0, 4, "2x2", (2,), (-2, -2), (2, None)])
def test_an_image_shape_that_is_none(shape):
    with pytest.raises(ValueError, match="the image shape must be height × width or"):
        kernmend.mend(make_circle_images(), image_shape=shape)
    with pytest.raises(ValueError, match="image_shape must be"):
        kernmend.mend(make_circle_images()).estimator.report_data(image_shape=shape)


def make_circle_images():
    return np.hstack([circle(), circle()])


def test_an_image_shape_that_does_not_fit():
    with pytest.raises(ValueError, match=r"an image of 2x2 has 4 values, X is \(200, 2\)"):
        kernmend.mend(circle(), image_shape=(2, 2))


# --- files and reports ------------------------------------------------------------------------------------------------


def test_a_path(tmp_path):
    path = tmp_path / "circle.csv"
    frame().to_csv(path, index=False)
    mended = kernmend.mend(path)
    assert mended.data.shape == (200, 2)
    assert np.flatnonzero(mended.flags).tolist() == [7, 80]
    assert mended.write(tmp_path / "out.csv") == tmp_path / "out.csv"
    out = pd.read_csv(tmp_path / "out.csv")
    assert out["name"].tolist() == frame()["name"].tolist()
    np.testing.assert_allclose(out[["x", "y"]], mended.data, rtol=1e-12)
    with pytest.raises(ValueError, match=r"out\.csv"):
        mended.write(tmp_path / "out.csv")
    assert "<title>circle.csv" in mended.report(tmp_path / "page.html").read_text()  # the name where no title is given
    assert kernmend.mend(str(path), columns=["x", "y"]).flags.sum() == 2


@pytest.mark.parametrize("make", [lambda: frame(), lambda: circle(), lambda: pl.from_pandas(frame())])
def test_a_report(make, tmp_path):
    page = kernmend.mend(make()).report(tmp_path / "page.html", title="My data")
    assert "My data" in page.read_text()


# --- odd DataFrames ---------------------------------------------------------------------------------------------------


def odd(**columns):
    """Return a table of five columns with one wrong cell and one wrong row, some columns made into others."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((90, 2)) @ rng.standard_normal((2, 5)) + 0.1 * rng.standard_normal((90, 5))
    X[7, 2] += 15.0
    X[11] += 9.0 * rng.standard_normal(5)
    frame = pd.DataFrame(X, columns=list("abcde"))
    for name, make in columns.items():
        frame[name] = make(frame[name])
    return frame


def test_columns_to_keep_are_kept_where_names_stand_twice():
    frame = odd(e=lambda _: np.nan)
    frame.columns = ["a", "a", "c", "d", "e"]
    mended = kernmend.mend(frame, keep=["c"])
    pd.testing.assert_series_equal(mended.data["c"], frame["c"])
    assert set(mended.changes.column) == {"a (2)", "d"}
    assert mended.data.columns.tolist() == frame.columns.tolist()
    assert "c (to be kept), e (empty)" in mended.summary()


def test_numbers_as_objects_are_numbers():
    plain, objects = odd(), odd(b=lambda part: part.astype(object), c=lambda part: (100 * part).round().astype(int))
    objects["c"] = objects["c"].astype(object)
    mended = kernmend.mend(objects)
    assert mended.flags[[7, 11]].all()
    assert {type(value) for value in mended.data["c"]} == {int}
    assert mended.data["c"].iloc[7] != objects["c"].iloc[7]
    assert mended.data.dtypes["b"].kind == "O"
    np.testing.assert_array_equal(kernmend.mend(plain.astype(object)).flags, kernmend.mend(plain).flags)


def test_numbers_as_texts_are_passed_over_and_said_to_be():
    frame = odd(b=lambda part: part.map("{:.3f}".format), d=lambda part: part.map("x{:.3f}".format))
    mended = kernmend.mend(frame)
    pd.testing.assert_series_equal(mended.data["b"], frame["b"])
    assert "b (numbers as texts, which pandas.to_numeric reads), d." in mended.summary()
    with pytest.raises(ValueError, match="no column of numbers to mend: 'a' holds numbers as texts"):
        kernmend.mend(frame[["b"]].rename(columns={"b": "a"}))
    with pytest.raises(ValueError, match="column 'b' holds numbers as texts"):
        kernmend.mend(frame, columns=["a", "b"])


def test_an_array_of_texts_is_read_or_refused():
    X = odd().to_numpy()
    np.testing.assert_array_equal(kernmend.mend(X.astype(str)).flags, kernmend.mend(X).flags)
    with pytest.raises(ValueError, match="could not convert string"):
        kernmend.mend(np.array([["1", "x"], ["2", "3"]]))


def test_one_value_is_one_value():
    X = odd()
    X.loc[11] = X.loc[12]
    mended = kernmend.mend(X)
    assert mended.changed.sum() == 1
    assert "; 1 value changed" in repr(mended)


def test_a_value_that_was_rounded_lies_within_its_interval():
    """The interval of an unsure value ends at it, before it is rounded."""
    X = np.round(4.0 * odd().to_numpy()).astype(np.int16)
    X[11:15] = [[9, -9, 9, -9, 9], [-8, 8, 8, 8, -8], [7, 7, -9, 9, 9], [9, 9, 9, -9, -9]]
    log = kernmend.mend(X).changes
    new, low, high = (np.array(getattr(log, name), dtype=float) for name in ("new", "low", "high"))
    assert len(log) > 5
    assert (low <= new).all()
    assert (new <= high).all()
    assert not any("." in text or text == "-0" for text in [*log.old, *log.new])  # whole numbers, as those of the array
