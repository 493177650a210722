"""Every page, chart and form of every kind of model: fitted, imported, of a set, and in every state."""

import re
from collections.abc import Sequence
from html import unescape
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
import pyarrow as pa
import pytest

from app.dashboard.charts import CHARTS
from app.services.model_sets import making
from app.services.predictions.csv_tables import to_csv
from app.store.engine import session_scope
from app.store.queue import units
from tests.support.api_calls import post_csv, post_model, table
from tests.support.browser import chromium, needs_chromium, watched  # noqa: F401  a fixture
from tests.support.databases import only
from tests.support.html_page import Page, checked_svg, page_of
from tests.support.models.fitted_models import SMALL, fitted, run_units
from tests.support.models.kinds import KINDS, SEVERAL, Kind
from tests.support.models.kinds import fitted as fitted_in_memory
from tests.support.models.partial_chains import give_back, take_chains
from tests.support.routes import every_route

pytestmark = only("sqlite")
OF_A_MODEL = "/ui/models/{model_id}"
ROUTES = [(method, path) for method, path in every_route() if path.startswith(OF_A_MODEL)]
# What a tab shows only if asked for.
QUERIES = {"/effects": "?part=all", "/features": "?pairs=true"}
QUICK = ("gaussian+treatment+groups", "several-with-class")
SLOW = (
    *("poisson+arms", "gaussian+ps-bart", "gaussian+event", "gaussian+calibrated-groups"),
    *("gaussian+slopes+linear", "ordinal+groups", "categorical+bcart", "gaussian+dcc-tree"),
)
FITTED = (
    "probit+treatment+offset",
    "gaussian+limits",
    "several-with-class",
    "gaussian+subgroups",
    "gaussian+dose",
)
# Overviews that are measured: a kind of model and how it is made, by what new rows are or by its state.
HELD_OUT = {"holdout": 0.3}
OVERVIEWS: dict[str, tuple[str, dict[str, Any]]] = {
    "numbers": ("gaussian", HELD_OUT),
    "unchecked": ("gaussian", {}),
    "two classes": ("probit", HELD_OUT),
    "classes": ("categorical", HELD_OUT),
    "ordered": ("ordinal", HELD_OUT),
    "counts": ("poisson+exposure", HELD_OUT),
    "counts with zeros": ("zero-inflated-poisson+exposure", HELD_OUT),
    "point mass": ("hurdle", HELD_OUT),
    "events": ("gaussian+event", HELD_OUT),
    "limits": ("gaussian+limits", HELD_OUT),
    "treatment": ("gaussian+treatment", HELD_OUT),
    "arms": ("poisson+arms", HELD_OUT),
    "several outcomes": ("several-with-class", HELD_OUT),
    "groups": ("gaussian+groups", HELD_OUT),
    "other groups": ("gaussian+groups", HELD_OUT | {"new_rows": {"groups": "site"}}),
    "later rows": ("gaussian", HELD_OUT | {"new_rows": {"later": "last"}}),
    "calibrated": ("gaussian+subgroups", {}),
    "one tree": ("gaussian+bcart", HELD_OUT),
}
CHARTED = ("calibrated", "withheld")  # with held-out rows too
OVERVIEWS_SLOW = ("numbers", "classes", "treatment", "several outcomes", "later rows")
MOST_WORDS, MOST_PIXELS = 350, {1280: 1800, 390: 3000}  # of an overview, by the width of the window
STATES = ("withheld", "of a set", "queued", "running", "cancelled early", "cancelled", "failed")


def imported(client: httpx.Client, name: str) -> str:
    """Import a model of a kind from its file."""
    answer = post_model(client, fitted_in_memory(name).to_bytes())
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def fitted_here(client: httpx.Client, settings, name: str, *, unknown: bool = False, **more) -> str:
    """Fit a model of a kind by the service, with more settings than the kind has.

    `unknown`: a further row has no outcome, and is left out.
    """
    kind = Kind(name)
    outcomes = kind.y if isinstance(kind.y, dict) else {"outcome": kind.y}
    body = {key: key if isinstance(value, np.ndarray) else value for key, value in kind.arguments.items()}
    body.pop("recalibrated", None)  # a fit here does so by itself
    for several in {"groups", "slopes"} & body.keys():
        body[several] = np.atleast_1d(body[several]).tolist()
    sent = kind.rows | outcomes
    if kind.weights is not None:
        body["weights"] = "precision"
        sent["precision"] = kind.weights
    features = [each for each in ("first", "kind", "last", "share") if each in kind.trained_on]
    cells = {column: _cells(values) for column, values in sent.items()}
    if unknown:
        of_outcome = {*outcomes, "lower", "upper"}
        cells = {name: [*own, None if name in of_outcome else own[0]] for name, own in cells.items()}
        body["missing_target"] = "leave_out"
    text = to_csv(pa.table(cells))
    target = list(outcomes) if kind.family.startswith(SEVERAL) else "outcome"
    return fitted(client, settings, text=text, **body, target=target, features=features, **more)["id"]


