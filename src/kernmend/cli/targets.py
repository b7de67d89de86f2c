"""Where the commands write, and what they refuse to write over, before any work."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

PACKED = (".gz", ".zip")  # endings behind that of what is packed


class Refused(click.ClickException):
    """Bad usage or input: one line, exit code 2."""

    exit_code = 2


def input_file(source: Path) -> Path:
    """Return the file of an input, of which `file::name` names an array."""
    return source if "::" not in source.name or source.exists() else Path(str(source).rpartition("::")[0])


def mended_name(source: Path) -> Path:
    """Return where the mended data go by default: beside the input, of which `file::name` names an array."""
    source = input_file(source)
    if source.name in ("", ".."):  # . and .. and /
        source = source.resolve()
    if not source.name:
        raise Refused(f"{source} has no name to make another from: say -o")
    packed = source.suffix.lower() in PACKED and Path(source.stem).suffix  # data.csv.gz
    suffix = f"{packed}{source.suffix}" if packed else source.suffix
    return source.with_name(f"{source.name.removesuffix(suffix)}.mended{suffix}")


def find_targets(sources: Sequence[Path], output: Path | None) -> list[Path]:
    """Return where the mended data of each input go."""
    if output is None:
        return [mended_name(source) for source in sources]
    if len(sources) == 1 and (sources[0].is_dir() or not output.is_dir()):
        return [output]
    check_room(output, "-o")
    return [output / source.name for source in sources]


def find_beside(sources: Sequence[Path], path: Path | None, option: str, ending: str) -> list[Path | None]:
    """Return where what `option` asks for on each input goes: to `path`, or to a folder of that name for several."""
    if path is None:
        return [None] * len(sources)
    if len(sources) == 1 and not path.is_dir():
        return [path]
    check_room(path, option)
    return [path / f"{source.name}{ending}" for source in sources]


def check_room(path: Path, option: str) -> None:
    """Refuse a path that `option` names if it is no folder, nor can be made one."""
    if path.exists() and not path.is_dir():
        raise Refused(f"{path} is a file: with several inputs {option} names a folder")
    if not path.parent.is_dir():
        raise Refused(f"there is no folder {path.parent} to make {path.name} in")


def check_free(
    targets: Sequence[Path | None], force: bool, made: Sequence[Path | None] = (), inputs: Sequence[Path | None] = ()
) -> None:
    """Refuse, before any work, what cannot or must not be written.

    That is: over what is there, over an input or into one, two things to one place, to a folder that is not there or
    may not be written to. `made` are folders that will be made.
    """
    paths = [path for path in targets if path is not None]
    read_from = {path.resolve(): path for path in inputs if path is not None}
    for path in paths:
        folder = path.parent if path.parent not in made or path.parent.is_dir() else path.parent.parent
        if not folder.is_dir():
            raise Refused(f"there is no folder {path.parent} to write {path.name} to")
        for place in (path.resolve(), *path.resolve().parents):
            if place in read_from and (place == path.resolve() or read_from[place].is_dir()):
                words = "is the input" if place == path.resolve() else f"lies in the input {read_from[place]}"
                raise Refused(f"{path} {words}: choose another name")
        if path.exists() and not force:
            raise Refused(f"{path} is there already: say --force to overwrite it")
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise Refused(f"{path} cannot be written: the folder {folder} is read-only")
    places = [path.resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise Refused(f"{path} would be written twice")
