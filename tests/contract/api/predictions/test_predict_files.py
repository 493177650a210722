"""Rows in files, tables as responses, diagnostics of the requested rows."""

import gzip
import io
import re
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from app.api.predict import PredictQuery
from app.store import draws, models
from app.store.engine import session_scope
from sampler import Posterior
from sampler.posterior.assessment import row_diagnostics
from tests.support.api_calls import places, post_csv, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, fitted, run_units
from tests.support.workbooks import xlsx

ARROW, CSV = "application/vnd.apache.arrow.stream", "text/csv"
PARQUET = "application/vnd.apache.parquet"
COLUMNS = {"size": [3, 17.5, None], "colour": ["red", "blue", "green"]}
COLUMNS_OF_TWO = {name: values[:2] for name, values in COLUMNS.items()}
CSV_ROWS = 'size,colour\n3,red\n 17.5 ,"blue"\nNA,green\n'


def stream(rows: pa.Table, compression=None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def parquet(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()


def send(client, model, content, kind=CSV, accept="application/json", **query):
    headers = {"Content-Type": kind, "Accept": accept}
    return client.post(f"/models/{model['id']}/predict", content=content, headers=headers, params=query)


def ask(client, model, accept="application/json", **body):
    body = {"columns": COLUMNS} | body
    return client.post(f"/models/{model['id']}/predict", json=body, headers={"Accept": accept})


def arrow_of(response) -> pa.Table:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == ARROW
    return pa.ipc.open_stream(response.content).read_all()


def test_every_form_of_body_is_the_same_question(client, model):
    """Equal rows in JSON, CSV, Arrow and Parquet have equal answers, options included."""
    options = {"level": [0.5, 0.9], "interval": "predictive", "quantiles": [0.1], "draws": 30, "mcse": True}
    rows = pa.table(COLUMNS)
    as_levels = rows.set_column(1, "colour", rows["colour"].dictionary_encode())
    expected = ask(client, model, **options).json()

    german = CSV_ROWS.replace(",", ";").replace("17.5", "17,5").encode()
    for content, kind, *more in [
        (CSV_ROWS.encode(), CSV),
        (CSV_ROWS.replace(",", "\t").encode(), "text/tab-separated-values"),
        (stream(rows), ARROW),
        (stream(as_levels), f"{ARROW}; charset=binary"),
        (parquet(rows), PARQUET),
        (xlsx({"Rows": [[*COLUMNS], *map(list, zip(*COLUMNS.values(), strict=True))]}), "application/zip"),
        (stream(rows, "zstd"), ARROW),
        (gzip.compress(CSV_ROWS.encode()), CSV),
        (german, CSV, {"decimal": "comma"}),
        (CSV_ROWS.encode("utf-16"), CSV),
        (CSV_ROWS.replace(",", " ").encode(), "text/plain"),
        (parquet(rows), "application/octet-stream"),
    ]:
        response = send(client, model, content, kind, **options, **dict(*more))
        assert response.status_code == 200, response.text
        answer = response.json()
        assert answer.pop("read_as")["format"] in {"csv", "arrow", "parquet", "xlsx"}
        assert answer == expected


def test_every_form_of_answer_holds_the_same_figures(client, model):
    """All formats have the documented columns and exact floats, with facts in metadata and headers."""
    options = {"level": [0.5, 0.975], "quantiles": [0.05], "mcse": True, "rhat": True, "samples": 3}
    expected = ask(client, model, **options).json()
    arrow = arrow_of(ask(client, model, ARROW, **options))
    response = ask(client, model, CSV, **options)
    read = pacsv.read_csv(io.BytesIO(response.content))

    assert response.headers["content-type"].startswith(CSV)
    assert response.headers["bartserve-model-id"] == model["id"]
    assert response.headers["content-disposition"].startswith("attachment")
    names = ["mean", "sd", "lower_50", "upper_50", "lower_97.5", "upper_97.5", "quantile_5"]
    mcse = ["mcse_mean", *(f"mcse_{name}" for name in names[2:])]
    assert arrow.column_names == [*names, *mcse, "rhat", "draw_1", "draw_2", "draw_3", "flags"]
    assert read.column_names == [*arrow.column_names, "interval"]
    assert set(read["interval"].to_pylist()) == {expected["interval"]} == {"predictive"}
    for name in arrow.column_names[:-1]:
        assert read[name].to_pylist() == arrow[name].to_pylist()
    assert arrow["mean"].to_pylist() == expected["mean"]
    assert arrow["upper_97.5"].to_pylist() == expected["intervals"][1]["upper"]
    assert arrow["mcse_lower_50"].to_pylist() == expected["mcse"]["intervals"][0]["lower"]
    assert [arrow[f"draw_{k}"][1].as_py() for k in (1, 2, 3)] == expected["samples"][1]
    assert arrow["flags"].to_pylist() == ["", "", "missing: size"]
    assert model["id"].encode() in arrow.schema.metadata[b"bartserve"]


def test_the_form_is_negotiated(client, model):
    """The preferred available media type is chosen; 406 if none; JSON by default."""
    for accept, kind in [
        ("*/*", "application/json"),
        ("text/*", CSV),
        (f"text/csv;q=0.5, {ARROW}", ARROW),
        ("application/json;q=0, */*;q=0.1", CSV),
        ("text/html, application/xml;q=0.9, */*;q=0.8", "application/json"),
    ]:
        assert ask(client, model, accept).headers["content-type"].startswith(kind), accept
    for accept in ("image/png", "text/csv;q=0", "text/csv;q=x", "json"):
        problem(ask(client, model, accept), 406, "not-acceptable")


def test_flags_say_what_training_never_saw(client, model):
    """Out-of-range, unseen and newly missing values are flagged at their rows only."""
    rows = {"size": [3, 1e6, -5, None], "colour": ["red", "mauve", "blue", None]}

    flags = ask(client, model, columns=rows).json()["flags"]

    assert flags == [
        [],
        [{"column": "size", "flag": "outside_range"}, {"column": "colour", "flag": "unseen_level"}],
        [{"column": "size", "flag": "outside_range"}],
        [{"column": "size", "flag": "missing"}, {"column": "colour", "flag": "missing"}],
    ]


def test_required_verdicts_are_those_of_the_rows_asked(client, model):
    """R-hat is returned per row on request, and `require` refers to the verdict on the rows."""
    answer = ask(client, model, rhat=True).json()
    worse = answer["rows_verdict"] == "not_converged"

    required = ask(client, model, require="approximate")

    assert len(answer["rhat"]) == 3
    assert all(value >= 0.9 for value in answer["rhat"])
    assert ask(client, model).json()["rhat"] is None
    if worse:
        assert "rows asked" in problem(required, 409, "not-converged")["detail"] + required.text
    else:
        assert required.json()["rows_verdict"] == answer["rows_verdict"]


def test_errors_are_those_of_the_draws_used(client, model, database):
    """Monte Carlo errors are the stored posterior's, of pinned draws too; seven draws have none."""
    with session_scope(database.engine, read_only=True) as session:
        posterior = Posterior.from_blocks(
            models.header(session, model["id"]), draws.read(session, model["id"])
        )
    coded = posterior.encode(COLUMNS)
    for number in (8, 40):
        prediction = posterior.predict(coded, num_draws=number)
        expected = row_diagnostics.errors(posterior.law, coded, prediction)
        mcse = ask(client, model, mcse=True, draws=number).json()["mcse"]
        assert mcse["mean"] == pytest.approx(expected.mean.tolist(), rel=1e-12)
        assert mcse["intervals"][0]["upper"] == pytest.approx(expected.intervals[0].upper.tolist(), rel=1e-12)
        assert min(mcse["mean"]) > 0
    assert places(problem(ask(client, model, mcse=True, draws=7), 422)) == [("draws", None)]


def test_samples_are_draws_of_the_function(client, model):
    """The requested number of samples is returned; more than exist are refused."""
    all_ = np.array(ask(client, model, samples=80).json()["samples"])

    assert all_.shape == (3, 80)
    np.testing.assert_allclose(all_.mean(axis=1), ask(client, model).json()["mean"], rtol=1e-12)
    assert places(problem(ask(client, model, samples=81), 422)) == [("samples", None)]


def test_samples_are_draws_of_outcomes(client, model):
    """Samples of outcomes have the noise too; seeds make them again, in tables too."""

    def drawn(**more):
        return np.array(ask(client, model, samples=80, samples_of="outcome", **more).json()["samples"])

    first, functions = drawn(seed=5), np.array(ask(client, model, samples=80).json()["samples"])
    sd = np.array(ask(client, model).json()["sd"])
    np.testing.assert_allclose(np.std(first, axis=1), sd, rtol=0.3)
    assert np.all(np.std(functions, axis=1)[:2] < 0.8 * sd[:2])  # the third lacks a feature
    np.testing.assert_array_equal(drawn(seed=5), first)
    assert np.all(drawn() != first)
    table = arrow_of(ask(client, model, ARROW, samples=80, samples_of="outcome", seed=5))
    assert table["draw_80"].to_pylist() == first[:, -1].tolist()
    assert places(problem(ask(client, model, samples=81, samples_of="outcome"), 422)) == [("samples", None)]


def test_only_the_mean(client, model):
    """`target: mean` returns the same mean and nothing else."""
    answer = ask(client, model, target="mean").json()
    arrow = arrow_of(ask(client, model, ARROW, target="mean"))

    assert (answer["sd"], answer["intervals"], arrow.column_names) == (None, [], ["mean"])
    assert answer["mean"] == ask(client, model).json()["mean"]


BAD_FILES = {
    "text where a number belongs": (CSV, b"size,colour\n1,red\nbig,red\n", [("size", 2)]),
    "a comma where the model's file has points": (CSV, b'size,colour\n"1,5",red\n', [("size", 1)]),
    "an infinite number": (CSV, b"size,colour\n1e999,red\n", [("size", 1)]),
    "a ragged row": (CSV, b"size,colour\n1,red\n1,red,x\n", [(None, 2)]),
    "an absent column": (CSV, b"size,hue\n1,2\n", [("colour", None), ("hue", None)]),
    "a doubled column": (CSV, b"size,size,colour\n1,1,red\n", [("size", None)]),
    "no rows": (CSV, b"size,colour\n", []),
    "nothing": (CSV, b"", []),
    "no CSV": (CSV, b"PAR1\x00", []),
    "no Arrow": (ARROW, b"size,colour\n1,red\n", []),
    "nothing as Arrow": (ARROW, b"", []),
    "half an Arrow stream": (ARROW, stream(pa.table(COLUMNS))[:150], []),
    "an Arrow column of lists": (
        ARROW,
        stream(pa.table({"size": [[1.0]], "colour": ["red"]})),
        [("size", None)],
    ),
    "text numbers in Arrow": (ARROW, stream(pa.table({"size": ["3"], "colour": ["red"]})), [("size", 1)]),
    "an endless text": (
        ARROW,
        stream(pa.table({"size": [1.0], "colour": ["x" * 20_000]})),
        [("colour", None)],
    ),
    "rows of nothing in Arrow": (ARROW, stream(pa.table({"size": pa.nulls(0), "colour": pa.nulls(0)})), []),
    "no Parquet": (PARQUET, b"PAR1 and then something else PAR1", []),
    "nothing as Parquet": (PARQUET, b"", []),
}


@only("sqlite")
def test_files_that_do_not_fit_are_refused_with_their_place(client, model, subtests):
    """A file that doesn't match the model is a 422 with column and row."""
    for case, (kind, content, where) in BAD_FILES.items():
        with subtests.test(case):
            body = problem(send(client, model, content, kind), 422, "unusable-data")
            assert where == places(body), body


@only("sqlite")
def test_files_too_large_are_refused(client, model):
    """Too many rows are refused, as in a Parquet file of a few bytes, and too many bytes to parse."""
    many = pa.table({"size": pa.nulls(5_000_000, pa.float64()), "colour": pa.nulls(5_000_000, pa.string())})
    for content, kind in [
        (parquet(many), PARQUET),
        (stream(many.slice(0, 1001)), ARROW),
        (stream(pa.table({"size": pa.nulls(10**7)})), ARROW),
        (b"size,colour\n" + b"1,red\n" * 1001, CSV),
    ]:
        assert len(content) < 2_000_000
        problem(send(client, model, content, kind), 413, "too-large")


@only("sqlite")
def test_unsupported_content_types_are_refused(client, model):
    """An unsupported content type is a 415 with the supported ones; file options are checked like JSON."""
    for kind in ("text/html", "application/x-www-form-urlencoded", "image/png", ""):
        detail = problem(send(client, model, b"size,colour\n1,red\n", kind), 415)["detail"]
        assert ARROW in detail
    for name, value in [("level", 2), ("interval", "wide"), ("draws", 0), ("mcse", "x"), ("colour", "red")]:
        body = problem(send(client, model, CSV_ROWS, **{name: value}), 422, "invalid-request")
        assert body["errors"][0]["column"].startswith(name)
    problem(send(client, {"id": "nobody"}, CSV_ROWS), 404)


@only("sqlite")
def test_csv_cells_mean_what_they_meant_in_training(client, settings):
    """CSV cells are read by the model's column types: a level 1 is text, true is a boolean."""
    lines = ["y,zip,flag,day,x"]
    lines += [
        f"{row % 7},{row % 3 + 1},{'true' if row % 2 else 'false'},2026-01-{row % 28 + 1:02},{row}"
        for row in range(60)
    ]
    response = fitted(client, settings, text="\n".join(lines), columns={"zip": "category"})
    plain = {"zip": ["1", "2"], "flag": [True, False], "day": ["2026-01-05", None], "x": [1, 2]}
    expected = ask(client, response, columns=plain).json()

    content = "zip,flag,day,x\n1,TRUE,2026-01-05,1\n2.0,0,?,2e0\n"
    answer = send(client, response, content)

    assert answer.status_code == 200, answer.text
    assert answer.json()["mean"] == expected["mean"]
    assert answer.json()["flags"] == [[], [{"column": "day", "flag": "missing"}]]
    bad = "zip,flag,day,x\n1,perhaps,2026-01-05,1\n1,1,yesterday,1\n"
    assert places(problem(send(client, response, bad), 422)) == [("flag", 1), ("day", 2)]
    assert places(problem(send(client, response, bad.replace("perhaps", "0")), 422)) == [("day", 2)]


@only("sqlite")
def test_a_model_of_one_feature_takes_a_file_of_one_column(client, settings):
    """A single column needs no delimiter, and an empty line is a missing value."""
    response = fitted(client, settings, text=table(40), features=["size"])

    answer = send(client, response, "size\n3\n\n5\n").json()

    assert len(answer["mean"]) == 3
    assert answer["flags"][1] == [{"column": "size", "flag": "missing"}]


@only("sqlite")
def test_csv_answers_hold_no_formulas(client, settings):
    """Text that a spreadsheet would evaluate is quoted, in names and cells."""
    from app.services.predictions.csv_tables import to_csv

    dangerous = [
        "=1+1",
        "+1",
        "-1",
        "@x",
        "\tx",
        "\rx",
        "\uff1d1",
        "\uff0b1",
        "\uff0d1",
        "\uff20x",
        "safe",
        None,
    ]
    text = to_csv(pa.table({"=name": dangerous, "n": [-1.5] * 12})).decode()

    assert text.splitlines()[0] == '"\'=name","n"'
    assert pacsv.read_csv(
        io.BytesIO(text.encode()), parse_options=pacsv.ParseOptions(newlines_in_values=True)
    )["'=name"].to_pylist() == [*(f"'{cell}" for cell in dangerous[:10]), "safe", ""]
    assert ",-1.5" in text


@only("sqlite")
def test_query_parameters_beside_json_rows_are_refused(client, settings):
    """Query parameters with JSON rows are refused unless at their defaults; for files they are documented."""
    response = fitted(client, settings)
    request = {
        "params": {"interval": "predictive", "decimal": "comma"},
        "json": {"rows": [{"size": 1, "colour": "red"}]},
    }

    refused = problem(client.post(f"/models/{response['id']}/predict", **request), 422, "invalid-request")

    assert {fault["column"] for fault in refused["errors"]} == {"interval", "decimal"}
    row = {"json": request["json"] | {"interval": "predictive"}}
    usual = {"params": {"level": [0.9], "mcse": False, "target": "all"}}
    plain, spelt = (client.post(f"/models/{response['id']}/predict", **one) for one in (row, row | usual))
    assert (plain.status_code, plain.json()) == (200, spelt.json())
    parameters = client.get("/openapi.json").json()["paths"]["/models/{model_id}/predict"]["post"][
        "parameters"
    ]
    assert {p["name"] for p in parameters if p["in"] == "query"} == set(PredictQuery.model_fields)


@only("sqlite")
def test_large_identifiers_keep_their_digits(client, settings):
    """Integer levels beyond 2^53 are exact in files and JSON; rounded ones match none."""
    ids = [2**53 + 1, 2**53 + 2, 2**53 + 3]
    columns = {
        "id": [ids[row % 3] for row in range(60)],
        "x": list(range(60)),
        "y": [row % 3 for row in range(60)],
    }
    lines = "\n".join(["id,x,y", *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))])
    kinds = {"kind": "id:category"}

    rounded = post_csv(client, lines).json()
    assert "2^53" in rounded["columns"][0]["note"]
    body = {"dataset_id": rounded["id"], "target": "y", "columns": {"id": "category"}}
    refused = problem(client.post("/models", json=body), 422)
    assert "?kind=id:category" in refused["errors"][0]["detail"]
    problem(
        client.post("/models", json={"dataset_id": rounded["id"], "target": "id", "family": "probit"}), 422
    )

    posted = client.post(
        "/datasets", content=parquet(pa.table(columns)), headers={"Content-Type": PARQUET}, params=kinds
    )
    levels = posted.json()["columns"][0]["levels"]
    assert (
        levels == post_csv(client, lines, **kinds).json()["columns"][0]["levels"] == [str(one) for one in ids]
    )

    body = {"dataset_id": posted.json()["id"], "target": "y"} | SMALL
    model = client.post("/models", json=body).json()
    run_units(settings)
    rows = {"id": [*ids, 2**53 + 4], "x": [1, 1, 1, 1]}
    answer = ask(client, model, columns=rows).json()
    assert [[flag["flag"] for flag in flags] for flags in answer["flags"]] == [[], [], [], ["unseen_level"]]
    assert len(set(answer["mean"])) >= 3
    for content, kind in ((parquet(pa.table(rows)), PARQUET), (stream(pa.table(rows)), ARROW)):
        assert send(client, model, content, kind).json()["mean"] == answer["mean"]
    text = "id,x\n" + "\n".join(f"{one},1" for one in rows["id"])
    assert send(client, model, text).json()["mean"] == answer["mean"]


