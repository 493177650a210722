"""Delimited files: cells are read unchanged in any dialect, and the detected dialect is reported."""

import csv
import io
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.services.errors import ServiceError, UnusableDataError
from app.services.readers.options import CHARACTERS, Options, ReaderLimits
from app.services.readers.table import open_table
from app.services.readers.values.typing_text import RAW

NAME = st.text(st.sampled_from("abcxyz_ é"), min_size=1, max_size=6).filter(lambda name: name.strip() == name)
CELL = st.text(st.sampled_from('ab 1.5-"\néß'), max_size=8)
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252", "latin-1")


def read(content: bytes, fewest: int = 2, **options):
    """Return the table and the raw cells of its columns."""
    read_options = Options(otherwise=RAW, **options)
    with open_table(io.BytesIO(content), read_options, ReaderLimits(fewest_columns=fewest)) as table:
        columns = {each.position: (each.name, each.values) for each in table.columns()}
    return table, {columns[index][0]: columns[index][1].to_pylist() for index in sorted(columns)}


@st.composite
def tables(draw):
    names = draw(st.lists(NAME, min_size=2, max_size=5, unique=True))
    rows = draw(st.lists(st.lists(CELL, min_size=len(names), max_size=len(names)), min_size=1, max_size=8))
    return names, [*rows, ["x"] * len(names)]


def written(names, rows, **dialect) -> str:
    file = io.StringIO(newline="")
    csv.writer(file, **dialect).writerows([names, *rows])
    return file.getvalue()


@given(
    tables(),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from(ENCODINGS),
)
@settings(deadline=None)
def test_written_tables_are_read_back(table, delimiter, end, all_quoted, encoding):
    """Written tables are read back for any delimiter, line end, quoting and encoding, if these are given."""
    names, rows = table
    quoting = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL
    content = written(names, rows, delimiter=delimiter, lineterminator=end, quoting=quoting).encode(encoding)
    word = {sign: word for word, sign in CHARACTERS.items()}[delimiter]

    _, columns = read(content, separator=word, encoding=encoding.removesuffix("-sig"), quote="double")

    assert list(columns) == names
    assert list(columns.values()) == [[row[k].strip() for row in rows] for k in range(len(names))]


