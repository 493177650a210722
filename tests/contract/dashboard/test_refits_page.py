"""The part of a model's page about refits: champion and challenger, the way back, and the schedule."""

from tests.support.api_calls import post_csv, table
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import fitted, run_units

pytestmark = only("sqlite")


def test_champion_and_challenger_are_shown_side_by_side(browser, client, settings):
    """The decision with its figures is on the challenger's page; forms go back and forth, and set a habit."""
    old = fitted(client, settings, name="mine", holdout=0.3, seed=3)
    dataset = post_csv(client, table(150)).json()["id"]
    body = {"dataset_id": dataset, "promote": "always", "holdout": 0.4}
    new = client.post("/models/mine/refit", json=body).json()
    path = f"/ui/models/{new['id']}"
    assert "The name moves to it in any case." in page_of(browser.get(f"{path}/improve")).words
    run_units(settings)
    page = page_of(browser.get(f"{path}/improve"))
    refit = client.get(f"/models/{new['id']}").json()["refit"]
    assert refit["text"] in page.words
    assert "Champion" in page.words
    assert f"/ui/models/compare?model={old['id']}&model={new['id']}" in page.links
    actions = [form["action"] for form in page.forms]
    assert f"{path}/rollback" in actions
    assert f"{path}/promote" not in actions

    before = page_of(browser.post(f"{path}/rollback", data=page.hidden))
    assert f"/ui/models/{old['id']}/rollback" not in [form["action"] for form in before.forms]
    assert client.get(path.removeprefix("/ui")).json()["withheld"]
    page = page_of(browser.get(f"{path}/improve"))
    browser.post(f"{path}/promote", data=page.hidden)
    assert not client.get(path.removeprefix("/ui")).json()["withheld"]

    form = page.hidden | {"every": "7d", "on_alarm": "on", "promote": "never"}
    assert "Due" in page_of(browser.post(f"{path}/schedule", data=form)).words
    told = client.get("/models/mine/schedule").json()
    assert (told["every"], told["on_alarm"], told["promote"]) == ("7d", True, "never")
    page_of(browser.post(f"{path}/schedule", data=form | {"every": "often"}), 422)
    browser.post(f"{path}/schedule", data=page.hidden)
    assert client.get("/models/mine/schedule").status_code == 404