def test_a_file_keeps_its_own_columns_and_ids(client, model):
    """Kept columns come first, as they were sent, in every table; the model need not know them."""
    rows = "id,size,when,colour\n007,3,2024-01-31,red\n=1+1,17.5,2024-02-29,blue\n"

    def lines(content: bytes, **query) -> list[str]:
        answer = send(client, model, content, accept=CSV, **query)
        return answer.text.replace('"', "").splitlines()

    plain = lines(b"size,colour\n3,red\n17.5,blue\n")
    csv = lines(rows.encode(), keep="*")
    parquet_ = pq.read_table(
        io.BytesIO(send(client, model, rows.encode(), accept=PARQUET, keep=["id", "when"]).content)
    )
    arrow = arrow_of(send(client, model, rows.encode(), accept=ARROW, keep=["when", "id"]))

    assert csv[0] == f"id,size,when,colour,{plain[0]}"
    assert csv[1] == f"007,3,2024-01-31,red,{plain[1]}"
    assert csv[2].startswith("'=1+1,17.5,2024-02-29,blue,")
    assert parquet_.column_names == arrow.column_names
    assert parquet_.column_names[:3] == ["id", "when", "mean"]
    assert parquet_["id"].to_pylist() == ["007", "=1+1"]
    assert places(problem(send(client, model, rows.encode(), accept=CSV), 422)) == [
        ("id", None),
        ("when", None),
    ]
    typed = pa.table({"id": [2**53 + 1, -7], "price": pa.array([0.1, 2], pa.float32()), **COLUMNS_OF_TWO})
    for content, kind in ((parquet(typed), PARQUET), (stream(typed), ARROW)):
        kept = arrow_of(send(client, model, content, kind, ARROW, keep=["id", "price"]))
        assert kept.select(["id", "price"]).equals(typed.select(["id", "price"]))
    text = send(client, model, parquet(typed), PARQUET, CSV, keep=["id", "price"]).text
    assert text.splitlines()[1].startswith("9007199254740993,")
    problem(send(client, model, rows.encode(), accept=CSV, keep="nr"), 422)
    problem(send(client, model, rows.encode(), keep="*"), 422)
    clashing = rows.replace("id,", "mean,", 1).encode()
    assert places(problem(send(client, model, clashing, accept=CSV, keep="*"), 422)) == [("mean", None)]


