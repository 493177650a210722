"""POST, GET and DELETE /datasets."""

import gzip
import io
import re
from datetime import datetime
from pathlib import Path

import pyarrow.csv as pacsv
import pytest
from sqlalchemy import func, select, update

from app.store import column_codec, datasets
from app.store.engine import session_scope
from app.store.tables import Dataset, DatasetBlock
from tests.support.api_calls import CSV, places, post_csv, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, run_units
from tests.support.workbooks import ods, xlsx

CARS = Path(__file__).parents[4] / "examples" / "auto_mpg.csv"


def test_a_file_becomes_a_dataset_with_its_schema(client):
    """An upload gives 201, Location, and every column's kind, missing and distinct counts, and range."""
    response = client.post("/datasets", content=CARS.read_bytes(), headers=CSV, params={"name": "cars"})

    assert response.status_code == 201
    dataset = response.json()
    assert response.headers["location"] == f"/datasets/{dataset['id']}"
    assert (dataset["name"], dataset["num_rows"]) == ("cars", 397)
    columns = {column["name"]: column for column in dataset["columns"]}
    assert (columns["horsepower"]["kind"], columns["horsepower"]["missing"]) == ("number", 5)
    assert (columns["mpg"]["min"], columns["mpg"]["max"]) == (9.0, 46.6)
    assert (columns["name"]["kind"], columns["name"]["distinct"]) == ("text", 304)
    assert any("name is text with 304 different values" in warning for warning in dataset["warnings"])
    assert client.get(response.headers["location"]).json() == dataset


@only("sqlite")
def test_read_as_has_the_names_of_the_parameters(client):
    """`read_as` uses the names and values of the request parameters, and is stored."""
    dataset = post_csv(client, "a;b\n'1,5';'x;y'\n'2';'z'\n").json()
    stored = client.get(f"/datasets/{dataset['id']}").json()
    options = {name: dataset["read_as"][name] for name in ("separator", "quoting", "decimal")}
    assert options == {"separator": "semicolon", "quoting": "single", "decimal": "comma"}
    assert stored["read_as"] == dataset["read_as"]
    again = post_csv(client, "a;b\n'1,5';'x;y'\n'2';'z'\n", **options).json()
    assert again["columns"] == dataset["columns"]


def test_multipart_gives_the_same_table(client):
    """A multipart file and a raw body are read alike; the dataset's default name is the file's."""
    raw = post_csv(client, table()).json()
    form = client.post("/datasets", files={"file": ("my table.csv", table())})
    named = client.post("/datasets", files={"file": ("my table.csv", table())}, data={"name": "mine"})

    assert form.status_code == 201
    assert (raw["name"], form.json()["name"], named.json()["name"]) == ("dataset", "my table", "mine")
    assert raw["columns"] == form.json()["columns"]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@only("sqlite")
def test_separators_are_found(client, separator):
    """Comma, semicolon, tab and bar are detected, with quoted separators and line breaks, BOM and CRLF."""
    text = 'a,b,c\r\n1,"x,1",2026-01-31\r\n2.5,"two\nlines ""quoted""",2026-02-01\r\n'.replace(",", separator)

    response = post_csv(client, b"\xef\xbb\xbf" + text.encode())

    assert response.status_code == 201, response.text
    assert [column["kind"] for column in response.json()["columns"]] == ["number", "category", "date"]
    rows = client.get(f"/datasets/{response.json()['id']}/preview").json()["rows"]
    assert rows == [
        {"a": 1.0, "b": f"x{separator}1", "c": "2026-01-31"},
        {"a": 2.5, "b": 'two\nlines "quoted"', "c": "2026-02-01"},
    ]


@only("sqlite")
def test_missing_values_are_known_in_every_spelling(client):
    """Empty, NA, N/A, NaN, null, None and ? are missing and don't change a column's kind."""
    spellings = ["", "NA", "N/A", "NaN", "null", "None", "?", "  ", "n/a"]
    lines = ["x,yes,day,level", "1,true,2026-01-31,a", "2,FALSE,2026-01-31,b"]
    text = "\n".join(lines + [f"{s},{s},{s},{s}" for s in spellings])

    columns = post_csv(client, text).json()["columns"]

    assert [column["kind"] for column in columns] == ["number", "boolean", "date", "category"]
    assert {column["missing"] for column in columns} == {len(spellings)}


