"""The scores of the rows, their histogram, and the axis that both the page and the pictures draw them on."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kernmend._typing import Array
from kernmend.report._given import Given, Rows, finite, rounded, worst_first

# Number of bins of the histogram.
BINS = 60
# Distance of a score from the median, in spreads, beyond which the axis is logarithmic away from the median.
STRETCHED = 25.0
# Largest number of rows whose own score is in the facts.
KEPT = 10_000


@dataclass(frozen=True)
class Axis:
    """Where a score lies: at (s - centre) / unit, or at asinh of it where a few scores are far from all others."""

    scale: str
    centre: float
    unit: float
    low: float
    high: float

    @classmethod
    def of(cls, scores: Array, threshold: float) -> "Axis":
        """Return an axis with room for the scores and the threshold, if there is one."""
        ends = [float(scores.min()), float(scores.max()), *([threshold] if np.isfinite(threshold) else [])]
        low, high = min(ends), max(ends)
        if high <= low:
            return cls("linear", low, 1.0, low - 0.5, high + 0.5)
        first, centre, third = (float(q) for q in np.percentile(scores, [25.0, 50.0, 75.0]))
        spread = max(third - first, 1e-4 * (high - low))
        stretched = high - low > STRETCHED * spread
        axis = cls("asinh" if stretched else "linear", centre, spread, low, high)
        first, last = axis.ends()
        margin = 0.02 * (last - first)
        low, high = axis.value(np.array([first - margin, last + margin])).tolist()
        return cls(axis.scale, centre, spread, low, high)

    def ends(self) -> tuple[float, float]:
        """Return where the lowest and the highest score that it has room for are drawn."""
        first, last = self.position(np.array([self.low, self.high])).tolist()
        return first, last

    def position(self, score: Array) -> Array:
        """Return where scores are drawn."""
        place = (score - self.centre) / self.unit
        out: Array = np.arcsinh(place) if self.scale == "asinh" else place
        return out

    def value(self, position: Array) -> Array:
        """Return the scores that are drawn there."""
        place = np.sinh(position) if self.scale == "asinh" else position
        out: Array = self.centre + self.unit * place
        return out


def score_facts(est: Any, given: Given, meaning: str) -> dict[str, Any]:
    """Return the scores worst first, the flagged rows, the unusual ones, the threshold, the histogram of all scores."""
    scores, outliers = est.outlier_scores_.astype(np.float64), est.outliers_
    axis = Axis.of(scores, est.threshold_)
    first, last = axis.ends()
    edges = np.linspace(first, last, BINS + 1)
    counts = np.histogram(np.clip(axis.position(scores), first, last), edges)[0]
    kept = kept_rows(scores, KEPT)
    return {
        "meaning": meaning,
        "threshold": finite(est.threshold_),
        "flagged": worst_first(scores, np.flatnonzero(outliers)).tolist(),
        "suspects": worst_first(scores, np.flatnonzero(getattr(est, "suspects_", []))).tolist(),
        "rows": kept.tolist(),
        "values": rounded(scores[kept]),
        "labels": [given.label(row) for row in kept.tolist()] if given.row_labels is not None else None,
        "certain": int(min(kept.size, KEPT // 2)) if scores.size > KEPT else int(kept.size),
        "axis": {name: rounded([value])[0] if name != "scale" else value for name, value in asdict(axis).items()},
        "histogram": {"edges": rounded(axis.value(edges)), "counts": counts.tolist()},
    }


def kept_rows(scores: Array, limit: int) -> Rows:
    """Return all rows, worst first; above the limit the worst half of it and a sample of the others."""
    order = worst_first(scores)
    if order.size <= limit:
        return order
    worst, others = order[: limit // 2], order[limit // 2 :]
    chosen = np.random.default_rng(0).choice(others.size, limit - worst.size, replace=False)
    return np.concatenate([worst, others[np.sort(chosen)]])
