"""Workbooks, archives of one file and JSON are read as the table that a person sees in them."""

import gzip
import io
import re
import struct
import zipfile
from datetime import datetime

import pytest

from app.services.errors import InvalidRequestError, ServiceError, TooLargeError, UnusableDataError
from app.services.readers.options import Options, ReaderLimits
from app.services.readers.table import open_table
from tests.support.workbooks import Formula, ods, xlsx

DAYS = [datetime.fromisoformat(f"2026-01-0{day}") for day in (5, 6, 7)]
ROWS = [
    ["shop", "day", "open", "sales", "ratio"],
    ["A", DAYS[0], True, 12, Formula.of("=D2/2", 6.5)],
    ["B", DAYS[1], False, 1234.5, Formula.of("=1/0", "#DIV/0!")],
    [None] * 5,
    ["C", DAYS[2], True, None, Formula.of("=D5", 7)],
]
VALUES = {
    "shop": ["A", "B", "C"],
    "day": DAYS,
    "open": [True, False, True],
    "sales": [12.0, 1234.5, None],
    "ratio": [6.5, None, 7.0],
}
WRITERS = {"xlsx": xlsx, "ods": ods}


def read(content: bytes, fewest: int = 2, **options):
    """Return the columns by name, the report and the warnings."""
    limits = ReaderLimits(fewest_columns=fewest)
    with open_table(io.BytesIO(content), Options(**options), limits) as table:
        columns = {each.name: each.values.to_pylist() for each in table.columns()}
        return columns, table.read_as, table.warnings, table.summary([])


