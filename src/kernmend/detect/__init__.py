"""Which rows and entries are wrong: every deviation becomes a chance, u = -log P(a good one being as far out)."""

from kernmend.detect.detector import Detector, Found

__all__ = ["Detector", "Found"]
