"""Write docs/openapi.json, docs/http.md and docs/settings.md from the application: `make docs`.

A test holds both to what the application says, so a changed route shows in the diff of a change.
"""

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from app.application import create_app  # noqa: E402
from app.settings import Settings, described  # noqa: E402

HEAD = """# The HTTP reference

Made from the application's own OpenAPI document by `make docs`; the same, to try out, is at `/docs` of a
running service, and `openapi.json` is beside this file. Names are snake_case, times RFC 3339 in UTC, ids
opaque.

Beyond loopback every call needs `Authorization: Bearer KEY`. Every error is `application/problem+json`
(RFC 9457): `type` is stable, `detail` says what to do, `errors` names columns and rows, `request_id` is in
the logs. Statuses 401, 403, 404, 408, 413, 422, 429, 500 and 503 are not repeated below. 408 says that the
request came too slowly; 429 and 503 come with `Retry-After`.

Wherever a path has a `model_id`, a model's name stands as well. Of several models of a name the newest is
meant; where results of a fit are asked (predictions, diagnostics, effects, draws, the file), the newest that
has succeeded. Answers hold the id, or the header `Bartserve-Model-Id` does. A name that several models share
deletes none of them: 409. Datasets go by their ids, since uploads of one file have one name.

Every call has an example, and the document suits generators of clients: `openapi-python-client generate --url
http://127.0.0.1:8000/openapi.json` writes functions `upload_dataset`, `create_model`, `predict` and so on.
"""
SETTINGS = """# Settings

Made from the application by `make docs`; `bartserve config` prints the same with the values in force.
Each setting is an environment variable; an empty one means the default. With `_FILE` after its name the
variable names a file that holds the value, as secrets are given. Options of a command win over it.

| variable | type | default | |
| --- | --- | --- | --- |
"""
USUAL = {"401", "403", "404", "408", "413", "422", "429", "500", "503"}


def document() -> dict[str, Any]:
    """The OpenAPI document; no database is opened for it."""
    made: dict[str, Any] = create_app(Settings(database_url="sqlite:///never-opened")).openapi()
    return made


def as_json(made: dict[str, Any]) -> str:
    """The document as it is checked in."""
    return json.dumps(made, indent=1, sort_keys=True) + "\n"


def as_markdown(made: dict[str, Any]) -> str:
    """The reference."""
    schemas = made["components"]["schemas"]
    parts = [HEAD]
    by_tag: dict[str, list[str]] = {}
    for path, methods in made["paths"].items():
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


def settings_markdown() -> str:
    """The page about settings."""
    rows = [
        f"| `{one.variable}` | {one.kind} | {one.default} | {' '.join(one.meaning.split())} |"
        for one in described()
    ]
    return SETTINGS + "\n".join(rows) + "\n"


def _route(method: str, path: str, route: dict[str, Any], schemas: dict[str, Any]) -> str:
    lines = [
        f"### `{method} {path}`\n",
        (route.get("description") or route.get("summary", "")).strip() + "\n",
    ]
    given = [p for p in route.get("parameters", []) if p["in"] != "path"]
    if given:
        lines.append("| parameter | in | type | |\n| --- | --- | --- | --- |")
        lines += [
            f"| `{p['name']}` | {p['in']} | {_type(p['schema'])} | {_said(p, p['schema'])} |" for p in given
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
    """The fields of an object, as a table; nothing of anything else."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rsplit("/", 1)[-1]]
    if "properties" not in schema:
        return []
    needed = set(schema.get("required", []))
    rows = [
        f"| `{name}`{'' if name in needed else ' (optional)'} | {_type(field)} | {_said(field, field)} |"
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


def _said(*sources: dict[str, Any]) -> str:
    text = next((source["description"] for source in sources if source.get("description")), "")
    default = sources[-1].get("default")
    told = " ".join(str(text).split()).replace("|", "\\|")
    return f"{told} Default: `{json.dumps(default)}`.".strip() if default is not None else told


def main() -> None:
    """Write all."""
    made = document()
    (HERE / "openapi.json").write_text(as_json(made))
    (HERE / "http.md").write_text(as_markdown(made))
    (HERE / "settings.md").write_text(settings_markdown())


if __name__ == "__main__":
    main()