def zipped(**files: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_csv", ".csv"), content)
    return sink.getvalue()


@pytest.mark.parametrize("kind", WRITERS)
def test_cells_have_their_types_and_formulas_their_values(kind):
    """The first sheet with a table is read; errors are missing, which is said, and blank rows are no rows."""
    content = WRITERS[kind]({"About": [["Made in January"]], "Sales": ROWS, "Old": ROWS[:3]})

    columns, read_as, warnings, summary = read(content)

    assert columns == VALUES
    assert (read_as["format"], read_as["sheet"], read_as["sheets"]) == (
        kind,
        "Sales",
        ["About", "Sales", "Old"],
    )
    assert "sheet 'Sales'" in summary
    assert warnings == ["2 cells of the workbook with an error, such as #DIV/0!: read as missing"]


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("sheet", ["Old", "2"])
def test_another_sheet_is_read_by_name_or_number(kind, sheet):
    """`sheet` is a name or a number; another one is refused with the list."""
    content = WRITERS[kind]({"Sales": ROWS, "Old": [["x", "y"], [1, 2]]})

    assert read(content, sheet=sheet)[0] == {"x": [1], "y": [2]}
    with pytest.raises(InvalidRequestError) as refused:
        read(content, sheet="3")
    assert "the sheets are 'Sales', 'Old'" in refused.value.errors[0].detail


@pytest.mark.parametrize("kind", WRITERS)
def test_texts_of_a_sheet_keep_their_form(kind):
    """Texts are typed as in CSV, dates of a text too; a text among numbers is named with its row."""
    rows = [["code", "when", "mixed"], ["007", "31.12.2025", 1.5], ["010", "01.01.2026", "about 2"]]

    columns, _, warnings, _ = read(WRITERS[kind]({"S": rows}), kinds={"code": "category"})

    assert columns["code"] == ["007", "010"]
    assert columns["when"] == [datetime.fromisoformat("2025-12-31"), datetime.fromisoformat("2026-01-01")]
    assert columns["mixed"] == ["1.5", "about 2"]
    assert warnings == ["mixed: row 2 has the text 'about 2' where others have numbers: check how it is read"]


def test_merged_cells_have_the_value_everywhere_and_levels_of_a_header_are_joined():
    """Header cells are joined by level below a title, and a merged cell of the body stands for its rows."""
    rows = [
        ["Report of the year"],
        [],
        ["shop", 2025, None, 2026, None],
        [None, "Q1", "Q2", "Q1", "Q2"],
        ["A", 1, 2, 3, 4],
        [None, 5, 6, 7, 8],
        ["B", 9, 10, 11, 12],
    ]
    merged = ((0, 0, 0, 4), (2, 0, 3, 0), (2, 1, 2, 2), (2, 3, 2, 4), (4, 0, 5, 0))

    columns, read_as, _, _ = read(xlsx({"S": rows}, merged))

    assert list(columns) == ["shop", "2025 Q1", "2025 Q2", "2026 Q1", "2026 Q2"]
    assert columns["shop"] == ["A", "A", "B"]
    assert columns["2026 Q2"] == [4, 8, 12]
    assert read_as["header_line"] == 4


@pytest.mark.parametrize(
    "pack", [lambda text: zipped(a_csv=text), gzip.compress, lambda text: zipped(a_csv=gzip.compress(text))]
)
def test_an_archive_of_one_file_is_that_file(pack):
    """A zip of one file is unpacked, gzip within it too; one of several is refused by their names."""
    assert read(pack(b"a,b\n1,2\n"))[0] == {"a": [1], "b": [2]}
    with pytest.raises(UnusableDataError, match=r"2 files \('a.csv', 'b.csv'\): send one table"):
        read(zipped(a_csv=b"a,b\n1,2\n", b_csv=b"a,b\n1,2\n"))


@pytest.mark.parametrize(
    "text",
    [
        '[{"a": 1, "b": "x"}, {"a": 2.5, "c": true}]',
        '{"a": 1, "b": "x"}\n{"a": 2.5, "c": true}\n',
        '{"data": [{"a": 1, "b": "x"}, {"a": 2.5, "c": true}]}',
        '{"a": [1, 2.5], "b": ["x", null], "c": [null, true]}',
    ],
)
def test_records_of_json_are_a_table(text):
    """Lists of records, records by line and lists by column are one table; a field left out is missing."""
    columns, read_as, _, _ = read(text.encode())

    assert columns == {"a": [1.0, 2.5], "b": ["x", None], "c": [None, True]}
    assert read_as["format"] == "json"


def forged(content: bytes) -> bytes:
    """Return an archive whose first file says that it is short once unpacked."""
    at = content.index(b"PK\x01\x02")
    return content[: at + 24] + struct.pack("<I", 10) + content[at + 28 :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped(a_csv=b"0," * (40 << 20)), "more than 200 times its size"),
        (forged(zipped(a_csv=b"a,b\n1,2\n" * 99)), "its data are damaged"),
        (zipped(a_csv=b"a,b\n1,2\n")[:-30], "its data are damaged"),
        (xlsx({"S": ROWS})[:-200], "its data are damaged"),
        (zipped(), "has 0 files"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "can't be read"),
        (xlsx({"S": [["only"]]}), "No sheet has a table"),
        (xlsx({"S": [["a", "a"], [1, 2]]}), "in columns 1 and 2: rename one"),
        (xlsx({"S": [[1, 2], [3, 4]]}), r"pass \?header=false"),
        (b'[{"a": {"b": 1}}]', "a record within a record"),
        (b'[{"a": 1}, {"a": ', "line 1, column 18"),
        (b'{"a": 1}\n{"a": nope}\n', "line 2, column 7"),
        (b'[{"a": 1, "a": 2}]', "the name 'a' twice"),
        (
            b"[{" + b",".join(b'"k%d":1' % k for k in range(60_000)) + b',"k59999":2}]',
            "the name 'k59999' twice",
        ),
        (b'[{"a": ' + b"9" * 5000 + b', "b": 1}]', "a number has 5000 digits"),
        (rb'[{"a": "\ud800", "b": 1}]', "half of a surrogate pair"),
        (rb'[{"a\udfff": "x", "b": 1}]', "half of a surrogate pair"),
        (b'[{"a": Infinity}]', "write null"),
        (b"[[1, 2], [3, 4]]", "send a list of records"),
        (b'[{"a": 1e999}]', "infinite"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",  # archives have the time at which they are made
)
def test_files_that_are_no_table_are_refused_with_a_way_on(content, message):
    """Bombs, damaged and forged archives, and contents that are no table, are refused in words."""
    with pytest.raises((UnusableDataError, TooLargeError)) as refused:
        read(content, fewest=1 if content.startswith((b"[", b"{")) else 2)
    error: ServiceError = refused.value
    assert re.search(message, f"{error} {[fault.detail for fault in error.errors]}")


TITLED = [["Sales of 2026", None, None], ["by shop", None, None], [None] * 3, ["shop", "n", "x"]]
BODY = [["A", 1, 2.5], ["B", 3, 4.5], ["C", 5, 6.5]]


def as_csv(sheets: dict[str, list[list]], separator: str = ",", gap: str = "") -> bytes:
    """Return the first sheet as spreadsheets export it: with all separators, or none after the last cell."""
    rows = [
        ["" if cell is None else str(cell).replace(".", "," if separator == ";" else ".") for cell in row]
        for row in next(iter(sheets.values()))
    ]
    lines = [separator.join(row) for row in rows]
    return "\n".join(line.rstrip(separator) if gap else line for line in lines).encode() + b"\n"


@pytest.mark.parametrize(
    "write",
    [
        as_csv,
        lambda sheets: as_csv(sheets, ";"),
        lambda sheets: as_csv(sheets, "\t", "none"),
        lambda sheets: as_csv(sheets, ";", "none"),
        xlsx,
        ods,
    ],
)
def test_a_title_is_left_out_and_totals_are_asked_about(write):
    """Lines above the header are said; a last row of totals too, and is left out where that is asked for."""
    content = write({"S": [*TITLED, *BODY, ["Total", 9, 13.5]]})

    columns, read_as, warnings, _ = read(content)
    assert (columns["shop"], read_as["header_line"]) == (["A", "B", "C", "Total"], 4)
    assert "'Sales of 2026' and all else above line 4 is left out as a title" in warnings[0]
    assert "row 4, the last, says 'Total': if it sums the others" in warnings[1]

    columns, read_as, warnings, _ = read(content, totals="leave-out", header_line=4)
    assert columns == {"shop": ["A", "B", "C"], "n": [1, 3, 5], "x": [2.5, 4.5, 6.5]}
    assert "row 4, the last, with totals ('Total') is left out" in warnings[-1]
    assert read(write({"S": [TITLED[3], *BODY]}))[2] == []


def test_a_title_with_the_separator_is_told_from_names_beside_row_labels():
    """Above words alone stands a title; where numbers follow, the name of row labels is what lacks."""
    columns, read_as, warnings, _ = read("Umsätze; Stand Mai\nort;n;x\nA;1;2,5\nB;3;4,5\n".encode())
    assert (list(columns), read_as["header_line"]) == (["ort", "n", "x"], 2)
    assert "is left out as a title" in warnings[0]
    labelled, read_as, *_ = read(b"n;x\nA;1;2.5\nB;3;4.5\n")
    assert (list(labelled), read_as["header_line"]) == (["n", "x"], 1)


def test_no_word_is_a_date_by_its_prefix():
    """Only names of months are months."""
    assert read(b"d,x\n8-Marble-2007,1\n9-Mars-2008,2\n")[0]["d"] == ["8-Marble-2007", "9-Mars-2008"]
    assert read(b"d,x\n8-March-2007,1\n9-Sept-2008,2\n")[0]["d"][0].month == 3
