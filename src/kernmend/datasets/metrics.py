"""How good a recovery is. Corrupted and clean rows should be measured apart."""

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array


def snr(truth: Array, recovered: Array) -> float:
    """Return 10 log10(|truth|_F^2 / |truth - recovered|_F^2) in dB; infinite where nothing differs.

    Parameters
    ----------
    truth, recovered : ndarray
        The true values and those to measure, of one shape.

    Returns
    -------
    float
        The signal-to-noise ratio.

    Examples
    --------
    >>> snr(np.ones(10), np.full(10, 1.1)).__round__(6)
    20.0
    """
    signal, noise = float(np.sum(np.square(truth))), float(np.sum(np.square(truth - recovered)))
    return float("inf") if noise == 0 else float(10.0 * np.log10(signal / noise))


def psnr(truth: Array, recovered: Array, *, peak: float = 1.0) -> float:
    """Return 10 log10(peak^2 / mean squared error) in dB; infinite where nothing differs.

    Parameters
    ----------
    truth, recovered : ndarray
        The true values and those to measure, of one shape.
    peak : float, default=1.0
        The largest possible value.

    Returns
    -------
    float
        The peak signal-to-noise ratio.

    Examples
    --------
    >>> psnr(np.ones(10), np.full(10, 1.1)).__round__(6)
    20.0
    """
    error = float(np.mean(np.square(truth - recovered)))
    return float("inf") if error == 0 else float(10.0 * np.log10(peak**2 / error))


# PSNR in dB of an image that was rounded to 8 bits: 58.9.
EIGHT_BITS = 10.0 * float(np.log10(12.0 * 255.0**2))


def readings(truth: Array, recovered: Array, rows: NDArray[np.bool_], *, peak: float = 1.0) -> dict[str, float]:
    """Return PSNR and SNR in four readings: of the corrupted rows, the clean ones, all, and the mean of each row's own.

    In the mean no row counts for more than rounding to 8 bits would leave it, else one untouched row makes it infinite.

    Parameters
    ----------
    truth, recovered : ndarray of shape (n_samples, n_features)
        The true rows and those to measure.
    rows : ndarray of bool, shape (n_samples,)
        Which rows were corrupted.
    peak : float, default=1.0
        The largest possible value.

    Returns
    -------
    dict of str to float
        "psnr_corrupted", "snr_corrupted" and so on, "psnr_mean_per_image", "snr_mean_per_image".

    Examples
    --------
    >>> truth = np.ones((2, 5))
    >>> found = readings(truth, np.array([5 * [1.1], 5 * [1.0]]), np.array([True, False]))
    >>> round(found["snr_corrupted"], 6), found["snr_clean"], round(found["psnr_mean_per_image"], 2)
    (20.0, inf, 39.46)
    """
    out = {}
    for name, part in (("corrupted", rows), ("clean", ~rows), ("all", np.ones_like(rows))):
        any_rows = bool(part.any())
        out[f"psnr_{name}"] = psnr(truth[part], recovered[part], peak=peak) if any_rows else float("nan")
        out[f"snr_{name}"] = snr(truth[part], recovered[part]) if any_rows else float("nan")
    floor = peak**2 * 10.0 ** (-EIGHT_BITS / 10.0)
    errors = np.maximum(np.mean(np.square(truth - recovered), axis=1), floor)
    signal = np.mean(np.square(truth), axis=1)
    out["psnr_mean_per_image"] = float(np.mean(10.0 * np.log10(peak**2 / errors)))
    out["snr_mean_per_image"] = float(np.mean(10.0 * np.log10(np.maximum(signal, floor) / errors)))
    return out


def auc(truth: NDArray[np.bool_], scores: Array) -> float:
    """Return the chance that a corrupted row has a higher score than a clean one, ties counting half; nan without both.

    Parameters
    ----------
    truth : ndarray of bool, shape (n_samples,)
        Which rows are corrupted.
    scores : ndarray of shape (n_samples,)
        Their scores, higher is worse.

    Returns
    -------
    float
        The area under the ROC curve.

    Examples
    --------
    >>> auc(np.array([True, False, False]), np.array([3.0, 1.0, 3.0]))
    0.75
    """
    bad, good = scores[truth], np.sort(scores[~truth])
    if not bad.size or not good.size:
        return float("nan")
    below = np.searchsorted(good, bad, side="left") + np.searchsorted(good, bad, side="right")
    return float(below.mean() / (2.0 * good.size))


def mean_shift(before: Array, after: Array) -> float:
    """Return the mean distance by which rows moved.

    Parameters
    ----------
    before, after : ndarray of shape (n_samples, n_features)
        The rows.

    Returns
    -------
    float
        The mean Euclidean distance, 0 without rows.

    Examples
    --------
    >>> mean_shift(np.zeros((2, 2)), np.array([[3.0, 4.0], [0.0, 0.0]]))
    2.5
    """
    return float(np.linalg.norm(after - before, axis=1).mean()) if len(before) else 0.0


def f1_score(truth: NDArray[np.bool_], flags: NDArray[np.bool_]) -> float:
    """Return the F1 of flags; 1.0 where there is nothing to find and nothing was flagged.

    Parameters
    ----------
    truth, flags : ndarray of bool, shape (n_samples,)
        Which rows are wrong, and which are flagged.

    Returns
    -------
    float
        The harmonic mean of precision and recall.

    Examples
    --------
    >>> f1_score(np.array([True, True, False]), np.array([True, False, False])).__round__(3)
    0.667
    """
    found, total = int((truth & flags).sum()), int(truth.sum() + flags.sum())
    return 2.0 * found / total if total else 1.0
