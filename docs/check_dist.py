"""Check what goes to PyPI: contents and sizes of the wheel and the sdist.

python docs/check_dist.py dist
"""

import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

# Bytes: a wheel of pure Python and a few assets, and an sdist without pictures, are far below.
MOST = {"wheel": 600_000, "sdist": 1_500_000}
IN_SDIST = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
    "SECURITY.md",
    "conda/meta.yaml",
    "tests/conftest.py",
    "docs/conf.py",
)
IN_WHEEL = ("kernmend/__init__.py", "kernmend/py.typed", "kernmend/report/assets/page.html", "kernmend/cli/main.py")


def problems(folder: Path) -> list[str]:
    """Return one line for each thing that is missing, should not be there, or is too large."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with ZipFile(wheel) as file:
        inside = file.namelist()
    with tarfile.open(sdist) as tar:
        source = [name.partition("/")[2] for name in tar.getnames()]
    out = [
        f"{path.name}: {path.stat().st_size} bytes"
        for path, kind in ((wheel, "wheel"), (sdist, "sdist"))
        if path.stat().st_size > MOST[kind]
    ]
    out += [f"{name} is not in the wheel" for name in IN_WHEEL if name not in inside]
    out += [f"{name} is not in the sdist" for name in IN_SDIST if name not in source]
    out += [f"{name} is in the wheel" for name in inside if not name.startswith(("kernmend/", "kernmend-"))]
    out += [
        f"{name} is in the sdist"
        for name in source
        if name.endswith((".png", ".jsonl", ".pyc")) or "node_modules" in name
    ]
    for path, names in ((wheel, inside), (sdist, source)):
        print(f"{path.name}: {len(names)} files, {path.stat().st_size / 1000:.0f} kB")
    return out


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]))
    for line in found:
        print(line)
    sys.exit(f"{len(found)} problems" if found else 0)
