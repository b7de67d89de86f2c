"""The command line where something is wrong: each error is one line, and Ctrl-C leaves nothing half done."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from circle_file import EXACTLY, WRONG, N, frame, names

# --- errors: one line each -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gamma", "-1"], "neither a number above 0 nor auto"),
        (["--gamma", "nan"], "neither a number"),
        (["--contamination", "0.7"], "up to 0.5"),
        (["--gamma", "wide"], "neither a number"),
        (["--bounds", "3"], "0,255"),
        (["--bounds", "3,1"], "below the second"),
        (["--image-shape", "28"], "28x28"),
        (["--image-shape", "0x3"], "28x28"),
        (["--threads", "0"], "--threads"),
        (["--method", "magic"], "--method"),
        (["--method", "robust-pca", "--kernel", "rbf"], "has no parameter 'kernel'"),
        (["--error", "noise"], "error must be one of"),
        (["--method", "kernel-pca", "--kernel", "poly"], "kernel='poly' has no fixed point"),
        (["--columns", "x,w"], "w"),
        (["--alpha", "2"], "alpha must be a number above 0 and at most 1"),
        (["--alpha", "0.1", "--method", "kernel-pca"], "--alpha is for the methods kernel and search"),
        (["--wrong"], "No such option"),
    ],
)
def test_bad_usage(kernmend, arguments, words, table, tmp_path):
    assert words in kernmend("mend", table, *arguments, code=2).stderr
    assert names(tmp_path) == ["circle.csv"]


@pytest.mark.parametrize("command", ["mend", "inspect"])
@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, 2),
        ("", 2),
        ("a,b\n", 1),
        ("a,b\nx,y\nz,w\n", 1),
        ("a,b\n1,2\n", 1),
        ("a,b\n1,2\ninf,3\n4,5\n", 2),
    ],
)
def test_inputs_that_cannot_be_mended(kernmend, command, content, code, tmp_path):
    path = tmp_path / "data.csv"
    if content is not None:
        path.write_text(content)
    done = kernmend(command, path, code=code)
    assert done.stderr.startswith("kernmend: ")
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert names(tmp_path) == ([] if content is None else ["data.csv"])


def test_outputs_that_are_there_are_refused_before_any_work(kernmend, table, tmp_path):
    there = tmp_path / "there"
    there.write_text("mine")
    for option in ("-o", "--report", "--save-model"):
        done = kernmend("mend", table, option, there, code=2)
        assert done.stderr == f"kernmend: {there} is there already: say --force to overwrite it\n"
    same = tmp_path / "same"
    assert "written twice" in kernmend("mend", table, "-o", same, "--save-model", same, code=2).stderr
    assert there.read_text() == "mine"
    (tmp_path / "folder").mkdir()
    kernmend("mend", table, "-o", tmp_path / "folder")  # a folder, as with cp
    assert names(tmp_path / "folder") == ["circle.csv"]


def test_a_folder_that_is_not_there(kernmend, table, tmp_path):
    for option in ("-o", "--save-model", "--report"):
        done = kernmend("mend", table, option, tmp_path / "no" / "where.csv", code=2)
        assert done.stderr == f"kernmend: there is no folder {tmp_path / 'no'} to write where.csv to\n"
    kernmend("inspect", table, "--scores", tmp_path / "no" / "where.csv", code=2)


def test_a_report_that_cannot_be_made_is_said_before_any_work(kernmend, table, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = kernmend("mend", table, "--report", tmp_path / "page.html", code=1)
    assert done.stderr == "kernmend: reports need jinja2: pip install jinja2\n"
    assert names(tmp_path) == ["circle.csv"]


def test_a_full_disk_is_one_line_and_leaves_nothing(kernmend, table, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device", "somewhere")

    for command, option in (("mend", "--save-model"), ("mend", "--report"), ("inspect", "--scores"), ("mend", "-o")):
        with monkeypatch.context() as patch:
            patch.setattr("pathlib.Path.replace", full)
            done = kernmend(command, table, option, tmp_path / "result", code=1)
        assert "No space left on device" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert names(tmp_path) == ["circle.csv"]


def test_a_terminal_that_lacks_letters(tmp_path):
    path = tmp_path / "data.csv"
    frame().rename(columns={"name": "größe 数"}).to_csv(path, index=False)
    done = patched("", "inspect", path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "gr??e ?" in done.stdout


def test_text_from_a_file_cannot_steer_the_terminal(kernmend, tmp_path):
    path = tmp_path / "data.csv"
    data = frame().rename(columns={"name": "\x9b31mred[bold]"})
    data.to_csv(path, index=False)
    done = kernmend("inspect", path)
    assert "\x9b" not in done.stdout
    assert "[bold]" in done.stdout


# --- what nobody foresaw, and Ctrl-C ----------------------------------------------------------------------------------

START = "import os, signal, sys\nfrom kernmend.__main__ import main\n{patch}\nmain()"


def patched(patch, *arguments, **environment):
    """Run the command line after some lines of Python."""
    command = [sys.executable, "-c", START.format(patch=patch), *map(str, arguments)]
    options = {"capture_output": True, "text": True, "timeout": 120}
    return subprocess.run(command, env=os.environ | environment, **options)


def test_an_unforeseen_error_is_one_line_unless_debugging(kernmend, table, tmp_path, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("first\nsecond")

    monkeypatch.setattr("kernmend._mend.fit", broken)
    done = kernmend("mend", table, code=1)
    assert done.stderr == "kernmend: RuntimeError: first (KERNMEND_DEBUG=1 shows where)\n"
    monkeypatch.setenv("KERNMEND_DEBUG", "1")
    with pytest.raises(RuntimeError, match="second"):
        kernmend("mend", table)
    assert names(tmp_path) == ["circle.csv"]


def test_too_little_memory_is_one_line(kernmend, table, tmp_path, monkeypatch):
    def too_much(*arguments):
        raise MemoryError

    monkeypatch.setattr("kernmend._mend.fit", too_much)
    done = kernmend("mend", table, code=1)
    assert done.stderr == "kernmend: not enough memory for so many rows: take fewer, or columns\n"
    assert names(tmp_path) == ["circle.csv"]


def test_a_reader_that_leaves_early(table):
    shell = f"{sys.executable} -c 'from kernmend.cli.main import main; main()' inspect {table} | true"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""


KILL = "os.kill(os.getpid(), signal.SIGINT)"
READING = f"import kernmend.cli.work as w\ndef reading(*a, **k): {KILL}\nw.read = reading"
SCORING = f"""
from kernmend.detect import Detector
old = Detector.fit
def scoring(*a, **k):
    {KILL}
    return old(*a, **k)
