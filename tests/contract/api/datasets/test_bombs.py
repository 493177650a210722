"""Small bodies that expand enormously are refused quickly in little memory, while others are served."""

import threading
import time

import pytest

from tests.support.api_calls import post_csv, post_json, problem, table
from tests.support.databases import only
from tests.support.waiting import stretched

MANY = 400_000


@pytest.mark.parametrize(
    "text",
    [
        '{"rows": [' + "{}," * MANY + "{}]}",
        '{"rows": [' + "1," * MANY + "1]}",
        '{"rows": [' + '{"a":[]},' * (MANY // 3) + "{}]}",
        '{"columns": {' + ",".join(f'"c{i}":1' for i in range(MANY // 8)) + "}}",
        '{"columns": {"a": [' + "[]," * MANY + "1]}}",
        "{" + ",".join(f'"f{i}":1' for i in range(MANY // 8)) + "}",
        '{"rows": [{"a": 1}], "level": [' + "5," * MANY + "5]}",
        '{"rows": [{"a": 1}], "quantiles": [' + '"x",' * (MANY // 4) + "5]}",
        '{"rows": [' + "NaN," * (MANY // 4) + "1]}",
        "[" * 900 + "]" * 900,
    ],
    ids=range(10),
)
@only("sqlite")
@pytest.mark.sampled(quick=4)
def test_predictions_of_nothing_in_great_number(client, text):
    """Very many empty predictions get a 4xx within seconds, with at most a hundred errors."""
    started = time.monotonic()

    response = post_json(client, "/models/x/predict", text)

    assert time.monotonic() - started < stretched(30)
    assert response.status_code in {404, 413, 422}
    assert len(problem(response, response.status_code)["errors"]) <= 100


@pytest.mark.parametrize("field", ["features", "columns", "moves", "prior", "stop"])
@only("sqlite")
def test_fits_with_fields_of_great_size(client, field):
    """A field with a hundred thousand bad entries is one error or a 413, as are many megabytes."""
    dataset_id = post_csv(client, table()).json()["id"]
    for value in ("[" + "1," * 100_000 + "1]", "{" + ",".join(f'"a{i}":1' for i in range(50_000)) + "}"):
        text = f'{{"dataset_id": "{dataset_id}", "target": "y", "{field}": {value}}}'
        started = time.monotonic()

        response = post_json(client, "/models", text)
        problem(response, 413 if response.status_code == 413 else 422)

        assert time.monotonic() - started < stretched(30)
    problem(post_json(client, "/models", '{"target": "' + "x" * 5_000_000 + '"}'), 413)


@only("sqlite")
def test_others_are_served_meanwhile(client):
    """A small request is answered at once while large bodies are read."""
    text = '{"rows": [' + '{"a": 1, "b": "x"},' * 80_000 + "1]}"
    threads = [threading.Thread(target=post_json, args=(client, "/models/x/predict", text)) for _ in range(4)]
    for thread in threads:
        thread.start()
    slowest = 0.0
    while any(thread.is_alive() for thread in threads):
        started = time.monotonic()
        assert client.get("/health/live").status_code == 200
        slowest = max(slowest, time.monotonic() - started)
    for thread in threads:
        thread.join()

    assert slowest < stretched(5)


@only("sqlite")
def test_long_texts_are_not_shown_whole(client):
    """Levels of a hundred thousand characters are abbreviated in lists and previews."""
    long = "x" * 100_000
    dataset = post_csv(client, f"a,b\n1,{long}\n2,{long}y\n3,z\n").json()

    assert [column["levels"] for column in dataset["columns"]] == [[], []]
    assert "too long" in dataset["columns"][1]["note"]
    rows = client.get(f"/datasets/{dataset['id']}/preview").json()["rows"]
    assert max(len(row["b"]) for row in rows) < 2000
