"""The zoo of files: none is read wrongly in silence."""

import io

import pytest

from app.services.readers.options import Options, ReaderLimits
from app.services.readers.table import open_table
from tests.support.file_zoo import KINDS, LOOKS, NAMES, VALUES
from tests.support.workbooks import ods, xlsx


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_the_same_in_every_file(kind, look):
    """Each cell has its value in every kind of file and every look, and what was decided is said."""
    write, said = KINDS[kind]

    with open_table(io.BytesIO(write(LOOKS[look])), Options(), ReaderLimits()) as table:
        columns = {each.name: each.values.to_pylist() for each in sorted(table.columns())}

    assert [*columns] == NAMES
    assert columns == VALUES
    assert said in " ".join(table.warnings)


# The cells of a column, the kind that it is then given, and its first value; and what is said without one.
FORMS = {
    "12 kg": ("7 kg", None, 12.0, "is read as 12 kg"),
    "5 ft 7": ("6 ft 1", None, "5 ft 7", "two numbers, like feet and inches"),
    "5 lb 3 oz": ("6 lb 1 oz", None, "5 lb 3 oz", "two numbers"),
    "1.2k": ("3M", None, 1200.0, "is read as 1200"),
    "2.2k": ("3k", "number", 2200.0, "may be 2.2e3"),
    "8 kg": ("700 g", None, "8 kg", "write all in one"),
    "3 years": ("1 year", None, 3.0, "is read as 3 years"),
    "2024-W05": ("2024-W06", "date", "2024-01-29 00:00:00", "a week, as its Monday"),
    "2024 Q2": ("2024 Q3", "date", "2024-04-01 00:00:00", "a quarter, as its first day"),
    "202402": ("202403", "date", "2024-02-01 00:00:00", "a month as yyyymm"),
    "20240131": ("20240201", "date", "2024-01-31 00:00:00", "a day as yyyymmdd"),
    "1700000000": ("1700086400.5", "date", "2023-11-14 22:13:20", "seconds since 1970"),
    "1700000000250": (
        "1700086400000",
        "date",
        "2023-11-14 22:13:20.250000",
        "milliseconds since 1970",
    ),
    "45321.5": ("45322", "date", "2024-01-30 12:00:00", "a day number of a spreadsheet"),
    "10:30": ("9:15", "number", 10.5, "a time of day"),
    "31/01/26": ("01/02/26", None, "31/01/26", "years of two digits"),
    "marchand": ("mayor", None, "marchand", ""),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_cells_is_read_or_hinted_at(form):
    """A form that isn't read by itself names the kind that reads it, and this kind is all that is needed."""
    second, kind, value, said = FORMS[form]
    text = "x,date\n" + "".join(f"{row},{second if row else form}\n" for row in range(8))

    for kinds in ({}, {"date": kind} if kind else {}):
        with open_table(io.BytesIO(text.encode()), Options(kinds=kinds), ReaderLimits()) as table:
            _, column = sorted(table.columns(), key=lambda each: each.name != "x")
        assert kinds or said in column.note
    found = column.values[0].as_py()
    assert (str(found) if kind == "date" else found) == value


BODY = "shop,size,y\n" + "".join(f"{'abc'[row % 3]},{row},{row / 2}\n" for row in range(9))


@pytest.mark.parametrize(
    ("above", "line"),
    [
        ("Sales, 2026\n", 2),
        ("Sales, north, 2026\n\n", 3),
        ("Sales, north, all shops\n\n", 3),
        ("Sales, north, all shops, 2026\n", 2),
        ("Sales, north, all shops, 2026\nby Ann\n\n", 4),
        ("Sales, north, all shops\n", 1),
        ("Sales, north, 2026\n", 1),
    ],
)
def test_a_title_with_separators_is_no_header(above, line):
    """A title next to a header of the same width is a doubt, which is said."""
    with open_table(io.BytesIO((above + BODY).encode()), Options(), ReaderLimits()) as table:
        names = [each.name for each in sorted(table.columns())]
    said = " ".join(table.warnings)

    assert (names == ["shop", "size", "y"]) == (line > 1)
    assert f"the header is line {line}" in said or (line == 1 and "the next row has words alone too" in said)


def test_numbers_shown_with_zeros_before_them_are_codes():
    """A workbook's format of five digits makes codes; of other formats of workbooks the loss is said."""
    rows = [["Report"], [], ["zip", "y"], *([1067 + row, row] for row in range(5))]
    with open_table(io.BytesIO(xlsx({"Data": rows}, zeros={0: 5})), Options(), ReaderLimits()) as table:
        (column, other) = sorted(table.columns())
    assert column.values[:2].to_pylist() == ["01067", "01068"]
    assert other.values[:2].to_pylist() == [0.0, 1.0]
    assert "begins with 0" in column.note
    styled = ods({"Data": rows}, "<number:number number:min-integer-digits='5'/>".replace("'", '"'))
    with open_table(io.BytesIO(styled), Options(), ReaderLimits()) as table:
        assert "shows zeros before numbers" in " ".join(table.warnings)
