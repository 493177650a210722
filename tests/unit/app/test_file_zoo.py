"""The zoo of files: none is read wrongly in silence."""

import io
import re
import zipfile

import pytest

from app.services.readers.options import Options, ReaderLimits
from app.services.readers.table import open_table
from tests.support.file_zoo import KINDS, LOOKS, NAMES, VALUES
from tests.support.workbooks import ods, xls, xlsb, xlsx


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
    "12 kg": ("7 kg", None, 12.0, "is read as the number 12 in kg"),
    "5 ft 7": ("6 ft 1", None, "5 ft 7", "two numbers, like feet and inches"),
    "5 lb 3 oz": ("6 lb 1 oz", None, "5 lb 3 oz", "two numbers"),
    "1.2k": ("3M", None, 1200.0, "is read as the number 1200"),
    "$1.2k": ("$900", None, 1200.0, "is read as the number 1200 in $"),
    "1.2 Mio. €": ("7 Mio. €", None, 1.2e6, "is read as the number 1200000 in EUR"),
    "$1.2": ("1.3k", None, "$1.2", "write all in one"),
    "$1.2kg": ("$3kg", None, "$1.2kg", "write the number with one unit"),
    "45 m2": ("7 m2", None, 45.0, "is read as the number 45 in m²"),
    "45 ft^2": ("7 sq ft", None, "45 ft^2", "write all in one"),
    "2.2k": ("3k", "number", 2200.0, "may be 2.2e3"),
    "8 kg": ("700 g", None, "8 kg", "write all in one"),
    "3 years": ("1 year", None, 3.0, "is read as the number 3 in years"),
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


ZIPS = [["Report"], [], ["zip", "y"], *([1067 + row, row] for row in range(5))]


def read(content):
    """Return the columns by name, with their notes, and the warnings."""
    with open_table(io.BytesIO(content), Options(), ReaderLimits()) as table:
        return {each.name: (each.values.to_pylist(), each.note) for each in table.columns()}, table.warnings


def rewritten(content, *changes):
    """Change the first sheet of a workbook as other writers would."""
    source, sink = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name in source.namelist():
            text = source.read(name)
            for pattern, other in changes if name == "xl/worksheets/sheet1.xml" else ():
                text = re.sub(pattern, other, text)
            archive.writestr(name, text)
    return sink.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        (rb' r="(\w+)" s="(\d+)"', rb' s="\2" r="\1"'),
        (rb' r="(\w+)" s="(\d+)"', rb' r="\1" s="\2" t="n" cm="1"'),
        (rb"<(/?)(c|v|row|sheetData)\b", rb"<\1\2"),
    ],
)
def test_numbers_shown_with_zeros_before_them_are_codes(change):
    """A workbook's format of five digits makes codes, whoever wrote the file."""
    columns, warnings = read(rewritten(xlsx({"Data": ZIPS}, zeros={0: "00000;-0"}), change))

    values, note = columns["zip"]
    assert values[:2] == ["01067", "01068"]
    assert columns["y"][0][:2] == [0.0, 1.0]
    assert "begins with 0" in note
    assert not [each for each in warnings if "zeros" in each]


SHOWN = "shows zeros before numbers"
OTHERS = {  # workbooks whose codes are read as numbers, or in doubt, and what is said of them
    "ods": (ods({"Data": ZIPS}, '<number:number number:min-integer-digits="5"/>'), SHOWN),
    "xls": (xls(), SHOWN),
    "xlsb": (xlsb([["zip", "y"], *ZIPS[3:]], "00000"), SHOWN),
    "parted": (xlsx({"Data": ZIPS}, zeros={0: "000-00-0000"}), "column A of the sheet shows 5 numbers of 5"),
    "quoted": (xlsx({"Data": ZIPS}, zeros={0: '"D-"00000'}), "column A of the sheet shows 5 numbers of 5"),
    "in part": (
        rewritten(xlsx({"Data": ZIPS}, zeros={0: "00000"}), (rb'r="A([456])" s="\d+"', rb'r="A\1"')),
        "column A of the sheet shows 2 numbers of 5",
    ),
    "unplaced": (
        rewritten(xlsx({"Data": ZIPS}, zeros={0: "00000"}), (rb' r="[A-Z]+\d+"', b"")),
        "column (without a name) of the sheet shows 5 numbers of 10",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_codes_that_are_read_as_numbers_are_said(kind):
    """A loss of zeros that a workbook shows is said; formats without them raise no word."""
    content, said = OTHERS[kind]
    columns, warnings = read(content)

    assert columns["zip"][0][:2] == [1067.0, 1068.0]
    assert said in " ".join(warnings)
    for plain in (
        xlsb([["zip", "y"], *ZIPS[3:]], "0.00"),
        xlsx({"Data": ZIPS}, zeros={0: "0.00", 1: "#,##0.00 [$€-407]"}),
    ):
        _, warnings = read(plain)
        assert not [each for each in warnings if "zeros" in each]
