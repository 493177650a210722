"""Fuzzed requests never get a 5xx, and every error is a problem document."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from app.services.model_sets import making
from tests.support.api_calls import post_csv, problem, table
from tests.support.databases import only
from tests.support.fuzzing.json_values import FUZZ, TEXT, VALUES, WORDS, check, send
from tests.support.models.fitted_models import SMALL, fitted, run_units
from tests.support.routes import tensor

BRIEF = hypothesis_settings(FUZZ, max_examples=max(20, FUZZ.max_examples // 4))  # of many requests each


@given(body=VALUES, fields=st.dictionaries(WORDS, VALUES, max_size=5))
@FUZZ
def fuzz_models(client, dataset_id, body, fields):
    send(client, "/models", body)
    send(client, "/models", {"dataset_id": dataset_id, "target": "y", **SMALL} | fields)


def test_no_body_of_a_fit_makes_a_server_error(client):
    """Any JSON as a fit, and valid requests with changed fields, never give a 5xx on either database."""
    fuzz_models(client, post_csv(client, table()).json()["id"])


def test_no_prediction_makes_a_server_error(client, settings):
    """Any JSON as a prediction by a fitted model, and valid requests changed, never give a 5xx."""
    model = fitted(client, settings)
    row = {"size": 3, "colour": "red"}

    @given(body=VALUES, fields=st.dictionaries(WORDS, VALUES, max_size=3), cells=st.lists(VALUES, max_size=3))
    @FUZZ
    def fuzz(body, fields, cells):
        path = f"/models/{model['id']}/predict"
        send(client, path, body)
        send(client, path, {"rows": [row]} | fields)
        send(client, path, {"rows": [row, *({"size": cell, "colour": cell} for cell in cells)]})
        send(client, path, {"columns": {"size": cells, "colour": cells}})
        send(client, f"/models/{model['id']}/cancel", body)

    fuzz()


@pytest.mark.slow
def test_no_request_about_a_set_makes_a_server_error(client, settings, database):
    """Any JSON as a set of models or as rows for one, and valid requests changed, never give a 5xx."""
    dataset = post_csv(client, table(60)).json()["id"]
    valid = {"dataset_id": dataset, "target": "y", "by": "colour"} | SMALL
    path = f"/model-sets/{client.post('/model-sets', json=valid).json()['id']}"
    while making.run_due(database.engine, settings):
        run_units(settings)
    row = {"size": 3, "colour": "red"}

    @given(body=VALUES, fields=st.dictionaries(WORDS, VALUES, max_size=3), cells=st.lists(VALUES, max_size=3))
    @BRIEF
    def fuzz(body, fields, cells):
        send(client, "/model-sets", body)
        send(client, "/model-sets", valid | fields)
        send(client, "/model-sets", valid | {"by": body})
        send(client, f"{path}/predict", body)
        send(client, f"{path}/predict", {"rows": [row]} | fields)
        send(client, f"{path}/predict", {"columns": {"size": cells, "colour": cells}, "unknown": "flag"})
        send(client, f"{path}/cancel", body)

    fuzz()


CELLS = st.sampled_from(
    ["1", "2.5", "", "NA", "red", '"a,b"', '"', "\n", "\r\n", "inf", "1e999", "\x00", "é"]
)
CSV_TEXT = st.lists(
    st.lists(CELLS | st.text(max_size=5), min_size=1, max_size=4), min_size=1, max_size=6
).flatmap(
    lambda rows: st.sampled_from([",", ";", "\t", "|"]).map(lambda d: "\n".join(d.join(r) for r in rows))
)
QUESTIONS = {  # a valid body of each route about a model, and fields to change
    "shap": ({}, ("rows", "columns", "level", "game", "draws")),
    "contrast": (
        {"first": {"size": 1}, "second": {"size": 2}},
        ("first", "second", "by", "level", "draws", "rows", "columns"),
    ),
    "effects": ({"by": "size"}, ("of", "by", "level", "draws", "rows", "columns")),
    "aggregate": (
        {"rows": [{"size": 1, "colour": "red"}], "by": "colour"},
        ("rows", "columns", "by", "of", "q", "level", "interval", "weights", "observed", "compare", "draws"),
    ),
    "distribution": (
        {"rows": [{"size": 1, "colour": "red"}], "outcomes": [1.5]},
        ("rows", "columns", "outcomes", "at", "quantiles"),
    ),
    "joint": ({"rows": [{"size": 1, "colour": "red"}]}, ("rows", "columns", "given", "level")),
    "accumulated-effects": ({"feature": "size"}, ("feature", "level", "draws", "rows", "columns")),
    "invocations": (
        {"inputs": {"size": [1], "colour": ["red"]}},
        ("inputs", "instances", "dataframe_records", "dataframe_split", "params"),
    ),
    "infer": (
        {"inputs": [tensor("size", "FP64", [1]), tensor("colour", "BYTES", ["red"])]},
        ("id", "inputs", "outputs", "parameters", "model_name"),
    ),
    "studies": ({"permutations": 20}, ("kind", "permutations", "level", "seed", "candidates")),
    "extend/estimate": ({"num_draws": 1}, ("num_draws", "stop")),
    "extend": ({"stop": {"max_draws": -1}}, ("num_draws", "stop")),
    "refit": ({"holdout": -1}, ("holdout", "name", "dataset_id", "promote")),
}
TUNING = {"kind": "tuning", "candidates": [{"num_trees": 5}], "folds": 2}
RULES = st.sampled_from(["verdict", "max_rhat", "min_ess", "max_seconds", "max_draws"])


@pytest.mark.slow
@only("postgres")  # which can store less
@pytest.mark.parametrize("route", QUESTIONS)
def test_no_question_about_a_model_makes_a_server_error(client, settings, route):
    """Any JSON, and valid requests with changed fields, stop rules or candidates, never give a 5xx."""
    path = f"/models/{fitted(client, settings)['id']}"
    asked = f"/v2{path}" if route == "infer" else path
    valid, names = QUESTIONS[route]
    changed = st.dictionaries(
        st.sampled_from(names), VALUES | st.sampled_from(["size", "colour"]), max_size=3
    )

    @given(body=VALUES, fields=changed, rules=st.dictionaries(RULES, VALUES, max_size=3))
    @BRIEF
    def fuzz(body, fields, rules):
        send(client, f"{asked}/{route}", body)
        send(client, f"{asked}/{route}", valid | fields)
        if route.startswith("extend"):
            send(client, f"{path}/extend/estimate", {"stop": rules})
        if route == "studies":
            send(client, f"{path}/studies", TUNING | fields)
            send(client, f"{path}/studies", TUNING | {"candidates": [rules | fields, body]})
            for study in client.get("/studies").json()["items"]:
                assert client.delete(f"/studies/{study['id']}").status_code == 204
        if client.get(path).json()["state"] != "succeeded":  # what was accepted is done first
            run_units(settings)

    fuzz()


@pytest.mark.slow
@only("postgres")  # which can store less
def test_no_change_of_a_dataset_makes_a_server_error(client):
    """Any JSON as changes of columns gives a usable dataset or a refusal."""
    path = f"/datasets/{post_csv(client, table(12)).json()['id']}/amend"
    change = st.dictionaries(st.sampled_from(["kind", "missing"]), VALUES, max_size=2)

    @given(
        body=VALUES,
        columns=st.dictionaries(st.sampled_from(["y", "size", "colour", "hue"]), change | VALUES, max_size=3),
        fields=st.dictionaries(st.sampled_from(["missing", "name"]), VALUES, max_size=2),
        cells=st.lists(st.sampled_from([1, 2.0, -999, "red", "", "1", 1e308, "nan"]), max_size=3),
    )
    @BRIEF
    def fuzz(body, columns, fields, cells):
        send(client, path, body)
        send(client, path, {"columns": columns} | fields)
        for kind in ("number", "boolean", "date", "category", "text"):
            send(client, path, {"columns": {"size": {"kind": kind, "missing": cells}}})
            send(client, path, {"columns": {"colour": {"kind": kind}}, "missing": cells})

    fuzz()


@pytest.mark.slow
@only("postgres")  # which can store less
def test_no_file_to_predict_makes_a_server_error(client, settings):
    """Any bytes and texts that are almost tables, with any options, are predicted or refused."""
    path = f"/models/{fitted(client, settings)['id']}/predict"
    options = st.dictionaries(
        st.sampled_from(
            ["keep", "level", "interval", "quantiles", "draws", "mcse", "rhat", "require", "missing"]
        ),
        TEXT | st.sampled_from(["size", "colour", "true", "0.9", "predictive", "2"]),
        max_size=3,
    )
    kinds = st.sampled_from(
        ["text/csv", "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"]
    )

    @given(text=CSV_TEXT, raw=st.binary(max_size=60), query=options, kind=kinds, accept=kinds)
    @BRIEF
    def fuzz(text, raw, query, kind, accept):
        query = {name: value.encode("utf-8", "replace") for name, value in query.items()}
        for content in (text.encode("utf-8", "replace"), raw, b"size,colour,id\n1,red,7\n" + raw):
            headers = {"Content-Type": kind, "Accept": accept}
            response = client.post(path, content=content, headers=headers, params=query)
            assert response.status_code < 500, response.text
            if response.status_code >= 400:
                problem(response, response.status_code)

    fuzz()


def test_no_file_makes_a_server_error(client):
    """Any bytes, and texts that are almost tables, give a usable dataset or a refusal."""

    @given(text=CSV_TEXT, raw=st.binary(max_size=60))
    @FUZZ
    def fuzz(text, raw):
        for content in (text.encode("utf-8", "replace"), raw, b"a,b\n1,2\n" + raw):
            response = post_csv(client, content)
            check(response)
            if response.status_code == 201:
                path = response.headers["location"]
                for reply in (client.get(path), client.get(f"{path}/preview")):
                    check(reply)
                    assert reply.status_code == 200
                columns = [column["name"] for column in response.json()["columns"]]
                send(client, "/models", {"dataset_id": response.json()["id"], "target": columns[0]})

    fuzz()