@only("sqlite")
@pytest.mark.parametrize("trained", ["", "+02:00"])
def test_a_lost_or_added_time_zone_is_named(client, settings, trained):
    """Rows of every form say so where their times have no zone and the model's had one, or the other way."""
    days = [f"2024-05-{1 + row % 28:02}T0{row % 4}:30:00" for row in range(40)]
    text = "at,y\n" + "".join(f"{day}{trained},{row % 28}\n" for row, day in enumerate(days))
    model = fitted(client, settings, text=text, columns={"at": "date"})
    preview = client.get(f"/datasets/{model['dataset_id']}/preview?rows=1").json()["rows"]
    for zone in ("", "+02:00"):
        at = f"2024-05-03T01:30:00{zone}"
        table = pa.table({"at": pa.array([datetime.fromisoformat(at)])})
        answers = [
            ask(client, model, columns={"at": [at]}),
            send(client, model, f"at\n{at}\n"),
            send(client, model, stream(table), ARROW),
            send(client, model, parquet(table), PARQUET),
        ]
        told = [[said for said in answer.json()["warnings"] if "zone" in said] for answer in answers]
        assert [len(each) for each in told] == 4 * [int(zone != trained)], told
    form = client.get(f"/ui/models/{model['id']}/predict", headers={"Accept": "text/html"}).text
    for shown in (preview[0]["at"], re.search('value="(2024-[^"]*)"', form)[1]):
        answer = client.post(f"/models/{model['id']}/predict", json={"rows": [{"at": shown}]})
        assert answer.json()["warnings"] == [], shown