@only("sqlite")
def test_numbers_in_every_spelling(client):
    """Signs, omitted digits before or after the point, exponents and surrounding blanks are accepted."""
    text = "x,y\n1,+1\n-2., .5 \n1e3,-1E-2\n12,7\n"

    dataset = post_csv(client, text).json()

    assert [column["kind"] for column in dataset["columns"]] == ["number", "number"]
    rows = client.get(f"/datasets/{dataset['id']}/preview").json()["rows"]
    assert rows == [{"x": 1, "y": 1}, {"x": -2, "y": 0.5}, {"x": 1000, "y": -0.01}, {"x": 12, "y": 7}]


BAD = {
    "empty": (b"", [], "empty"),
    "blank": (b"\n\n  \n", [], "empty"),
    "only a BOM": (b"\xef\xbb\xbf", [], "empty"),
    "only a header": (b"a,b\n", [], "no rows"),
    "only a header without an end": (b"a,b", [], "no rows"),
    "binary": (bytes(range(256)) * 10, [], "not UTF-8|NUL"),
    "a Parquet file cut off": (b"PAR1" + bytes(50), [], "Parquet file"),
    "an Arrow file cut off": (b"ARROW1\0\0" + bytes(50), [], "Arrow stream or file"),
    "a NUL byte": (b"a,b\n1,2\n3,\x004\n", [], "line 3 holds a NUL"),
    "an Excel workbook": (b"PK\x03\x04" + bytes(100), [], "Excel"),
    "a cut gzip file": (gzip.compress(b"a,b\n1,2\n" * 99)[:-20], [], "ends too early"),
    "a damaged gzip file": (gzip.compress(b"a,b\n1,2\n")[:12] + b"xxxxxxxxxxxxxx", [], "damaged"),
    "a nest of gzip files": (gzip.compress(gzip.compress(gzip.compress(b"a,b\n1,2\n"))), [], "unpack it"),
    "Cyrillic": (b"a,b\n\xcc\xee\xf1\xea\xe2\xe0,2\n", [], "perhaps .encoding="),
    "UTF-8 with a bad byte": ("a,b\né,2\n".encode() + b"\xe9,2\n", [], "line 3"),
    "cut within a character": ("a,b\n1,é".encode()[:-1], [], "line 2"),
    "no header": (b"1,2\n3,4\n", [], "header"),
    "no header, semicolons": (b"1.5;2;\n3;4;5\n", [], "header"),
    "a doubled name": (b"a,b,a\n1,2,3\n", [("a", None)], "columns 1 and 3"),
    "a name left out": (b"a,,c\n1,2,3\n", [(None, None)], "column 2 has no name"),
    "an unprintable name": (b"a,b\x07\n1,2\n", [(None, None)], "column 2"),
    "a name too long": (b"a," + b"b" * 201 + b"\n1,2\n", [(None, None)], "column 2"),
    "too few values": (b"a,b\n1,2\n3\n", [(None, 2)], r"1 value,.*2 columns \(line 3\)"),
    "too many values": (b"a,b\n1,2\n3,4\n5,6,7\n", [(None, 3)], r"3 values.*2 columns \(line 4\)"),
    "ragged after a quoted line break": (b'a,b\n"1\n2",2\n3\n', [(None, 2)], "1 value,"),
    "rows wider than the header": (b"a,b\n5,2,3\n7,3,4\n", [(None, 1)], "3 values"),
    "a line above rows without a header": (b"Sales\n\n1,2\n3,4\n5,6\n", [], "below line 1.*header_line"),
    "an open quote": (b'a,b\n1,2\n3,"4\n5,6\n', [("b", 2)], "never closed"),
    "infinite": (b"a,b\n1,2\n3,inf\n5,-Infinity\n", [("b", 2), ("b", 3)], "infinite"),
    "overflowing": (b"a,b\n1,2\n1e999,2\n", [("a", 2)], "infinite"),
    "a single column": (b"a\n1\n2\n", [], "single column"),
    "prose": (b"Dear reader\nthis is a letter\n", [], "single column"),
    "JSON": (b'{"a": [1]}', [], "single column|no rows"),
}


