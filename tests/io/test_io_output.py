"""Output appears complete or not at all, and never in the place of something else."""

import errno
import os
import shutil
import stat
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from io_samples import KINDS, contents, refused, save

from kernmend.io import FileError, _containers, patch, read, replacing
from kernmend.io.changes import Found, make_log

# Rights and a full disk


@contextmanager
def as_nobody():
    """Be a user without rights: root is allowed everything, so it steps down for a moment."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder(tmp_path):
    """A folder that nobody may enter, which pytest's own are not."""
    place = Path("/tmp") / f"kernmend-{os.getpid()}-{tmp_path.name}"
    place.mkdir()
    place.chmod(0o755)
    yield place
    for path in place.rglob("*"):
        path.chmod(0o755)
    shutil.rmtree(place)


def test_without_rights(open_folder):
    path, images = save(open_folder, "csv"), save(open_folder, "images")
    data = read(path)
    (open_folder / "closed").mkdir()
    for closed, mode in ((path, 0o000), (images, 0o000), (open_folder / "closed", 0o555)):
        closed.chmod(mode)
    with as_nobody():
        refused(path, "cannot be read: Permission denied")
        refused(images, "cannot be read: Permission denied")
    path.chmod(0o444)
    with as_nobody(), pytest.raises(FileError, match=r"out.csv: cannot be written: Permission denied"):
        data.write(open_folder / "closed/out.csv", data.X)


def test_a_closed_folder_within(open_folder):
    images = save(open_folder, "images")
    (images / "more").mkdir(mode=0o000)
    with as_nobody():
        refused(images, "cannot be read: Permission denied")


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch, kind, old):
    path = save(tmp_path, kind)
    data = read(path)
    target = tmp_path / f"out.{kind}"
    if old:
        data.write(target, data.X)
    before = contents(tmp_path)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def opened(self, mode="r", *arguments, **options):
        return full() if "w" in mode or "+" in mode else real(self, mode, *arguments, **options)

    def opened_in_archive(self, name, mode="r", **options):
        return full() if mode == "w" else real_in_archive(self, name, mode, **options)

    real, real_in_archive = Path.open, zipfile.ZipFile.open
    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(zipfile.ZipFile, "open", opened_in_archive)
    monkeypatch.setattr(Path, "open", opened)
    monkeypatch.setattr(shutil, "copyfile", full)
    monkeypatch.setattr(shutil, "copytree", full)
    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    monkeypatch.setattr(shutil, "copyfileobj", full)
    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    monkeypatch.setattr("pyarrow.ipc.new_file", full)
    with pytest.raises(FileError, match=rf"out.{kind}: cannot be written: No space left on device"):
        data.write(target, data.X + 1, force=True)
    assert contents(tmp_path) == before
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


def test_a_file_that_may_not_grow(tmp_path, monkeypatch):
    """A real refusal of the system half-way, in the process that writes HDF5: the library crashes."""
    path = save(tmp_path, "h5")
    data = read(path)
    script = Path(_containers.SCRIPT).read_text()
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    (tmp_path / "worker.py").write_text(limit + script)
    monkeypatch.setattr(_containers, "SCRIPT", tmp_path / "worker.py")
    before = contents(tmp_path)
    with pytest.raises(FileError, match="cannot be written to: look whether the disk is full"):
        data.write(tmp_path / "out.h5", data.X + 1)
    assert contents(tmp_path) == before


# Output


@pytest.mark.parametrize("kind", KINDS)
def test_an_existing_output_is_replaced_only_by_force(tmp_path, kind):
    path = save(tmp_path, kind)
    data = read(path)
    target = data.write(tmp_path / f"out.{kind}", data.X)
    before = contents(tmp_path)
    with pytest.raises(FileError, match="exists already: choose another name, or force"):
        data.write(target, data.X + 1)
    assert contents(tmp_path) == before
    data.write(target, data.X + 1, force=True)
    np.testing.assert_array_equal(read(target).X, data.X + 1)
    data.write(path, data.X + 2, force=True)  # the input itself
    np.testing.assert_array_equal(read(path).X, data.X + 2)
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_changed_is_copied_byte_for_byte(tmp_path, kind):
    path = save(tmp_path, kind)
    data = read(path)
    content = contents(path) if path.is_dir() else path.read_bytes()
    written = data.write(tmp_path / f"out.{kind}", data.X)
    none = make_log(data, data.X, Found(np.zeros(len(data.X)), np.zeros(len(data.X), dtype=bool)))
    patched = patch(path, none, tmp_path / f"patched.{kind}").path
    for out in (written, patched):
        assert (contents(out) if out.is_dir() else out.read_bytes()) == content


def test_an_input_that_has_changed_meanwhile(tmp_path):
    path = save(tmp_path, "images")
    data = read(path)
    (path / "1.png").write_bytes((path / "0.png").read_bytes() + b" ")
    with pytest.raises(FileError, match="has changed since it was read"):
        data.write(tmp_path / "out", data.X)


def test_a_folder_with_other_files_is_never_replaced(tmp_path):
    data = read(save(tmp_path, "images"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(FileError, match=r"not replaced, it holds other files \(thesis.txt\)"):
        data.write(tmp_path / "mine", data.X, force=True)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_places_where_no_output_can_be(tmp_path):
    table, images = read(save(tmp_path, "csv")), read(save(tmp_path, "images"))
    with pytest.raises(FileError, match=r"the folder .*none does not exist"):
        table.write(tmp_path / "none/out.csv", table.X)
    with pytest.raises(FileError, match="is a folder, but csv data go to a file"):
        table.write(tmp_path, table.X, force=True)
    with pytest.raises(FileError, match="is a file, but images data go to a folder"):
        images.write(table.source, images.X, force=True)
    with pytest.raises(FileError, match="lies inside the input"):
        images.write(images.source / "out", images.X)
    with pytest.raises(FileError, match=r"out.npy: ends in .npy but csv data are written: end it in .csv"):
        table.write(tmp_path / "out.npy", table.X)


def test_values_that_do_not_fit(tmp_path):
    data = read(save(tmp_path, "csv"))
    with pytest.raises(ValueError, match=r"A must have the shape of X, \(2, 3\), got \(3, 2\)"):
        data.write(tmp_path / "out.csv", np.zeros((3, 2)))
    with pytest.raises(ValueError, match="A has infinite values"):
        data.write(tmp_path / "out.csv", np.full((2, 3), np.inf))
    with pytest.raises(ValueError, match="read-only"):
        data.X[0, 0] = 1


@pytest.mark.parametrize("fails", [False, True])
def test_replacing_a_folder(tmp_path, fails):
    target = tmp_path / "out"
    target.mkdir()
    (target / "old").touch()
    try:
        with replacing(target, folder=True) as temporary:
            (temporary / "new").touch()
            if fails:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in target.iterdir()] == ["old" if fails else "new"]
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(tmp_path.joinpath("out").stat().st_mode)


def test_a_folder_that_cannot_be_moved_in_leaves_the_old_one(tmp_path, monkeypatch):
    target = tmp_path / "out"
    target.mkdir()
    (target / "old").touch()
    move = Path.replace

    def fail_for_new(self, to):
        if Path(to) == target and (self / "new").exists():
            raise OSError(errno.EIO, "no")
        return move(self, to)

    monkeypatch.setattr(Path, "replace", fail_for_new)
    with pytest.raises(OSError, match="no"), replacing(target, folder=True) as temporary:
        (temporary / "new").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in target.iterdir()] == ["old"]
