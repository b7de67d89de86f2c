"""The command line: the demo, how it starts and ends, what it imports."""

import os
import signal
import subprocess
import sys
import types

import pytest

from kernmend import __main__, __version__
from kernmend.cli.main import Stops
from kernmend.cli.mend import INPUT_HELP
from kernmend.io._reading import FORMATS


def test_bad_usage_is_code_2(kernmend):
    assert "No such command" in kernmend("mind", code=2).stderr
    assert "--seed" in kernmend("demo", "--seed", "-3", code=2).stderr


def test_version_and_help(kernmend):
    assert __version__ in kernmend("--version").stdout
    assert "demo" in kernmend("-h").stdout


def test_python_m_kernmend():
    done = subprocess.run([sys.executable, "-m", "kernmend", "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert __version__ in done.stdout


@pytest.fixture
def own_signals(monkeypatch):
    """What the command line does with the signals of its process is undone after the test."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("own_signals")
def test_the_program_ends_with_the_code_of_the_command_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["kernmend", "mind"])
    with pytest.raises(SystemExit) as caught:
        __main__.main()
    assert caught.value.code == 2


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_signals_are_remembered(number, kind):
    stops = Stops()
    with pytest.raises(kind):
        os.kill(os.getpid(), number)
    assert stops.code == 128 + number


@pytest.mark.usefixtures("own_signals")
def test_ctrl_c_in_a_destructor_is_not_told_and_other_errors_are(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "__unraisablehook__", told.append)
    Stops()
    for kind in (KeyboardInterrupt, SystemExit, ZeroDivisionError):
        sys.unraisablehook(types.SimpleNamespace(exc_type=kind))
    assert [one.exc_type for one in told] == [ZeroDivisionError]


def test_ctrl_c_while_the_command_line_is_imported_ends_with_130(monkeypatch):
    class Interrupted(types.ModuleType):
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "kernmend.cli.main", Interrupted("kernmend.cli.main"))
    with pytest.raises(SystemExit) as caught:
        __main__.main()
    assert caught.value.code == 130


@pytest.mark.parametrize(
    "argument",
    ["--help", "mend --help", "inspect --help", "apply --help", "demo --help", "paper --help", "paper run --help"],
)
def test_help_imports_nothing_heavy(argument):
    code = f"""
import sys
sys.argv = ["kernmend", *{argument.split()!r}]
try:
    from kernmend.cli.main import main; main()
except SystemExit:
    pass
heavy = [name for name in ("sklearn", "matplotlib", "pandas", "scipy", "numpy") if name in sys.modules]
sys.exit(f"imported {{heavy}}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_importing_the_estimator_brings_little_beyond_scikit_learn():
    code = """
import sys
import sklearn.decomposition
before = set(sys.modules)
from kernmend import KernelRecovery
heavy = {"matplotlib", "pandas", "mlxtend", "rich", "click", "dask"} & (set(sys.modules) - before)
sys.exit(f"imported {heavy}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted({format.name for format in FORMATS}))
def test_every_format_is_in_the_help(name):
    """The help is written by hand, so that it needs no reader; a format that is added belongs there."""
    assert {"jsonl": "json lines"}.get(name, name) in INPUT_HELP.lower()
