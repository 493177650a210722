"""Pages as a browser without JavaScript shows them."""

import io
import json
import re
from html import escape, unescape
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.dashboard import formatting
from app.store import events
from app.store.engine import session_scope
from app.web.read_options import UploadQuery
from tests.support.api_calls import post_csv, problem, table
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import SMALL, fitted, run_units
from tests.support.models.partial_chains import give_back, take_chains
from worker.context import Context
from worker.units import run_one

HOSTILE = "\"><script>alert(1)</script>'{{7*7}}<img src=x onerror=alert(1)>"
pytestmark = only("sqlite")


def crawl(browser, start: str, most: int = 60) -> dict[str, str]:
    """Return every linked page of the dashboard by address, read and checked."""
    seen: dict[str, str] = {}
    waiting = [start]
    while waiting and len(seen) < most:
        path = waiting.pop(0)
        if path in seen or not (path == "/" or path.startswith("/ui/")):
            continue
        if path.partition("?")[0].endswith((".svg", ".csv")):  # a download
            continue
        response = browser.get(path)
        page = page_of(response)
        seen[path] = response.text
        here = path.partition("?")[0]
        waiting += [(here + link if link.startswith("?") else link).partition("#")[0] for link in page.links]
    return seen


def test_every_page_that_links_lead_to_is_there(browser, client, settings):
    """Every page reachable by links is a 200, strict and labelled, for models in every state."""
    model = fitted(client, settings, name="mine", holdout=0.2)
    client.post("/models", json={"dataset_id": model["dataset_id"], "target": "y", "name": "waits"} | SMALL)
    stopped = client.post("/models", json={"dataset_id": model["dataset_id"], "target": "y"} | SMALL).json()
    client.post(f"/models/{stopped['id']}/cancel")

    seen = crawl(browser, "/")

    for path in (
        "/ui/datasets",
        "/ui/models",
        "/ui/service",
        f"/ui/datasets/{model['dataset_id']}",
        f"/ui/models/{model['id']}",
        f"/ui/models/{stopped['id']}",
        f"/ui/models/new?dataset={model['dataset_id']}",
    ):
        assert path in seen


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


def test_a_file_sent_by_the_form_becomes_a_dataset_with_its_profile(browser):
    """An uploaded file's page shows kinds, missing values, histograms and first rows."""
    text = "size,colour,when,new\n"
    text += "1,red,2024-01-01,true\n,blue,2024-02-01,false\n3,red,2024-03-01,false\n" * 8
    answer = browser.post("/ui/datasets", data={"name": "my table"}, files={"file": ("t.csv", text)})
    page = page_of(answer)

    assert re.fullmatch(r".*/ui/datasets/ds_\w+", str(answer.url))
    assert "my table" in page.words
    for told in ("number", "category", "date", "8 33.3%", "missing", "2024-03-01"):
        assert told in " ".join(page.words.split()), told
    assert "false67%" in "".join(page.words.split())
    assert not {"True", "False"} & set(page.words.split())
    assert page.tags.count("svg") == 1 + 2  # the logo, a histogram of numbers and one of dates
    assert browser.get("/datasets").json()["items"][0]["name"] == "my table"


def test_a_model_is_made_by_the_form_and_a_second_click_makes_no_second(browser, client):
    """A form creates a model with its target, features and settings; sent twice it creates one."""
    dataset = post_csv(client, table(60)).json()
    form = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}")).hidden
    form |= {"target": "y", "features": ["size", "y"], "holdout": "20", "num_trees": "10", "name": "mine"}

    first = browser.post("/ui/models", data=form)
    again = browser.post("/ui/models", data=form)

    page = page_of(first)
    assert again.url == first.url
    assert "Predicts y" in page.words
    (model,) = client.get("/models").json()["items"]
    assert model["settings"]["features"] == ["size"]
    assert (model["settings"]["holdout"], model["settings"]["num_trees"]) == (0.2, 10)
    assert model["settings"]["family"] == "gaussian"


