"""The checked-in OpenAPI document and HTTP reference match the application."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from app.settings import Settings

DOCS = Path(__file__).parents[3] / "docs"
AGAIN = (
    "the routes have changed: run  make docs  and commit docs/openapi.json and docs/http.md with the change"
)


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_openapi_document_is_current(generate):
    """Changes to the HTTP API are visible in the diff of the checked-in document."""
    assert (DOCS / "openapi.json").read_text() == generate.as_json(generate.document()), AGAIN


def test_the_reference_is_current_and_has_every_route(generate):
    """docs/http.md is generated from the OpenAPI document and contains every route."""
    document = generate.document()
    text = generate.as_markdown(document)

    assert (DOCS / "http.md").read_text() == text, AGAIN
    routes = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert set(re.findall(r"^### `(.*)`$", text, re.MULTILINE)) == routes


def test_the_page_about_settings_is_current(generate):
    """docs/settings.md lists every setting as the application describes it."""
    text = (DOCS / "settings.md").read_text()
    assert text == generate.settings_markdown(), "a setting has changed: run  make docs"
    assert text.count("| `BARTSERVE_") == len(Settings.model_fields)
    assert all(field.description for field in Settings.model_fields.values())
