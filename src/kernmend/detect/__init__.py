"""Which rows and entries are wrong, without labels.

Every deviation becomes a chance, u = -log P(a good row or entry deviates as far). `detector.py` tells the whole way;
`columns.py` says which columns are judged by their logarithms, and the chances of entries; `scores.py` and `groups.py`
have the scores of rows and their chances; `entries.py` and `rows.py` find the two kinds of errors.

A constant follows from the reason that its comment gives, or was chosen by `python -m benchmarks real` on the sets that
`benchmarks/real_cases.py` lists in `CHOOSE`; all other sets are only reported. Names in quotation marks in a comment
are groups of these sets and kinds of errors. `python -m benchmarks constants` switches each of them off and shows what
that makes worse (docs/constants.md).
"""

from kernmend.detect.detector import Detector, Found

__all__ = ["Detector", "Found"]
