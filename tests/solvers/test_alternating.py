"""The alternating solvers: their monotone step against closed forms, and what they refuse."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import PROBLEMS, ROUNDING, SOLVERS, start

from kernmend.linalg.eigen import TopEigenpairs
from kernmend.model.kernels import RBF
from kernmend.model.penalties import NuclearPenalty, SpectralTerm
from kernmend.solvers import solve_alternating, solve_parallel, solve_reduced
from kernmend.solvers.alternating import MonotoneStep

ALTERNATING = [solve_alternating, solve_parallel]


@dataclass(frozen=True)
class Quadratic:
    """f(a) = 1/2 sum_i (a_i - c_i)' H (a_i - c_i), one H for all rows."""

    H: np.ndarray
    c: np.ndarray
    sign: float = 1.0  # -1 gives a gradient that points the wrong way

    def value(self, a):
        return 0.5 * float(np.vdot(a - self.c, (a - self.c) @ self.H))

    def value_and_gradient(self, a):
        return self.value(a), self.sign * (a - self.c) @ self.H


def quadratic(seed, n=3, d=4, condition=30.0):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    H = (Q * np.geomspace(1.0, condition, d)) @ Q.T
    return Quadratic(0.5 * (H + H.T), rng.standard_normal((n, d))), rng


def descend(f, a, x, w, scale, n_steps):
    """Return the last point and f + g at all of them."""
    step = MonotoneStep(scale)

    def total(b):
        return f.value(b) + (0.0 if w is None else float(w @ np.sum((b - x) ** 2, axis=1)))

    values = [total(a)]
    for _ in range(n_steps):
        a = step(a, f, x, w)
        values.append(total(a))
    return a, np.array(values)


seeds = st.integers(0, 2**16)
log_scales = st.floats(-4.0, 4.0)  # the first step may be far too short or far too long
cheap = settings(max_examples=30, deadline=None, derandomize=True)


@cheap
@given(seed=seeds, log_scale=log_scales)
def test_step_reaches_the_minimum_of_a_quadratic(seed, log_scale):
    f, rng = quadratic(seed)
    a, x = rng.standard_normal((2, 3, 4))
    end, values = descend(f, a, x, None, 10.0**log_scale, 300)
    assert np.all(np.diff(values) <= ROUNDING * values[:-1])
    assert values[1] < values[0]
    np.testing.assert_allclose(end, f.c, atol=1e-5)


@cheap
@given(seed=seeds, log_scale=log_scales, log_w=st.floats(-2.0, 2.0))
def test_step_reaches_the_minimum_of_a_quadratic_with_prox_weights(seed, log_scale, log_w):
    """1/2 (a - c)'H(a - c) + w |a - x|^2 is smallest where (H + 2 w I) a = H c + 2 w x."""
    f, rng = quadratic(seed)
    a, x = rng.standard_normal((2, 3, 4))
    w = 10.0**log_w * rng.uniform(0.1, 1.0, 3)
    end, values = descend(f, a, x, w, 10.0**log_scale, 300)
    assert np.all(np.diff(values) <= ROUNDING * values[:-1])
    for i in range(3):
        exact = np.linalg.solve(f.H + 2.0 * w[i] * np.eye(4), f.H @ f.c[i] + 2.0 * w[i] * x[i])
        np.testing.assert_allclose(end[i], exact, atol=1e-5)


def test_step_is_exact_where_the_smooth_part_is_zero():
    """Without f the prox alone remains: (a + 2 delta w x) / (1 + 2 delta w), between a and x."""
    f = Quadratic(np.zeros((2, 2)), np.zeros((2, 2)))
    a, x, w = np.array([[3.0, -1.0], [5.0, 5.0]]), np.ones((2, 2)), np.array([2.0, 0.0])
    scale = 0.5  # delta is scale^2 where the gradient is zero
    end = MonotoneStep(scale)(a, f, x, w)
    np.testing.assert_allclose(end[0], (a[0] + 2 * scale**2 * 2.0 * x[0]) / (1 + 2 * scale**2 * 2.0), rtol=1e-14)
    np.testing.assert_array_equal(end[1], a[1])  # no weight, no gradient: stays


