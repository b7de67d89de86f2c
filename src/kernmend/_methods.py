"""The short names of the estimators, for `kernmend.mend` and the command line; nothing heavy is imported here."""

METHODS = {
    "kernel": "KernelRecovery",
    "search": "RecoverySearch",
    "robust-pca": "RobustPCA",
    "outlier-pursuit": "OutlierPursuit",
    "low-rank": "LowRankRepresentation",
    "graph": "GraphRobustPCA",
    "kernel-pca": "KernelPCADenoiser",
    "robust-kernel-pca": "RobustKernelPCA",
}
