"""Makes the frozen model of this version: `python tests/models/make.py`, once for a release and for each new format.

Beside the model stands what it must answer: rows, how they are mended, and which do not fit.
"""

import json
from pathlib import Path

import numpy as np

import kernmend
from kernmend.io.model_file import FORMAT

HERE = Path(__file__).parent


def main() -> None:
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 60)
    X = np.column_stack([np.cos(angle), np.sin(angle), np.cos(2 * angle)])
    X[[7, 40]] = [[0.4, 0.4, 0.1], [1.7, 1.0, -1.0]]
    new = np.vstack([X[:3], [[0.3, -0.2, 0.5], [2.0, 2.0, 2.0]]])
    est = kernmend.KernelRecovery().fit(X)
    est.feature_names_in_ = np.array(["x", "y", "z"], dtype=object)
    name = f"format-{FORMAT}"
    est.save(HERE / f"{name}.kernmend", force=True)
    again = kernmend.load(HERE / f"{name}.kernmend")
    del again.feature_names_in_
    answers = {"rows": new.tolist(), "mended": again.transform(new).tolist(), "fits": again.predict(new).tolist()}
    (HERE / f"{name}.json").write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