def test_what_a_fit_takes_is_estimated_before_it_starts(browser, client):
    """The form estimates time and memory, more for more draws, and starts nothing."""
    dataset = post_csv(client, table(60)).json()
    form = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}")).hidden
    form |= {"target": "y", "features": "size", "num_draws": "250"}

    page = page_of(browser.post("/ui/models/estimate", data=form))
    longer = page_of(browser.post("/ui/models/estimate", data=form | {"num_draws": "250000"}))

    told = re.search(
        r"About (.+?) once there is a worker, and (\d+) MB of memory", " ".join(page.words.split())
    )
    assert told is not None
    assert f"About {told[1]} " not in longer.words
    assert client.get("/models").json()["items"] == []
    wrong = page_of(browser.post("/ui/models/estimate", data=form | {"num_trees": "many"}), 422)
    assert [c["name"] for c in wrong.controls if c.get("aria-invalid") == "true"] == ["num_trees"]


def test_an_invalid_form_marks_its_fields_and_keeps_its_entries(browser, client):
    """An invalid form is a 422 that marks the field and keeps all entries."""
    dataset = post_csv(client, table(60)).json()
    form = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}")).hidden
    form |= {"target": "y", "features": "size", "num_trees": "many", "name": "kept", "holdout": "95"}

    page = page_of(browser.post("/ui/models", data=form), 422)

    wrong = {control["name"] for control in page.controls if control.get("aria-invalid") == "true"}
    assert wrong == {"num_trees", "holdout"}
    values = {control["name"]: control.get("value") for control in page.controls}
    assert (values["name"], values["num_trees"]) == ("kept", "many")
    ticked = [c["value"] for c in page.controls if c["name"] == "features" and "checked" in c]
    assert ticked == ["size"]
    page = page_of(browser.post("/ui/models", data=form | {"num_trees": "0", "holdout": ""}), 422)
    assert "num_trees must be a whole number from 1" in page.words


def test_models_are_cancelled_retried_extended_and_deleted_by_forms(browser, client, settings):
    """Each button acts as the API does, then shows the model."""
    model = fitted(client, settings)
    at = f"/ui/models/{model['id']}"

    def state() -> str:
        return client.get(f"/models/{model['id']}").json()["state"]

    page_of(browser.post(f"{at}/extend", data={"num_draws": "5"}))
    assert state() == "queued"
    page_of(browser.post(f"{at}/cancel"))
    assert state() == "cancelled"
    page_of(browser.post(f"{at}/retry"))
    assert state() == "queued"
    page_of(browser.post(f"{at}/extend", data={"num_draws": "5"}), 409)
    page_of(browser.post(f"{at}/extend", data={"num_draws": "a few"}), 422)
    page_of(browser.post(f"/ui/datasets/{model['dataset_id']}/delete"), 409)
    page_of(browser.post(f"{at}/delete"))
    assert client.get(f"/models/{model['id']}").status_code == 404
    page_of(browser.post(f"/ui/datasets/{model['dataset_id']}/delete"))
    assert client.get("/datasets").json()["items"] == []


def test_a_model_that_has_not_converged_is_continued_by_one_button(browser, client, settings):
    """The verdict says what is usable, and a button with an estimate sets the stop rule."""
    model = fitted(client, settings)
    at = f"/ui/models/{model['id']}"
    page = page_of(browser.get(at))

    assert model["verdict"] == "not_converged"
    assert model["diagnostics"]["precision"]["text"] in page.words
    assert re.search(r"Continue until converged \(about \d+ s\)", page.words)
    assert "num_draws=" not in page.words, "no advice that the page doesn't offer"
    page = page_of(browser.post(f"{at}/extend", data={"until": "converged"}))
    assert "Waiting for a worker" in page.words
    stop = client.get(f"/models/{model['id']}").json()["settings"]["stop"]
    assert (stop["verdict"], stop["first_look"]) == ("converged", 60)


