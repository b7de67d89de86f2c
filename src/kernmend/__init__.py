"""kernmend finds and mends grossly wrong rows and cells of data that lie on a curved surface.

>>> from kernmend import KernelRecovery

Names are imported when they are first used, so that `import kernmend` and `kernmend --help` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernmend._methods import METHODS

if TYPE_CHECKING:
    from kernmend._mend import mend as mend
    from kernmend.estimators import GraphRobustPCA as GraphRobustPCA
    from kernmend.estimators import KernelLowRank as KernelLowRank
    from kernmend.estimators import KernelPCADenoiser as KernelPCADenoiser
    from kernmend.estimators import KernelRecovery as KernelRecovery
    from kernmend.estimators import LowRankRepresentation as LowRankRepresentation
    from kernmend.estimators import OutlierPursuit as OutlierPursuit
    from kernmend.estimators import RecoverySearch as RecoverySearch
    from kernmend.estimators import RobustKernelPCA as RobustKernelPCA
    from kernmend.estimators import RobustPCA as RobustPCA
    from kernmend.estimators._kernel_low_rank import NothingMendedWarning as NothingMendedWarning
    from kernmend.io.model_file import load as load

__version__ = "0.1.0"

_HOMES = dict.fromkeys(METHODS.values(), "kernmend.estimators") | {
    "load": "kernmend.io.model_file",
    "mend": "kernmend._mend",
    "NothingMendedWarning": "kernmend.estimators._kernel_low_rank",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kernmend' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
