"""The table of the estimators: the short name of each, for `kernmend.mend` and the command line, and its class.

The public names of `kernmend`, `--method`, saving and the common tests follow it. Nothing heavy is imported here.
"""

METHODS = {
    "kernel": "KernelRecovery",
    "joint": "KernelLowRank",
    "search": "RecoverySearch",
    "robust-pca": "RobustPCA",
    "outlier-pursuit": "OutlierPursuit",
    "low-rank": "LowRankRepresentation",
    "graph": "GraphRobustPCA",
    "kernel-pca": "KernelPCADenoiser",
    "robust-kernel-pca": "RobustKernelPCA",
}
