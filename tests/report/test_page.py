"""The page as text: small, self-contained, and nothing in the data becomes part of it."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from pages import EVIL_COLUMN, EVIL_LABEL, EVIL_TITLE, circle, clean, linear, many, unusual

from kernmend.report import page


class Reader(HTMLParser):
    """What a browser makes of the page: its elements, and the text of those that have an id or are code."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.open = [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self.texts.append("")
        self.open = True

    def handle_data(self, data):
        if self.open:
            self.texts[-1] += data

    def handle_endtag(self, tag):
        self.open = False

    def text(self, tag):
        return [text for name, text in zip(self.tags, self.texts, strict=True) if name == tag]


def hostile():
    est, X = circle()
    labels = [EVIL_LABEL] * len(X)
    return page.render(est.report_data(row_labels=labels), title=EVIL_TITLE)


def test_hostile_names_stay_text():
    text = hostile()
    read = Reader(text)
    assert read.tags.count("script") == 2
    assert not {"img", "b", "iframe", "link"} & set(read.tags)
    assert not any(name.startswith("on") for name, _ in read.attributes)
    assert read.text("title") == [EVIL_TITLE]
    assert read.text("h1") == [EVIL_TITLE]
    facts = json.loads(read.text("script")[0])
    assert facts["rows"]["columns"] == ["x", EVIL_COLUMN]
    assert set(facts["scores"]["labels"]) == {EVIL_LABEL}
    assert EVIL_COLUMN not in text
    assert EVIL_LABEL not in text


def test_the_policy_allows_the_page_and_nothing_else():
    read = Reader(hostile())
    policy = next(value for _, value in read.attributes if value and "default-src" in value)
    assert policy.startswith("default-src 'none'; ")
    for tag, text in (("script", read.text("script")[1]), ("style", read.text("style")[0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert not [value for name, value in read.attributes if name in ("src", "href") and not value.startswith("#")]


def test_no_script_ends_its_own_element_or_names_an_address():
    read = Reader(hostile())
    code = read.text("script")[1] + read.text("style")[0]
    assert "innerHTML" not in code
    assert re.findall(r"https?://[^\"')\s]+", code) == ["http://www.w3.org/2000/svg"]  # a name, not an address


def test_ten_thousand_rows_are_small(tmp_path):
    est, X, _ = many()
    labels = [f"a rather long name of a row, number {i}, as file names may be.png" for i in range(len(X))]
    path = est.report(tmp_path / "many.html", row_labels=labels)
    assert path.stat().st_size < 2e6
    assert est.report(tmp_path / "images.html", image_shape=(10, 5)).stat().st_size < 2e6


def test_wide_rows_are_fewer():
    est, _, _ = linear(60, 20_000, 0.5)
    for options in ({}, {"image_shape": (100, 200)}, {"columns": [f"{'ab'[j % 2]}{j}" for j in range(20_000)]}):
        facts = est.report_data(max_rows=10**9, **options)
        assert len(facts["rows"]["shown"]) > 5
        assert len(page.render(facts).encode()) < 5e6


def test_pictures_are_bytes():
    est, X, _ = linear()
    facts = est.report_data(image_shape=(4, 5))
    low, high = facts["rows"]["range"]
    first = page.compact(facts)["rows"]["shown"][0]
    levels = np.frombuffer(base64.b64decode(first["before"]), dtype=np.uint8)
    expected = np.clip(255 * (X[first["row"]] - low) / (high - low), 0, 255)
    assert np.abs(levels - expected).max() <= 0.51
    assert "difference" not in first


def test_an_existing_file_is_kept(tmp_path):
    est, _ = circle()
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere to write page\.html"):
        est.report(tmp_path / "nowhere" / "page.html")
    with pytest.raises(FileExistsError, match="force=True"):
        est.report(path)
    assert path.read_text() == "mine"
    assert est.report(str(path), force=True) == path
    assert path.read_text().startswith("<!doctype html>")
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(("reason", "banner"), [("interrupted", True), ("max_iter", True), ("converged", False)])
def test_a_fit_that_did_not_finish_says_so(reason, banner):
    est, _ = circle()
    facts = est.report_data()
    facts["stop"] = {"reason": reason, "words": "stopped early", "n_iter": 3}
    assert ("Stopped early." in page.render(facts)) is banner


def test_unusual_rows_are_said_to_be_unchanged():
    text = page.render(unusual().report_data())
    assert f"Unusual, not changed: {unusual().suspects_.sum()} rows." in text
    assert "more rows are unusual and were not changed: " in text
    named = page.render(unusual().report_data(row_labels=[f"r{i}" for i in range(300)]))
    assert not any("unusual" in line for line in Reader(named).text("li"))  # the script lists them by name
    assert 'id="suspects"' not in page.render(clean().report_data())


def test_the_same_fit_gives_the_same_page():
    first, second = circle()[0], circle.__wrapped__()[0]  # fitted twice
    assert page.render(second.report_data()) == page.render(first.report_data())


def test_without_jinja_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    est, _ = circle()
    with pytest.raises(ImportError, match=r"pip install jinja2"):
        page.render(est.report_data())
