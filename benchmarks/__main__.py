"""Run the benchmarks named on the command line, or all but the long ones and those that write files."""

import platform
import sys

import numpy as np
import scipy
import sklearn

from benchmarks import (
    baselines,
    choosing,
    circle,
    clean,
    cluster,
    constants,
    cost,
    default,
    detectors,
    entries,
    evaluation,
    files,
    growth,
    imports,
    intervals,
    joint,
    landmarks,
    methods,
    methods_picture,
    missing,
    readme,
    real,
    report_pictures,
    solvers,
    walks,
)

BENCHMARKS = {
    "default": default.run,
    "clean": clean.run,
    "choosing": choosing.run,
    "detectors": detectors.run,
    "entries": entries.run,
    "missing": missing.run,
    "baselines": baselines.run,
    "methods": methods.run,
    "methods-picture": methods_picture.run,
    "report-pictures": report_pictures.run,
    "circle": circle.run,
    "solvers": solvers.run,
    "cost": cost.run,
    "evaluation": evaluation.run,
    "imports": imports.run,
    "intervals": intervals.run,
    "joint": joint.run,
    "landmarks": landmarks.run,
    "walks": walks.run,
    "cluster": cluster.run,
    "constants": constants.run,
    "files": files.run,
    "growth": growth.run,
    "real": real.run,
    "readme": readme.run,
}
LONG = ("entries", "detectors", "files", "intervals", "joint", "missing")  # half an hour: only when named
# Those that write files: only when named.
WRITING = ("methods-picture", "report-pictures", "cluster", "constants", "growth", "real", "readme")


def main() -> None:
    with_options = {
        "constants": constants,
        "files": files,
        "growth": growth,
        "intervals": intervals,
        "joint": joint,
        "landmarks": landmarks,
        "missing": missing,
        "real": real,
        "walks": walks,
    }
    if sys.argv[1:] and sys.argv[1] in with_options:  # some of them make a page that says where it was made
        with_options[sys.argv[1]].main(sys.argv[2:])
        return
    names = sys.argv[1:] or [name for name in BENCHMARKS if name not in LONG + WRITING]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"no benchmark named {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, {platform.machine()}"
    )
    for name in names:
        print(f"\n## {name}\n")
        BENCHMARKS[name]()


if __name__ == "__main__":
    main()
