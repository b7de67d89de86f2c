"""Parameters of the joint model that nobody gave: chosen without labels, by errors injected into good rows.

The detection engine says which rows are wrong. What a first mending takes off them (where single entries are wrong: the
entries that it changes, as they are) is injected into as large a share of the good rows, short fits of the joint model
mend these, and the setting is kept that leaves the least:

    cost = (error left on the injected rows + displacement of the good ones) / (error that was injected),

all squared. Doing nothing costs 1. With few features the place of a row along its surface cannot be known, unless only
some of its entries are wrong. There the flagged rows themselves are mended, and the error left on one is its squared
distance from the nearest good row.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Detector
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.errors import KernelError, RowError, RowSum
from kernmend.model.kernels import RBF, Kernel, Polynomial, auto_gamma
from kernmend.model.penalties import rho_from_cutoff
from kernmend.model.tuning import centred_trace, pulls
from kernmend.repair.calibrate import DOUBT, in_order
from kernmend.repair.joint import Problem, schatten_lam, solve_nuclear, solve_schatten
from kernmend.repair.joint_entries import fill_entries, find_entries
from kernmend.repair.joint_hidden import PATH_ROWS, column_units
from kernmend.repair.joint_trial import Axes, Trial, axes, onto_span, start_of
from kernmend.repair.mender import Mender, Settings

FROM_DATA = 40
"""Iterations of a trial with errors of entries: it starts at the data, and has farther to go."""
SITES = 0.1
"""Share of the entries that get an error where no row is known to be good, and of those that are watched besides."""
PREDICTED = 0.8
"""Cost of the Schatten path above which nothing is done. Independent normal columns have 0.83 to 0.93, a cubic surface
of 100 rows with half of its entries wrong 0.52 to 0.71."""
PATH_ITERATIONS = 20
"""Iterations of each round of the Schatten path in a trial."""
GOOD_PULL, WRONG_PULL = 0.95, 0.25
"""Quantiles of the pulls on good and on wrong rows that should lie apart: some of the wrong ones are hard to tell."""
WORTH = 0.95
"""Cost above which nothing is done: what is gained must be clear of what the injection cannot tell."""
FEWEST_GOOD = 5
"""Good rows below which nothing is known of a surface."""


@dataclass(frozen=True)
class Setting:
    """Kernel, cut-off as a share of the centred trace (None: rho was given), error model and force (None: lam was).

    `filled` says that the rows are held, as wholes, where they are with wrong entries filled in.
    """

    kernel: Kernel
    cut: float | None
    error: type[RowSum]
    force: float | None
    filled: bool = False

    @property
    def held(self) -> type[RowSum]:
        """The error model by which rows are held."""
        return KernelError if self.filled else self.error


@dataclass(frozen=True)
class Opening:
    """What is done to rows that look wrong before the joint model is solved.

    `first` says how they are mended once, None where they start as they are; `entries` how wrong entries are found and
    filled in for good, None where rows are held where the data has them. `along` says that the place of a row along its
    surface cannot be known.
    """

    first: Settings | None = None
    entries: Settings | None = None
    along: bool = False

    def start(self, X: Array, wrong: NDArray[np.bool_]) -> Array:
        """Return where the joint model starts on rows of which some look wrong."""
        if not wrong.any() or wrong.all():
            return X.copy()
        if self.entries is not None:
            return fill_entries(X, wrong, self.entries)
        out = X.copy()
        if self.first is None:
            return out
        out[wrong] = start_of(Mender(X[~wrong]), X[wrong], self.first)
        return onto_span(out, X)


@dataclass(frozen=True)
class Choice:
    """What was chosen. `rho` and `lam` are None where it is best to do nothing; `cost` is that of the best setting."""

    kernel: Kernel
    error: type[RowSum]
    rho: float | None
    lam: float | None
    cost: float
    reason: str
    flags: NDArray[np.bool_] | None = field(default=None, repr=False)
    """The rows that were found wrong."""
    opening: Opening = field(default_factory=Opening, repr=False)
    """What is done to the wrong rows before the model is solved."""
    tried: dict[Setting, float] = field(default_factory=dict, repr=False)


def rbf_kernels(X: Array) -> list[Kernel]:
    """Return Gaussian kernels for rows, from wide to narrow."""
    return [RBF(width * auto_gamma(X)) for width in axes(X).widths]


def polynomial_kernels(X: Array, degree: float) -> list[Kernel]:
    """Return polynomial kernels for rows, from nearly linear to curved: those that are defined on the rows."""
    unit = float(np.mean(np.einsum("ij,ij->i", X, X))) or 1.0
    least = max(-1.01 * float((X @ X.T).min()), 0.0) if degree != round(degree) else 0.0
    return [Polynomial(degree, max(offset * unit, least)) for offset in axes(X).offsets]


def path_cost(X: Array, kernel: Kernel, error: type[RowSum], lam: float | None, seed: int) -> float:
    """Return what the Schatten path leaves of errors in single entries, as a share of what doing nothing leaves.

    For data in which every row may have wrong entries, so that no row is known to be good. Some entries take the value
    that another row has in their column; others, drawn in the same way, stay. The cost is how far the path leaves the
    first from where they were, plus how far it moves the second: medians, so that entries which were wrong before and
    are mended do not count. Each column has its own unit.
    """
    rng = np.random.default_rng(seed)
    rows = in_order(X)[rng.permutation(len(X))[:PATH_ROWS]]
    sites = rng.choice(rows.size, max(2, round(2 * SITES * rows.size)), replace=False)
    values = rows[rng.integers(len(rows), size=sites.size), sites % rows.shape[1]]
    differ = values != rows.flat[sites]
    sites, values = sites[differ], values[differ]
    injected, others = np.array_split(sites, 2)
    if others.size == 0:
        return 1.0
    corrupted = rows.copy()
    corrupted.flat[injected] = values[: injected.size]
    problem = Problem.of(corrupted, kernel, error)
    lam = schatten_lam(corrupted, error) if lam is None else lam
    A = solve_schatten(problem, lam=lam, round_iter=PATH_ITERATIONS, max_iter=5 * PATH_ITERATIONS, tol=1e-5).A
    unit = column_units(rows)
    moved = np.abs((A - rows) / unit).ravel()
    before = float(np.median(np.abs((corrupted - rows) / unit).flat[injected]))
    return float(np.median(moved[injected]) + np.median(moved[others])) / before


def choose(
    X: Array,
    *,
    kernels: Sequence[Kernel],
    errors: Sequence[type[RowSum]],
    rho: float | None = None,
    lam: float | None = None,
    seed: int = 0,
    callback: Callable[[int, float], None] | None = None,
) -> Choice:
    """Return the setting of the joint model that brings injected errors back best, or that nothing is to be done.

    Parameters
    ----------
    X
        The rows, without missing entries.
    kernels
        Those to choose from, in order of width.
    errors
        The error models to choose from.
    rho, lam
        Where given, they are not chosen.
    seed
        Of what is drawn at random.
    callback
        Gets the number of settings tried so far and the cost of the latest.
    """
    detector, found = Detector.fit(X)
    flags = found.rows
    nothing = Choice(kernels[0], errors[0], None, None, 1.0, "no row was found wrong")
    if not flags.any() or int((~flags).sum()) < FEWEST_GOOD:
        return nothing
    trial = Trial.of(X, flags, detector, seed, entries=any(error.by_entry for error in errors))
    search = Search(trial, tuple(kernels), rho, lam, callback)
    best = search.best(errors)
    cost = search.cost(best)
    if cost > WORTH:
        least = f"no setting leaves less than {100 * WORTH:g} % of what doing nothing leaves of injected errors"
        reason = f"{least}, and the best of {len(search.tried)} leaves {100 * cost:.0f} %"
        return replace(nothing, kernel=best.kernel, error=best.error, cost=cost, reason=reason, tried=search.tried)
    reason = f"the best of {len(search.tried)} settings on injected errors"
    final = search.among_all(best, X, flags)
    if final != best:
        reason += ", with lam midway between the pulls on good and on wrong rows"
    rho, lam = search.rho(best), search.lam(final, Problem.of(X, best.kernel, best.held))
    opening = Opening(None if best.error.by_entry else search.trial.first, along=search.trial.near is not None)
    if best.filled and search.entries is not None:
        opening, reason = Opening(None, search.entries[0]), f"{reason}, with wrong entries filled in before"
    return Choice(best.kernel, best.error, rho, lam, cost, reason, flags, opening, search.tried)


@dataclass
class Search:
    """A climb over kernel, cut-off and force; each setting is tried once."""

    trial: Trial
    kernels: tuple[Kernel, ...]
    given_rho: float | None
    given_lam: float | None
    callback: Callable[[int, float], None] | None = None
    tried: dict[Setting, float] = field(default_factory=dict)
    _spectra: dict[Kernel, tuple[float, Array, Array]] = field(default_factory=dict, repr=False)

    def rho(self, setting: Setting) -> float:
        """Return rho itself. That of a trial serves all rows: the eigenvalue of a row by itself grows with no n."""
        if self.given_rho is not None or setting.cut is None:
            return self.given_rho or 1.0
        trace = self._spectrum(setting.kernel)[0]
        return rho_from_cutoff(setting.cut * trace) if trace > 0 else 1.0

    def lam(self, setting: Setting, problem: Problem) -> float:
        """Return lam itself: the force in the unit of the error model on the rows of a problem."""
        return self.given_lam if self.given_lam is not None else problem.unit_of_lam * (setting.force or 1.0)

    def among_all(self, setting: Setting, X: Array, flags: NDArray[np.bool_]) -> Setting:
        """Return the setting with the force for all rows: at most midway between the pulls on good and on wrong ones.

        Pulls are square roots of leverages, which add up to the rank. So the more rows there are, the less a good one
        is pulled, while a wrong one that no other row is like is pulled with 1, as before. The force that holds the
        good rows of a trial would leave the wrong ones among many rows nearly where they are.
        """
        if setting.force is None or setting.error.by_entry or len(X) <= len(self.trial.rows):
            return setting
        f = np.minimum(pulls(*eigenpairs(setting.kernel.gram(X)), self.rho(setting)), 1.0)
        midway = math.sqrt(float(np.median(f[~flags]) * np.median(f[flags])))
        return replace(setting, force=min(setting.force, midway))

    def cost(self, setting: Setting) -> float:
        """Return what a short fit leaves, as a share of what doing nothing leaves; infinite where it fails."""
        if setting not in self.tried:
            by_entry, start, rows = setting.held.by_entry, self.trial.start, self._rows
            if setting.filled and self.entries is not None:
                start = self.entries[1]
                rows = rows.held_at(start)
            problem = rows.of_kernel(setting.kernel, setting.held)
            result = solve_nuclear(
                problem,
                rho=self.rho(setting),
                lam=self.lam(setting, problem),
                init="data" if by_entry else start,
                max_iter=FROM_DATA if by_entry else self.axes.iterations,
                tol=1e-5,
            )
            value = self.trial.left(result.A) / max(self.trial.untouched, np.finfo(np.float64).tiny)
            self.tried[setting] = value if np.isfinite(value) else np.inf
            if self.callback is not None:
                self.callback(len(self.tried), value)
        return self.tried[setting]

    @cached_property
    def axes(self) -> Axes:
        """What is tried."""
        return axes(self.trial.rows)

    @cached_property
    def _rows(self) -> Problem:
        """The problem of the trial's rows."""
        return Problem.of(self.trial.rows, self.kernels[0], RowError)

    def best(self, errors: Sequence[type[RowSum]]) -> Setting:
        """Return the best setting of all error models.

        One of whole rows is tried where another was found best, and one of entries where wrong ones were found.
        """
        found: list[Setting] = []
        for error in errors:
            if error.by_entry and self.given_lam is None and self.entries is not None:
                rows = min(found, key=self.cost) if found else min(self.starts(KernelError), key=self.cost)
                found.append(self.climb(error, replace(rows, error=error, filled=True)))
            elif not found:
                found.append(self.climb(error))
            elif not error.by_entry:
                found.append(replace(found[0], error=error))
        return min(found, key=self.cost)

    @cached_property
    def entries(self) -> tuple[Settings, Array] | None:
        """How wrong entries are found, and the trial's rows with these filled in; None if rows are wrong as a whole."""
        if not self.trial.first.error.by_entry:
            return None
        trial, rows = self.trial, self.trial.rows.copy()
        settings, filled = find_entries(trial.mender, trial.injected, trial.first, lambda A: trial.off(A, trial.held))
        rows[trial.wrong] = filled[: int(trial.wrong.sum())]
        return settings, rows

    def climb(self, error: type[RowSum], start: Setting | None = None) -> Setting:
        """Return the best setting found with an error model, axis by axis from a start or the best of several."""
        starts = self.starts(error) if start is None else [start]
        held = error if start is None else start.held
        best = min(starts, key=self.cost)
        places: dict[str, tuple[Any, ...]] = {
            "force": held.joint_forces if self.given_lam is None else (None,),
            "cut": self.axes.cuts if self.given_rho is None else (None,),
            "kernel": self.kernels,
        }
        for _ in range(self.axes.passes):
            before = best
            for axis, tried in places.items():
                best = self._walk(best, axis, tried)
            if best == before:
                break
        return best

    def starts(self, error: type[RowSum]) -> list[Setting]:
        """Return where the climb may start: nearly linear, and where the pulls on wrong rows stand out most."""
        force = error.joint_forces[len(error.joint_forces) // 2 if error.by_entry else -2]
        first = Setting(self.kernels[0], self.axes.cuts[len(self.axes.cuts) // 2], error, force)
        out = [first] if self.trial.near is None else [first, self._apart(error)]
        return [
            replace(
                each,
                cut=each.cut if self.given_rho is None else None,
                force=each.force if self.given_lam is None else None,
            )
            for each in out
        ]

    def _apart(self, error: type[RowSum]) -> Setting:
        """Return the kernel and cut-off that tell wrong rows by their pulls best, and a force between the two."""
        found: list[tuple[float, float, Kernel, float]] = []
        for kernel in self.kernels:
            trace, s, U = self._spectrum(kernel)
            for cut in self.axes.cuts if trace > 0 else ():
                f = np.maximum(pulls(s, U, rho_from_cutoff(cut * trace)), np.finfo(np.float64).tiny)
                low = float(np.quantile(f[~self.trial.wrong], GOOD_PULL))
                high = float(np.quantile(f[self.trial.wrong], WRONG_PULL))
                found.append((high / low, math.sqrt(low * min(high, 1.0)), kernel, cut))
        _, force, kernel, cut = max(found, key=lambda each: each[0], default=(1.0, 0.5, self.kernels[0], 1e-4))
        nearest = min(error.joint_forces, key=lambda each: abs(math.log(each / force)))
        return Setting(kernel, cut, error, nearest)

    def _walk(self, best: Setting, axis: str, places: tuple[Any, ...]) -> Setting:
        """Return the best setting along one axis, walking in either direction for as long as it helps."""
        here = places.index(getattr(best, axis))
        for direction in (1, -1):
            place, moved = here + direction, False
            while 0 <= place < len(places):
                changed: dict[str, Any] = {axis: places[place]}
                candidate = replace(best, **changed)
                if DOUBT * self.cost(candidate) >= self.cost(best):  # less than that, rounding makes in a short fit
                    break
                best, moved, place = candidate, True, place + direction
            if moved:
                break
        return best

    def _spectrum(self, kernel: Kernel) -> tuple[float, Array, Array]:
        """Return the centred trace of the Gram matrix of the trial's rows, and its eigenpairs."""
        if kernel not in self._spectra:
            K = kernel.gram(self.trial.rows)
            self._spectra[kernel] = centred_trace(K), *eigenpairs(K)
        return self._spectra[kernel]