@pytest.mark.parametrize("case", BAD)
@only("sqlite")
@pytest.mark.sampled(quick=16)
def test_what_is_no_table_is_refused_with_its_place(client, case):
    """An unusable file is a 422 with advice, and with column and row where known."""
    content, where, message = BAD[case]

    body = problem(post_csv(client, content), 422, "unusable-data")

    assert where == places(body)
    assert re.search(message, " ".join([body["detail"], *(entry["detail"] for entry in body["errors"])]))
    assert client.get("/datasets").json()["items"] == []


@only("sqlite")
def test_every_ragged_row_is_named(client):
    """All ragged rows are reported together."""
    text = "a,b\n" + "1\n1,2\n" * 20

    body = problem(post_csv(client, text), 422)

    assert [(None, row) for row in range(1, 41, 2)] == places(body)
    assert "(and 19 more)" in body["detail"]


SHEET = {"Notes": [["see below"]], "Data": [["a", "day"], [1.5, datetime.fromisoformat("2026-01-05")]]}
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
DECLARED = [
    (xlsx(SHEET), XLSX, "xlsx"),
    (xlsx(SHEET), "application/octet-stream", "xlsx"),
    (xlsx(SHEET), "application/zip", "xlsx"),
    (xlsx(SHEET), "text/csv", "xlsx"),
    (ods(SHEET), "application/vnd.oasis.opendocument.spreadsheet", "ods"),
    (b"a;day\n1,5;05.01.2026\n", "application/vnd.ms-excel", "csv"),
    (b'{"a": 1.5, "day": "2026-01-05"}\n', "application/x-ndjson", "json"),
]


@only("sqlite")
@pytest.mark.parametrize(("content", "kind", "format_"), DECLARED, ids=range(len(DECLARED)))
def test_a_file_is_recognised_by_its_content(client, content, kind, format_):
    """Workbooks, JSON and CSV are the same table however they are declared, also in a form."""
    sent = [
        client.post("/datasets", content=content, headers={"Content-Type": kind}),
        client.post("/datasets", files={"file": ("table", content, kind)}),
    ]
    for answer in sent:
        assert answer.status_code == 201, answer.text
        read_as = answer.json()["read_as"]
        assert (read_as["format"], read_as["sheet"]) == (
            format_,
            "Data" if format_ in {"xlsx", "ods"} else None,
        )
        rows = client.get(f"/datasets/{answer.json()['id']}/preview").json()["rows"]
        assert rows == [{"a": 1.5, "day": "2026-01-05"}]


@only("sqlite")
def test_media_types(client):
    """An unsupported content type is a 415 with the supported ones; a broken multipart body is a 422."""
    for kind in ("application/x-www-form-urlencoded", "application/json", "image/png"):
        body = problem(client.post("/datasets", content=b"a,b\n", headers={"Content-Type": kind}), 415)
        assert "text/csv" in body["detail"]
    problem(client.post("/datasets"), 415)
    broken = {"Content-Type": "multipart/form-data; boundary=x"}
    problem(client.post("/datasets", content=b"--y\r\n\r\n", headers=broken), 422)
    problem(client.post("/datasets", content=b"", headers={"Content-Type": "multipart/form-data"}), 422)
    problem(client.post("/datasets", files={"other": (None, "just text")}), 422)
    problem(client.post("/datasets", files=[("file", ("a", b"a,b\n1,2")), ("file", ("b", b"x"))]), 422)


@only("sqlite")
def test_large_bodies_are_refused_declared_or_not(client):
    """A body too large is a 413, whether its length is declared, chunked, or inside a form."""
    big = b"a,b\n" + b"1,2\n" * 600_000

    problem(client.post("/datasets", content=big, headers=CSV), 413)
    problem(client.post("/datasets", content=iter([big[:1_500_000], big[1_500_000:]]), headers=CSV), 413)
    problem(client.post("/datasets", files={"file": ("a.csv", big)}), 413)
    assert client.get("/datasets").json()["items"] == []


