"""Pages of sets of models, as a browser without JavaScript shows them."""

from app.services.model_sets import making
from tests.support.api_calls import post_csv, table
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import SMALL, run_units

pytestmark = only("sqlite")


def test_a_set_is_followed_searched_and_deleted_on_its_page(browser, client, settings, database):
    """The page has the set's progress and its models by group, state and page, and why others have none."""
    empty = page_of(browser.get("/ui/model-sets"))
    assert "There is no set yet" in empty.words
    assert "/ui/models/new" in empty.links
    text = f"{table(60)}3,4,mauve,none\n"  # a group with a row is refused
    body = {"dataset_id": post_csv(client, text).json()["id"], "target": "y", "by": "colour", "name": "hues"}
    made = client.post("/model-sets", json=body | SMALL).json()
    path = f"/ui/model-sets/{made['id']}"
    assert path in page_of(browser.get("/ui/model-sets")).links
    assert "The first models are being made" in browser.get(path).text

    making.run_due(database.engine, settings)
    run_units(settings)
    listed = client.get(f"/model-sets/{made['id']}/models").json()["items"]
    page = page_of(browser.get(path))
    assert all(f"/ui/models/{each['model_id']}" in page.links for each in listed)
    failed = browser.get(f"{path}?state=failed").text
    assert "mauve" in failed
    assert listed[-1]["error"]["detail"].split(":")[0] in failed
    found = page_of(browser.get(f"{path}?q=mau")).links
    assert [f"/ui/models/{each['model_id']}" in found for each in listed] == [False, False, False, True]
    assert "The set has no model that matches" in browser.get(f"{path}?q=grey").text
    assert browser.get(f"{path}?state=lost").status_code == 422

    assert browser.post(f"{path}/delete").url.path == "/ui/model-sets"
    assert browser.get(path).status_code == 404


def test_models_of_a_set_come_by_pages_and_are_cancelled_together(browser, client, settings, database):
    """The next page keeps the search; the button ends what has not ended."""
    rows = [f"{row + shop},{row * 7 % 11},shop {shop}" for shop in range(30) for row in range(12)]
    dataset = post_csv(client, "\n".join(["y,size,shop", *rows])).json()["id"]
    body = {"dataset_id": dataset, "target": "y", "by": "shop"} | SMALL
    path = f"/ui/model-sets/{client.post('/model-sets', json=body).json()['id']}"
    making.run_due(database.engine, settings)

    (following,) = [link for link in page_of(browser.get(f"{path}?q=shop")).links if "cursor" in link]
    assert "q=shop" in following
    assert "shop 29" in browser.get(path + following).text
    assert "Cancel" in browser.get(path).text
    ended = browser.post(f"{path}/cancel").text
    assert "cancelled" in ended
    assert f"{path}/cancel" not in ended
