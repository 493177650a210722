"""Fuzzed requests never get a 5xx, and every error is a problem document."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.api_calls import post_csv, table
from tests.support.fuzzing.json_values import FUZZ, VALUES, WORDS, check, send
from tests.support.models.fitted_models import SMALL, fitted


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


CELLS = st.sampled_from(
    ["1", "2.5", "", "NA", "red", '"a,b"', '"', "\n", "\r\n", "inf", "1e999", "\x00", "é"]
)
CSV_TEXT = st.lists(
    st.lists(CELLS | st.text(max_size=5), min_size=1, max_size=4), min_size=1, max_size=6
).flatmap(
    lambda rows: st.sampled_from([",", ";", "\t", "|"]).map(lambda d: "\n".join(d.join(r) for r in rows))
)


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
                for made in (client.get(path), client.get(f"{path}/preview")):
                    check(made)
                    assert made.status_code == 200
                columns = [column["name"] for column in response.json()["columns"]]
                send(client, "/models", {"dataset_id": response.json()["id"], "target": columns[0]})

    fuzz()
