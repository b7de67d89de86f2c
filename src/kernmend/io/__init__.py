"""Files people have, as data to mend, and mended files as they were: `read(path)` -> `Dataset` -> `.write(path, A)`.

`patch` and `revert` make the changes of a change log and take them back.
"""

from kernmend.io._change_log import ChangeLog, read_log
from kernmend.io._dataset import Dataset, without_empty
from kernmend.io._files import FileError, replacing
from kernmend.io._patching import Patched, patch, revert
from kernmend.io._reading import read

__all__ = [
    "ChangeLog",
    "Dataset",
    "FileError",
    "Patched",
    "patch",
    "read",
    "read_log",
    "replacing",
    "revert",
    "without_empty",
]
