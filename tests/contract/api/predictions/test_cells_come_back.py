"""Cells of uploaded files come back letter by letter beside predictions, in CSV and in workbooks."""

import csv
import io

import pyarrow.parquet as pq
import pytest
from sqlalchemy import update

from app.store.engine import session_scope
from app.store.tables import Dataset
from tests.support.api_calls import problem
from tests.support.databases import only
from tests.support.file_zoo import KINDS, LOOKS, NAMES, ROWS, _spelled
from tests.support.models.fitted_models import SMALL, run_units
from tests.support.workbooks import letters_of

pytestmark = only("sqlite")
TYPED = ("a workbook", "an OpenDocument", "JSON")
ALL = [(kind, look) for kind in KINDS for look in LOOKS]
FEW = [
    ("quoted", "German"),
    ("of Windows", "English"),
    ("with words for missing", "German in UTF-16"),
    ("with a title", "American in Windows-1252"),
    ("a workbook", "English"),
]


@pytest.fixture
def model(client, settings):
    """Fit a model of the sales to an English table like those of the zoo."""
    lines = [f"{'Nord' if k % 2 else 'Süd'},{k % 9}.5,{100 + 7 * k % 31}.25" for k in range(40)]
    text = "\n".join(["shop,share,sales", *lines])
    dataset = client.post("/datasets", content=text, headers={"Content-Type": "text/csv"}).json()
    response = client.post(
        "/models", json={"dataset_id": dataset["id"], "target": "sales", "name": "zoo"} | SMALL
    )
    assert response.status_code == 202, response.text
    run_units(settings)


def expected(kind, look):
    """Return the letters of a file's cells; those of typed cells are as a spreadsheet shows them."""
    of = LOOKS[look]
    if kind == "with words for missing":
        return _spelled(of)
    if kind == "JSON" or (kind in TYPED and look == "English"):
        shown = LOOKS["English"] if kind in TYPED and kind != "JSON" else of
        cells = [
            [
                str(c).upper()
                if isinstance(c, bool)
                else f"{c:.11g}"
                if isinstance(c, float)
                else shown.cell(c)
                for c in row
            ]
            for row in ROWS
        ]
        return [NAMES, *cells]
    return of.table()


def read_csv(content, look):
    """Parse an answer that must be in the dialect of a look."""
    encoding = look.encoding
    assert content.startswith(b"\xef\xbb\xbf") == (encoding == "utf-8-sig")
    text = content.decode(encoding)
    return text, list(csv.reader(io.StringIO(text, newline=""), delimiter=look.separator))


def check_workbook(answer, kind, name):
    """Check the letters that a workbook shows."""
    assert answer.status_code == 200, answer.text
    rows = letters_of(answer.content, "." if kind == "JSON" else LOOKS[name].decimal)
    assert [row[: len(NAMES)] for row in rows] == expected(kind, name), (kind, name)


def check_csv(answer, kind, name):
    """Check the letters of a CSV answer, and that it is written as the file was."""
    assert answer.status_code == 200, answer.text
    look, sent = LOOKS[name], KINDS[kind][0](LOOKS[name])
    text, rows = read_csv(answer.content, look)
    assert [row[: len(NAMES)] for row in rows] == expected(kind, name)
    assert all(look.decimal in row[len(NAMES)] for row in rows[1:]), "the figures have the file's sign"
    if kind in {"plain", "quoted", "of Windows", "of an old Mac"}:
        end = {"of Windows": "\r\n", "of an old Mac": "\r"}.get(kind, "\n")
        lines = zip(text.split(end), sent.decode(look.encoding).split(end), strict=True)
        assert all(ours.startswith(theirs) for ours, theirs in lines)


def predicted(client, settings, content, **reading):
    """Upload a file and predict its rows in the background; return the path of the result."""
    headers = {"Content-Type": "application/octet-stream"}
    dataset = client.post("/datasets", content=content, headers=headers, params=reading)
    assert dataset.status_code == 201, dataset.text
    body = {"dataset_id": dataset.json()["id"], "keep": ["*"]}
    prediction = client.post("/models/zoo/predictions", json=body)
    assert prediction.status_code == 202, prediction.text
    run_units(settings)
    return f"/predictions/{prediction.json()['id']}/result"


@pytest.mark.parametrize("files", [FEW, pytest.param(ALL, marks=pytest.mark.slow)], ids=["few", "all"])
def test_every_cell_has_the_letters_of_the_file(client, settings, model, files):
    """A file of the zoo comes back in CSV of its dialect and in a workbook, stored or sent."""
    for kind, name in files:
        content = KINDS[kind][0](LOOKS[name])
        result = predicted(client, settings, content)
        check_workbook(client.get(result, params={"format": "xlsx"}), kind, name)
        stored = client.get(result, params={"format": "csv", "dialect": "file"})
        if kind in TYPED:
            problem(stored, 422)
        else:
            check_csv(stored, kind, name)
        if (kind, name) in FEW:
            ask = {"keep": "*", "format": "xlsx"} | (
                {"decimal": "comma"} if LOOKS[name].decimal == "," else {}
            )
            headers = {"Content-Type": "application/octet-stream"}
            sent = client.post("/models/zoo/predict", content=content, headers=headers, params=ask)
            check_workbook(sent, kind, name)
            if kind not in TYPED:
                ask |= {"format": "csv", "dialect": "file"}
                sent = client.post("/models/zoo/predict", content=content, headers=headers, params=ask)
                check_csv(sent, kind, name)


def test_a_dataset_from_before_says_that_its_cells_were_not_kept(client, settings, database, model):
    """Its letters can't come back: the request is refused with a way that works."""
    result = predicted(client, settings, KINDS["plain"][0](LOOKS["English"]))
    with session_scope(database.engine) as session:
        session.execute(update(Dataset).values(spellings=None))
    refused = problem(client.get(result, params={"format": "csv", "dialect": "file"}), 422)
    assert "upload the file again" in refused["errors"][0]["detail"]
    assert client.get(result, params={"format": "csv"}).status_code == 200
    assert client.get(result, params={"format": "xlsx"}).status_code == 200
    dataset = client.get(result.removesuffix("/result")).json()["dataset_id"]
    assert "not kept: upload the file again" in client.get(f"/ui/datasets/{dataset}").text


def test_blanks_around_cells_are_letters_and_no_part_of_values(client, settings, model):
    """They come back in CSV like the file, and in no other form of the answer."""
    lines = ["shop,share,code", " Nord , 1.5, 007 ", "Nord,2.5 , 12.50"]
    result, bare = (
        predicted(client, settings, "\n".join(lines).encode()),
        [["Nord", "007"], ["Nord", "12.50"]],
    )
    own = client.get(result, params={"format": "csv", "dialect": "file"}).text
    assert [",".join(row.split(",")[:3]) for row in own.splitlines()] == lines
    plain = list(csv.reader(io.StringIO(client.get(result, params={"format": "csv"}).text)))
    assert [[row[0], row[2]] for row in plain[1:]] == bare
    table = pq.read_table(io.BytesIO(client.get(result, params={"format": "parquet"}).content))
    assert [[row["shop"], row["code"]] for row in table.to_pylist()] == bare
