"""`partial_fit`, and `kernmend apply --follow`: landmarks that follow slow drift."""

import json
import sys

import numpy as np
import pytest

from kernmend import KernelRecovery, RobustPCA, load
from kernmend.cli.main import _run
from kernmend.large import landmarks as _large
from kernmend.repair.learn import Learner

# The units of the first batch, in which the circle is flat, would be wrong for a turned one: hence scale=None.
STEP = np.pi / 90  # by which the plane of the circle turns from batch to batch
BAD = 5


def batch(k, n=100, bad=BAD, seed=1):
    """Return points near a circle whose plane has turned k times, the first ones wrong, and which are."""
    rng = np.random.default_rng([seed, k])
    angle, tilt = rng.uniform(0, 2 * np.pi, n), k * STEP
    X = np.column_stack([np.cos(angle), np.sin(angle) * np.cos(tilt), np.sin(angle) * np.sin(tilt)])
    X += 0.01 * rng.standard_normal(X.shape)
    wrong = np.arange(n) < bad
    radius = rng.uniform(1.5, 2.0, (bad, 1))
    direction = rng.standard_normal((bad, 3))
    X[wrong] = radius * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    return X, wrong


def distance(A, k):
    """Return how far points are from the circle that has turned k times."""
    c, s = np.cos(k * STEP), np.sin(k * STEP)
    across = np.hypot(A[:, 0], A[:, 1] * c + A[:, 2] * s)
    return np.hypot(across - 1, A[:, 2] * c - A[:, 1] * s)


@pytest.mark.parametrize("first_bad", [BAD, 0], ids=["wrong rows from the start", "a clean first batch"])
def test_a_turning_circle_is_followed(first_bad):
    est = KernelRecovery(landmarks=300, scale=None)
    still = KernelRecovery(landmarks=300, scale=None).fit(batch(0)[0])
    missed = false = 0
    for k in range(60):
        X, wrong = batch(k, bad=BAD if k else first_bad)
        est.partial_fit(X)
        missed += int((wrong & ~est.outliers_).sum())
        false += int((est.outliers_ & ~wrong).sum())
        landmarks = est._rows.mender.L
        assert len(landmarks) <= 300
        assert np.mean(distance(landmarks, k) > 0.25) < 0.02  # next to nothing that was wrong or is long gone
        np.testing.assert_array_equal(est.recovered_[~est.outliers_], X[~est.outliers_])
        if wrong.any():
            assert np.median(distance(est.recovered_[wrong & est.outliers_], k)) < 0.2
    assert missed <= 20  # of 300; one that gets among the landmarks vouches for its like, until it is forgotten
    assert false <= 60 * 95 * 0.01
    assert est.n_samples_seen_ == 6000
    assert (still.predict(X) == -1).sum() > 50  # without following, most of the turned circle looks wrong
    assert (est.predict(X)[~wrong] == 1).all()


def test_batches_in_which_every_row_lacks_something_are_followed_too():
    mix, est = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.5, 0.0, 1.0]]), KernelRecovery(landmarks=300, scale=None)
    for k in range(40):
        points, wrong = batch(k)
        X = np.hstack([points, points @ mix])
        hidden = np.random.default_rng([9, k]).integers(0, 6, len(X))
        truth, X[np.arange(len(X)), hidden] = X.copy(), np.nan
        est.partial_fit(X)
    assert (wrong == est.outliers_).all()
    landmarks = est._rows.mender.L
    assert not np.isnan(landmarks).any()
    assert np.median(distance(landmarks[:, :3], 39)) < 0.1  # where the circle is, not where it was at first
    filled = np.isnan(X) & ~wrong[:, np.newaxis]
    assert np.abs(est.recovered_ - truth)[filled].max() < 0.01


@pytest.mark.usefixtures("quick_calibration")
def test_the_same_seed_gives_the_same_result():
    def run(seed):
        est = KernelRecovery(landmarks=80, random_state=seed)
        for k in range(3):
            est.partial_fit(batch(k)[0])
        return est

    one, same, other = run(3), run(3), run(4)
    np.testing.assert_array_equal(one._rows.mender.L, same._rows.mender.L)
    np.testing.assert_array_equal(one.recovered_, same.recovered_)
    assert not np.array_equal(one._rows.mender.L, other._rows.mender.L)


@pytest.mark.usefixtures("quick_calibration")
def test_one_batch_replaces_at_most_a_quarter_the_oldest_first():
    est = KernelRecovery(landmarks=80, scale=None).partial_fit(batch(0, 200)[0])
    before = est._rows.mender.L
    assert len(before) <= 80
    est.partial_fit(batch(1, 300)[0])
    after = est._rows.mender.L
    kept = [row.tobytes() for row in after[:-20]]
    assert kept == [row.tobytes() for row in before][-len(kept) :]
    seen = {row.tobytes() for row in batch(1, 300)[0]}
    assert all(row.tobytes() in seen for row in after[-20:])