def _cells(values: np.ndarray) -> list[Any]:
    return [None if cell is None or cell != cell else cell for cell in values.tolist()]


def in_state(client, settings, database, state: str) -> str:
    """Return a model in a state."""
    if state == "of a set":
        dataset = post_csv(client, table(60)).json()["id"]
        body = {"dataset_id": dataset, "target": "y", "by": "colour", "treatment": "size"} | SMALL
        made = client.post("/model-sets", json=body).json()
        making.run_due(database.engine, settings)
        run_units(settings)
        return client.get(f"/model-sets/{made['id']}/models").json()["items"][0]["model_id"]
    if state == "withheld":
        old = fitted(client, settings, name="mine", holdout=0.3)
        new = client.post("/models/mine/refit", json={"promote": "always", "holdout": 0.3}).json()["id"]
        run_units(settings)
        assert client.post("/models/mine/rollback").json()["id"] == old["id"]
        assert client.get(f"/models/{new}").json()["withheld"]
        return new
    dataset = post_csv(client, table(60)).json()["id"]
    model = client.post("/models", json={"dataset_id": dataset, "target": "y"} | SMALL).json()["id"]
    if state in ("running", "cancelled", "failed"):
        claims = take_chains(database.engine, 20, 30)
        if state == "failed":
            with session_scope(database.engine) as session:
                units.fail(session, claims.pop(), {"type": "data", "detail": "It broke."})
        give_back(database.engine, claims)
    if state in ("cancelled", "cancelled early"):
        client.post(f"/models/{model}/cancel")
    return model


def every_page_of(browser: httpx.Client, model: str) -> dict[str, Page]:
    """Ask for every page of a model, the pages and charts that these lead to, and every other chart."""
    at = OF_A_MODEL.format(model_id=model)
    posts = [
        re.compile(path.replace("{model_id}", model) + "$") for method, path in ROUTES if method == "POST"
    ]
    queue, pages, pictures = [at], {}, set()
    while queue:
        address = queue.pop()
        path = address.partition("?")[0]
        if address in pages or path.endswith(("/file", ".csv", ".svg")):
            continue
        answer = browser.get(address)
        assert answer.headers["content-type"].startswith("text/html"), address
        assert answer.status_code == 200, (address, " ".join(Page(answer.text).prose.split())[:3000])
        page = pages[address] = page_of(answer)
        inside = [path + link if link.startswith("?") else link for link in page.links]
        queue += [link for link in inside if link.partition("?")[0].startswith(at) and "#" not in link]
        queue += [at + tab + query for tab, query in QUERIES.items() if path == at + tab]
        if path == f"{at}/treatment" and "?" not in address:  # by each that may be chosen, the groups last
            choices = re.findall(r'<select id="by".*?>(.*?)</select>', page.text, re.DOTALL)
            queue += [f"{path}?by={unescape(each)}" for each in re.findall(r'value="([^"]*)"', *choices)[-1:]]
        if path == f"{at}/predict":  # of the row that the form has
            typed = {each["name"]: each.get("value") or "" for each in page.controls}
            for name, options in re.findall(r'<select id="(f\d+)".*?>(.*?)</select>', page.text, re.DOTALL):
                typed[name] = unescape(re.findall(r'value="([^"]*)"', options)[-1])
            row = urlencode(
                {name: value for name, value in typed.items() if re.fullmatch(r"f\d+", name or "")}
            )
            queue += [f"{path}?{row}"] if row else []
        pictures |= {unescape(each) for each in re.findall(r'src="(/ui/models/[^"]*\.svg[^"]*)"', page.text)}
        for form in page.forms:
            action = (form["action"] or "").partition("?")[0]
            own = form["method"] == "post" and action.startswith(f"{at}/")
            assert not own or any(each.match(action) for each in posts), action
    for picture in pictures:
        drawn = browser.get(picture)
        assert drawn.status_code == 200, (picture, drawn.text)
        checked_svg(drawn.content)
    for method, path in ROUTES:
        names = CHARTS if "{name}" in path else ("",)
        for name in names if method == "GET" else ():
            answer = browser.get(path.replace("{model_id}", model).replace("{name}", name))
            assert answer.status_code < 500, (path, name, answer.text)
    return pages


