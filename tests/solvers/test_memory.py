"""The memory of many rows against the textbook's two loops, row by row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernmend.solvers.rows import PAIRS, Memory

seeds = st.integers(0, 2**32 - 1)


def two_loops(pairs, g):
    """The inverse Hessian of L-BFGS times g, from (s, y) pairs, oldest first."""
    q, alphas = g.copy(), []
    for s, y in reversed(pairs):
        alphas.append(s @ q / (s @ y))
        q -= alphas[-1] * y
    s, y = pairs[-1]
    q *= s @ y / (y @ y)
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        q += (alpha - y @ q / (s @ y)) * s
    return q


@given(seed=seeds, steps=st.integers(1, 3 * PAIRS))
def test_each_row_is_what_its_own_two_loops_give(seed, steps):
    rng = np.random.default_rng(seed)
    n, d = 5, 12
    memory, kept, g = Memory((n, d)), [[] for _ in range(n)], rng.standard_normal((n, d))
    H = rng.uniform(0.5, 3.0, d)
    for _ in range(steps):
        rows = np.flatnonzero(rng.random(n) < 0.7)
        s = rng.standard_normal((rows.size, d))
        y = s * H * rng.choice([1.0, -1.0], (rows.size, 1), p=[0.8, 0.2])  # a fifth without positive curvature
        g[rows] += y
        memory.store(rows, s, y, g[rows])
        for row, *pair in zip(rows, s, y, strict=True):
            if pair[0] @ pair[1] > 0:
                kept[row] = [*kept[row], pair][-PAIRS:]
        if rng.random() < 0.1:
            memory.forget(np.array([2]))
            kept[2] = []
    found = memory.apply(g, np.arange(n), np.full((n, 1), 0.5))
    for row in range(n):
        expected = two_loops(kept[row], g[row]) if kept[row] else 0.5 * g[row] / np.linalg.norm(g[row])
        np.testing.assert_allclose(found[row], expected, rtol=1e-7, atol=1e-7 * np.linalg.norm(g[row]))


def test_some_rows_are_what_they_are_among_all():
    rng = np.random.default_rng(1)
    memory, g = Memory((6, 4)), rng.standard_normal((6, 4))
    for _ in range(3):
        s = rng.standard_normal((6, 4))
        g += 2.0 * s
        memory.store(np.arange(6), s, 2.0 * s, g)
    some = np.array([4, 1])
    among_all = memory.apply(g, np.arange(6), np.ones((6, 1)))
    np.testing.assert_allclose(memory.apply(g[some], some, np.ones((2, 1))), among_all[some], rtol=1e-12)