Detector.fit = scoring"""
CALIBRATING = f"""
from kernmend.repair.calibrate import Cost
old = Cost.parts
def parts(self, settings):
    if len(self.known) == 4:
        Cost.parts = old
        {KILL}
    return old(self, settings)
Cost.parts = parts"""
WRITING = f"""
import kernmend.io as io
from pathlib import Path
old = Path.replace
def replace(self, target):
    self.write_text('half')
    {KILL}
    return old(self, target)
Path.replace = replace"""


@pytest.mark.parametrize("patch", [READING, SCORING, WRITING], ids=["reading", "scoring", "writing"])
def test_interrupted_before_there_is_a_result(patch, table, tmp_path):
    done = patched(patch, "mend", table, "-o", tmp_path / "out.csv")
    assert done.returncode == 130
    assert done.stderr.strip() == "kernmend: interrupted, nothing more was written"
    assert names(tmp_path) == ["circle.csv"]


def test_interrupted_with_a_result_so_far(table, tmp_path):
    target = tmp_path / "out.csv"
    done = patched(CALIBRATING, "mend", table, "-o", target, "--json")
    assert done.returncode == 130
    assert done.stderr == f"kernmend: interrupted: the best result so far is in {target}\n"
    assert names(tmp_path) == ["circle.csv", "out.csv"]
    out = pd.read_csv(target, **EXACTLY)
    assert (out.drop(index=WRONG) == frame().drop(index=WRONG)).all(axis=None)
    assert (out.loc[WRONG] != frame().loc[WRONG])[["x", "y"]].all(axis=None)
    assert json.loads(done.stdout)["interrupted"] is True


def test_interrupted_without_an_output_named(table, tmp_path):
    done = patched(CALIBRATING, "mend", table)
    assert done.returncode == 130
    assert "interrupted" in done.stderr
    assert names(tmp_path) == ["circle.csv"]


SOLVING = f"""
from kernmend.solvers.result import History
old = History.add
def add(self, *a, **k):
    old(self, *a, **k)
    if len(self.records) == 4: {KILL}
