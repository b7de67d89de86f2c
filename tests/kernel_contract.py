"""What every kernel promises, as one function: call it on a new kernel and two sets of rows."""

import numpy as np
from reference import numerical_gradient


def check_kernel_contract(kernel, A, B, *, psd=True, rtol=1e-6):
    """Assert the contract of `kernmend.model.kernels.Kernel` on the rows of A (n, d) and B (m, d), n and m different.

    `psd=False` for a kernel that is not positive semidefinite on all data, such as a polynomial of fractional degree.
    """
    n, m = A.shape[0], B.shape[0]
    assert n != m, "different numbers of rows show a mistaken axis"
    A0, B0 = A.copy(), B.copy()
    rng = np.random.default_rng(0)

    kernel.check(np.vstack([A, B]))
    K, C = kernel.gram(A), kernel.gram(A, B)
    assert K.shape == (n, n)
    assert C.shape == (n, m)
    scale = np.abs(K).max()
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(kernel.gram(A, A), K, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(kernel.gram(B, A), C.T, rtol=0, atol=1e-12 * max(scale, np.abs(C).max()))
    np.testing.assert_allclose(kernel.diag(A), np.diag(K), rtol=1e-12)
    if psd:
        both = kernel.gram(np.vstack([A, B]))
        assert np.linalg.eigvalsh(both)[0] >= -1e-12 * np.trace(both)

    _check_pullbacks(kernel, A, B, K, C, rng, rtol)
    _check_distances(kernel, A, rng, rtol)
    _check_majoriser(kernel, A, rng)
    np.testing.assert_array_equal(A, A0)
    np.testing.assert_array_equal(B, B0)


def _check_pullbacks(kernel, A, B, K, C, rng, rtol):
    """`pullback`, `gradient` and `diag_gradient` against finite differences; K, A, B are left alone, G may be consumed.

    `against(B)` is the same kernel with B as its second argument.
    """
    K0, C0 = K.copy(), C.copy()
    G = rng.standard_normal(C.shape)
    found = kernel.pullback(A, B, C, G.copy())
    expected = numerical_gradient(lambda Z: float(np.sum(G * kernel.gram(Z, B))), A)
    assert found.shape == A.shape
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=_noise(expected, C, rtol))
    fixed = kernel.against(B)
    np.testing.assert_allclose(fixed.gram(A), C, rtol=0, atol=1e-12 * np.abs(C).max())
    np.testing.assert_allclose(fixed.pullback(A, C, G.copy()), found, rtol=1e-9, atol=1e-12 * np.abs(found).max())

    expected = numerical_gradient(lambda Z: float(kernel.diag(Z).sum()), A)
    np.testing.assert_allclose(kernel.diag_gradient(A), expected, rtol=rtol, atol=_noise(expected, K, rtol))

    S = rng.standard_normal(K.shape)
    S = S + S.T
    found = kernel.gradient(A, K, S.copy())
    expected = numerical_gradient(lambda Z: float(np.sum(S * kernel.gram(Z))), A)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=_noise(expected, K, rtol))
    np.testing.assert_array_equal(K, K0)
    np.testing.assert_array_equal(C, C0)


def _noise(expected, K, rtol):
    """What a finite difference may be off by where the gradient is zero or nearly so."""
    return rtol * np.abs(expected).max() + 1e-11 * np.abs(K).max()


def _check_distances(kernel, A, rng, rtol):
    """h_i is the distance in the kernel space, zero at A = X, and its gradient is its gradient."""
    X = A + 0.3 * rng.standard_normal(A.shape) * np.abs(A).mean()
    h, gradient = kernel.distances(A, X)
    assert h.shape == (A.shape[0],)
    assert gradient.shape == A.shape
    expected = kernel.diag(A) + kernel.diag(X) - 2.0 * np.diag(kernel.gram(A, X))
    np.testing.assert_allclose(h, expected, rtol=1e-9, atol=1e-12 * np.abs(kernel.diag(A)).max())
    assert np.all(h > 0)
    by_hand = numerical_gradient(lambda Z: float(kernel.distances(Z, X)[0].sum()), A)
    np.testing.assert_allclose(gradient, by_hand, rtol=rtol, atol=rtol * np.abs(by_hand).max())
    h, gradient = kernel.distances(A, A)
    np.testing.assert_allclose(h, 0.0, rtol=0, atol=1e-13 * np.abs(kernel.diag(A)).max())
    np.testing.assert_allclose(gradient, 0.0, rtol=0, atol=1e-12 * np.abs(by_hand).max())


def _check_majoriser(kernel, A, rng):
    """w_i >= 0, and h(b) lies under the paraboloid at every b, near and far; the two touch at a (same gradient)."""
    X = A + rng.standard_normal(A.shape)
    w = kernel.majoriser(A, X)
    if w is None:
        return
    assert w.shape == (A.shape[0],)
    assert np.all(w >= 0)
    h, gradient = kernel.distances(A, X)
    np.testing.assert_allclose(2.0 * w[:, np.newaxis] * (A - X), gradient, rtol=1e-9, atol=1e-12)
    at_a = np.sum((A - X) ** 2, axis=1)
    for size in 10.0 ** rng.uniform(-3, 2, size=40):
        for centre in (A, X):
            b = centre + size * rng.standard_normal(A.shape)
            bound = h + w * (np.sum((b - X) ** 2, axis=1) - at_a)
            assert np.all(kernel.distances(b, X)[0] <= bound + 1e-11 * (1.0 + np.abs(bound)))
