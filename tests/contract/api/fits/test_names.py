"""A model's name can replace its id everywhere."""

import json

import pyarrow as pa
import pytest

from app.web.negotiation import ARROW
from tests.support.api_calls import post_csv, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, fitted

pytestmark = only("sqlite")


def calls(client) -> list[tuple[str, str]]:
    """Return every documented call with a model id in its path."""
    paths = client.get("/openapi.json").json()["paths"]
    return [(method, path) for path, methods in paths.items() if "{model_id}" in path for method in methods]


def model_id_in(answer) -> str:
    """Return the model id in the response's body, header or metadata."""
    if model_id := answer.headers.get("Bartserve-Model-Id"):
        return model_id
    if answer.headers["Content-Type"] == ARROW:
        return json.loads(pa.ipc.open_stream(answer.content).schema.metadata[b"bartserve"])["model_id"]
    body = answer.json()
    return body.get("model_id", body.get("id"))


def test_every_call_takes_a_name(client, settings):
    """Responses for the name equal those for the id, and contain the id."""
    model = fitted(client, settings, name="mine", holdout=0.2)
    bodies = {
        "predict": {"rows": client.get(f"/datasets/{model['dataset_id']}/preview?rows=1").json()["rows"]},
        "predictions": {"dataset_id": model["dataset_id"]},
        "extend": {"num_draws": 5},
        "accumulated-effects": {"feature": "size"},
        "studies": {"permutations": 20},
        "contrast": {"first": {"size": 1}, "second": {"size": 2}},
        "shap": {"rows": [{"size": 1, "colour": "red"}]},
        "aggregate": {"rows": [{"size": 1, "colour": "red"}]},
        "distribution": {"rows": [{"size": 1, "colour": "red"}], "at": [2.5]},
        "joint": {"rows": [{"size": 1, "colour": "red"}]},
        "survival": {"rows": [{"size": 1, "colour": "red"}]},
        "outcomes": {"rows": [{"size": row, "colour": "red", "y": row / 2 + 3} for row in range(12)]},
        "recalibrate": {},
        "policy": {"recalibrate": "off"},
        "estimate": {"num_draws": 5},
        "partial-dependence": {"features": ["size"]},
        "schedule": {"every": "7d"},
        "effects": {},
        "invocations": {"dataframe_records": [{"size": 1, "colour": "red"}]},
    }
    # A refit makes a new model of this name.
    order = [call for call in calls(client) if call[0] != "delete" and not call[1].endswith("/refit")]
    order.sort(key=lambda call: call[1].endswith("/extend"))  # operations that change the model come last
    for method, path in [*order, ("delete", "/models/{model_id}")]:
        body = bodies.get(path.rpartition("/")[2])
        answer = client.request(
            method, path.replace("{model_id}", "mine").replace("{other_id}", "mine"), json=body
        )
        if path.endswith(("/cancel", "/retry", "/rollback")):
            problem(answer, 409)  # found, with nothing to do
            continue
        if path.endswith("/survival"):
            assert "event" in problem(answer, 422)["detail"]  # found, but nothing censors its outcomes
            continue
        if path.endswith("/joint"):
            assert "list of targets" in problem(answer, 422)["detail"]  # found, but it has one outcome
            continue
        if path.endswith("/effects"):
            assert "treatment" in problem(answer, 422)["detail"]  # found, but it has none
            continue
        assert answer.is_success, (path, answer.text)
        assert model_id_in(answer) == model["id"], (method, path)
    problem(client.get(f"/models/{model['id']}"), 404)
    problem(client.get("/models/mine"), 404)


def test_a_name_means_the_newest_model(client, settings):
    """A name means the newest succeeded model when its fit is read, otherwise the newest model."""
    old = fitted(client, settings, name="mine", holdout=0.2)
    body = {"dataset_id": old["dataset_id"], "target": "y", "name": "mine"} | SMALL
    new = client.post("/models", json=body).json()

    assert client.get("/models/mine").json()["id"] == new["id"]
    events = client.get("/models/mine/events").json()
    assert events["model_id"] == new["id"]
    assert [event["kind"] for event in events["items"]] == ["created"]
    for read in ("diagnostics", "holdout", "variable-importance"):
        assert client.get(f"/models/mine/{read}").json()["model_id"] == old["id"]
    refused = problem(client.delete("/models/mine"), 409)
    assert new["id"] in refused["detail"]
    assert client.post("/models/mine/cancel").json()["id"] == new["id"]
    again = client.post("/models/mine/retry")
    assert again.json()["id"] == new["id"]
    assert again.headers["Location"] == f"/models/{new['id']}"
    assert client.delete(f"/models/{new['id']}").status_code == 204
    gone = client.delete("/models/mine")
    assert (gone.status_code, gone.headers["Bartserve-Model-Id"]) == (204, old["id"])
    problem(client.delete("/models/mine"), 404)


def test_unknown_names_are_not_found(client):
    """Unknown ids, control characters and overlong names are a 404."""
    for name in ("mdl_nothing", "no-such", "x" * 201, "%20", "%F0%9F%90%98"):
        assert "id or name" in problem(client.get(f"/models/{name}"), 404)["detail"], name
    problem(client.get("/models/%00"), 404)


@pytest.mark.parametrize("name", ["a/b", ".", "..", "mdl_x"])
def test_a_name_that_no_url_can_contain_is_refused(client, name):
    """Names that can't be part of a URL are refused."""
    dataset = post_csv(client, table(20)).json()
    body = {"dataset_id": dataset["id"], "target": "y", "name": name} | SMALL
    assert "part of URLs" in problem(client.post("/models", json=body), 422)["errors"][0]["detail"]


def test_pages_take_a_name(client, settings):
    """Every page of a model accepts its name, and shows and links to that model."""
    model = fitted(client, settings, name="mine")
    for page in ("", "/chains", "/features", "/effects?part=all", "/predict"):
        answer = client.get(f"/ui/models/mine{page}")
        assert answer.status_code == 200, page
        assert model["id"] in answer.text
        assert "models/mine" not in answer.text.replace(f"/ui/models/mine{page}", ""), page
