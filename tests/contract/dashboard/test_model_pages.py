"""Pages of models as a browser without JavaScript shows them."""

import json
import re

import numpy as np

from app.services.fits import creation
from app.store.engine import session_scope
from app.store.queue import units
from tests.support.api_calls import post_csv, post_model, problem, table
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import SMALL, fitted, run_units
from tests.support.models.partial_chains import give_back, take_chains
from tests.support.store_factories import claim
from worker.context import Context
from worker.units import run_one

pytestmark = only("sqlite")


def test_a_model_is_made_by_the_form_and_a_second_click_makes_no_second(browser, client):
    """A form creates a model; sent twice it creates one, gone back to and changed it creates another."""
    dataset = post_csv(client, table(60)).json()
    form = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}&all=1")).hidden
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

    changed = browser.post("/ui/models", data=form | {"num_trees": "11"})
    assert changed.url != first.url
    trees = [each["settings"]["num_trees"] for each in client.get("/models").json()["items"]]
    assert sorted(trees) == [10, 11]


def test_a_second_click_while_the_first_is_at_work_shows_the_models(browser, client, monkeypatch):
    """A browser without JavaScript shows the answer to the second of two clicks: a page, and one model."""
    dataset = post_csv(client, table(60)).json()
    form = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}&all=1")).hidden
    form |= {"target": "y", "features": "size", "num_trees": "10"}
    plan, second = creation.plan, []

    def clicked_again(*args, **options):
        second.append(browser.post("/ui/models", data=form))
        return plan(*args, **options)

    monkeypatch.setattr(creation, "plan", clicked_again)
    first = browser.post("/ui/models", data=form)
    assert [answer.url.path for answer in second] == ["/ui/models"]
    page_of(second[0])
    (model,) = client.get("/models").json()["items"]
    assert first.url.path == f"/ui/models/{model['id']}"


def test_what_a_fit_takes_is_estimated_before_it_starts(browser, client):
    """The form estimates time and memory, more for more draws, and starts nothing."""
    dataset = post_csv(client, table(60)).json()
    form = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}&all=1")).hidden
    form |= {"target": "y", "features": "size", "num_draws": "250"}

    page = page_of(browser.post("/ui/models/estimate", data=form))
    longer = page_of(browser.post("/ui/models/estimate", data=form | {"num_draws": "250000"}))

    estimate = re.search(
        r"About (.+?) once there is a worker, and (\d+) MB of memory", " ".join(page.words.split())
    )
    assert estimate is not None
    assert f"About {estimate[1]} " not in longer.words
    assert client.get("/models").json()["items"] == []
    wrong = page_of(browser.post("/ui/models/estimate", data=form | {"num_trees": "many"}), 422)
    assert [c["name"] for c in wrong.controls if c.get("aria-invalid") == "true"] == ["num_trees"]


def test_an_invalid_form_marks_its_fields_and_keeps_its_entries(browser, client):
    """An invalid form is a 422 that marks the field and keeps all entries."""
    dataset = post_csv(client, table(60)).json()
    form = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}&all=1")).hidden
    form |= {"target": "y", "features": "size", "num_trees": "many", "name": "kept", "holdout": "95"}

    page = page_of(browser.post("/ui/models", data=form), 422)

    wrong = {control["name"] for control in page.controls if control.get("aria-invalid") == "true"}
    assert wrong == {"num_trees", "holdout"}
    values = {control["name"]: control.get("value") for control in page.controls}
    assert (values["name"], values["num_trees"]) == ("kept", "many")
    ticked = [c["value"] for c in page.controls if c["name"] == "features" and "checked" in c]
    assert ticked == ["size"]
    page = page_of(browser.post("/ui/models", data=form | {"num_trees": "0", "holdout": ""}), 422)
    assert "Trees must be a whole number from 1" in page.words


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
    assert model["use"]["text"] in page.words
    assert re.search(r"Continue until converged \(about \d+ s\)", page.words)
    assert "num_draws=" not in page.words, "no advice that the page doesn't offer"
    assert "Not usable yet: the chains disagree" in page.words
    assert "R-hat of f" in page_of(browser.get(f"{at}/chains")).words
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
    finish = claim(database.engine)
    progress = client.get("/openapi.json").json()["components"]["schemas"]["ProgressView"]["properties"]
    for step, words in (
        ("compiling", "Compiling"),
        ("judging", "judging convergence"),
        ("recalibrating", "making intervals hold"),
    ):
        with session_scope(database.engine) as session:
            units.heartbeat(session, finish, units.Progress(step, 0, 0))
        assert client.get(f"/models/{model_id}").json()["progress"]["step"] == step
        assert step in progress["step"]["anyOf"][0]["enum"]
        assert client.get("/models").json()["items"][0]["progress"]["step"] == step
        assert words in page_of(browser.get(f"/ui/models/{model_id}")).words


