"""What a page asks of the API, as commands to copy: curl and Python."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pprint import pformat
from typing import Any

from starlette.requests import Request


@dataclass(frozen=True)
class Snippet:
    """A command in one language."""

    language: str
    text: str


def ask(
    request: Request,
    path: str,
    *,
    method: str = "GET",
    body: Any = None,
    query: Mapping[str, Any] | None = None,
    show: str = "answer.json()",
) -> list[Snippet]:
    """The same request of the API in curl and in Python."""
    base = str(request.base_url).rstrip("/")
    keyed = bool(request.scope.get("bartserve.asks_keys"))
    return [
        Snippet("curl", _curl(base + path, method, body, query, keyed=keyed)),
        Snippet("Python", _python(base + path, method, body, query, show, keyed=keyed)),
    ]


def upload(request: Request) -> list[Snippet]:
    """How a file is sent."""
    base = str(request.base_url).rstrip("/")
    keyed = bool(request.scope.get("bartserve.asks_keys"))
    header = KEY_CURL if keyed else ""
    curl = f"curl -s {base}/datasets{header} \\\n     -H 'content-type: text/csv' --data-binary @data.csv"
    python = (
        f"{KEY_IMPORT if keyed else ''}import httpx\n\n"
        f'with open("data.csv", "rb") as file:\n'
        f'    answer = httpx.post({base + "/datasets"!r}, files={{"file": file}}'
        f"{KEY_PYTHON if keyed else ''}, timeout=600)\n"
        'print(answer.raise_for_status().json()["id"])\n'
    )
    return [Snippet("curl", curl), Snippet("Python", python)]


SHORT = 70  # letters of a body that stay on a line
KEY_CURL = ' \\\n     -H "Authorization: Bearer $BARTSERVE_KEY"'
KEY_IMPORT = "import os\n\n"
KEY_PYTHON = ', headers={"Authorization": f"Bearer {os.environ[\'BARTSERVE_KEY\']}"}'


def _curl(url: str, method: str, body: Any, query: Mapping[str, Any] | None, *, keyed: bool) -> str:
    parts = ["curl -s"]
    if query:
        parts[0] += " -G"
    if method not in {"GET", "POST"} or (method == "POST" and body is None):
        parts[0] += f" -X {method}"
    text = f"{parts[0]} {shlex.quote(url)}{KEY_CURL if keyed else ''}"
    for name, value in (query or {}).items():
        text += f" \\\n     --data-urlencode {shlex.quote(f'{name}={value}')}"
    if body is not None:
        sent = json.dumps(body, ensure_ascii=False)
        sent = shlex.quote(json.dumps(body, ensure_ascii=False, indent=2) if len(sent) > SHORT else sent)
        text += f" \\\n     -H 'content-type: application/json' \\\n     -d {sent}"
    return text


def _python(
    url: str, method: str, body: Any, query: Mapping[str, Any] | None, show: str, *, keyed: bool
) -> str:
    given = f"{url!r}"
    if query:
        given += f", params={dict(query)!r}"
    if body is not None:
        given += f", json={body!r}" if len(repr(body)) <= SHORT else ", json=body"
    if keyed:
        given += KEY_PYTHON
    before = "" if body is None or len(repr(body)) <= SHORT else f"body = {pformat(body, sort_dicts=False)}\n"
    call = f"httpx.{method.lower()}({given}, timeout=60)"
    return f"{KEY_IMPORT if keyed else ''}import httpx\n\n{before}answer = {call}\nprint({show})\n"
