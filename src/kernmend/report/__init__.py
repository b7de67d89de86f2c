"""What a fitted estimator found: first a plain dict of facts, then one self-contained page."""

from kernmend.report._changes import FileFacts
from kernmend.report.facts import report_data
from kernmend.report.page import render, write_page

__all__ = ["FileFacts", "render", "report_data", "write_page"]
