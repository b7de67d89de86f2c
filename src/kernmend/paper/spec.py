"""What an experiment is: plain frozen facts, from which the work and its identity follow."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

# How the parameters of a method were chosen, as the tables say it.
PAPER, FREE, GRID, TRUTH = "paper", "label-free", "grid on a separate seed", "knows the truth"
RELEASED, NONE = "authors' released program", "nothing to set"
# Number of the repetition on which grids are searched; its results are never shown.
TUNING = -1
# Seed of the data of repetition 0.
FIRST_SEED = 1000


@dataclass(frozen=True)
class Data:
    """A data set: `circle`, `mnist` or `coil`."""

    name: str
    n: int = 400
    digits: tuple[int, ...] = (2, 3)
    objects: int = 10
    rotations: int = 5
    views: int = 72
    unit_length: bool = False
    """Whether images are brought to unit length before the corruption, as the authors' program does."""
    unit_after: bool = False
    """Whether all images, clean and corrupted, are brought to unit length after it, as the paper prints."""

    @property
    def scale(self) -> str:
        """Name of the scale for tables."""
        return "unit length" if self.unit_length or self.unit_after else "[0, 1]"

    @property
    def side(self) -> int:
        """Pixels along the edge of an image."""
        return 28 if self.name == "mnist" else 32


@dataclass(frozen=True)
class Corruption:
    """What is done to a tenth of the rows: `outliers`, `gaussian` (with its reading) or `occlusion`."""

    kind: str
    level: str = "energy"
    fraction: float = 0.1

    @property
    def label(self) -> str:
        """Name for tables; the reading of the noise is part of it."""
        return f"Gaussian ({self.level})" if self.kind == "gaussian" else self.kind


@dataclass(frozen=True)
class Method:
    """A row of a table: an estimator of kernmend (or `untouched`, `oracle`), its parameters, and how they were chosen.

    `given` is what `fit` gets besides the data: nothing, a graph or a similarity made from the clean or from the
    corrupted images. `grid` has further parameters, of which the best on a separate seed is used; `grid_rotations` are
    those of each view of COIL-20 there, if fewer images than those of the table are to choose.
    """

    name: str
    estimator: str
    rule: str
    params: tuple[tuple[str, Any], ...] = ()
    given: str = ""
    grid: tuple[tuple[tuple[str, Any], ...], ...] = ()
    grid_rotations: int | None = None
    budget: float = 120.0
    paper: str = ""


@dataclass(frozen=True)
class Case:
    """One data set under one corruption, and the methods that are compared on it."""

    label: str
    data: Data
    corruption: Corruption
    methods: tuple[Method, ...]
    repetitions: int


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper. `serial` work is timed, so nothing else of the run goes on beside it."""

    name: str
    title: str
    claim: str
    cases: tuple[Case, ...]
    serial: bool = False
    gallery: bool = False


@dataclass(frozen=True)
class Task:
    """The smallest piece of work: one method on one matrix."""

    experiment: str
    data: Data
    corruption: Corruption
    method: Method
    repetition: int
    case: str
    keep: bool = False

    @property
    def seed(self) -> int:
        """Seed of the data and its corruption; it does not depend on the method."""
        return FIRST_SEED + self.repetition

    @property
    def key(self) -> str:
        """Name of this work in the store: another parameter is another key; labels and the paper's figures are not."""
        facts = asdict(self)
        for label in ("case", "keep"):
            facts.pop(label)
        for label in ("paper", "rule"):
            facts["method"].pop(label)
        if self.method.grid_rotations is None:
            facts["method"].pop("grid_rotations")
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:20]


def method(name: str, estimator: str, rule: str, **facts: Any) -> Method:
    """Return a method; keywords that are not its own fields are parameters of the estimator."""
    own = {key: facts.pop(key) for key in ("given", "budget", "paper") if key in facts}
    grid = tuple(tuple(sorted(point.items())) for point in facts.pop("grid", ()))
    return Method(name, estimator, rule, tuple(sorted(facts.items())), grid=grid, **own)


def tasks(experiment: Experiment, seeds: int | None = None) -> list[Task]:
    """Return the work of an experiment, first repetitions first; `seeds` replaces the number of repetitions."""
    out = []
    for case in experiment.cases:
        for repetition in range(seeds if seeds is not None else case.repetitions):
            keep = repetition == 0 and experiment.gallery
            common = (experiment.name, case.data, case.corruption)
            out += [Task(*common, item, repetition, case.label, keep) for item in case.methods]
    return out


def tuning_tasks(experiment: Experiment) -> list[Task]:
    """Return the search of the grids: every point as a method of its own, on the separate seed."""
    return [
        point
        for case in experiment.cases
        for item in case.methods
        if item.grid
        for point in grid_points(Task(experiment.name, case.data, case.corruption, item, TUNING, case.label))
    ]


def grid_points(task: Task) -> list[Task]:
    """Return one task on the separate seed, with its number of images, for each point of the method's grid."""
    out, data = [], task.data
    if task.method.grid_rotations is not None and data.name == "coil":
        data = replace(data, rotations=task.method.grid_rotations)
    for point in task.method.grid:
        params = tuple(sorted({**dict(task.method.params), **dict(point)}.items()))
        method = replace(task.method, params=params, grid=(), grid_rotations=None)
        out.append(replace(task, data=data, method=method, repetition=TUNING, keep=False))
    return out