@pytest.mark.parametrize("w", [None, np.array([0.0, 0.0, 0.0])])
def test_step_stays_where_nothing_can_be_lowered(w):
    f, rng = quadratic(0)
    a = rng.standard_normal((3, 4))
    for point, slope in ((f.c, f), (a, replace(f, sign=-1.0))):
        end = point
        step = MonotoneStep(1.0)
        for _ in range(40):  # so often that a step length which only ever shrinks would underflow
            end = step(end, slope, point, w)
        np.testing.assert_allclose(end, point, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_step_keeps_the_dtype(dtype, weighted):
    f, rng = quadratic(1)
    f = Quadratic(f.H.astype(dtype), f.c.astype(dtype))
    a, x = rng.standard_normal((2, 3, 4)).astype(dtype)
    end, _ = descend(f, a, x, np.ones(3) if weighted else None, 1.0, 3)
    assert end.dtype == dtype


def test_momentum_helps():
    """On an ill-conditioned quadratic the accelerated step is far ahead of plain gradient descent with step 1/L."""
    condition = 1e3
    f, rng = quadratic(0, condition=condition)
    a = rng.standard_normal((3, 4))
    _, values = descend(f, a, a, None, 1.0, 200)
    plain = a
    for _ in range(200):
        plain = plain - f.value_and_gradient(plain)[1] / condition
    assert values[-1] < 0.1 * f.value(plain)


@pytest.mark.parametrize("solve", ALTERNATING)
@pytest.mark.parametrize("name", ["poly2", "poly1.5", "linear"])
@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_momentum_does_not_run_away(solve, name, scale):
    """Far from the data a dot product grows without bound: an extrapolation that loses must not be carried on."""
    problem = PROBLEMS[name]
    A, target = start(problem, "zeros")
    result = solve(problem.objective(), A, start=target, scale=scale, max_iter=60, tol=0.0)
    assert np.isfinite(result.A).all()
    assert np.all(np.diff(result.objective) <= ROUNDING * result.objective[:-1])
    assert result.objective[-1] < 1e-2 * result.objective[0]


# --- what the solvers need of a penalty -----------------------------------------------------------------------------


class TracePenalty:
    """trace(K): a penalty without a B-step."""

    def evaluate(self, K, eigen):
        return SpectralTerm(float(np.trace(K)), 0.0, 0, np.eye(K.shape[0]))


@pytest.mark.parametrize("solve", ALTERNATING)
def test_penalty_without_b_step_is_refused_by_name(solve):
    problem, seen = PROBLEMS["linear"], []
    with pytest.raises(TypeError, match=r"TracePenalty.*reduced"):
        solve(problem.objective(penalty=TracePenalty()), problem.X, callback=seen.append)
    assert seen == []  # before anything is computed


def test_penalty_without_b_step_is_no_matter_to_the_reduced_solver():
    problem = PROBLEMS["linear"]
    result = solve_reduced(problem.objective(penalty=TracePenalty()), problem.X)
    assert result.objective[-1] < result.objective[0]


# --- the two of them ------------------------------------------------------------------------------------------------


def test_one_row_alone_is_the_same_in_sequence_and_in_parallel():
    """With one sample a sweep is one step of all rows; the parallel solver makes three of them per B-step."""
    problem = replace(PROBLEMS["linear"], X=PROBLEMS["linear"].X[:1], lam=0.5, rho=10.0)
    ends = [solve(problem.objective(), problem.X, max_iter=300, tol=1e-15).A for solve in ALTERNATING]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-5)


@pytest.mark.parametrize("solver", ["alternating", "alternating-parallel"])
def test_b_is_at_its_minimum_after_each_iteration(solver):
    """The last record is F at the best B, not at the one that the A-step saw: another B-step changes nothing."""
    problem = PROBLEMS["rbf"]
    result = SOLVERS[solver](problem.objective(), problem.X, max_iter=4, tol=0.0)
    K = RBF(1.0).gram(result.A)
    target = NuclearPenalty(problem.rho).b_step(K, TopEigenpairs())
    last = result.history[-1]
    assert last.low_rank == pytest.approx(target.low_rank, rel=1e-12)
    assert last.gram == pytest.approx(0.5 * problem.rho * np.sum((target.M - K) ** 2), rel=1e-10)