def test_a_running_fit_shows_its_phase_and_its_traces(browser, client, settings, database):
    """Before the first draw the charts are hidden; afterwards they show the draws so far."""
    dataset = post_csv(client, table(60)).json()
    body = {"dataset_id": dataset["id"], "target": "y"} | SMALL
    model_id = client.post("/models", json=body).json()["id"]
    at, charts = f"/ui/models/{model_id}", r'<section data-live-charts(=""| hidden)?>'
    waiting = browser.get(at)
    assert "Waiting for a worker" in page_of(waiting).words
    assert re.search(charts, waiting.text)[1] == " hidden"
    claims = take_chains(database.engine, 20, 20)
    running = browser.get(at)
    assert "Sampling" in page_of(running).words
    assert not re.search(charts, running.text)[1]
    assert client.get(f"/models/{model_id}").json()["progress"]["phase"] == "sampling"
    images = re.findall(r'<img src="([^"]+)"', running.text)
    assert len(images) == 2
    for image in images:
        assert browser.get(image.replace("&amp;", "&")).status_code == 200
    give_back(database.engine, claims)


def test_the_phase_after_the_last_chain_is_named(browser, client, settings, database):
    """While the verdict is being computed, page and API say so."""
    dataset = post_csv(client, table(60)).json()
    body = {"dataset_id": dataset["id"], "target": "y"} | SMALL | {"num_chains": 1}
    model_id = client.post("/models", json=body).json()["id"]
    context = Context(settings, "tests")
    assert run_one(context)  # the chain; the finish is left
    context.close()

    assert client.get(f"/models/{model_id}").json()["progress"]["phase"] == "finishing"
    assert "judging convergence" in page_of(browser.get(f"/ui/models/{model_id}")).words


def test_a_file_is_predicted_and_downloaded_with_its_own_columns(browser, client, settings):
    """Without JavaScript: a preview with bars, then the same file as CSV, Parquet and Arrow."""
    model = fitted(client, settings)
    at = f"/ui/models/{model['id']}/predict"
    rows = "id,colour,size\n007,red,3\n008,blue,1000\n"

    def send(wanted: str, text: str = rows, **more):
        file = {"file": ("my rows.csv", text)}
        return browser.post(at, data={"as": wanted} | more, files=file)

    preview = page_of(send("preview"))
    csv = send("csv", level="80")

    words = " ".join(preview.words.split())
    assert "my rows.csv: 2 rows" in words
    assert "007" in words
    assert "size: outside the training range" in words
    assert preview.tags.count("svg") == 1 + 2
    assert "keep=" in preview.words, "the same with curl"
    assert csv.headers["content-disposition"] == 'attachment; filename="my_rows-predicted.csv"'
    lines = csv.text.replace('"', "").splitlines()
    assert lines[0] == "id,colour,size,mean,sd,lower_80,upper_80,flags,interval"
    assert lines[1].startswith("007,red,3,")
    parquet = pq.read_table(io.BytesIO(send("parquet").content))
    arrow = pa.ipc.open_stream(send("arrow").content).read_all()
    assert parquet.equals(arrow)
    assert parquet["id"].to_pylist() == ["007", "008"]
    refused = page_of(send("csv", "id,colour\n1,red\n"), 422)
    assert "the model needs this column" in refused.words
    page_of(send("preview", level="many"), 422)
    page_of(browser.post(at, data={"as": "csv"}), 415)