def test_lists_come_in_pages_that_stay_stable(client):
    """Pages list the newest first; a cursor continues after its item despite new ones."""
    ids = [post_csv(client, "a,b\n1,2\n").json()["id"] for _ in range(5)]

    first = client.get("/datasets", params={"limit": 2}).json()
    ids.append(post_csv(client, "a,b\n1,2\n").json()["id"])
    second = client.get("/datasets", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    third = client.get("/datasets", params={"limit": 2, "cursor": second["next_cursor"]}).json()

    pages = [[item["id"] for item in page["items"]] for page in (first, second, third)]
    assert [[ids[4], ids[3]], [ids[2], ids[1]], [ids[0]]] == pages
    assert third["next_cursor"] is None


def test_pages_go_on_where_what_they_ended_with_was_deleted(client):
    """A cursor remains valid when its item is deleted, and only deleted items are missing."""
    ids = [post_csv(client, "a,b\n1,2\n").json()["id"] for _ in range(5)]

    first = client.get("/datasets", params={"limit": 2}).json()
    for number in (4, 3, 1):
        client.delete(f"/datasets/{ids[number]}").raise_for_status()
    second = client.get("/datasets", params={"limit": 2, "cursor": first["next_cursor"]}).json()

    pages = [[item["id"] for item in page["items"]] for page in (first, second)]
    assert [[ids[4], ids[3]], [ids[2], ids[0]]] == pages
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    "cursor", ["x", "", "////", "bnVsbA==", "WzEsMl0=", "WyIyMDI2LTAxLTAxIiwgIngiXQ==", "\x00"]
)
@only("sqlite")
def test_a_made_up_cursor_is_refused(client, cursor):
    """A cursor that no list returned is a 422."""
    for path in ("/datasets", "/models", "/predictions", "/audit"):
        body = problem(client.get(path, params={"cursor": cursor}), 422)

        assert places(body) == [("cursor", None)]


def test_deleting(client):
    """A delete is a 204, and the dataset is then 404 on all its routes."""
    path = post_csv(client, table()).headers["location"]

    assert client.delete(path).status_code == 204
    for response in (client.get(path), client.get(f"{path}/preview"), client.delete(path)):
        problem(response, 404, "not-found")


@pytest.mark.parametrize(
    "query", [{"name": ""}, {"name": " "}, {"name": "a\x00b"}, {"name": "x" * 201}, {"name": "a\nb"}]
)
@only("sqlite")
def test_names_are_checked(client, query):
    """A name that can't be displayed or stored is refused by name."""
    body = problem(post_csv(client, table(), **query), 422)

    assert places(body) == [("name", None)]


@only("sqlite")
def test_a_column_has_one_kind(client):
    """Two kinds for a column are refused; the same one twice is no matter."""
    body = problem(post_csv(client, table(), kind=["size:category", "size:number"]), 422)
    assert places(body) == [("kind", None)]
    assert post_csv(client, table(), kind=["size:category", "size:category"]).status_code == 201


def test_training_reads_only_the_columns_it_needs(client, settings, database):
    """A fit doesn't read other columns: their damaged blocks go unnoticed."""
    dataset = post_csv(client, table(60)).json()
    fit = {"dataset_id": dataset["id"], "target": "y", "features": ["size"], **SMALL}
    model = client.post("/models", json=fit).headers["location"]
    with session_scope(database.engine) as session:
        needed = {"y", "size"}
        others = [place for place, column in enumerate(dataset["columns"]) if column["name"] not in needed]
        which = (DatasetBlock.dataset_id == dataset["id"], DatasetBlock.column_index.in_(others))
        session.execute(update(DatasetBlock).where(*which).values(data=b"damaged"))

    assert client.post("/models/estimate", json=fit).json()["resemblances"] == []
    run_units(settings)

    assert len(others) == 2
    assert client.get(model).json()["state"] == "succeeded"


