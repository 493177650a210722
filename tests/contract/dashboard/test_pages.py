"""Pages as a browser without JavaScript shows them."""

import re
from html import escape, unescape
from typing import Any

import pytest

from app.store import events
from app.store.engine import session_scope
from tests.support.api_calls import post_csv, problem, table
from tests.support.databases import only
from tests.support.html_page import Page, page_of
from tests.support.models.fitted_models import SMALL, fitted

HOSTILE = "\"><script>alert(1)</script>'{{7*7}}<img src=x onerror=alert(1)>"
pytestmark = only("sqlite")


def crawl(browser, start: str, most: int = 60) -> dict[str, str]:
    """Return every linked page of the dashboard by address, read and checked."""
    pages: dict[str, str] = {}
    waiting = [start]
    while waiting and len(pages) < most:
        path = waiting.pop(0)
        if path in pages or not (path == "/" or path.startswith("/ui/")):
            continue
        if path.partition("?")[0].endswith((".svg", ".csv")):  # a download
            continue
        response = browser.get(path)
        page = page_of(response)
        pages[path] = response.text
        here = path.partition("?")[0]
        waiting += [(here + link if link.startswith("?") else link).partition("#")[0] for link in page.links]
    return pages


def test_every_page_that_links_lead_to_is_there(browser, client, settings):
    """Every page reachable by links is a 200, strict and labelled, for models in every state."""
    model = fitted(client, settings, name="mine", holdout=0.2)
    client.post("/models", json={"dataset_id": model["dataset_id"], "target": "y", "name": "waits"} | SMALL)
    stopped = client.post("/models", json={"dataset_id": model["dataset_id"], "target": "y"} | SMALL).json()
    client.post(f"/models/{stopped['id']}/cancel")

    pages = crawl(browser, "/")

    for path in (
        "/ui/datasets",
        "/ui/models",
        "/ui/service",
        f"/ui/datasets/{model['dataset_id']}",
        f"/ui/models/{model['id']}",
        f"/ui/models/{stopped['id']}",
        f"/ui/models/new?dataset={model['dataset_id']}",
    ):
        assert path in pages
    told = {path: words for path, text in pages.items() if (words := Page(text).words_of_programs())}
    assert not told


def test_an_empty_service_says_how_to_begin(browser):
    """The first page of an empty service has an upload form and reports the missing worker."""
    page = page_of(browser.get("/"))

    (upload,) = (form for form in page.forms if form.get("enctype") == "multipart/form-data")
    assert upload["action"] == "/ui/datasets"
    assert "Start with a table" in page.words
    (sample,) = (form for form in page.forms if form["action"].endswith("/sample"))
    assert "no worker sends heartbeats" in page.words
    page_of(browser.get("/ui/models/new"))
    page = page_of(browser.post(sample["action"]))
    assert "auto_mpg" in page.words
    assert "397" in page.words
    assert "Use sample data" not in page_of(browser.get("/")).words, "there is a table now"


def test_the_log_is_paged_from_the_newest_event_to_the_first(browser, client, database):
    """A long log is paged from the newest event to the model's creation, each event once."""
    dataset = post_csv(client, table(60)).json()
    body = {"dataset_id": dataset["id"], "target": "y"} | SMALL
    at = f"/ui/models/{client.post('/models', json=body).json()['id']}/settings"
    with session_scope(database.engine) as session:
        for number in range(120):
            events.append(session, at.split("/")[3], "of_a_later_version", {"number": number})

    entries, path = [], at
    while path:
        page = page_of(browser.get(path))
        log = re.search(r"Events(.*?)With curl", page.words, re.DOTALL)[1]
        entries.append(re.findall(r"number (\d+?)(?=\d{4}-|\s|$)", log))
        assert ("Created" in log) == (not [link for link in page.links if "before=" in link])
        assert (f"{at}#log" in page.links) == (path != at)
        path = next((at + link for link in page.links if link.startswith("?before=")), None)

    assert [len(page) for page in entries] == [50, 50, 20]
    assert [int(number) for page in entries for number in page] == list(range(119, -1, -1))
    assert "no earlier events" in page_of(browser.get(f"{at}?before=1")).words
    page_of(browser.get(f"{at}?before=x"), 422)


