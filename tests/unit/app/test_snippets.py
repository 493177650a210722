"""Copyable commands display as they run."""

import json
import shlex

from starlette.requests import Request

from app.dashboard import snippets


def test_invisible_characters_are_escaped_in_commands():
    """Invisible and direction-changing characters in levels are escaped in commands."""
    level = "safe\u202egnihtemos\u2066\u200b\u00ad"
    scope = {"type": "http", "scheme": "http", "server": ("127.0.0.1", 1), "path": "/", "headers": []}
    request = Request(scope | {"bartserve.public_url": None})
    body = {"rows": [{"colour": level}]}
    call = snippets.call("predict", "x", rows=body["rows"])
    curl, python = snippets.ask(request, "/models/x/predict", call, method="POST", body=body)
    for snippet in (curl, python):
        assert not any(letter in snippet.text for letter in "\u202e\u2066\u200b\u00ad")
    assert json.loads(shlex.split(curl.text)[-1]) == body


def test_a_call_may_have_an_argument_called_name():
    """The call for a named fit passes the argument `name`."""
    assert snippets.call("fit", "ds_1", "y", name="cars") == "bart.fit('ds_1', 'y', name='cars')"
