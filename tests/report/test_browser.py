"""The report in headless Chromium, used by pointer and keyboard. The checks are in browser/check.mjs."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from pages import EVIL_LABEL, EVIL_TITLE, circle, clean, linear, many, table_file

import kernmend

HERE = Path(__file__).parent / "browser"
CHROMIUM = os.environ.get("KERNMEND_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


def missing():
    """Return what is not installed; CI sets KERNMEND_NEEDS_BROWSER, and then nothing may be missing."""
    reasons = [name for name, found in (("chromium", CHROMIUM), ("node", shutil.which("node"))) if not found]
    return "" if os.environ.get("KERNMEND_NEEDS_BROWSER") else " and ".join(reasons)


@pytest.mark.skipif(bool(missing()), reason=f"not installed: {missing()}")
def test_the_page_works_in_a_browser(tmp_path, request):
    assert CHROMIUM, "KERNMEND_NEEDS_BROWSER is set, but chromium is not installed"
    assert (HERE / "node_modules" / "playwright-core").is_dir(), f"say make browser, or npm ci in {HERE}"
    table, X = circle()
    table.report(tmp_path / "table.html", row_labels=[EVIL_LABEL] * len(X), title=EVIL_TITLE)
    clean().report(tmp_path / "clean.html")
    linear()[0].report(tmp_path / "curves.html")
    linear()[0].report(tmp_path / "pictures.html", image_shape=(4, 5))
    linear()[0].report(tmp_path / "wide.html", columns=[f"{'ab'[j % 2]}{j}" for j in range(20)])
    many()[0].report(tmp_path / "many.html")
    source = table_file(tmp_path / "my table.csv")
    mended = kernmend.mend(source, gamma=3.0, lam=0.1, rho=1e4, error="rows")
    mended.report(tmp_path / "file.html")
    done = subprocess.run(
        ["node", HERE / "check.mjs", tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"KERNMEND_CHROMIUM": CHROMIUM},
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert len(results) >= 15
    failed = {name: error for name, error in results.items() if error}
    assert not failed, "\n\n".join(f"{name}\n{error}" for name, error in failed.items())
    check_decisions(request.getfixturevalue("kernmend"), tmp_path, source, mended)


def check_decisions(command, folder, source, mended):
    """What the page downloaded, with one cell rejected, is applied by the command line: all else is as mended."""
    log = kernmend.io.read_log(folder / "decisions.csv")
    assert sorted(map(str, log.records[["row", "column", "old", "new", "low", "high", "reason"]])) == sorted(
        map(str, mended.changes.records[["row", "column", "old", "new", "low", "high", "reason"]])
    )
    assert (~log.accepted).sum() == 1
    target = folder / "reviewed.csv"
    command("patch", source, folder / "decisions.csv", "-o", target)
    left = log.records[~log.accepted][0]
    expected = mended.write(folder / "mended.csv").read_text().splitlines()
    line = expected[1 + left["row"]].split(";")
    line[["name", "site_id", "x", "y", "z"].index(left["column"])] = left["old"]
    expected[1 + left["row"]] = ";".join(line)
    assert target.read_text().splitlines() == expected
    command("revert", target, folder / "decisions.csv", "-o", folder / "back.csv")
    assert (folder / "back.csv").read_bytes() == source.read_bytes()
