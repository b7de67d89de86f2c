"""Which rows and entries are wrong, without labels.

Every deviation becomes a chance, u = -log P(a good row or entry deviates as far). `detector.py` tells the whole way;
`tails.py` has the chances, `entries.py` and `rows.py` the two kinds of errors, `around.py` the scores of neighbours.
"""

from kernmend.detect.detector import Detector, Found

__all__ = ["Detector", "Found"]