def test_hostile_names_are_shown_as_they_are(browser, client, settings):
    """Names of datasets, columns, levels and models are escaped on every page."""
    rows = "\n".join(f'{row % 7},{row},"{HOSTILE.replace(chr(34), chr(34) * 2)}"' for row in range(30))
    header = f'y,"{HOSTILE.replace(chr(34), chr(34) * 2)}",c'
    dataset = post_csv(client, f"{header}\n{rows}\n", name=HOSTILE).json()
    body = {"dataset_id": dataset["id"], "target": "y", "name": HOSTILE.replace("/", "")} | SMALL
    assert client.post("/models", json=body).status_code == 202

    pages = crawl(browser, "/")

    assert len(pages) > 6
    for path, text in pages.items():
        assert "<script>alert" not in text, path
        assert "<img src=x" not in text, path
    assert escape(HOSTILE, quote=False).replace("'", "&#39;").replace('"', "&#34;") in pages["/ui/datasets"]
    assert "{{7*7}}" in pages["/ui/datasets"]


def test_errors_are_pages_for_browsers_and_problems_for_clients(browser, client):
    """An error is a page with a next step in a browser and a problem document for a program."""
    page = page_of(browser.get("/ui/models/mdl_none"), 404)
    assert "There is no model with this id" in page.words
    assert "/ui/models" in page.links
    assert "What to do next" in page.words
    page_of(browser.get("/nowhere"), 404)
    page_of(browser.post("/ui/datasets", files={"file": ("t.csv", "a,a\n1,2\n")}), 422)
    page_of(browser.post("/ui/datasets", data={"name": "no file"}), 415)
    problem(client.get("/ui/models/mdl_none"), 404, "not-found")
    problem(client.get("/nowhere"), 404)
    problem(browser.post("/datasets", content=b"a,a\n1,2\n", headers={"Content-Type": "text/csv"}), 422)


def test_a_form_sent_by_another_site_is_refused(browser, client):
    """Forms from another site are refused by their Origin or Sec-Fetch-Site header."""
    dataset = post_csv(client, table()).json()
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        page_of(browser.post(f"/ui/datasets/{dataset['id']}/delete", headers=headers), 403)
    assert client.get(f"/datasets/{dataset['id']}").status_code == 200
    own = {"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    page_of(browser.post(f"/ui/datasets/{dataset['id']}/delete", headers=own))
    assert client.get(f"/datasets/{dataset['id']}").status_code == 404


def test_static_files_are_kept_for_good_by_their_address(browser):
    """Styles, scripts and icons are served locally, with their types, at addresses derived from content."""
    text = browser.get("/").text
    for kind, match in (
        ("text/css", re.search(r'href="(/ui/static/style\.css\?v=\w+)"', text)),
        *(
            ("text/javascript", re.search(rf'src="(/ui/static/{name}\.js\?v=\w+)"', text))
            for name in ("formatting", "uploads", "forms", "live")
        ),
        ("image/svg+xml", re.search(r'href="(/ui/static/mark\.svg\?v=\w+)"', text)),
    ):
        assert match is not None
        answer = browser.get(match[1])
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        assert "immutable" in answer.headers["cache-control"]
    assert "url(" not in browser.get("/ui/static/style.css").text
    assert browser.get("/ui/static/../pages.py").status_code == 404


def test_the_python_of_every_page_runs(browser, client, settings, tmp_path, monkeypatch):
    """The Python code shown on pages runs unchanged."""
    (tmp_path / "data.csv").write_text(table(20))
    monkeypatch.chdir(tmp_path)
    model = fitted(client, settings, name="mine", holdout=0.2)
    at = f"/ui/models/{model['id']}"
    namespace: dict[str, object] = {}
    form = page_of(browser.get(f"{at}/predict"))
    named = [control["name"] for control in form.controls if re.fullmatch(r"f\d+", control.get("name") or "")]
    row = "&".join(f"{name}=0" for name in named)
    new = f"/ui/models/new?dataset={model['dataset_id']}&target=y"
    tabs = [at, f"{at}/chains", f"{at}/features", f"{at}/effects?part=all", f"{at}/predict?{row}"]
    for path in ["/", "/ui/models", "/ui/service", f"/ui/datasets/{model['dataset_id']}", new, *tabs]:
        (code,) = re.findall(
            r"from bartserve import .*?print\(answer\)", unescape(browser.get(path).text), re.DOTALL
        )
        session: dict[str, Any] = {}
        exec(code.replace("'TARGET'", "'y'"), session)
        session["bart"].close()
        namespace[path] = session["answer"]

    assert namespace[at].verdict == model["verdict"]
    assert namespace[new].state == "queued"
    assert namespace[tabs[-1]].mean.shape == (1,)


@pytest.mark.parametrize("path", ["/nothing", "/ui/nothing", "/ui/models/none", "/ui/datasets/none/rows.csv"])
def test_a_page_that_is_not_there_speaks_to_people(browser, path):
    """Errors of HTTP itself are said without words of programs."""
    page = Page(browser.get(path).text)
    assert not page.words_of_programs()
    assert "What to do next" in page.words