@given(tables(), st.sampled_from([",", ";", "\t", "|"]), st.booleans())
@settings(deadline=None)
def test_the_delimiter_of_quoted_cells_is_detected(table, delimiter, with_bom):
    """The delimiter is detected even when every cell is quoted."""
    names, rows = table
    content = written(names, rows, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    _, columns = read(content.encode("utf-8-sig" if with_bom else "utf-8"))

    assert list(columns) == names
    assert list(columns.values()) == [[row[k].strip() for row in rows] for k in range(len(names))]


DIALECTS = {
    "semicolons": ("a;b\n1;x\n2;y\n", {"separator": "semicolon"}),
    "a first line for Excel": ("sep=;\na;b\n1;x\n2;y\n", {"separator": "semicolon", "header_line": 2}),
    "blanks": ("a   b\n1   x\n2   y  \n", {"separator": "space"}),
    "blanks and tabs": ("a \t b\n1\tx\n2 y\n", {"separator": "space"}),
    "single quotes": ("'a','b'\n1,'x'\n2,'y'\n", {"quote": "single"}),
    "blanks before quotes": ('a, "b"\n1, "x"\n2, "y"\n', {"separator": "comma"}),
    "comments above": ("# made by hand\n# in 2026\na,b\n1,x\n2,y\n", {"header_line": 3}),
    "a header in a comment": ("#a b\n1 2\n2 3\n", {"header_line": 1}),
    "empty lines above": ("\n\n  \na,b\n1,x\n2,y\n", {"header_line": 4}),
    "old ends of lines": ("a,b\r1,x\r2,y\r", {"header_line": 1}),
    "a separator at every end": ("a,b,\n1,x,\n2,y,\n", {"separator": "comma"}),
    "a separator at the ends of rows": ("a,b\n1,x,\n2,y,\n", {"separator": "comma"}),
    "a separator at the end of the header": ("a,b,\n1,x\n2,y\n", {"separator": "comma"}),
    "rows of separators at the end": ("a,b\n1,x\n2,y\n,\n ,\n", {"separator": "comma"}),
    "row numbers without a name": (",a,b\n0,1,x\n1,2,y\n", {"separator": "comma"}),
    "row names as R writes them": ('"a" "b"\n"r1" 1 "x"\n"r2" 2 "y"\n', {"separator": "space"}),
    "row names and commas": ('"a","b"\n"r1",1,"x"\n"r2",2,"y"\n', {"separator": "comma"}),
}


@pytest.mark.parametrize("case", DIALECTS)
def test_common_dialects_are_read_alike(case):
    """One table is read alike from common dialects, and every decision is reported."""
    text, expected = DIALECTS[case]

    table, columns = read(text.encode())

    seconds = ["2", "3"] if "#" in text and "x" not in text else ["x", "y"]
    assert columns == {"a": ["1", "2"], "b": seconds}
    assert expected.items() <= table.read_as.items()


def test_quotes_escaped_by_backslashes():
    """Backslash escapes, as databases write them, are read."""
    table, columns = read(b'a,b\n"say \\"hi\\", twice",1\n"plain",2\n')

    assert columns == {"a": ['say "hi", twice', "plain"], "b": ["1", "2"]}
    assert table.read_as["escape"] == "backslash"


def test_quotes_are_kept_without_quoting():
    """With quoting=none, cells keep their quote characters."""
    _, columns = read(b'a\tb\n5" pipe\t"x\n6\ty"\n', quote="none")

    assert columns == {"a": ['5" pipe', "6"], "b": ['"x', 'y"']}


def test_a_file_without_a_header():
    """With header=false, columns get numbered names."""
    _, columns = read(b"1,2\n3,4\n", header=False)

    assert columns == {"column_1": ["1", "3"], "column_2": ["2", "4"]}


@pytest.mark.slow
def test_a_header_longer_than_the_sample_is_read():
    """A header longer than the sample used for detection is read whole."""
    names = [f"a rather long name of column number {number}" for number in range(5000)]
    content = "\n".join(";".join(row) for row in (names, ["1"] * 5000, ["2"] * 5000)).encode()

    table, columns = read(content)

    assert list(columns) == names
    assert table.read_as["separator"] == "semicolon"


def test_the_time_grows_in_proportion_to_the_columns():
    """Ten times as many columns take about ten times as long, not a hundred times."""

    def seconds(columns: int) -> float:
        names = ",".join(f"c{number}" for number in range(columns))
        content = "\n".join([names, *[",".join(["1"] * columns)] * 12]).encode()
        began = time.process_time()
        read(content)
        return time.process_time() - began

    read(b"a,b\n1,2\n")
    few = min(seconds(800) for _ in range(2))
    assert seconds(8000) < 30 * few  # 10 to 15; 60 and more where names are listed anew for each column


def test_a_row_longer_than_a_block_is_refused():
    """An unclosed quote is refused before the reader buffers the whole file."""
    with pytest.raises(UnusableDataError, match="longer than 8 MB"):
        read(b'a,b\n1,"' + b"x\n" * (12 << 20))


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "name,city\nJosé,Zürich\nRenée,“Orléans”\n"),
        ("latin-1", "navn,by\nÆrø,Århus\nÅse,Tromsø\n"),
    ],
)
def test_western_text_is_read_as_windows_1252_and_reported(encoding, text):
    """The guessed encoding is reported with a line that shows its effect."""
    table, columns = read(text.encode(encoding))

    rows = [line.split(",") for line in text.splitlines()]
    assert [list(columns), *map(list, zip(*columns.values(), strict=True))] == rows
    assert (table.read_as["encoding"], table.read_as["encoding_guessed"]) == ("Windows-1252", True)
    assert rows[1][0] in table.warnings[0]


WORDS = {
    "cp1251": "\u041c\u043e\u0441\u043a\u0432\u0430",
    "cp1253": "\u0391\u03b8\u03ae\u03bd\u03b1",
    "shift_jis": "\u6771\u4eac\u90fd\u5e02",
    "gb18030": "\u5317\u4eac\u57ce\u5e02",
    "euc_kr": "\uc11c\uc6b8\uae40\ucca0",
}


