"""Studies on the pages of a model: selection of features, comparison of settings, calibration."""

import re

import pytest

from app.dashboard import formatting
from app.services.studies.tuning import in_words
from tests.support.api_calls import post_model, problem
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import fitted, run_units

pytestmark = only("sqlite")
HEADING = "Which features matter beyond chance?"


@pytest.mark.slow
def test_features_are_selected_from_the_page(browser, client, settings):
    """The button starts a study, whose progress and table the page shows; a running one can be cancelled."""
    model = fitted(client, settings)
    path = f"/ui/models/{model['id']}/features"
    page = page_of(browser.get(path))
    assert HEADING in page.words
    (form,) = (form for form in page.forms if form["action"].endswith("/select"))
    running = page_of(browser.post(form["action"], data=page.hidden))
    assert "0 of 110 fits" in running.words
    assert "data-study" in running.text
    assert not [form for form in running.forms if form["action"].endswith("/select")]

    (study,) = client.get("/studies").json()["items"]
    part = browser.get(f"/ui/studies/{study['id']}").text
    assert "data-progress" in part
    assert "0 of 110 fits" in part
    cancelled = page_of(browser.post(f"/ui/studies/{study['id']}/cancel", data=page.hidden))
    assert "data-study" not in cancelled.text
    page_of(browser.post(form["action"], data=page.hidden))
    run_units(settings)
    done = page_of(browser.get(path))
    (newest, _) = client.get("/studies").json()["items"]
    features = client.get(f"/studies/{newest['id']}").json()["selection"]["features"]
    words = done.words[done.words.index(HEADING) :]
    for feature in features:
        assert formatting.percent(feature["share"], 1) in words
        assert ", ".join(feature["selected_by"]) in words
    assert "Select again" in words
    assert "data-study" not in browser.get(f"/ui/studies/{newest['id']}").text
    assert page_of(browser.get("/ui/studies/std_x"), 404)


def test_an_imported_model_has_no_button(browser, client, settings):
    """Without training rows the page says why nothing can be selected; a sent form is refused."""
    model = fitted(client, settings)
    file = client.get(f"/models/{model['id']}/file").content
    imported = post_model(client, file).json()["id"]
    page = page_of(browser.get(f"/ui/models/{imported}/features"))
    assert "was imported" in page.words
    assert not [form for form in page.forms if form["action"].endswith("/select")]
    page_of(browser.post(f"/ui/models/{imported}/select", data=page.hidden), 409)
    problem(client.post("/ui/models/nobody/select"), 404)


def test_settings_are_compared_from_the_page(browser, client, settings):
    """Scores and choice are those of the study; a button fits with the choice and keeps all else."""
    model = fitted(client, settings, name="mine", holdout=0.2, seed=3)
    path = f"/ui/models/{model['id']}"
    page = page_of(browser.get(f"{path}/improve"))
    assert "kinds of noise" in page.words
    wrong = page.hidden | {"candidates": "everything"}
    assert "model or prior" in page_of(browser.post(f"{path}/tune", data=wrong), 422).words
    wrong = page.hidden | {"candidates": "model", "score": "mae"}
    assert "log_score" in page_of(browser.post(f"{path}/tune", data=wrong), 422).words
    by_error = page.hidden | {"candidates": "model", "score": "rmse"}
    running = page_of(browser.post(f"{path}/tune", data=by_error))
    assert client.get("/studies").json()["items"][0]["request"]["score"] == "rmse"
    assert f"0 of {11 * 5 * 2} chains" in running.words
    (study,) = client.get("/studies").json()["items"]
    assert "data-progress" in browser.get(f"/ui/studies/{study['id']}").text
    refused = page_of(browser.post(f"/ui/studies/{study['id']}/fit", data=page.hidden), 409)
    assert "no settings" in refused.words
    page_of(browser.post(f"/ui/studies/{study['id']}/cancel", data=page.hidden))
    tried = [{"num_trees": 3}, {"num_trees": 7, "noise": "forest", "prior": {"k": 3.0}}]
    body = {"kind": "tuning", "candidates": tried, "folds": 2}
    study_id = client.post(f"/models/{model['id']}/studies", json=body).json()["id"]
    run_units(settings)
    tuning = client.get(f"/studies/{study_id}").json()["tuning"]
    done = page_of(browser.get(f"{path}/improve"))
    words = done.words[done.words.index("Other settings") :]
    for trial in tuning["trials"]:
        assert in_words(trial["settings"]) in words
        assert formatting.fixed(trial["log_score"]) in words
    (form,) = (form for form in done.forms if (form["action"] or "").endswith("/fit"))
    page_of(browser.post(form["action"], data=done.hidden))
    (newest, *_) = client.get("/models").json()["items"]
    assert newest["id"] != model["id"]
    expected = tried[tuning["chosen"]]
    assert newest["settings"]["num_trees"] == expected["num_trees"]
    assert newest["settings"]["noise"] == expected.get("noise", "constant")
    for name in ("holdout", "seed", "num_chains", "num_burnin", "num_draws", "thin", "features"):
        assert newest["settings"][name] == model["settings"][name], name


def test_a_model_is_calibrated_from_the_page(browser, client, settings):
    """A button starts the fits to the folds, and their claims take its place."""
    model = fitted(client, settings, name="mine", seed=1)
    path = f"/ui/models/{model['id']}"
    page = page_of(browser.get(path))
    running = page_of(browser.post(f"{path}/calibrate", data=page.hidden))
    assert "of 10 chains" in running.words
    (study,) = client.get("/studies").json()["items"]
    assert "data-progress" in browser.get(f"/ui/studies/{study['id']}").text
    run_units(settings)
    done = page_of(browser.get(f"{path}/improve"))
    for claim in client.get("/models/mine").json()["calibration"]["claims"]:
        assert (claim["text"] in done.words) == (claim["level"] == 0.9)
    assert not [form for form in done.forms if (form["action"] or "").endswith("/calibrate")]
    assert "Estimated" in browser.get(f"/ui/studies/{study['id']}").text
    answer = page_of(browser.get(f"{path}/predict?f0=3&f1=red"))
    assert "A new outcome, 90%, calibrated" in answer.words


@pytest.mark.parametrize("labels", [("no", "yes"), ("no", "yes", "maybe")])
def test_the_page_has_calibrated_sets_of_classes(browser, client, settings, labels):
    """A set of classes that calibration gives stands beside the probabilities."""
    lines = (f"{k % 17},{labels[k % 17 * len(labels) // 17]}\n" for k in range(120))
    model = fitted(
        client, settings, text="size,y\n" + "".join(lines), calibrate="holdout", holdout=0.4, family="auto"
    )
    words = page_of(browser.get(f"/ui/models/{model['id']}/predict?f0=3")).words
    assert re.search("90%,? calibrated", words) or re.search("Calibrated, 90%", words)


def test_studies_that_a_model_cannot_have_are_not_offered(browser, client, settings):
    """A single tree has no grids of sums, and an imported model no rows."""
    tree = fitted(client, settings, method="bcart", num_trees=None)
    actions = [
        form["action"] or "" for form in page_of(browser.get(f"/ui/models/{tree['id']}/improve")).forms
    ]
    assert not [action for action in actions if action.endswith("/tune")]
    assert [action for action in actions if action.endswith("/calibrate")]
    file = client.get(f"/models/{tree['id']}/file").content
    imported = post_model(client, file).json()["id"]
    actions = [form["action"] or "" for form in page_of(browser.get(f"/ui/models/{imported}/improve")).forms]
    assert not [action for action in actions if action.endswith(("/tune", "/calibrate"))]
