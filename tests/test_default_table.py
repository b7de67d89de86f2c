"""The default on the data of `python -m benchmarks default`: its table, coarsely, one seed each."""

import numpy as np
import pytest
from cases import IGNORE_MAX_ITER

from benchmarks.default import box_outliers, corrupt, image_cases
from kernmend import KernelLowRank, KernelRecovery
from kernmend.datasets import SURFACES, make_cubic_surface, make_surface
from kernmend.datasets.metrics import f1_score, snr

CASES = list(image_cases())
LIMITS = {  # dB on the corrupted rows and F1, below the medians of the benchmark by what seeds differ
    ("MNIST", "noise"): (9.7, 0.95),
    ("MNIST", "occlusion"): (8.0, 0.8),
    ("COIL-20, object 1", "noise"): (17.5, 0.95),
    ("COIL-20, object 1", "occlusion"): (19.0, 0.75),
    ("COIL-20, objects 1-5", "noise"): (15.5, 0.95),
    ("COIL-20, objects 1-5", "occlusion"): (16.0, 0.8),
}


@pytest.mark.parametrize(("name", "kind"), LIMITS)
def test_images_of_the_benchmark(name, kind):
    case = next((case for case in CASES if case.name.startswith(name + ",")), None)
    if case is None:
        pytest.skip("needs COIL-20: set KERNMEND_DATA to the folder with coil20_32.npz")
    truth, (X, bad) = corrupt(case, kind, 70)
    est = KernelRecovery(interval=None).fit(X)  # how sure values are changes none of them
    least_snr, least_f1 = LIMITS[name, kind]
    assert est.error_ == ("rows" if kind == "noise" else "entries")
    assert snr(truth[bad], est.recovered_[bad]) >= least_snr
    assert f1_score(bad, est.outliers_) >= least_f1
    np.testing.assert_array_equal(est.recovered_[~est.outliers_], X[~est.outliers_])
    seen = [est.transform(X[est.outliers_][:3]), est.recovered_[est.outliers_][:3]]
    np.testing.assert_allclose(*seen, atol=1e-4)  # rounding depends on how many rows are mended together


@pytest.mark.parametrize("name", SURFACES)
def test_surfaces(name):
    surface = make_surface(name, random_state=71)
    (X, replaced), extent = box_outliers(surface.X, 171)
    distance = surface.distance(X)
    bad = distance > 0.05 * extent
    near = replaced & ~bad
    est = KernelRecovery().fit(X)
    assert f1_score(bad[~near], est.outliers_[~near]) >= 0.75
    assert surface.distance(est.recovered_[bad]).mean() <= 0.3 * distance[bad].mean()


@pytest.mark.parametrize("name", SURFACES)
def test_clean_surfaces(name):
    X = make_surface(name, random_state=72).X
    est = KernelRecovery().fit(X)
    assert est.outliers_.mean() <= 0.03
    assert np.linalg.norm(est.recovered_ - X, axis=1).max() <= 0.1 * np.ptp(X, axis=0).max()


@IGNORE_MAX_ITER
@pytest.mark.parametrize(("share", "limit"), [(0.1, 0.06), (0.3, 0.15), (0.5, 0.3)])
def test_wrong_entries_in_all_rows(share, limit):
    truth = make_cubic_surface(100, 20, random_state=73)
    rng = np.random.default_rng(173)
    X = truth + rng.standard_normal(truth.shape) * (rng.uniform(size=truth.shape) < share)
    A = KernelLowRank(error="entries").fit_transform(X)
    assert np.linalg.norm(A - truth) <= limit * np.linalg.norm(truth)