@pytest.mark.parametrize("encoding", WORDS)
def test_undetectable_encodings_are_refused(encoding):
    """An encoding that cannot be detected is an error, and can be specified."""
    content = f"a,b\n{WORDS[encoding]},1\n{WORDS[encoding]},2\n".encode(encoding)

    with pytest.raises(UnusableDataError, match="encoding="):
        read(content)
    _, columns = read(content, encoding=encoding)
    assert columns["a"] == [WORDS[encoding]] * 2


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_are_a_table_or_a_refusal(content):
    """Any bytes give a table or a refusal, never another exception."""
    try:
        table, columns = read(content)
    except ServiceError:
        return
    assert table.num_rows > 0
    assert {len(cells) for cells in columns.values()} <= {table.num_rows}


LIVER = "".join(f"s{i},{('liver', 'skin')[i % 2]},{'low' if i < 9 else i}\n" for i in range(30))
COMMENTS = {
    "text in row 1": ("#CHROM\tPOS\nchr1\t100\nchr2\t101\n", ["CHROM", "POS"], 1),
    "comments above": ("##fileformat=x\n#CHROM\tPOS\nchr1\t100\nchr2\t101\n", ["CHROM", "POS"], 2),
    "a level of later rows": (f"#sample,tissue,grade\n{LIVER}", ["sample", "tissue", "grade"], 1),
    "the sign in a name": ("# of rooms,kind\n4,a\n5,b\n", ["of rooms", "kind"], 1),
    "a missing cell": ("#id,x\nNA,2\n3,4\n", ["id", "x"], 1),
    "a day": ("#day;y\n2026-01-31;b\n2026-02-01;c\n", ["day", "y"], 1),
    "prose of as many parts": ("# made by hand, in 2026\na,b\n1,2\n2,3\n", ["a", "b"], 2),
    "row labels": ("# by hand, in 2026, twice\n,a,b\n0,1,2\n1,2,3\n", ["a", "b"], 2),
    "prose of other width": ("# made by hand\nname,kind\nx,y\nz,w\n", ["name", "kind"], 2),
}


@pytest.mark.parametrize("case", COMMENTS)
def test_a_comment_is_the_header_where_the_rows_are_values_of_it(case):
    """A line of # as wide as the rows is the header, unless a row of words above values follows."""
    text, names, line = COMMENTS[case]
    table, columns = read(text.encode())

    assert list(columns) == names
    assert table.read_as["header_line"] == line
    assert table.num_rows == len(text.splitlines()) - line
    assert [warning for warning in table.warnings if "uncertain" in warning] == []


def test_a_comment_that_may_be_the_header_gets_a_warning():
    """The sign decides where all cells are different words, and the warning says what to do."""
    for text, names in (("#a,b\nx,y\nz,w\n", ["a", "b"]), ("# a, b\nx,y\nz,w\n", ["x", "y"])):
        table, columns = read(text.encode())
        assert list(columns) == names
        assert "uncertain" in table.warnings[0]
    known, columns = read(b"# of rooms,b\nx,y\nz,w\n", known=("# of rooms", "b"))
    assert (list(columns), known.warnings) == (["# of rooms", "b"], [])
    _, columns = read(b"#a,b\n1,2\n", header=False)
    assert columns == {"column_1": ["1"], "column_2": ["2"]}


def test_empty_lines_at_the_end_are_no_rows():
    """Empty lines at the end are left out and counted, in a single column too, where others are missing."""
    for text, rows, count in [
        ("x\n1\n\n2\n\n", ["1", "", "2"], 1),
        ("x\r\n1\r\n\r\n\r\n", ["1"], 2),
        ('x\n1\n""\n', ["1", ""], 0),
        ('x\n1\n""\n\n', ["1", ""], 1),
        ("x\n1\n2", ["1", "2"], 0),
    ]:
        table, columns = read(text.encode(), fewest=1)
        assert columns["x"] == rows
        said = "1 row without values at the end of the file is left out"
        several = f"{count} rows without values at the end of the file are left out"
        assert table.warnings == {0: [], 1: [said]}.get(count, [several])
