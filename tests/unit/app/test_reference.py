"""The checked-in OpenAPI document matches the application, and the site's HTTP reference has all of it."""

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

from app.client import Client
from app.settings import Settings

DOCS = Path(__file__).parents[3] / "docs"
AGAIN = "the routes have changed: run  make docs  and commit docs/openapi.json with the change"


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return load_script("generate")


def test_the_openapi_document_is_current(generate):
    """Changes to the HTTP API are visible in the diff of the checked-in document."""
    assert (DOCS / "openapi.json").read_text() == generate.as_json(generate.document()), AGAIN


def test_llms_txt_links_every_page_of_the_site():
    """Each page of the navigation is in it with its heading, under its section."""
    pages = [{"Start": "index.md"}, {"Guides": [{"Assistants": "assistants.md"}, "deploy.md"]}]
    text = load_script("llms").as_text(pages, DOCS)
    assert "## Pages\n\n- [Start](./): bartserve\n\n## Guides\n\n- [Assistants](assistants/)\n- [" in text
    assert text.endswith("](deploy/)\n")


def test_the_reference_of_the_site_has_every_route(generate):
    """The page that the site's build adds contains every route and every shape with fields."""
    document = generate.document()
    text = load_script("http_reference").as_markdown(document)

    routes = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert set(re.findall(r"^### `(.*)`$", text, re.MULTILINE)) == routes


def test_the_clients_fit_names_the_fields_of_a_fit(generate):
    """Its signature has each field of POST /models but those that few need, which its docstring names."""
    fields = generate.document()["components"]["schemas"]["ModelRequest"]["properties"].keys()
    named = inspect.signature(Client.fit).parameters.keys() - {"self", "dataset", "others"}
    rest = re.search(r"Further fields of POST /models: (.+)\.", Client.fit.__doc__)[1].split(", ")
    assert named | {*rest} == fields - {"dataset_id"}
    assert not named & {*rest}


def test_the_page_of_what_goes_together_is_current(generate):
    """docs/combinations.md has what the tables of refusals say."""
    text = (DOCS / "combinations.md").read_text()
    assert text == generate.combinations_markdown(), "a refusal has changed: run  make docs"


def test_the_page_about_settings_is_current(generate):
    """docs/settings.md lists every setting as the application describes it."""
    text = (DOCS / "settings.md").read_text()
    assert text == generate.settings_markdown(), "a setting has changed: run  make docs"
    assert text.count("| `BARTSERVE_") == len(Settings.model_fields)
    assert all(field.description for field in Settings.model_fields.values())