def test_noise_that_varies_goes_from_the_form_to_the_preview(browser, client, settings):
    """A fit with noise="forest", by the form and by the API, gives each row its own spread."""
    rng = np.random.default_rng(3)
    x = rng.uniform(size=120)
    y = x + rng.normal(size=120) * (0.02 + 2 * (x > 0.5))
    rows = "y,x\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in zip(y, x, strict=True))
    dataset = post_csv(client, rows).json()
    form = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}"))
    (field,) = (control for control in form.controls if control["name"] == "noise")
    assert field["id"] == "noise"
    small = SMALL | {"num_draws": 100, "num_burnin": 200}
    sent = form.hidden | {name: str(value) for name, value in small.items()}
    made = browser.post("/ui/models", data=sent | {"target": "y", "features": "x", "noise": "forest"})
    run_units(settings)

    page = page_of(browser.get(str(made.url)))
    model = client.get(f"/models/{str(made.url).rpartition('/')[2]}").json()
    assert (model["state"], model["settings"]["noise"]) == ("succeeded", "forest")
    assert "forest" in page.words
    file = {"file": ("new.csv", "x\n0.2\n0.8\n")}
    preview = page_of(browser.post(f"/ui/models/{model['id']}/predict", data={"as": "preview"}, files=file))
    columns = {"columns": {"x": [0.2, 0.8]}}
    answer = client.post(f"/models/{model['id']}/predict", json=columns).json()
    calm, wild = answer["sd"]
    assert wild > 2 * calm
    for spread in (calm, wild):
        assert f'<td class="num">{formatting.number(spread, 3)}</td>' in preview.text
    for tab in ("chains", "features", "effects", "predict?f0=0.8"):
        for image in page_of(browser.get(f"/ui/models/{model['id']}/{tab}")).images:
            assert browser.get(image["src"]).status_code == 200
    body = {"dataset_id": dataset["id"], "target": "y", "noise": "forest"} | small
    by_api = client.post("/models", json=body).json()["id"]
    run_units(settings)
    assert client.post(f"/models/{by_api}/predict", json=columns).json()["sd"] == answer["sd"]


def test_a_prediction_says_why(browser, client, settings):
    """Below the prediction of a row stand the SHAP values of the API, the largest first, with a bar each."""
    model = fitted(client, settings)
    row = {"size": 7.0, "colour": "red"}
    values = client.post(f"/models/{model['id']}/shap", json={"rows": [row]}).json()
    page = page_of(browser.get(f"/ui/models/{model['id']}/predict?f0=7&f1=red"))
    shown = page.text[page.text.index('id="why"') :]
    effects = dict(zip(values["features"], values["values"][0], strict=True))
    order = sorted(effects, key=lambda name: -abs(effects[name]))
    at = [shown.index(f'<th scope="row">{name}</th>') for name in order]
    assert at == sorted(at)
    for effect in effects.values():
        assert f'<td class="num">{formatting.number(effect, 3)}</td>' in shown


def test_held_out_rows_and_the_model_are_downloads(browser, client, settings):
    """The overview links to both, by the address of the model."""
    model = fitted(client, settings, holdout=0.25)
    page = page_of(browser.get(f"/ui/models/{model['id']}"))

    (rows,) = (link for link in page.links if link.endswith("held-out.csv"))
    lines = browser.get(rows).text.splitlines()
    assert lines[0].replace('"', "") == "row,actual,mean,lower_90,upper_90"
    assert len(lines) == 1 + 15
    (file,) = (link for link in page.links if link.endswith("/file"))
    assert browser.get(file).headers["content-type"] == "application/vnd.bartserve.model"


def test_a_dataset_is_mended_on_its_page(browser, client):
    """The page asks about codes for missing and offers other kinds; one form does both, without an upload."""
    text = "rent,area,city\n" + "".join(
        f"{'k.A.' if i % 7 == 0 else 500 + i},{30 + i},9\n" for i in range(42)
    )
    old = post_csv(client, text, name="flats").json()
    at = f"/ui/datasets/{old['id']}"
    page = page_of(browser.get(at))
    words = " ".join(page.words.split())
    assert "rent: k.A. in 6 rows; 36 of 42 values are numbers" in words
    assert "always the same: tells a model nothing" in words
    ticked = {c["name"]: c["value"] for c in page.controls if c.get("type") == "checkbox" and "checked" in c}
    assert ticked == {"codes:rent": "k.A."}

    made = browser.post(
        f"{at}/amend", data=page.hidden | ticked | {"kind:rent": "category", "kind:area": "text"}
    )

    page_of(made)
    new = client.get(f"/datasets/{str(made.url).rpartition('/')[2]}").json()
    assert new["name"] == "flats"
    assert [column["kind"] for column in new["columns"]] == ["number", "category", "number"]
    assert new["columns"][0]["missing"] == 6
    assert client.get(f"/datasets/{old['id']}").status_code == 404, "nothing needs the old one"
    page_of(browser.post(f"/ui/datasets/{new['id']}/amend", data={"kind:rent": "number"}), 422)


