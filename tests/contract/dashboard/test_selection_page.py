"""The selection of features beyond chance on the page of features."""

from app.dashboard import formatting
from tests.support.api_calls import problem
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import fitted, run_units

pytestmark = only("sqlite")
HEADING = "Which features matter beyond chance?"


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
    found = client.get(f"/studies/{newest['id']}").json()["selection"]["features"]
    shown = done.words[done.words.index(HEADING) :]
    for feature in found:
        assert formatting.percent(feature["share"], 1) in shown
        assert ", ".join(feature["selected_by"]) in shown
    assert "Select again" in shown
    assert "data-study" not in browser.get(f"/ui/studies/{newest['id']}").text
    assert page_of(browser.get("/ui/studies/std_x"), 404)


def test_an_imported_model_has_no_button(browser, client, settings):
    """Without training rows the page says why nothing can be selected; a sent form is refused."""
    model = fitted(client, settings)
    file = client.get(f"/models/{model['id']}/file").content
    headers = {"Content-Type": "application/vnd.bartserve.model"}
    imported = client.post("/models", content=file, headers=headers).json()["id"]
    page = page_of(browser.get(f"/ui/models/{imported}/features"))
    assert "was imported" in page.words
    assert not [form for form in page.forms if form["action"].endswith("/select")]
    page_of(browser.post(f"/ui/models/{imported}/select", data=page.hidden), 409)
    problem(client.post("/ui/models/nobody/select"), 404)
