"""Arrow files, which is what Feather is: types, metadata and batches stay; columns of numbers are mended."""

from pathlib import Path
from typing import Any

from kernmend.io._dataset import Dataset, Format, Request
from kernmend.io._files import check_expansion, damaged, need
from kernmend.io._parquet import table_dataset

# First bytes of what each codec packs.
CODECS = {"lz4": b"\x04\x22\x4d\x18", "zstd": b"\x28\xb5\x2f\xfd"}


class Feather(Format):
    """Arrow IPC files, Feather version 2, read and written by pyarrow."""

    name = "feather"
    words = "an Arrow file"
    endings = (".feather", ".arrow", ".ftr")
    marks = (b"ARROW1",)

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the columns of whole numbers and floats."""
        arrow, ipc = need("pyarrow", "Feather"), need("pyarrow.ipc", "Feather")
        raw = ask.path.read_bytes()
        codec = next((name for name, mark in CODECS.items() if mark in raw), None)
        with damaged(ask.path, "Arrow file"), ipc.open_file(arrow.py_buffer(raw)) as file:
            if codec is not None:
                check_expansion(ask.path, len(raw), _claimed(raw, codec))
            table = file.read_all()
            table.validate(full=True)
            batches = [file.get_batch(k).num_rows for k in range(file.num_record_batches)]

        def save(temporary: Path, new: Any) -> None:
            options = ipc.IpcWriteOptions(compression=codec)
            new = new.combine_chunks()
            with ipc.new_file(temporary, new.schema, options=options) as writer:
                writer.write_table(new, max_chunksize=max(batches, default=0) or None)

        return table_dataset(table, ask, format=self.name, save=save)


def _claimed(raw: bytes, codec: str) -> int:
    """Return the number of bytes that packed buffers claim to unpack to: eight bytes before the mark of each."""
    total, at = 0, raw.find(CODECS[codec])
    while at >= 0:
        total += max(int.from_bytes(raw[max(at - 8, 0) : at], "little", signed=True), 0)
        at = raw.find(CODECS[codec], at + 4)
    return total