def test_rows_without_a_target_are_left_out_by_a_ticked_box(browser, client, settings):
    """The refusal is one line with the rows, and brings a box that says how many it leaves out."""
    text = "y,size\n" + "".join(f"{'' if i % 10 == 3 else i % 7},{i}\n" for i in range(60))
    dataset = post_csv(client, text).json()
    form = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}"))
    assert "missing_target" not in {c["name"] for c in form.controls if "disabled" not in c}
    sent = (
        form.hidden
        | {name: str(value) for name, value in SMALL.items()}
        | {"target": "y", "features": "size", "holdout": "20"}
    )

    refused = page_of(browser.post("/ui/models", data=sent), 422)

    assert refused.words.count("the target is missing") == 2, "in the summary, and once at the field"
    assert "(rows 4, 14, 24, 34, 44, …)" in refused.words
    assert "Leave out the 6 rows without it" in " ".join(refused.words.split())
    (box,) = (c for c in refused.controls if c["name"] == "missing_target")
    assert "checked" in box
    made = browser.post("/ui/models", data=sent | {"missing_target": box["value"]})
    run_units(settings)
    page = page_of(browser.get(str(made.url)))
    model = client.get(f"/models/{str(made.url).rpartition('/')[2]}").json()
    assert model["state"] == "succeeded"
    assert model["settings"]["missing_target"] == "leave_out"
    assert model["holdout"]["rows"] <= 12
    assert "6 rows without y are left out" in page.words
    held_out = client.get(f"/models/{model['id']}/holdout").json()
    assert len(held_out["rows"]["row"]) == model["holdout"]["rows"]
    assert not any(row % 10 == 4 for row in held_out["rows"]["row"])


def test_models_are_searched_sorted_and_compared(browser, client, settings):
    """The table has error, skill, coverage and time; a model without a name says what it predicts."""
    good = fitted(client, settings, holdout=0.25, seed=1)
    body = {"dataset_id": good["dataset_id"], "target": "y"} | SMALL
    client.post("/models", json=body | {"holdout": 0.25, "num_trees": 1, "seed": 2})
    client.post("/models", json=body | {"name": "mine", "method": "bcart", "num_trees": 1, "num_burnin": 50})
    run_units(settings)
    one, other = (m for m in client.get("/models").json()["items"] if m["name"] is None)
    assert (good["label"], other["label"], one["label"]) == ("y from dataset",) * 2 + ("y from dataset, 2",)

    def listed(**query) -> list[str]:
        page = browser.get("/ui/models", params=query)
        page_of(page)
        return re.findall(r'<th scope="row"><a href="[^"]+">([^<]+)</a>', page.text)

    assert listed() == ["mine", "y from dataset, 2", "y from dataset"]
    errors = {m["label"]: m["holdout"]["rmse"] for m in (one, other)}
    best_first = sorted(errors, key=errors.get)
    assert listed(sort="error") == [*best_first, "mine"], "one without an error comes last"
    assert listed(sort="error", order="down") == [*best_first[::-1], "mine"]
    assert listed(q="bcart") == ["mine"]
    assert listed(q="dataset", sort="model") == ["y from dataset", "y from dataset, 2"]
    assert listed(q="nothing like it") == []
    page_of(browser.get("/ui/models", params={"sort": "luck"}), 422)
    page = page_of(browser.get("/ui/models/compare", params={"model": [one["id"], other["id"]]}))
    assert '<th scope="row">Trees</th><td>1</td><td>10</td>' in page.text
    assert '<th scope="row">Seed</th><td>2</td><td>1</td>' in page.text
    assert len(page.images) == 2
    page_of(browser.get("/ui/models/compare", params={"model": [one["id"]]}), 422)


