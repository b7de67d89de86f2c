"""What the pages of docs that add something define."""

import re

import pytest


@pytest.fixture(scope="module")
def page(request):
    """What the page that is the `PAGE` of a test file defines, once run."""
    text = request.module.PAGE.read_text()
    code = re.search(r"^```\{run\} python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1]
    names = {"__name__": "docs"}
    exec(compile(code, "<docs>", "exec"), names)
    return names
