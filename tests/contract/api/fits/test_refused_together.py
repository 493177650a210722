"""Refusals of things that a fit can't have together, on every face: the words of the library."""

import csv
import io
import json
from functools import cache
from html import unescape
from itertools import combinations
from typing import Any

import pytest

from app.dashboard.formatting import labelled
from sampler import SettingsError
from tests.support.api_calls import post_csv, problem
from tests.support.command_line import bartserve
from tests.support.databases import only
from tests.support.fit_kinds import (
    OF_STUDIES,
    OUTCOMES,
    ROLES,
    TABLE,
    THINGS,
    TREATMENTS,
    kind_of,
    refusal,
    together,
)
from tests.support.html_page import page_of

pytestmark = only("sqlite")
SECOND = "numbers"  # the further outcome of several


@cache
def refused() -> list[tuple[tuple[str, ...], dict[str, Any], SettingsError]]:
    """List every pair that is refused, what is asked, and the library's refusal, of settings of any face."""
    found = []
    for names in combinations(THINGS, 2):
        asked = together(*names)
        if asked is None or {*OF_STUDIES} & {*asked}:  # rows are held out by other words
            continue
        error = refusal(asked, OUTCOMES[kind_of(asked)])
        if isinstance(error, SettingsError):
            found.append((names, asked, error))
    return found


def table_of() -> str:
    """Write all columns that things name as CSV."""
    columns = TABLE | OUTCOMES | ROLES | TREATMENTS
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def body_of(asked: dict[str, Any]) -> dict[str, Any]:
    """Say over HTTP what `fit` is asked."""
    body = {"features": ["a", "b"], "target": kind_of(asked), **asked}
    if body.pop("outcomes", 1) > 1:
        body["target"] = [body["target"], "hurdle" if body["target"] == SECOND else SECOND]
    body |= {role: role for role in ROLES if role in asked}
    if "treatment" in asked:
        body["treatment"] = next(name for name, values in TREATMENTS.items() if values == asked["treatment"])
    return {name: list(value) if isinstance(value, tuple) else value for name, value in body.items()}


@pytest.fixture
def dataset(client) -> str:
    return post_csv(client, table_of()).json()["id"]


def check_over_http(client, dataset: str, every: int) -> None:
    """Ask for one in so many refused pairs: the sentence is the library's, about the same field."""
    for names, asked, error in refused()[::every]:
        answer = problem(client.post("/models", json={"dataset_id": dataset} | body_of(asked)), 422)
        (fault,) = answer["errors"]
        assert fault["detail"] == str(error), names
        assert fault["column"] == (error.field or "").partition(".")[0], (names, fault)
        assert fault.get("code", error.code) == error.code, names


def test_some_are_refused_over_http(client, dataset):
    """A spread sample of pairs of parts, methods, families, noise and transforms."""
    check_over_http(client, dataset, 40)


@pytest.mark.slow
def test_more_are_refused_over_http(client, dataset):
    """A wider sample."""
    check_over_http(client, dataset, 4)


def test_forms_and_commands_refuse_in_the_same_words(client, dataset, tmp_path):
    """The page keeps the sentence at its field, in the labels of the form; the command line prints it."""
    hidden = page_of(client.get(f"/ui/models/new?dataset={dataset}&all=1")).hidden
    for names, asked, error in refused()[7::90]:
        body = body_of(asked)
        page = client.post("/ui/models", data=hidden | fields_of(body))
        assert labelled(str(error)) in " ".join(unescape(page.text).split()), names
        target = [body["target"]] if isinstance(body["target"], str) else body["target"]
        words = [word for name in target for word in ("--target", name)]
        for name, value in body.items():
            if name in ROLES or name == "treatment":
                words += [f"--{name}", value]
            elif name != "target":
                words += ["--set", f"{name}={json.dumps(value)}"]
        said = bartserve("fit", dataset, *words, "--url", str(client.base_url), cwd=tmp_path)
        assert said.returncode == 1, names
        assert "".join(str(error).split()) in "".join((said.stderr + said.stdout).split()), names


def fields_of(body: dict[str, Any]) -> dict[str, Any]:
    """Say by the form what a body says."""
    fields: dict[str, Any] = {}
    for name, value in body.items():
        if name == "target":
            fields |= (
                {"target": value}
                if isinstance(value, str)
                else dict(zip(("target", "others"), value, strict=True))
            )
        elif name == "levels":
            fields[name] = ", ".join(value)
        elif name == "monotone":
            fields["monotone.increasing"] = [*value]
        elif isinstance(value, dict):
            fields |= {f"{name}.{entry}": str(each) for entry, each in value.items()}
        else:
            fields[name] = (
                value if isinstance(value, list) else str(value).lower() if value is True else value
            )
    return fields
