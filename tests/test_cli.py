"""The command line, run as a user runs it."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from kernmend import __version__
from kernmend.cli.main import cli


def kernmend(*arguments, code=0, **options):
    command = [sys.executable, "-c", "from kernmend.cli.main import main; main()", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_demo_prints_a_table_and_writes_the_picture(tmp_path):
    done = kernmend("demo", "--out", tmp_path / "new" / "folder")
    assert "outliers from" in done.stdout
    assert "kernel PCA" in done.stdout
    assert max(map(len, done.stdout.splitlines()[:-2])) <= 80
    assert "mending" in done.stderr
    picture = tmp_path / "new" / "folder" / "circle.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in picture.parent.iterdir()) == ["circle.png", "report.html"]


def test_demo_does_not_overwrite_unless_told(tmp_path):
    (tmp_path / "circle.png").write_text("mine")
    done = kernmend("demo", "-o", tmp_path, code=2)
    assert "--force" in done.stderr
    assert (tmp_path / "circle.png").read_text() == "mine"
    kernmend("demo", "-o", tmp_path, "--force", "--quiet")
    assert (tmp_path / "circle.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = kernmend("demo", "-q", "-o", tmp_path / "file" / "below", code=1)
    assert done.stderr.startswith("kernmend: cannot write")
    assert len(done.stderr.splitlines()) == 1


def test_bad_usage_is_code_2():
    assert "No such command" in kernmend("mind", code=2).stderr
    assert "--seed" in kernmend("demo", "--seed", "-3", code=2).stderr


def test_version_and_help():
    assert __version__ in kernmend("--version").stdout
    result = CliRunner().invoke(cli, ["-h"])
    assert result.exit_code == 0
    assert "demo" in result.output


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