def test_the_stored_bytes_are_the_same_on_every_database(client, database):
    """Stored blocks have equal bytes on both databases."""
    dataset = post_csv(client, table(60)).json()
    names = [column["name"] for column in dataset["columns"]]
    with session_scope(database.engine, read_only=True) as session:
        columns = session.scalars(
            select(DatasetBlock.checksum)
            .where(DatasetBlock.dataset_id == dataset["id"], DatasetBlock.column_index < len(names))
            .order_by(DatasetBlock.column_index, DatasetBlock.seq)
        )
        stored = session.get_one(Dataset, dataset["id"])
        assert column_codec.digest(names, columns) == stored.sha256
        kept = session.scalar(
            select(func.sum(func.length(DatasetBlock.data))).where(
                DatasetBlock.dataset_id == dataset["id"], DatasetBlock.column_index >= len(names)
            )
        )
        assert stored.spellings == {"y": {"place": len(names), "decimal": "point"}}  # 3.500
    again = pacsv.read_csv(io.BytesIO(table(60).encode()))
    assert datasets.encode(again).num_bytes + kept == dataset["num_bytes"]


RENTS = "rent;area;age;city\n" + "".join(
    f"{f'{500 + 7 * i},5' if i % 7 else 'k.A.'};{30 + i};{-999 if i in (3, 5) else 20 + i};{'AB'[i % 2]}\n"
    for i in range(42)
)


def test_a_dataset_is_amended_without_a_second_upload(client):
    """Codes for missing are found at upload; amended, their columns are numbers, others stay the same."""
    old = post_csv(client, RENTS).json()
    by_name = {column["name"]: column for column in old["columns"]}
    assert by_name["rent"]["kind"] == "category"
    assert by_name["rent"]["profile"]["missing_codes"] == [{"value": "k.A.", "count": 6}]
    assert by_name["age"]["profile"]["missing_codes"] == [{"value": -999, "count": 2}]
    assert by_name["area"]["profile"]["missing_codes"] == by_name["city"]["profile"]["missing_codes"] == []
    path = f"/datasets/{old['id']}/amend"
    columns = {"rent": {"kind": "number", "missing": ["k.A."]}, "city": {"kind": "text"}}

    answer = client.post(path, json={"columns": columns, "missing": [-999]})

    assert answer.status_code == 201, answer.text
    new = client.get(answer.headers["location"]).json()
    amended = {column["name"]: column for column in new["columns"]}
    assert (amended["rent"]["kind"], amended["rent"]["missing"]) == ("number", 6)
    assert (amended["rent"]["min"], amended["rent"]["max"]) == (507.5, 787.5)
    assert (amended["age"]["min"], amended["age"]["missing"]) == (20, 2)
    assert amended["area"] == by_name["area"]
    assert new["read_as"]["separator"] == "semicolon"
    assert new["read_as"]["summary"].startswith("read as: semicolons, UTF-8, 4 columns")
    assert client.get(f"/datasets/{old['id']}").json() == old
    for body, place in (
        ({"columns": {"rant": {"kind": "number"}}}, "rant"),
        ({"columns": {"city": {"kind": "number"}}}, "city"),
        ({"columns": {"area": {"missing": ["k.A."]}}}, "area"),
        ({"columns": {}}, "columns"),
        ({"columns": {"area": {"kind": "number"}}}, "columns"),
    ):
        assert places(problem(client.post(path, json=body), 422))[0][0] == place, body
    problem(client.post("/datasets/ds_none/amend", json={"columns": {}}), 404)


@only("sqlite")
def test_a_dataset_of_a_workbook_is_amended_by_its_texts(client):
    """Texts of a sheet that were read as numbers, or not as dates, are read again as they were written."""
    rows = [["price", "day", "n"], ["1,50", "01.02.2026", 7], ["2,25", "03.04.2026", 8]]
    answer = client.post("/datasets", content=xlsx({"S": rows}), headers={"Content-Type": XLSX})
    assert [each["kind"] for each in answer.json()["columns"]][::2] == ["number", "number"]

    kinds = {"price": "category", "day": "date", "n": "category"}
    body = {"columns": {name: {"kind": kind} for name, kind in kinds.items()}, "dates": "day-first"}
    amended = client.post(f"/datasets/{answer.json()['id']}/amend", json=body)

    assert amended.status_code == 201, amended.text
    preview = client.get(f"/datasets/{amended.json()['id']}/preview").json()["rows"]
    assert preview[0] == {"price": "1,50", "day": "2026-02-01", "n": "7"}
