"""Fitted estimators that the tests of the report share; all but one fit in a fraction of a second."""

from functools import cache

import numpy as np
import pandas as pd
from convex import low_rank, wrong_rows

from kernmend import KernelRecovery, OutlierPursuit
from kernmend.datasets import make_circle

EVIL_COLUMN = "<script>alert(1)</script>"
EVIL_LABEL = '</script><img src=x onerror="alert(2)">'
EVIL_TITLE = "<b>July</b> & {{ 7 * 7 }}"


@cache
def circle():
    """A table of two columns, one of them with a hostile name; three wrong rows, and one with a missing entry."""
    X = make_circle(120, random_state=0).X.copy()
    X[[7, 30, 99]] = [[0.4, 0.4], [-0.2, 0.1], [1.4, -1.3]]
    X[50, 1] = np.nan
    return KernelRecovery(gamma=3.0, lam=0.1, rho=1e4, error="rows").fit(pd.DataFrame(X, columns=["x", EVIL_COLUMN])), X


@cache
def clean():
    """A table in which nothing is wrong."""
    return KernelRecovery().fit(make_circle(120, random_state=0).X)


def some_unusual_rows():
    X = np.random.default_rng(4).standard_normal((300, 3))
    X[[10, 20, 30]] += 50
    X[[40, 50, 60, 70]] = 4.8 * np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0]])
    return X


@cache
def unusual():
    """Rows of which three are wrong and four are unusual: about 5 standard deviations out along an axis."""
    return KernelRecovery().fit(some_unusual_rows())


@cache
def linear(n=80, d=20, share=0.1):
    """Rows of 20 columns without names, so curves; a tenth of them is random."""
    X, bad = wrong_rows(low_rank(n, d, 2, 0), share, seed=0)
    return OutlierPursuit().fit(X), X, bad


@cache
def many():
    """10,000 rows of 50 columns, 400 of them random."""
    X, bad = wrong_rows(low_rank(10_000, 50, 3, 0), 0.04, seed=0)
    return OutlierPursuit(tol=1e-3).fit(X), X, bad


def table_file(path):
    """Write the circle, seen by a third column too, as a file with decimal commas, names of rows and codes."""
    X = circle()[1].copy()
    X[50, 1] = make_circle(120, random_state=0).X[50, 1]
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    X[50, 1] = np.nan
    lines = ["name;site_id;x;y;z"]
    for i, row in enumerate(X.tolist()):
        numbers = ("" if value != value else f"{value:.3f}".replace(".", ",") for value in row)
        lines.append(";".join([f"p{i}", str(1000 + 7 * (i % 5)), *numbers]))
    path.write_text("\n".join(lines) + "\n")
    return path
