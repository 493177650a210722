"""API requests equivalent to a page, as curl and Python commands to copy."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pprint import pformat
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request

# Invisible and direction-changing characters: a command must read as it runs.
HIDDEN = re.compile("[\u0080-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
SHORT = 70  # longest body, or arguments of a call, on one line
KEY_CURL = ' \\\n     -H "Authorization: Bearer $BARTSERVE_KEY"'
KEY_PYTHON = "  # with the key in BARTSERVE_KEY"


@dataclass(frozen=True)
class Snippet:
    """A command in one language."""

    language: str
    text: str


def ask(
    request: Request,
    path: str,
    call: str,
    *,
    method: str = "GET",
    body: Any = None,
    query: Mapping[str, Any] | None = None,
) -> list[Snippet]:
    """Return a request to the API as curl and as Python code with a call of the client (`call`)."""
    base = _base(request)
    keyed = bool(request.scope.get("bartserve.asks_keys"))
    return [
        Snippet("curl", _curl(base + path, method, body, query, keyed=keyed)),
        Snippet("Python", _python(base, call, keyed=keyed)),
    ]


def upload(request: Request) -> list[Snippet]:
    """Return the commands that upload a file."""
    base = _base(request)
    keyed = bool(request.scope.get("bartserve.asks_keys"))
    header = KEY_CURL if keyed else ""
    curl = f"curl -s {base}/datasets{header} \\\n     -H 'content-type: text/csv' --data-binary @data.csv"
    return [
        Snippet("curl", curl),
        Snippet("Python", _python(base, call("upload", "data.csv") + ".id", keyed=keyed)),
    ]


def file(request: Request, path: str, call: str, *, query: Mapping[str, str]) -> list[Snippet]:
    """Return the commands that send a file of rows to a path of the API and store the answer as CSV."""
    base = _base(request)
    keyed = bool(request.scope.get("bartserve.asks_keys"))
    header = KEY_CURL if keyed else ""
    curl = (
        f"curl -s {shlex.quote(f'{base}{path}?{urlencode(query)}')}{header} \\\n"
        "     -H 'content-type: text/csv' -H 'accept: text/csv' --data-binary @new.csv -o predicted.csv"
    )
    return [Snippet("curl", curl), Snippet("Python", _python(base, call, keyed=keyed))]


def _base(request: Request) -> str:
    """Return the service's URL as the user reaches it."""
    public: str | None = request.scope["bartserve.public_url"]
    return public or str(request.base_url).rstrip("/")


def call(method: str, /, *positional: Any, **named: Any) -> str:
    """Return a call of the client as Python code, one argument per line if they are long."""
    arguments = [pformat(value, sort_dicts=False) for value in positional]
    arguments += [f"{key}={pformat(value, sort_dicts=False)}" for key, value in named.items()]
    together = ", ".join(arguments)
    if len(together) <= SHORT and "\n" not in together:
        return f"bart.{method}({together})"
    lines = "".join(f"    {argument},\n".replace("\n ", "\n     ") for argument in arguments)
    return f"bart.{method}(\n{lines})"


def _python(base: str, call: str, *, keyed: bool) -> str:
    client = f"bart = Client({base!r}){KEY_PYTHON if keyed else ''}"
    return f"from bartserve import Client\n\n{client}\nanswer = {call}\nprint(answer)\n"


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
        sent = json.dumps(body, ensure_ascii=False, indent=2) if len(sent) > SHORT else sent
        sent = shlex.quote(HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", sent))
        text += f" \\\n     -H 'content-type: application/json' \\\n     -d {sent}"
    return text
