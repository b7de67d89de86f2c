"""Texts as bytes: lines, records and letters are those of the whole text, decoded at once."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernmend.io import FileError, _decoding, read
from kernmend.io._decoding import Text, decode, line_ends, split_records, write_records

ENCODINGS = ["utf-8", "cp1252", "latin-1", "utf-16-le", "utf-16-be", "shift_jis", "gbk", "euc_jp", "cp437", "koi8-r"]
texts = st.text(alphabet='a1,;."\r\n é|\\', max_size=40)


@given(texts)
def test_lines_end_where_those_of_the_text_do(text):
    ends = [match.end() for match in re.finditer(r"\r\n|\n|\r", text.replace("é", "??"))]
    length = len(text.encode())
    assert line_ends(text.encode()).tolist() == ends + ([length] if length > (ends or [0])[-1] else [])


@given(texts, st.integers(1, 5))
def test_pieces_do_not_matter(text, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_decoding, "PIECE", piece)
        patch.setattr(_decoding, "LINES", piece)
        small = line_ends(text.encode()), split_records(decode(text.encode(), "a"), ",") if text else None
    assert small[0].tolist() == line_ends(text.encode()).tolist()
    if text:
        whole = split_records(decode(text.encode(), "a"), ",")
        assert (small[1][0].tolist(), small[1][1]) == (whole[0].tolist(), whole[1])


@given(texts)
def test_the_line_of_a_byte(text):
    raw = text.encode()
    for at in (0, len(raw) // 2, len(raw)):
        expected = len(re.split(rb"\r\n|\n|\r", raw[:at]))
        assert Text(raw, "utf-8").line(at) == expected


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_comes_back_and_so_does_a_new_record(tmp_path, encoding):
    """Also those in which a byte that looks like a bar or a backslash is half of a letter."""
    letters = {"shift_jis": "ソ表能", "gbk": "皘亅", "euc_jp": "表能", "koi8-r": "привет"}.get(encoding, "é")
    raw = f"{letters}|x\n1|2,5\n3|4,5\n".encode(encoding)
    text = decode(raw, "a", encoding)
    ends, opened = split_records(text, "|")
    assert (len(ends), opened) == (3, None)
    assert text.part(0, int(ends[0])) == f"{letters}|x\n"
    write_records(tmp_path / "a", text, ends, [(1, "7|8,5\n")])
    assert (tmp_path / "a").read_bytes() == f"{letters}|x\n7|8,5\n3|4,5\n".encode(encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_tables_of_every_encoding_are_mended_in_it(tmp_path, encoding):
    letters = {"shift_jis": "表", "gbk": "皘", "euc_jp": "能", "koi8-r": "ы"}.get(encoding, "ü")
    content = f"{letters};x;y\n" + "".join(f"{letters}{i};{i * i},5;{i % 7},25\n" for i in range(20))
    (tmp_path / "a.csv").write_bytes(content.encode(encoding))
    data = read(tmp_path / "a.csv", encoding=encoding)
    A = data.X.copy()
    A[3, 0] = 77
    new = data.write(tmp_path / "b.csv", A).read_bytes().decode(encoding)
    assert new == content.replace(f"{letters}3;9,5", f"{letters}3;77,0")


def test_bytes_that_would_not_come_back_are_refused(tmp_path):
    with pytest.raises(FileError, match="would not be the same when written as utf-8-sig again"):
        decode(b"x\n1\n", "a", "utf-8-sig")
    with pytest.raises(FileError, match="is not utf-7 text"):
        decode(b"x\n\xff\n", "a", "utf-7")


def test_pieces_of_letters_are_decoded_together(monkeypatch):
    monkeypatch.setattr(_decoding, "PIECE", 3)
    raw = "x,é€😀\n1,2\n".encode()
    assert decode(raw, "a").part(0, len(raw)) == raw.decode()
    assert decode(raw + b"\xff", "a").encoding == "cp1252"


def test_two_long_lines_are_enough_to_find_the_delimiter(tmp_path):
    """The header alone, with commas in its names, would say commas."""
    d = 9000
    lines = [";".join(f"a,b {j}" for j in range(d))] + [";".join(f"{i + j}.5" for j in range(d)) for i in range(3)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    np.testing.assert_array_equal(read(tmp_path / "a.csv").X, np.add.outer(np.arange(3), np.arange(d)) + 0.5)


def test_many_lines_have_numbers_of_four_bytes():
    assert line_ends(b"1\n" * 10).dtype == np.int32
