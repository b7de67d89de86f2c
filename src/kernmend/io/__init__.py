"""Files people have, as data to mend, and mended files as they were: `read(path)` -> `Dataset` -> `.write(path, A)`."""

from kernmend.io._dataset import Dataset, without_empty
from kernmend.io._files import FileError, replacing
from kernmend.io._reading import read

__all__ = ["Dataset", "FileError", "read", "replacing", "without_empty"]
