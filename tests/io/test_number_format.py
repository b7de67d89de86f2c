"""How columns write numbers: what is written is read back as the rounded value, and every format finds itself."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernmend.io._number_format import GROUPERS, NumberFormat, Sign
from kernmend.io._shapes import Shapes, add_cells, best_readings, reading
from kernmend.io._text import MISSING, plain

numbers = st.one_of(
    st.floats(-1e12, 1e12, allow_subnormal=False).map(lambda value: round(value, 6)),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**6), 10**6).map(float),
)


@st.composite
def formats(draw):
    decimal = draw(st.sampled_from(".,"))
    thousands = draw(st.sampled_from(["", *(mark for mark in (",", ".", *GROUPERS) if mark != decimal)]))
    before = draw(st.sampled_from(["", "$", "US$", "EUR ", "€ "]))
    after = draw(st.sampled_from(["", "%", " %", " kg", "m/s", " °C", "°", " €", " m2", "kWh"]))
    most = draw(st.integers(0, 8))
    exponent = draw(st.sampled_from(["", "", "", "E+00", "e+000", "e0", "D+00"])) if not thousands else ""
    least = draw(st.integers(0, most))
    around = bool(before or after)
    marks = [*(Sign(sign, "", inner) for sign in "-\u2212\u2013" for inner in {False, around}), Sign("(", ")")]
    marks.append(Sign("(", ")", around))
    if least and not after.strip() and not exponent:
        marks += [Sign("", "-", around)]
    return NumberFormat(decimal, thousands, before, after, least, most, exponent, draw(st.sampled_from(marks)))


@given(formats(), numbers)
def test_what_is_written_is_read_back_rounded(format, value):
    value = np.float64(value)
    text = format.write(value)
    rounded = format.rounded(np.array([value]))[0]
    assert format.parse(text) == rounded
    assert format.parse_all([f' "{text}" ', "", text], plain)[::2] == [rounded, rounded]
    if format.most is not None and not format.exponent and abs(value) < 1e6:
        assert abs(rounded - value) <= 0.5 * 10.0**-format.most * (1 + 1e-9) + 1e-15 * abs(value)


@given(formats(), st.lists(st.floats(-1e5, 1e5), min_size=3, max_size=8))
def test_a_column_finds_the_format_that_wrote_it(format, values):
    cells = [format.write(np.float64(value)) for value in [*values, 123456.0, -0.25]]
    shapes = Shapes(Counter(), {})
    add_cells(shapes, cells, 0, plain, frozenset(MISSING))
    found = reading(shapes, format.decimal).format
    assert found is not None
    assert (found.before, found.after) == (format.before, format.after)
    assert found.parse_all(cells, plain) == [format.parse(cell) for cell in cells]
    again = [found.write(np.float64(value)) for value in found.parse_all(cells, plain)]
    assert [format.parse(cell) for cell in again] == [format.parse(cell) for cell in cells]
    if min(format.parse_all(cells, plain)) < 0:
        assert found.write(np.float64(-5)) == replace(found, minus=format.minus).write(np.float64(-5))


def test_missing_values_and_zeros():
    format = NumberFormat(before="$", thousands=",", least=2, most=2)
    assert format.write(np.float64("nan")) == ""
    assert format.write(np.float64(-0.001)) == "$0.00"
    assert np.isnan(format.parse_all(["", "ERR"], plain)).all()
    assert format.parse("5.00") is None
    assert format.parse("-$-5.00") is None


@pytest.mark.parametrize("prefer_plain", [True, False])
def test_where_a_comma_may_mean_two_things(prefer_plain):
    """1,500 is 1.5 where commas are decimals, 1500 where they part thousands: what no other cell tells."""
    shapes = Shapes(Counter(), {})
    add_cells(shapes, ["1,500", "2,250"], 0, plain, frozenset(MISSING))
    decimal, (one,) = best_readings([shapes], ".,", None, prefer_plain=prefer_plain)
    assert decimal == ("," if prefer_plain else ".")
    assert one.format.parse("1,500") == (1.5 if prefer_plain else 1500)
    add_cells(shapes, ["1,5"], 2, plain, frozenset(MISSING))
    assert best_readings([shapes], ".,", None, prefer_plain=prefer_plain)[0] == ","


def test_a_column_with_another_decimal_sign_than_the_others():
    first, second = (Shapes(Counter(), {}) for _ in range(2))
    add_cells(first, ["1,5", "2,25", "3,5"], 0, plain, frozenset(MISSING))
    add_cells(second, ["1.5", "2.25", "3"], 0, plain, frozenset(MISSING))
    decimal, readings = best_readings([first, first, second], ".,", None, prefer_plain=True)
    assert decimal == ","
    assert [one.format.decimal for one in readings] == [",", ",", "."]


def test_words_have_too_many_shapes_to_be_numbers():
    shapes = Shapes(Counter(), {})
    add_cells(shapes, [f"{'ab' * (k % 77)}{'c' * (k // 77)}" for k in range(1, 6000)], 0, plain, frozenset(MISSING))
    assert shapes.wild
    assert reading(shapes, ".").format is None


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        (["1.50", "(2.50)", "(3.50)"], "(7.25)"),
        (["$1.50", "$(2.50)", "-$2.50", "$(3.50)"], "$(7.25)"),
        (["1.50", "\u22122.50"], "\u22127.25"),
        (["1.50", "\u20132.50"], "\u20137.25"),
        (["1.50", "2.50-"], "7.25-"),
        (["1.50 EUR", "2.50- EUR"], "7.25- EUR"),
        (["'1.50'", "'(2.50)'"], "(7.25)"),
        (["1.50", "2.50", "--", "."], "-7.25"),  # nothing is there
        (["(1.50)", "(2.50)"], None),  # labels
        (["1", "2-", "3"], None),  # marks of a school
        (["1.50", "(2.50"], None),
        (["1.50", "(-2.50)"], None),
        (["1.50", "--", "--"], None),  # more than a half
    ],
)
def test_negative_numbers_of_all_kinds(cells, value):
    shapes = Shapes(Counter(), {})
    add_cells(shapes, cells, 0, plain, frozenset(MISSING))
    found = reading(shapes, ".").format
    assert (None if found is None else found.write(np.float64(-7.25))) == value
    if found is not None:
        assert found.parse_all(cells, plain)[:2] == [1.5, 2.5 if "--" in cells else -2.5]
        assert found.parse(value) == -7.25
