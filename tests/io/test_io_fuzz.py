"""Bad files: each is read and written again, or refused by a FileError; no other error, no crash, no hang."""

import faulthandler
import sys

import pytest
from damage import BAD_FILES, try_files

SHARE = 0.5
"""Of the 10,000; `python -m benchmarks files --damaged` does all."""
SECONDS = 300
"""After this long in one test the traceback of the file that hangs is shown and the tests end."""


def test_there_are_ten_thousand():
    assert sum(BAD_FILES.values()) == 10_000


@pytest.fixture
def not_for_ever():
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.usefixtures("not_for_ever")
@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_files(tmp_path, kind):
    count = int(SHARE * BAD_FILES[kind])
    outcomes = try_files(tmp_path, kind, count)
    assert len(outcomes) >= count
    assert any(outcomes)
    assert not any("\n" in words for words in outcomes)
