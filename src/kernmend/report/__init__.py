"""What a fitted estimator found: first a plain dict of facts, then one self-contained page."""

from kernmend.report._changes import MOST_CELLS, FileFacts, cell_records
from kernmend.report._overview import listed_passed
from kernmend.report._telling import Applied, telling_of
from kernmend.report.facts import report_data
from kernmend.report.page import render, write_page

__all__ = [
    "MOST_CELLS",
    "Applied",
    "FileFacts",
    "cell_records",
    "listed_passed",
    "render",
    "report_data",
    "telling_of",
    "write_page",
]
