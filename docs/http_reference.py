"""The HTTP reference of the site, written from docs/openapi.json while the site is built.

`mkdocs.yml` names this file as a hook; it needs nothing of the application.
"""

import json
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parent / "openapi.json"
PAGE = "http.md"

HEAD = """# The HTTP reference

Written from the application's [OpenAPI document](openapi.json). A running service has an interactive version
at `/docs`. Names are snake_case, times are
RFC 3339 in UTC, ids are opaque.

Beyond loopback every call needs `Authorization: Bearer KEY`. Every error is `application/problem+json` (RFC
9457): `type` is stable, `detail` says what to do, `errors` names columns and rows, and `request_id` is in
the logs. The statuses 401, 403, 404, 408, 413, 422, 429, 500 and 503 are not repeated below. 408 means that
the request arrived too slowly; 429 and 503 have a `Retry-After` header.

A model's name can replace the `model_id` in every path. If several models share the name, the newest is
used; for results of a fit (predictions, diagnostics, effects, draws, the file), the newest that has
succeeded. Answers contain the id, in the body or in the header `Bartserve-Model-Id`. Deleting by a name
that several models share is refused (409). Datasets have ids only, because uploads of one file have the
same name.

Every call has an example, and client generators can use the document: `openapi-python-client generate --url
http://127.0.0.1:8000/openapi.json` writes functions `upload_dataset`, `create_model`, `predict` and so on.
"""
USUAL = {"401", "403", "404", "408", "413", "422", "429", "500", "503"}


def on_files(files: Any, config: Any) -> Any:
    """Add the page to the files of the site (an event of MkDocs)."""
    from mkdocs.structure.files import File  # noqa: PLC0415  # only the site has it

    files.append(File.generated(config, PAGE, content=as_markdown(json.loads(DOCUMENT.read_text()))))
    return files


def as_markdown(document: dict[str, Any]) -> str:
    """Format the document as the HTTP reference."""
    schemas = document["components"]["schemas"]
    parts = [HEAD]
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            tag = (route.get("tags") or ["other"])[0]
            by_tag.setdefault(tag, []).append(_route(method.upper(), path, route, schemas))
    for tag, routes in by_tag.items():
        parts += [f"## {tag.capitalize()}\n", *routes]
    parts.append("## Shapes\n")
    for name, schema in schemas.items():
        if fields := _fields(schema, schemas):
            parts += [f"### {name}\n", schema.get("description", "").strip() + "\n", *fields]
    return "\n".join(parts)


def _route(method: str, path: str, route: dict[str, Any], schemas: dict[str, Any]) -> str:
    lines = [
        f"### `{method} {path}`\n",
        (route.get("description") or route.get("summary", "")).strip() + "\n",
    ]
    parameters = [p for p in route.get("parameters", []) if p["in"] != "path"]
    if parameters:
        lines.append("| parameter | in | type | |\n| --- | --- | --- | --- |")
        lines += [
            f"| `{p['name']}` | {p['in']} | {_type(p['schema'])} | {_description(p, p['schema'])} |"
            for p in parameters
        ]
        lines.append("")
    bodies = route.get("requestBody", {}).get("content", {})
    if bodies:
        lines.append(f"Body: {', '.join(f'`{kind}`' for kind in bodies)}\n")
    for content in bodies.values():
        lines += _fields(content["schema"], schemas)
    for status, answer in sorted(route["responses"].items()):
        if status in USUAL:
            continue
        kinds = ", ".join(f"`{kind}`" for kind in answer.get("content", {}))
        lines.append(f"{status}: {answer['description']}{' ' + kinds if kinds else ''}\n")
        if status.startswith("2"):
            for content in answer.get("content", {}).values():
                lines += _fields(content.get("schema", {}), schemas)
    return "\n".join(lines)


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    """List the fields of an object as a table; nothing for other types."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rsplit("/", 1)[-1]]
    if "oneOf" in schema:  # a body of several kinds
        return [line for one in schema["oneOf"] for line in (f"{_type(one)}:\n", *_fields(one, schemas))]
    if "properties" not in schema:
        return []
    needed = set(schema.get("required", []))
    rows = [
        f"| `{name}`{'' if name in needed else ' (optional)'} | {_type(field)} "
        f"| {_description(field, field)} |"
        for name, field in schema["properties"].items()
    ]
    return ["| field | type | |", "| --- | --- | --- |", *rows, ""]


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    for many in ("anyOf", "oneOf", "allOf"):
        if many in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[many]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type", "any"))


def _description(*sources: dict[str, Any]) -> str:
    text = next((source["description"] for source in sources if source.get("description")), "")
    default = sources[-1].get("default")
    words = " ".join(str(text).split()).replace("|", "\\|")
    return f"{words} Default: `{json.dumps(default)}`.".strip() if default is not None else words