def by_tier(names: Sequence[str], quick: Sequence[str] = (), slow: Sequence[str] = ()) -> list[Any]:
    """Return names as cases of their tier: those in neither go to the long one."""
    tiers = [(quick, ()), (slow, pytest.mark.slow), (names, pytest.mark.long)]
    return [pytest.param(each, marks=next(m for known, m in tiers if each in known)) for each in names]


def check(pages: dict[str, Page], *, has_treatment: bool, name: str = "") -> None:
    """Check that pages have words for people, and that every tab is among them."""
    told = {address: words for address, page in pages.items() if (words := page.words_of_programs())}
    assert not told
    found = {address.partition("?")[0].rpartition("/")[2] for address in pages}
    assert found >= {"chains", "features", "effects", "what-if", "outcomes", "predict", "improve", "settings"}
    assert ("treatment" in found) == ("report" in found) == has_treatment
    if "groups" in name:
        assert not has_treatment or "treatment?by=site" in {each.rpartition("/")[2] for each in pages}


@pytest.mark.parametrize("name", by_tier(KINDS, QUICK, SLOW))
@pytest.mark.sampled(quick=1, slow=5)
def test_pages_of_an_imported_model(browser, client, name):
    """A model from a file has every page, the treatment's too, every chart that they name and no 500."""
    check(
        every_page_of(browser, imported(client, name)),
        has_treatment="treatment" in Kind(name).arguments,
        name=name,
    )


@pytest.mark.parametrize("name", by_tier(KINDS, slow=FITTED))
@pytest.mark.sampled(slow=3)
def test_pages_of_a_fitted_model(browser, client, settings, name):
    """So has one that was fitted here, though a row without an outcome had to be left out."""
    pages = every_page_of(browser, fitted_here(client, settings, name, unknown=True))
    check(pages, has_treatment="treatment" in Kind(name).arguments, name=name)


@pytest.mark.parametrize("state", by_tier(STATES, quick=("failed", "queued"), slow=STATES))
@pytest.mark.sampled(quick=1, slow=4)
def test_pages_of_a_model_in_any_state(browser, client, settings, database, state):
    """So has one that isn't finished, never will be, is of a set, or doesn't serve its name."""
    check(
        every_page_of(browser, in_state(client, settings, database, state)), has_treatment=state == "of a set"
    )


@needs_chromium
@pytest.mark.parametrize("name", by_tier((*OVERVIEWS, "imported", *STATES), slow=OVERVIEWS_SLOW))
def test_an_overview_is_short_and_has_one_next_step(
    chromium,  # noqa: F811  the fixture of that name
    client,
    settings,
    database,
    name,
):
    """A page of any kind or state has few words, fits two screens, and offers one thing to do next."""
    if name in OVERVIEWS:
        kind, more = OVERVIEWS[name]
        model = fitted_here(client, settings, kind, **more)
    else:
        model = (
            imported(client, "gaussian") if name == "imported" else in_state(client, settings, database, name)
        )
    for window in watched(chromium, str(client.base_url).rstrip("/")):
        window.go(OF_A_MODEL.format(model_id=model))
        for width, most in MOST_PIXELS.items():
            window.page.set_viewport_size({"width": width, "height": 900})
            pictures = window.pictures()
            pixels = window.page.evaluate("document.documentElement.scrollHeight")
            words = len(window.page.inner_text("body").split())
            print(f"{name}: {words} words, {pixels} pixels at {width}")  # pytest -s
            assert (words <= MOST_WORDS, pixels <= most) == (True, True)
            window.fits()
        is_open = name in ("queued", "running")
        has_rows = name in CHARTED or "holdout" in OVERVIEWS.get(name, ("", {}))[1]
        assert pictures == (2 if name == "running" else has_rows)
        assert window.page.locator("#next").count() == (not is_open)
        assert window.page.locator(".primary").count() == (not is_open)
