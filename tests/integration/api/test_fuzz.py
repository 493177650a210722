"""Nothing that anyone sends gets a 5xx, and every refusal is a problem document."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.api.asking import post_csv, problem, table
from tests.integration.api.fitting import SMALL, fitted

FUZZ = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
WORDS = st.sampled_from(
    [
        *("dataset_id", "target", "features", "columns", "weights", "family", "method", "num_trees", "moves"),
        *(
            "num_chains",
            "num_burnin",
            "num_draws",
            "thin",
            "prior",
            "stop",
            "holdout",
            "seed",
            "name",
            "rows",
        ),
        *("verdict", "max_rhat", "min_ess", "max_seconds", "max_draws"),
        *("level", "interval", "quantiles", "draws", "require", "size", "colour", "y", "note", "k", "cuts"),
        *("quantile", "credible", "predictive", "converged", "gaussian", "bart", "default", "grow", "prune"),
        *("number", "category", "date", "boolean", "red", "2026-01-31", "sigma", "alpha", "lambda"),
    ]
)
TEXT = WORDS | st.text(max_size=8) | st.text(st.characters(), max_size=4)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.sampled_from([0, 1, 0.5, 0.9, 1e308, -1e308, 5e-324, 2**63])
    | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def check(response) -> None:
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        problem(response, response.status_code)
    else:
        json.loads(response.text or "null", parse_constant=pytest.fail)


def send(client, path: str, body: Any) -> None:
    # NaN and Infinity as Python writes them, half surrogate pairs as escapes: all that a sender can send
    text = json.dumps(body)
    check(client.post(path, content=text.encode(), headers={"Content-Type": "application/json"}))


@given(body=VALUES, fields=st.dictionaries(WORDS, VALUES, max_size=5))
@FUZZ
def fuzz_models(client, dataset_id, body, fields):
    send(client, "/models", body)
    send(client, "/models", {"dataset_id": dataset_id, "target": "y", **SMALL} | fields)


def test_no_body_of_a_fit_makes_a_server_error(client):
    """Any JSON at all, and good requests with fields changed, on both databases."""
    fuzz_models(client, post_csv(client, table()).json()["id"])


def test_no_prediction_makes_a_server_error(client, settings):
    """Any JSON at all, and good requests with fields and cells changed, on a really fitted model."""
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


CELLS = st.sampled_from(
    ["1", "2.5", "", "NA", "red", '"a,b"', '"', "\n", "\r\n", "inf", "1e999", "\x00", "é"]
)
CSV_TEXT = st.lists(
    st.lists(CELLS | st.text(max_size=5), min_size=1, max_size=4), min_size=1, max_size=6
).flatmap(
    lambda rows: st.sampled_from([",", ";", "\t", "|"]).map(lambda d: "\n".join(d.join(r) for r in rows))
)


def test_no_file_makes_a_server_error(client):
    """Any bytes, and texts that are nearly tables: a dataset that can be looked at, or a refusal."""

    @given(text=CSV_TEXT, raw=st.binary(max_size=60))
    @FUZZ
    def fuzz(text, raw):
        for content in (text.encode("utf-8", "replace"), raw, b"a,b\n1,2\n" + raw):
            response = post_csv(client, content)
            check(response)
            if response.status_code == 201:
                path = response.headers["location"]
                for made in (client.get(path), client.get(f"{path}/preview")):
                    check(made)
                    assert made.status_code == 200
                columns = [column["name"] for column in response.json()["columns"]]
                send(client, "/models", {"dataset_id": response.json()["id"], "target": columns[0]})

    fuzz()
