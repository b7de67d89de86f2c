"""A circle with two wrong points, as a table: what the tests of the command line mend."""

import numpy as np
import pandas as pd

N = 200
WRONG = [7, 80]
# With this pandas reads numbers to the last bit; since pandas 3 it does without.
EXACTLY = {} if int(pd.__version__.partition(".")[0]) >= 3 else {"float_precision": "round_trip"}


def frame(n=N):
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, n)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[WRONG] = [[0.4, 0.4], [1.7, 1.0]]
    return pd.DataFrame({"name": [f"point {i}" for i in range(n)], "x": X[:, 0], "y": X[:, 1]})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def narrow(text):
    """Lines of words and tables fit a terminal of 80 columns; paths may be longer."""
    return all(len(line) <= 80 for line in text.splitlines() if "/" not in line)
