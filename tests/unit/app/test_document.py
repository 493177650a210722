"""The OpenAPI document suits client generators: short names, examples, servers, valid identifiers."""

import keyword
import re

import jsonschema_rs
import pytest

from app.api import docs
from app.application import create_app
from app.settings import Settings


@pytest.fixture(scope="module")
def document():
    return create_app(Settings(database_url="sqlite:///never-opened")).openapi()


def operations(document):
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_operations_have_short_names(document):
    """Operation ids are short, since generated clients use them as function names."""
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+){0,3}", name) for name in names), names
    assert {"predict", "create_model", "get_model", "upload_dataset", "delete_model"} <= set(names)


def test_no_parameter_shadows_a_name_of_generated_code(document):
    """No parameter is called `quote`, which openapi-python-client imports into each function's module."""
    used = {
        "quote",
        "client",
        "response",
        "headers",
        "params",
        "url",
        "cast",
        "datetime",
        "json",
        *keyword.kwlist,
    }
    names = {p["name"] for _, _, operation in operations(document) for p in operation.get("parameters", [])}
    assert not names & used


def test_every_call_has_an_example_and_a_server_is_named(document):
    """Examples of parameters, bodies and responses match their schemas; a server is listed."""
    assert [server["url"] for server in document["servers"]] == ["/", "http://127.0.0.1:8000"]
    lacking = []
    for path, method, operation in operations(document):
        bodies = operation.get("requestBody", {}).get("content", {})
        answers = [answer.get("content", {}) for answer in operation["responses"].values()]
        places = [
            *operation.get("parameters", []),
            *bodies.values(),
            *(place for content in answers for place in content.values()),
        ]
        examples = [place for place in places if "example" in place]
        for place in examples:
            schema = place["schema"] | {"components": document["components"]}
            jsonschema_rs.validate(schema, place["example"])
        if not examples or any(
            "example" not in body for kind, body in bodies.items() if kind.endswith("/json")
        ):
            lacking.append(f"{method} {path}")
    assert not lacking


def test_the_document_says_that_a_name_can_replace_an_id(document):
    """Every path with a model id documents that the model's name is accepted too."""
    descriptions = {
        parameter["description"]
        for _, _, operation in operations(document)
        for parameter in operation.get("parameters", [])
        if parameter["name"] == "model_id"
    }
    assert descriptions == {docs.MODEL_ID}
