"""A model's name can replace its id everywhere."""

import json

import pyarrow as pa
import pytest

from app.web.negotiation import ARROW
from tests.support.api_calls import post_csv, problem, table
from tests.support.databases import only
from tests.support.html_page import ACCEPT, page_of
from tests.support.models.fitted_models import SMALL, fitted
from tests.support.routes import address, body_for, every_route

pytestmark = only("sqlite")
ROW = {"rows": [{"size": 1, "colour": "red"}]}


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
    """Every answer to a name is of one model, beside newer ones: one rolled back, one that waits."""
    model = fitted(client, settings, name="mine", holdout=0.2)
    others = [rolled_back(client, settings), client.post("/models", json=waiting(model)).json()["id"]]
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
        "forecast": {},
        "infer": body_for("/infer", "")["json"],
        "invocations": {"dataframe_records": [{"size": 1, "colour": "red"}]},
    }
    # A refit makes a new model of this name.
    order = [call for call in calls(client) if call[0] != "delete" and not call[1].endswith("/refit")]
    order.sort(key=lambda call: call[1].endswith("/extend"))  # operations that change the model come last
    for method, path in [*order, ("delete", "/models/{model_id}")]:
        body = bodies.get(path.rpartition("/")[2])
        answer = client.request(
            method, address(path, model_id="mine", other_id="mine", version=model["id"]), json=body
        )
        if path.endswith(("/cancel", "/retry", "/rollback", "/promote")):
            problem(answer, 409)  # found, with nothing to do
            continue
        if method == "delete" and path == "/models/{model_id}":
            assert model["id"] in problem(answer, 409)["detail"]  # several have the name
            continue
        if path.endswith("/survival"):
            assert "event" in problem(answer, 422)["detail"]  # found, but nothing censors its outcomes
            continue
        if path.endswith("/joint"):
            assert "list of targets" in problem(answer, 422)["detail"]  # found, but it has one outcome
            continue
        if "/forecast" in path:
            assert "time" in problem(answer, 409)["detail"]  # found, but it forecasts no series
            continue
        if path.endswith("/effects"):
            assert "treatment" in problem(answer, 422)["detail"]  # found, but it has none
            continue
        assert answer.is_success, (path, answer.text)
        assert model_id_in(answer) == model["id"], (method, path)
    refit = client.post("/models/mine/refit", json={"promote": "always"}).json()
    assert refit["refit"]["of"] == model["id"]
    for other in (*others, refit["id"]):
        client.delete(f"/models/{other}")
    gone = client.delete("/models/mine")
    assert (gone.status_code, gone.headers["Bartserve-Model-Id"]) == (204, model["id"])
    problem(client.get(f"/models/{model['id']}"), 404)
    problem(client.get("/models/mine"), 404)


def waiting(like: dict) -> dict:
    """Return the request for a fit of the same name as another."""
    return {"dataset_id": like["dataset_id"], "target": "y", "name": "mine"} | SMALL


def rolled_back(client, settings) -> str:
    """Fit another model of the name, go back to the one before, and return its id."""
    other = fitted(client, settings, name="mine", holdout=0.2)["id"]
    assert client.post("/models/mine/rollback").json()["id"] != other
    return other


def test_a_withheld_model_never_answers_to_its_name(client, settings):
    """When the one that the name meant is deleted, every route and page says so, and what to do."""
    old = fitted(client, settings, name="mine", holdout=0.2)
    withheld = rolled_back(client, settings)
    assert client.delete(f"/models/{old['id']}").status_code == 204
    hidden = page_of(client.get(f"/ui/models/{withheld}", headers=ACCEPT)).hidden
    # A version is asked for by its id, to which a withheld model answers.
    asked = [each for each in every_route() if "{model_id}" in each[1] and "{version}" not in each[1]]
    assert len(asked) > 60
    for method, path in asked:
        named = address(path, model_id="mine", other_id="mine")
        sent = {"data": hidden} if path.startswith("/ui") and method == "POST" else {}
        if method in {"POST", "PUT"}:
            sent = sent or body_for(path, old["dataset_id"])
        answer = client.request(method, named, **sent)
        assert answer.status_code == 409, (method, path, answer.text)
        assert withheld in answer.text, (method, path)
    problem(client.post(f"/models/{withheld}/rollback"), 409)
    assert f"POST /models/{withheld}/promote" in problem(client.get("/models/mine"), 409)["detail"]
    new = client.post("/models", json=waiting(old)).json()["id"]
    assert client.get("/models/mine").json()["id"] == new  # until one has succeeded, the newest
    assert new in problem(client.post("/models/mine/predict", json=ROW), 409)["detail"]
    assert client.post("/models/mine/cancel").json()["id"] == new
    assert client.post(f"/models/{withheld}/promote").status_code == 200
    assert client.post("/models/mine/predict", json=ROW).json()["model_id"] == withheld
    assert new in problem(client.post("/models/mine/retry"), 409)["detail"]  # by its id


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
