"""Estimators: they validate, build the objective, call a solver and store what it found."""

from kernmend.estimators._graph_robust_pca import GraphRobustPCA
from kernmend.estimators._kernel_low_rank import KernelLowRank
from kernmend.estimators._kernel_pca import KernelPCADenoiser
from kernmend.estimators._kernel_recovery import KernelRecovery
from kernmend.estimators._low_rank_representation import LowRankRepresentation
from kernmend.estimators._outlier_pursuit import OutlierPursuit
from kernmend.estimators._robust_kernel_pca import RobustKernelPCA
from kernmend.estimators._robust_pca import RobustPCA
from kernmend.estimators._search import RecoverySearch

__all__ = [
    "GraphRobustPCA",
    "KernelLowRank",
    "KernelPCADenoiser",
    "KernelRecovery",
    "LowRankRepresentation",
    "OutlierPursuit",
    "RecoverySearch",
    "RobustKernelPCA",
    "RobustPCA",
]