def test_what_the_data_chose_is_told(browser, client, settings):
    """Noise, transform and linear part of a fit that left them to the data: page and answer."""
    model = fitted(client, settings, linear="auto")
    assert (model["settings"]["linear"], model["settings"]["noise"]) == ("auto", "auto")
    assert model["diagnostics"]["chosen"] == {"noise": "constant", "transform": "none", "linear": True}
    assert "noise_choice" not in model["diagnostics"]
    words = page_of(browser.get(f"/ui/models/{model['id']}/settings")).words
    chosen = (
        "Noise: constant: one size; Transform of the outcome: none: the outcome itself; Linear part: beside"
    )
    assert re.search(rf"Chosen by the data\s*{chosen}", words)


def test_held_out_rows_and_the_model_are_downloads(browser, client, settings):
    """The settings link to both, by the address of the model."""
    model = fitted(client, settings, holdout=0.25)
    page = page_of(browser.get(f"/ui/models/{model['id']}/settings"))

    (rows,) = (link for link in page.links if link.endswith("held-out.csv"))
    lines = browser.get(rows).text.splitlines()
    assert lines[0].replace('"', "") == "row,actual,mean,lower_90,upper_90"
    assert len(lines) == 1 + 15
    (file,) = (link for link in page.links if link.endswith("/file"))
    assert browser.get(file).headers["content-type"] == "application/vnd.bartserve.model"


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
    """The new model has the same settings and name, and no holdout; the API does the same.

    Settings stored only where they differ from none (transform, linear) are those of the old one too.
    """
    model = fitted(client, settings, name="mine", holdout=0.25, stop={"max_rhat": 9.0}, prior={"k": 3})
    assert "Fit on all rows" in page_of(browser.get(f"/ui/models/{model['id']}/improve")).words

    response = browser.post(f"/ui/models/{model['id']}/refit")
    by_api = client.post(f"/models/{model['id']}/refit", json={"name": "other"})

    page_of(response)
    new = client.get(f"/models/{str(response.url).rpartition('/')[2]}").json()
    assert new["settings"] == model["settings"] | {"holdout": 0.0}
    assert (new["name"], by_api.json()["name"]) == ("mine", "other")
    assert by_api.json()["settings"] == new["settings"]
    file = client.get(f"/models/{model['id']}/file").content
    imported = post_model(client, file).json()
    problem(client.post(f"/models/{imported['id']}/refit", json={}), 409, "conflict")


def test_uneven_intervals_offer_noise_by_row(browser, client, settings):
    """Below the verdict stands a button that fits the same model with noise="forest", with its holdout."""
    rng = np.random.default_rng(5)
    x = rng.uniform(size=500)
    y = x + (0.05 + 2 * x) * rng.normal(size=500)
    text = "y,x\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in zip(y, x, strict=True))
    asked = {"noise": "constant", "transform": "none", "recalibrate": "off"}
    model = fitted(client, settings, text=text, name="mine", holdout=0.5, seed=2, **asked)
    refused = model["use"]["held_out"]["refused"]
    assert {each["code"] for each in refused} == {"too_wide"}
    page = page_of(browser.get(f"/ui/models/{model['id']}"))
    assert f"too wide {refused[0]['where']}" in page.words
    assert "Fit with noise that differs by row" in page.words
    response = browser.post(f"/ui/models/{model['id']}/refit", data=page.hidden)
    page_of(response)
    new = client.get(f"/models/{str(response.url).rpartition('/')[2]}").json()
    assert new["settings"] == model["settings"] | {"noise": "forest"}


def test_the_list_follows_its_models_in_one_stream(browser, client):
    """One stream has progress and end of each listed model by id, without other owners' models."""
    dataset = post_csv(client, table(60)).json()
    body = {"dataset_id": dataset["id"], "target": "y"} | SMALL
    models = [client.post("/models", json=body).json()["id"] for _ in range(2)]
    events: list[tuple[str, dict]] = []
    with client.stream("GET", "/ui/events", params={"models": ",".join(models)}) as stream:
        kind = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                events.append((kind, json.loads(line.removeprefix("data: "))))
                if {entry["model"] for _, entry in events} == set(models) and kind == "progress":
                    client.post(f"/models/{models[1]}/cancel")
    assert {entry["state"] for kind, entry in events if kind == "progress"} == {"queued"}
    assert events[-1] == ("end", {"model": models[1]})
    problem(client.get("/ui/events", params={"models": "mdl_none"}), 404)


def test_the_pages_of_a_model_of_one_feature(browser, client, settings):
    """Nothing to compare is said in words: pairs of features, and rows left out for want of an outcome."""
    text = "y,x\n" + "".join(f"{'' if row % 9 == 4 else row / 7},{row}\n" for row in range(50))
    model = fitted(client, settings, text=text, missing_target="leave_out")

    told = page_of(browser.get(f"/ui/models/{model['id']}/settings")).words
    pairs = page_of(browser.get(f"/ui/models/{model['id']}/features?pairs=true")).words

    assert "left out of the fit" in told
    assert "leave_out" not in told
    assert "the model has a single feature" in pairs
    problem(client.get(f"/models/{model['id']}/interactions"), 422)
