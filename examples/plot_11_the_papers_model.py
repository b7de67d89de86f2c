"""
The paper's model and its convergence
=====================================

`KernelLowRank` minimises the objective of *Matrix Recovery with Implicitly Low-Rank Data*,

.. math::

    F(A, B) = \\|B\\|_* + \\lambda \\sum_i \\|\\phi(a_i) - \\phi(x_i)\\| + \\frac{\\rho}{2} \\|B^T B - K(A)\\|_F^2 .

The paper's algorithm moves one row after the other and then B. The default here eliminates B, which has a
closed form, and moves all rows at once by a quasi-Newton method. Both lower F in every step; they differ in
how soon.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernmend import KernelLowRank
from kernmend.datasets import make_circle
from kernmend.datasets.corruption import uniform_outliers

circle = make_circle(80, random_state=0)
X, wrong = uniform_outliers(circle.X, 0.1, random_state=1)
fits = {
    "reduced (the default)": KernelLowRank(gamma=1.0, lam=0.3, rho=100.0, init="data"),
    "alternating (Algorithm 1)": KernelLowRank(
        gamma=1.0, lam=0.3, rho=100.0, init="data", solver="alternating", max_iter=40
    ),
    "all rows at once": KernelLowRank(
        gamma=1.0, lam=0.3, rho=100.0, init="data", solver="alternating-parallel", max_iter=40
    ),
}

# %%
# An alternating solver may use up its sweeps, and then says so by a `ConvergenceWarning`. Here we only look.
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for est in fits.values():
        est.fit(X)
for name, est in fits.items():
    print(f"{name}: F = {est.objective_[-1]:.3f} after {est.n_iter_} iterations, {est.stop_reason_}")

# %%
lowest = min(est.objective_.min() for est in fits.values())
fig, ax = plt.subplots(figsize=(8, 3.8))
for (name, est), colour, line in zip(fits.items(), ("#d1495b", "#2e6fb7", "#3a9d7c"), ("-", "-", "--"), strict=True):
    ax.semilogy(np.maximum(est.objective_ - lowest, 1e-6), line, label=name, color=colour, lw=2)
ax.set(xlabel="iteration", ylabel="F above the lowest F", xlim=(0, 60), ylim=(1e-4, 2))
ax.legend(frameon=False, loc="lower left")
print("F never rises:", all((np.diff(est.objective_) <= 1e-9 * est.objective_[0]).all() for est in fits.values()))

# %%
# The parameter rho is a cut-off for eigenvalues: those of the Gram matrix up to 1.5 rho^(-2/3) count as
# noise. With a large rho the alternation becomes stiff, since every step of A has to stay close to the last
# B; the reduced problem has no B. :doc:`/method` has the formulas, and what the paper gets wrong.