def test_a_model_with_a_holdout_is_fitted_to_all_rows_by_a_button(browser, client, settings):
    """The new model has the same settings and name, and no holdout; the API does the same."""
    model = fitted(client, settings, name="mine", holdout=0.25, stop={"max_rhat": 9.0}, prior={"k": 3})
    assert "Fit on all rows" in page_of(browser.get(f"/ui/models/{model['id']}")).words

    made = browser.post(f"/ui/models/{model['id']}/refit")
    by_api = client.post(f"/models/{model['id']}/refit", json={"name": "other"})

    page_of(made)
    new = client.get(f"/models/{str(made.url).rpartition('/')[2]}").json()
    assert new["settings"] == model["settings"] | {"holdout": 0.0}
    assert (new["name"], by_api.json()["name"]) == ("mine", "other")
    assert by_api.json()["settings"] == new["settings"]
    file = client.get(f"/models/{model['id']}/file").content
    kind = {"Content-Type": "application/vnd.bartserve.model"}
    imported = client.post("/models", content=file, headers=kind).json()
    problem(client.post(f"/models/{imported['id']}/refit", json={}), 409, "conflict")


def test_the_log_is_paged_from_the_newest_event_to_the_first(browser, client, database):
    """A long log is paged from the newest event to the model's creation, each event once."""
    dataset = post_csv(client, table(60)).json()
    body = {"dataset_id": dataset["id"], "target": "y"} | SMALL
    at = f"/ui/models/{client.post('/models', json=body).json()['id']}"
    with session_scope(database.engine) as session:
        for number in range(120):
            events.append(session, at.rpartition("/")[2], "resumed", {"number": number})

    told, path = [], at
    while path:
        page = page_of(browser.get(path))
        log = re.search(r"Events(.*?)With curl", page.words, re.DOTALL)[1]
        told.append(re.findall(r"number (\d+?)(?=\d{4}-|\s|$)", log))
        assert ("created" in log) == (not [link for link in page.links if "before=" in link])
        assert (f"{at}#log" in page.links) == (path != at)
        path = next((at + link for link in page.links if link.startswith("?before=")), None)

    assert [len(page) for page in told] == [50, 50, 20]
    assert [int(number) for page in told for number in page] == list(range(119, -1, -1))
    assert "no earlier events" in page_of(browser.get(f"{at}?before=1")).words
    page_of(browser.get(f"{at}?before=x"), 422)


def test_hostile_names_are_shown_as_they_are(browser, client, settings):
    """Names of datasets, columns, levels and models are escaped on every page."""
    rows = "\n".join(f'{row % 7},{row},"{HOSTILE.replace(chr(34), chr(34) * 2)}"' for row in range(30))
    header = f'y,"{HOSTILE.replace(chr(34), chr(34) * 2)}",c'
    dataset = post_csv(client, f"{header}\n{rows}\n", name=HOSTILE).json()
    body = {"dataset_id": dataset["id"], "target": "y", "name": HOSTILE.replace("/", "")} | SMALL
    assert client.post("/models", json=body).status_code == 202

    seen = crawl(browser, "/")

    assert len(seen) > 6
    for path, text in seen.items():
        assert "<script>alert" not in text, path
        assert "<img src=x" not in text, path
    assert escape(HOSTILE, quote=False).replace("'", "&#39;").replace('"', "&#34;") in seen["/ui/datasets"]
    assert "{{7*7}}" in seen["/ui/datasets"]


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
    for kind, found in (
        ("text/css", re.search(r'href="(/ui/static/style\.css\?v=\w+)"', text)),
        ("text/javascript", re.search(r'src="(/ui/static/page\.js\?v=\w+)"', text)),
        ("image/svg+xml", re.search(r'href="(/ui/static/mark\.svg\?v=\w+)"', text)),
    ):
        assert found is not None
        answer = browser.get(found[1])
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        assert "immutable" in answer.headers["cache-control"]
    assert "url(" not in browser.get("/ui/static/style.css").text
    assert browser.get("/ui/static/../pages.py").status_code == 404


