"""A kernel of one's own, the one of docs/new_kernel.md, wherever a kernel can be named."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kernmend
from kernmend import KernelLowRank, KernelPCADenoiser, KernelRecovery, RecoverySearch, RobustKernelPCA
from kernmend.model.kernels import KERNELS

pytestmark = pytest.mark.usefixtures("quick_calibration")
PAGE = Path(__file__).parents[2] / "docs" / "new_kernel.md"


@pytest.fixture
def named(page, monkeypatch):
    """The class with a line in the table: its name is accepted everywhere."""
    monkeypatch.setitem(KERNELS, "rational", lambda gamma, degree, coef0: page["RationalQuadratic"](gamma))
    return page


@pytest.mark.parametrize(
    "make",
    [
        lambda kernel: KernelRecovery(kernel=kernel, gamma=0.5),
        lambda kernel: KernelLowRank(kernel=kernel, gamma=0.5, lam=0.3, rho=1e4),
        lambda kernel: RobustKernelPCA(kernel=kernel, gamma=0.5),
        lambda kernel: RecoverySearch(estimator=KernelRecovery(kernel=kernel, gamma=0.5), n_iter=2, n_splits=1),
    ],
    ids=["KernelRecovery", "KernelLowRank", "RobustKernelPCA", "RecoverySearch"],
)
def test_the_name_is_that_of_the_object(named, make):
    by_name, by_object = (make(kernel).fit(named["X"]) for kernel in ("rational", named["RationalQuadratic"](0.5)))
    assert by_name.kernel_ == by_object.kernel_ == named["RationalQuadratic"](0.5)
    np.testing.assert_array_equal(by_name.recovered_, by_object.recovered_)
    assert abs(np.linalg.norm(by_name.recovered_[7]) - 1.0) < 0.1  # back on the circle


def test_one_call_and_the_command_line_take_the_name(named, kernmend_command, tmp_path):
    X, kernel = named["X"], named["RationalQuadratic"]
    assert isinstance(kernmend.mend(X, kernel="rational").estimator.kernel_, kernel)
    pd.DataFrame(X).to_csv(tmp_path / "X.csv", index=False)
    done = kernmend_command("mend", tmp_path / "X.csv", "--kernel", "rational", "-o", tmp_path / "A.csv", "--json")
    assert json.loads(done.stdout)["kernel"].startswith("RationalQuadratic(")


def test_scikit_learn_does_not_know_the_name(named):
    with pytest.raises(ValueError, match=r"kernel must be one of 'rbf', 'poly', 'linear', got 'rational'"):
        KernelPCADenoiser(kernel="rational", preimage="ridge").fit(named["X"])


@pytest.fixture
def kernmend_command(request):
    """The command line; the module `kernmend` has that name here."""
    return request.getfixturevalue("kernmend")
