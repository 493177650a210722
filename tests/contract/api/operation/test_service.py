"""Properties of every route: problem documents, ids, headers, health, the OpenAPI document and its page."""

import re

import pytest

from app.store.engine import session_scope
from app.store.queue import workers
from app.store.tables import Worker
from app.web.read_options import FILES
from sampler.settings import LIMITS
from tests.support.api_calls import post_csv, problem, table
from tests.support.databases import only
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving


@only("sqlite")
def test_http_refusals_are_problem_documents_too(client):
    """The router's 404 and 405 have the format of other errors; 405 lists the allowed methods."""
    problem(client.get("/nowhere"), 404, "not-found")
    problem(client.get("/datasets/"), 404)
    for path, methods in [("/datasets", "GET, POST"), ("/models/x", "DELETE, GET"), ("/docs", "GET")]:
        response = client.put(path)
        problem(response, 405, "method-not-allowed")
        assert response.headers["allow"] == methods
    for query in ({"limit": 0}, {"limit": 201}, {"limit": "x"}, {"limit": "9" * 5000}):
        body = problem(client.get("/datasets", params=query), 422, "invalid-request")
        assert body["errors"][0]["column"] == "limit"


@only("sqlite")
def test_a_problem_type_leads_somewhere(client):
    """The URI of a problem type leads to its description."""
    refusals = [
        client.get("/nowhere"),
        client.put("/datasets"),
        client.post("/datasets"),
        post_csv(client, ""),
    ]
    for refusal in refusals:
        named = refusal.json()
        assert client.get(named["type"]).json() == {"type": named["type"], "title": named["title"]}
    problem(client.get("/problems/unheard-of"), 404)


@only("sqlite")
def test_request_ids_come_back(client):
    """A well-formed X-Request-ID is kept, any other replaced; errors contain it too."""
    assert (
        client.get("/datasets", headers={"X-Request-ID": "abc-12345"}).headers["x-request-id"] == "abc-12345"
    )
    for bad in ("short", "x" * 65, "with space 123", "<script>alert"):
        request_id = client.get("/datasets", headers={"X-Request-ID": bad}).headers["x-request-id"]
        assert re.fullmatch("[0-9a-f]{16}", request_id)
    assert (
        problem(client.get("/nowhere", headers={"X-Request-ID": "abc-12345"}), 404)["request_id"]
        == "abc-12345"
    )


@only("sqlite")
def test_every_answer_carries_the_security_headers(client):
    """Every response forbids sniffing, framing, foreign scripts and caching."""
    for response in (client.get("/datasets"), client.get("/nowhere"), client.get("/docs")):
        headers = response.headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_ready_needs_a_beat(client, database):
    """Readiness needs a fresh heartbeat of a worker that isn't draining, else a 503 names the lack."""
    body = problem(client.get("/health/ready"), 503, "unavailable")
    assert "worker" in body["detail"]
    with session_scope(database.engine) as session:
        workers.register(session, Worker(id="w", host="h", pid=1, slots=1, beat_at=0, phase="idle"))
    assert client.get("/health/ready").json() == {"status": "ready"}
    with session_scope(database.engine) as session:
        workers.drain(session, "w")
    problem(client.get("/health/ready"), 503)
    assert client.get("/health/live").json() == {"status": "alive"}


def test_ready_needs_the_schema(settings, empty_database_url):
    """Without tables the service is alive but not ready, with advice, and never a 500."""
    fresh = settings.model_copy(update={"database_url": empty_database_url})
    with serving(fresh) as address, plain_http.Client(base_url=address) as client:
        assert client.get("/health/live").status_code == 200
        assert "bartserve migrate" in problem(client.get("/health/ready"), 503)["detail"]


@only("sqlite")
def test_a_database_that_is_away_is_a_503(settings, tmp_path):
    """An unreachable database is a 503 with Retry-After."""
    away = settings.model_copy(update={"database_url": f"sqlite:///{tmp_path}/no/such/folder/x.db"})
    with serving(away) as address, plain_http.Client(base_url=address) as client:
        for path in ("/health/ready", "/datasets", "/models", "/models/mdl_1"):
            response = client.get(path)
            problem(response, 503, "unavailable")
            assert int(response.headers["retry-after"]) > 0
        problem(post_csv(client, table()), 503)
        problem(client.post("/models/x/predict", json={"rows": [{"a": 1}]}), 503)


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


@only("sqlite")
def test_the_openapi_document_says_what_errors_look_like(client):
    """Every operation's errors are documented as problem documents, and all references resolve."""
    document = client.get("/openapi.json").json()

    names = {name for name, _ in operations(document)}
    assert {
        *("POST /datasets", "GET /datasets", "GET /datasets/{dataset_id}", "DELETE /datasets/{dataset_id}"),
        *("GET /datasets/{dataset_id}/preview", "POST /models", "GET /models", "GET /models/{model_id}"),
        *("POST /models/{model_id}/cancel", "DELETE /models/{model_id}", "POST /models/{model_id}/predict"),
        *("GET /health/live", "GET /health/ready"),
    } <= names
    for name, operation in operations(document):
        errors = {status: r for status, r in operation["responses"].items() if status >= "4"}
        assert {"401", "403", "422", "500", "503"} <= set(errors), name
        for status, response in errors.items():
            content = response["content"]
            assert list(content) == ["application/problem+json"], (name, status)
            assert content["application/problem+json"]["schema"]["$ref"] == "#/components/schemas/Problem"
        assert operation["summary"]
    schemas = document["components"]["schemas"]
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', client.get("/openapi.json").text))
    assert references <= set(schemas)
    assert not {"HTTPValidationError", "ValidationError"} & set(schemas)
    rows = schemas["PredictBody"]["properties"]["rows"]["anyOf"][0]
    assert (rows["type"], rows["items"]["type"]) == ("array", "object")
    thin = schemas["ModelRequest"]["properties"]["thin"]["anyOf"][0]
    assert (thin["type"], thin["minimum"], thin["maximum"]) == ("integer", *LIMITS["thin"])
    upload = document["paths"]["/datasets"]["post"]["requestBody"]["content"]
    assert set(upload) == {*FILES, "multipart/form-data"}


@only("sqlite")
def test_the_page_of_the_api_asks_nothing_elsewhere(client):
    """The API page, its script and its style are served locally and fetch from nowhere else."""
    page = client.get("/docs")

    assert page.headers["content-type"].startswith("text/html")
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(addresses) == 3
    for path in addresses:
        assert path.startswith("/docs/")
        assert client.get(path).status_code == 200
    assert "<script>" not in page.text
    assert "@media (prefers-color-scheme: dark)" in page.text
    assert "http" not in page.text + client.get("/docs/start.js").text
    problem(client.get("/docs/other.js"), 404)
    problem(client.get("/docs/..%2f__init__.py"), 404)


@pytest.mark.parametrize("text", ["%zz", "%00", "%ff%fe", "\u00e9", "x" * 5000, "..%2f..%2fetc%2fpasswd"])
@only("sqlite")
def test_strange_paths_and_queries_are_no_server_error(client, text):
    """Odd paths and queries give a 4xx problem document."""
    for path in (f"/{text}", f"/datasets/{text}", f"/models/{text}/predict", f"/datasets?cursor={text}"):
        response = client.post(path, json={"rows": [{}]}) if "predict" in path else client.get(path)
        assert 400 <= response.status_code < 500, (path, response.text)
        problem(response, response.status_code)
