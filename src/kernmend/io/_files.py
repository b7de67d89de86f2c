"""What every format needs of files: clear errors, limits on what unpacks, output that is never half-written."""

import os
import shutil
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp, mkstemp
from typing import Any

# Largest number of bytes that a packed file may unpack to.
MAX_BYTES = 16 * 2**30
# Largest ratio of unpacked to packed bytes of a file that unpacks to more than `FREE_BYTES`.
MAX_RATIO = 200
# Number of bytes that any file may unpack to.
FREE_BYTES = 256 * 2**20
# Seconds since 1970 at which this process began to write files: older ones of its number are of an earlier process.
STARTED = time.time()


class FileError(ValueError):
    """A file that cannot be read or written: what is wrong, where, and what to do, in one sentence.

    Examples
    --------
    >>> import kernmend
    >>> try:
    ...     kernmend.mend("nowhere.csv")
    ... except kernmend.io.FileError as error:
    ...     print(error)
    nowhere.csv: no such file or folder
    """


def need(module: str, what: str) -> Any:
    """Return an optional module; FileError, which says how to install it, if it is missing. `what` needs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_package(module.partition(".")[0], what) from error


def missing_package(package: str, what: str) -> FileError:
    """Return the error for a package that is not installed."""
    name = {"PIL": "pillow"}.get(package, package)
    return FileError(f"reading {what} needs {name}: pip install {name}")


@contextmanager
def damaged(path: Path | str, what: str, kind: type[FileError] = FileError) -> Iterator[None]:
    """Turn whatever a decoder raises on bad bytes into a `kind` of FileError; its warnings are not for the user."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except FileError:
        raise
    except MemoryError as error:
        raise FileError(f"{path}: too large for the memory of this machine: take fewer rows") from error
    except Exception as error:
        raise kind(
            f"{path}: not a sound {what} ({first_line(error)}): it is cut short or damaged, make it again"
        ) from error


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, at most 200 letters; its name if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


@contextmanager
def opening(path: Path | str, doing: str) -> Iterator[None]:
    """Turn an error of the operating system (no rights, a full disk) into a FileError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0]
        raise FileError(f"{path}: cannot be {doing}: {reason}") from error


def most_unpacked(packed: int) -> int:
    """Return the largest number of bytes that a file of so many may unpack to."""
    return max(FREE_BYTES, min(MAX_RATIO * packed, MAX_BYTES))


def check_expansion(path: Path | str, packed: int, unpacked: int) -> None:
    """Refuse a file that unpacks to far more than its size, before anything is unpacked."""
    if unpacked > most_unpacked(packed):
        raise FileError(
            f"{path}: refused, its {packed:,} bytes claim to hold {unpacked:,}: unpack it yourself if that is meant"
        )


def files_below(folder: Path) -> list[str]:
    """Return the names of all files in a folder, sorted; a symbolic link, which may lead anywhere, is refused."""

    def fail(error: OSError) -> None:
        raise error

    names = []
    for root, folders, files in os.walk(folder, onerror=fail):
        for name in folders + files:
            if os.path.islink(os.path.join(root, name)):
                where = Path(root, name).relative_to(folder)
                raise FileError(f"{folder}: holds a symbolic link, {where}: put the file itself there")
        names += [Path(root, name).relative_to(folder).as_posix() for name in files]
    return sorted(names)


def stamp(path: Path) -> object:
    """Return the sizes and times of a file, or of all files in a folder: another value means that it was changed."""

    def of(file: Path) -> tuple[int, int]:
        facts = file.stat()
        return facts.st_size, facts.st_mtime_ns

    return {name: of(path / name) for name in files_below(path)} if path.is_dir() else of(path)


def copy(source: Path, target: Path) -> None:
    """Copy a file, or what is in a folder, byte for byte; `target` may be there."""
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)


@contextmanager
def beside(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """Give a temporary path beside `path`, an empty file or folder, removed after the block if it is still there.

    What runs that were killed have left there is removed first. An OSError names `path`.
    """
    remove_left(path)
    names = {"prefix": f"{_own_prefix(path)}{os.getpid()}.", "suffix": path.suffix, "dir": path.parent}
    temporary: Path | None = None
    try:
        if folder:
            temporary = Path(mkdtemp(**names))  # type: ignore[call-overload]
        else:
            handle, name = mkstemp(**names)  # type: ignore[call-overload]
            temporary = Path(name)
            os.close(handle)
        yield temporary
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        if temporary is not None:
            remove(temporary)


@contextmanager
def replacing(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it to `path` if the block succeeds, remove it if not.

    With `folder=True` it is an empty folder, and a folder that stands at `path` is moved away only after the block.
    """
    with beside(path, folder=folder) as temporary:
        yield temporary
        temporary.chmod((0o777 if folder else 0o666) & ~_umask())
        place(temporary, path)


def place(new: Path, path: Path) -> None:
    """Give a file or a folder the name `path`, in the place of one that is there."""
    if path.is_dir() and new.is_dir():
        place_folder(new, path)
    else:
        new.replace(path)


def remove(path: Path) -> None:
    """Remove a file or a folder, as far as that is possible."""
    with suppress(OSError):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink()


def _own_prefix(path: Path) -> str:
    """Return what the names of temporary files for `path` begin with, before the number of their process."""
    return f".{path.stem}.{socket.gethostname()}."


def remove_left(path: Path) -> None:
    """Remove temporary files and folders for `path` of processes of this machine that are no more."""
    prefix = _own_prefix(path)
    for left in path.parent.iterdir() if path.parent.is_dir() else ():
        if left.name.startswith(prefix) and not _lives(left, left.name[len(prefix) :].partition(".")[0]):
            remove(left)


def _lives(left: Path, number: str) -> bool:
    """Return whether the process of that number may still write to a file; one of our number is older than we are."""
    if not number.isdecimal():
        return True
    with suppress(OSError):
        if int(number) == os.getpid():
            return left.stat().st_mtime >= STARTED
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def place_folder(new: Path, old: Path) -> None:
    """Replace the folder `old` by `new`, or leave it: no call of the system replaces a folder that is not empty."""
    aside = Path(mkdtemp(prefix=f".{old.stem}-old-", dir=old.parent)) / old.name
    old.replace(aside)
    try:
        new.replace(old)
    except BaseException:
        aside.replace(old)
        aside.parent.rmdir()
        raise
    shutil.rmtree(aside.parent, ignore_errors=True)


def _umask() -> int:
    """Return the permissions that new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
