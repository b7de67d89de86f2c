"""The order of rows, by its former address; `detect` imports it from here."""

from kernmend.linalg.distances import lexicographic, same_as_before

__all__ = ["lexicographic", "same_as_before"]
