"""How many files and functions of kernmend a call crosses: what a newcomer has to read to follow it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kernmend
from kernmend import KernelLowRank, KernelRecovery, RobustPCA
from kernmend.datasets import make_circle
from kernmend.datasets.corruption import uniform_outliers

ROOT = Path(kernmend.__file__).parent


def crossed(call: Callable[[], Any]) -> dict[str, set[str]]:
    """Return the functions of kernmend that a call enters, by file."""
    found: dict[str, set[str]] = {}

    def note(frame: Any, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            found.setdefault(str(path.relative_to(ROOT)), set()).add(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def walks() -> dict[str, dict[str, set[str]]]:
    """Return the walks of the calls that matter, each on a hundred points of a circle or a table of rank 2."""
    X = uniform_outliers(make_circle(100, random_state=0).X, 0.1, random_state=1).X
    rng = np.random.default_rng(0)
    table = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 10))
    est = KernelRecovery().fit(X)
    paper = KernelLowRank(gamma=1.0, lam=0.3, rho=1e4)
    calls: dict[str, Callable[[], Any]] = {
        "KernelRecovery().fit_transform(X)": lambda: KernelRecovery().fit_transform(X),
        "est.transform(X)": lambda: est.transform(X),
        "KernelLowRank(...).fit(X)": lambda: paper.fit(X),
        "RobustPCA().fit(X)": lambda: RobustPCA().fit(table),
    }
    return {name: crossed(call) for name, call in calls.items()}


def main(arguments: list[str]) -> None:
    for name, found in walks().items():
        print(f"\n{name}: {len(found)} files, {sum(map(len, found.values()))} functions")
        for path, functions in found.items():
            print(f"  {path}: {', '.join(sorted(functions, key=str.lower))}" if "--long" in arguments else f"  {path}")


def run() -> None:
    main([])