@pytest.mark.usefixtures("quick_calibration")
def test_what_is_kept_does_not_grow():
    est = KernelRecovery(landmarks=60)
    for k in range(4):
        X = batch(k)[0]
        X[50, 1] = np.nan
        est.partial_fit(X)
        assert np.isfinite(est.recovered_).all()
        assert np.isfinite(est._rows.mender.L).all()
    rows = est._rows
    assert len(rows.mender.L) <= 60
    assert len(rows.detector.rows.measure.span.L) <= 60
    assert est.recovered_.shape == X.shape


def test_many_more_wrong_rows_make_it_choose_anew(monkeypatch):
    est = KernelRecovery(landmarks=200, scale=None).partial_fit(batch(0)[0])
    learned = []
    learn = Learner.learn_inside
    monkeypatch.setattr(
        Learner, "learn_inside", lambda self, X, *rest: (learned.append(len(X)), learn(self, X, *rest))[1]
    )
    est.partial_fit(batch(1)[0])
    assert not learned
    est.partial_fit(batch(2, bad=35)[0])
    assert len(learned) == 1
    X, wrong = batch(3, bad=35)
    est.partial_fit(X, recalibrate=True)
    assert len(learned) == 2
    assert (est.outliers_ & wrong).sum() >= 30
    assert not (est.outliers_ & ~wrong).any()


def test_it_goes_on_from_a_fit_and_from_a_file(tmp_path):
    est = KernelRecovery(landmarks=150, scale=[1.0, 2.0, 2.0]).fit(batch(0, 400)[0].astype(np.float32))
    again = load(est.save(tmp_path / "model"))
    X = batch(1)[0].astype(np.float32)
    for each in (est, again):
        each.partial_fit(X)
        assert each.recovered_.dtype == np.float32
    np.testing.assert_array_equal(est.recovered_, again.recovered_)
    assert est.report_data()["n_rows"] == len(X)
    est.fit(X)
    assert not hasattr(est, "n_samples_seen_")


def test_wrong_entries_of_later_batches_are_marked():
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((2, 30))

    def rows(n):
        X = np.sin(rng.uniform(-2, 2, (n, 2)) @ basis)
        X[:10, :6] = 3.0
        return X

    est = KernelRecovery(landmarks=150, error="entries").partial_fit(rows(150))
    for _ in range(2):
        est.partial_fit(rows(80))
        assert est.outliers_[:10].all()
        assert est.entry_outliers_.shape == (80, 30)
        assert est.entry_outliers_[:10, :6].mean() > 0.9


def test_auto_is_bounded_too(monkeypatch):
    monkeypatch.setattr(_large, "AUTO_LANDMARKS", 70)
    est = KernelRecovery().partial_fit(batch(0)[0])
    assert 50 < len(est._rows.mender.L) <= 70  # of 70 landmarks, those that were flagged are left out


def test_without_landmarks_it_cannot_follow():
    with pytest.raises(ValueError, match="partial_fit needs"):
        KernelRecovery(landmarks=None).partial_fit(batch(0)[0])


def test_other_columns_are_refused():
    est = KernelRecovery(landmarks=50).partial_fit(batch(0)[0])
    with pytest.raises(ValueError, match="features"):
        est.partial_fit(batch(1)[0][:, :2])


def test_files_are_followed_one_after_the_other(tmp_path, monkeypatch, capfd):
    def kernmend(*arguments):
        monkeypatch.setattr(sys, "argv", ["kernmend", "apply", *map(str, arguments)])
        return _run(type("Never", (), {"code": None})()), capfd.readouterr()

    model = KernelRecovery(landmarks=200, scale=None).fit(batch(0, 200)[0]).save(tmp_path / "model")
    before = model.read_bytes()
    files = [tmp_path / f"{k}.npy" for k in range(1, 25)]
    for k, file in enumerate(files, 1):
        np.save(file, batch(k)[0])
    last = {}
    for options in (["--follow"], []):
        code, out = kernmend(model, *files, "--json", "--force", *options)
        assert code == 0, out.err
        flagged = [json.loads(line)["flagged"] for line in out.out.splitlines()]
        assert len(flagged) == 24
        last[bool(options)] = flagged[-1]
    assert last[True] <= BAD + 2
    assert last[False] > 30  # the model as it was sees a circle that has turned away
    assert model.read_bytes() == before
    code, out = kernmend(RobustPCA().fit(batch(0)[0]).save(tmp_path / "other"), files[0], "--follow")
    assert code == 2
    assert "cannot follow drift" in out.err
