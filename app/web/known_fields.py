"""Known fields of a request, for suggestions after a misspelling."""

from collections.abc import Collection, Mapping
from typing import Any

from sampler.host.settings import meant_setting


def known_fields(document: Mapping[str, Any], path: str, method: str) -> frozenset[str]:
    """Return the names of all parameters and JSON fields, nested ones too, that OpenAPI lists for a route."""
    operation = document["paths"].get(path, {}).get(method.lower(), {})
    parameters = [entry["name"] for entry in operation.get("parameters", ()) if entry["in"] == "query"]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return frozenset(parameters) | _properties(document, body, set())


def no_such_field(name: str, known: Collection[str]) -> str:
    """Return the message for an unknown field."""
    # A name that the route knows is of another place: a parameter of files, or a field of another object.
    hint = "" if name in known else meant_setting(name, known)
    return "there is no such field" + (hint or "; /docs lists all fields")


def _properties(document: Mapping[str, Any], schema: Any, seen: set[str]) -> frozenset[str]:
    names: frozenset[str] = frozenset()
    if isinstance(schema, list):
        for part in schema:
            names |= _properties(document, part, seen)
    elif isinstance(schema, dict):
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name and name not in seen:
            seen.add(name)
            names |= _properties(document, document["components"]["schemas"][name], seen)
        properties = schema.get("properties")
        if isinstance(properties, dict):
            names |= properties.keys()
        for part in (
            schema.get("schema"),
            *(properties or {}).values(),
            schema.get("anyOf"),
            schema.get("oneOf"),
        ):
            names |= _properties(document, part, seen)
    return names
