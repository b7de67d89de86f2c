"""The paper's experiments: described as data, run with a resumable store, shown as tables and figures."""

NAMES = ("circle", "similarity", "denoise", "time", "convergence", "complexity", "released")