def test_the_list_follows_its_models_in_one_stream(browser, client):
    """One stream has progress and end of each listed model by id, without other owners' models."""
    dataset = post_csv(client, table(60)).json()
    body = {"dataset_id": dataset["id"], "target": "y"} | SMALL
    made = [client.post("/models", json=body).json()["id"] for _ in range(2)]
    told: list[tuple[str, dict]] = []
    with client.stream("GET", "/ui/events", params={"models": ",".join(made)}) as stream:
        kind = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                told.append((kind, json.loads(line.removeprefix("data: "))))
                if {entry["model"] for _, entry in told} == set(made) and kind == "progress":
                    client.post(f"/models/{made[1]}/cancel")
    assert {entry["state"] for kind, entry in told if kind == "progress"} == {"queued"}
    assert told[-1] == ("end", {"model": made[1]})
    problem(client.get("/ui/events", params={"models": "mdl_none"}), 404)


def test_the_form_says_how_a_file_is_written(browser, client):
    """The form has every reading option and column kind; an unknown value is reported."""
    rows = "1,5|1/2/2026|x|7\n2,5|3/2/2026|?|8\n" * 12
    told = {"separator": "bar", "decimal": "comma", "header": "false", "dates": "day-first"}
    told |= {"missing": "?, x y", "encoding": "utf-8", "quoting": "none"}
    fields = {control["name"] for control in page_of(browser.get("/ui/datasets")).controls}
    assert set(UploadQuery.model_fields) <= fields
    names = [column["name"] for column in post_csv(client, rows, **told).json()["columns"]]
    file = {"file": ("t.csv", rows)}

    answer = browser.post("/ui/datasets", data=told | {"kind": f"{names[3]}:category"}, files=file)

    page_of(answer)
    dataset = client.get(f"/datasets/{str(answer.url).rpartition('/')[2]}").json()
    assert [column["kind"] for column in dataset["columns"]] == ["number", "date", "category", "category"]
    assert dataset["columns"][1]["max"] == "2026-02-03"
    assert dataset["columns"][2]["missing"] == 12
    assert dataset["num_rows"] == 24
    for field, word in (("encoding", "klingon"), ("decimal", "dot"), ("kind", "zip")):
        assert field in page_of(browser.post("/ui/datasets", data={field: word}, files=file), 422).words


def test_the_python_of_every_page_runs(browser, client, settings, tmp_path, monkeypatch):
    """The Python code shown on pages runs unchanged."""
    (tmp_path / "data.csv").write_text(table(20))
    monkeypatch.chdir(tmp_path)
    model = fitted(client, settings, name="mine", holdout=0.2)
    at = f"/ui/models/{model['id']}"
    shown: dict[str, object] = {}
    form = page_of(browser.get(f"{at}/predict"))
    named = [control["name"] for control in form.controls if re.fullmatch(r"f\d+", control.get("name") or "")]
    row = "&".join(f"{name}=0" for name in named)
    new = f"/ui/models/new?dataset={model['dataset_id']}&target=y"
    tabs = [at, f"{at}/chains", f"{at}/features", f"{at}/effects", f"{at}/predict?{row}"]
    for path in ["/", "/ui/models", "/ui/service", f"/ui/datasets/{model['dataset_id']}", new, *tabs]:
        (code,) = re.findall(
            r"from bartserve import .*?print\(answer\)", unescape(browser.get(path).text), re.DOTALL
        )
        session: dict[str, Any] = {}
        exec(code.replace("'TARGET'", "'y'"), session)
        session["bart"].close()
        shown[path] = session["answer"]

    assert shown[at].verdict == model["verdict"]
    assert shown[new].state == "queued"
    assert shown[tabs[-1]].mean.shape == (1,)