History.add = add"""
FILLING = f"""
from kernmend.repair import completion
old = completion.move_into_span
def move(*a, **k):
    {KILL}
    return old(*a, **k)
completion.move_into_span = move"""


def test_interrupted_while_missing_values_are_filled_in(tmp_path):
    data = frame()
    data.loc[20, "x"] = np.nan
    data.to_csv(tmp_path / "holes.csv", index=False)
    done = patched(FILLING, "mend", tmp_path / "holes.csv", "-o", tmp_path / "out.csv")
    assert done.returncode == 130
    assert "the best result so far is in" in done.stderr
    assert pd.read_csv(tmp_path / "out.csv").notna().all(axis=None)
    done = patched(FILLING, "inspect", tmp_path / "holes.csv")
    assert (done.returncode, done.stdout) == (130, "")


def test_the_demo_is_interrupted(tmp_path):
    done = patched(FILLING, "demo", "-q", "-o", tmp_path)  # its table lacks some values
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_a_library_is_imported_that_makes_an_error_of_it(number, table, tmp_path):
    patch = f"""
import kernmend.cli.work as w
def reading(*a, **k):
    try: os.kill(os.getpid(), {int(number)})
    except BaseException: raise ImportError('initialization failed')
w.read = reading"""
    done = patched(patch, "mend", table)
    assert done.returncode == 128 + number
    assert "initialization" not in done.stderr
    assert names(tmp_path) == ["circle.csv"]


@pytest.mark.parametrize(
    ("delay", "number"),
    [(0.02, signal.SIGTERM), (0.2, signal.SIGINT), (0.6, signal.SIGTERM), (1.0, signal.SIGINT), (1.5, signal.SIGTERM)],
)
def test_stopped_at_any_moment(delay, number, table, tmp_path):
    command = [sys.executable, "-c", START.format(patch="print('ready', flush=True)"), "mend", str(table), "-o"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, str(tmp_path / "out.csv")], **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        process.send_signal(number)
        errors = process.communicate(timeout=60)[1]
    assert "Traceback" not in errors
    assert process.returncode in (0, 128 + number, -number)
    assert set(names(tmp_path)) <= {"circle.csv", "out.csv"}
    if (tmp_path / "out.csv").exists():
        assert len(pd.read_csv(tmp_path / "out.csv")) == N


@pytest.mark.parametrize("command", ["mend", "inspect"])
def test_an_infinite_value_is_bad_input_and_found_by_the_name_of_its_column(kernmend, tmp_path, command):
    path = tmp_path / "a.csv"
    rows = [f"{i},{'inf' if i == 17 else 2 * i}" for i in range(60)]
    path.write_text("\n".join(["count,temp", *rows]) + "\n")
    done = kernmend(command, path, code=2)
    assert "row 17 has it in column 'temp'" in done.stderr
    assert names(tmp_path) == ["a.csv"]
