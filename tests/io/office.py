"""Files as offices, loggers and instruments write them, made from one table: 40 points of a curve, nothing random else.

Each is a function that returns the text or the bytes of a file. `python tests/io/office.py FOLDER` writes them all.
"""

import gzip
import json
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import openpyxl
from openpyxl.styles import Font

N = 40
ANGLE = np.random.default_rng(0).uniform(0, 2 * np.pi, N)
LENGTH = (1500 + 1200 * np.cos(ANGLE)).round(2)
MASS = (60 + 20 * np.sin(ANGLE)).round(1)
SHARE = (50 + 40 * np.cos(2 * ANGLE)).round(1)
WAVES = np.arange(400.0, 700.0, 1.2).round(1)
SPECTRA = np.exp(-(((WAVES - 550 - 60 * np.sin(ANGLE[:, None])) / 40) ** 2)).round(4)


def lines(*rows, delimiter=",", end="\n"):
    return end.join(delimiter.join(map(str, row)) for row in rows) + end


def german(value, decimals):
    return f"{value:,.{decimals}f}".translate(str.maketrans(",.", ".,"))


def spectra_with_samples():
    return lines(["sample", *WAVES], *([f"s{i}", *row] for i, row in enumerate(SPECTRA)))


def spectra_without_names():
    return lines(WAVES, *SPECTRA)


def wavenumbers_downwards():
    return lines(["sample", *WAVES[::-1]], *([f"s{i}", *row] for i, row in enumerate(SPECTRA)))


def years_as_names():
    return lines(["country", *range(1990, 1996)], *([f"c{i}", *SPECTRA[i, 60:120:10]] for i in range(N)))


def points_without_header():
    return lines(*zip(LENGTH, MASS, SHARE, strict=True))


def excel_with_empty_rows_and_columns():
    rows = [[german(a, 2), german(b, 1), "", ""] for a, b in zip(LENGTH, MASS, strict=True)]
    return lines(
        ["Länge", "Masse", "", ""], *rows[:20], [""] * 4, *rows[20:], [""] * 4, [""] * 4, delimiter=";", end="\r\n"
    ).encode("cp1252")


def american_amounts():
    cells = ([f'"${a:,.2f}"', f"{b} kg", f"{c}%"] for a, b, c in zip(LENGTH, MASS, SHARE, strict=True))
    return lines(["price", "mass", "share"], *cells)


def euros():
    cells = ([f"{german(a, 2)} €", german(b, 1)] for a, b in zip(LENGTH, MASS, strict=True))
    return lines(["Preis", "Masse"], *cells, delimiter=";").encode("cp1252")


def logger_with_units_and_errors():
    rows = [
        [f"{i // 60:02d}:{i % 60:02d}", a, b, c] for i, (a, b, c) in enumerate(zip(LENGTH, MASS, SHARE, strict=True))
    ]
    rows[5][1], rows[9][2], rows[11][3] = "ERR", "n/a", "#DIV/0!"
    return lines(["time", "length", "mass", "share"], ["", "mm", "kg", "%"], *rows)


def limits_of_detection():
    rows = [[a, b] for a, b in zip(LENGTH, MASS, strict=True)]
    rows[3][1] = "<40"
    return lines(["length", "mass"], *rows)


def identifiers():
    codes = [f"{(7919 * i) % 90000:05d}" for i in range(N)]
    rows = zip(range(1980, 1980 + N), codes, (83421 + 977 * i % 4999 for i in range(N)), LENGTH, MASS, strict=True)
    return lines(["year", "zip", "customer_id", "length", "mass"], *rows)


def json_lines():
    rows = [
        {"name": f"n{i}", "length": a, "mass": b, "tags": ["x"]}
        for i, (a, b) in enumerate(zip(LENGTH, MASS, strict=True))
    ]
    del rows[4]["mass"]
    rows[6]["length"] = None
    return "".join(json.dumps(row) + "\n" for row in rows)


def packed_by_gzip():
    return gzip.compress(american_amounts().encode(), mtime=1)


def packed_by_zip():
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data/table.csv", american_amounts())
        archive.writestr("data/read me", "text")
    return out.getvalue()


def workbook():
    """A title, a header, bold numbers, dates, a text of each row, a column of formulas, a missing cell, a total."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Runs"
    sheet["A1"] = "Weekly report"
    sheet.append([])
    sheet.append(["run", "length", "mass", "sum", "note"])
    for i in range(N):
        row = i + 4
        sheet.append([f"r{i}", float(LENGTH[i]), float(MASS[i]), f"=B{row}+C{row}", f"<{i} & more>"])
        sheet.cell(row, 2).font = Font(bold=True)
        sheet.cell(row, 2).number_format = "#,##0.00"
    sheet["C9"] = None
    sheet.append(["total", f"=SUM(B4:B{N + 3})", None, None, None])
    other = book.create_sheet("Notes")
    other["A1"] = "mine"
    out = BytesIO()
    book.save(out)
    return out.getvalue()


FILES = {
    "spectra_with_samples": "csv",
    "spectra_without_names": "csv",
    "wavenumbers_downwards": "csv",
    "years_as_names": "csv",
    "points_without_header": "csv",
    "excel_with_empty_rows_and_columns": "csv",
    "american_amounts": "csv",
    "euros": "csv",
    "logger_with_units_and_errors": "csv",
    "limits_of_detection": "csv",
    "identifiers": "csv",
    "json_lines": "jsonl",
    "packed_by_gzip": "csv.gz",
    "packed_by_zip": "csv.zip",
    "workbook": "xlsx",
}
"""The ending of each file by the name of its function."""


def made(folder, name):
    """Write one of the files and return its path."""
    content = globals()[name]()
    path = Path(folder) / f"{name}.{FILES[name]}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


if __name__ == "__main__":
    for one in FILES:
        made(sys.argv[1], one)
