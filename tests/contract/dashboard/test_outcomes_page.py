"""The tab of a model's outcomes: its words, chart, buttons, and the notices of an alarm elsewhere."""

from importlib.metadata import version

from tests.support.api_calls import table
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import fitted, run_units

pytestmark = only("sqlite")


def outcomes(count, shift):
    """Rows of the fitted table with outcomes that lie `shift` above its process."""
    rows = [{"size": i * 7 % 19, "colour": ("red", "green", "blue")[i % 3], "id": i} for i in range(count)]
    return [row | {"y": row["size"] / 2 + 3 * (row["colour"] == "red") + shift} for row in rows]


def test_outcomes_are_shown_by_week_and_lead_on(browser, client, settings):
    """Without outcomes the page says how to report them; an alarm has its sentence, chart and two buttons."""
    model = fitted(client, settings, name="mine")
    path = f"/ui/models/{model['id']}/outcomes"
    empty = page_of(browser.get(path))
    assert "bartserve outcomes report mine" in empty.words
    assert not [form for form in empty.forms if (form["action"] or "").endswith("/recalibrate")]
    assert "intervals can follow the outcomes by themselves, each week" in empty.words
    assert f"/ui/models/{model['id']}/improve#calibrate" in empty.links
    page_of(browser.get(f"/ui/models/{model['id']}/charts/outcomes.svg"), 404)
    body = {"rows": outcomes(60, shift=2.0), "key": "id"}
    report = client.post("/models/mine/outcomes", json=body).json()
    assert report["verdict"] == "no_longer_hold"
    page = page_of(browser.get(path))
    assert report["text"] in page.words
    assert "chance allows" in page.words
    (week,) = client.get("/models/mine/outcomes").json()["weeks"]
    assert week["week"] in page.words
    assert f"<li>bartserve {version('bartserve')}</li>" in page.text
    chart = browser.get(f"/ui/models/{model['id']}/charts/outcomes.svg?v=1")
    assert (chart.status_code, chart.headers["content-type"]) == (200, "image/svg+xml")
    assert "beyond chance" in chart.text or "<path" in chart.text
    assert "what to do" in page_of(browser.get(f"/ui/models/{model['id']}")).words
    assert "intervals no longer hold" in page_of(browser.get("/ui/models")).words
    actions = [form["action"] for form in page.forms]
    assert {f"{path}/recalibrate", f"{path}/refit"} <= {*actions}

    again = page_of(browser.post(f"{path}/recalibrate", data=page.hidden))
    assert "since the last calibration" not in again.words  # no outcome came since
    assert client.get("/models/mine").json()["calibration"]["kind"] == "outcomes"
    assert "what to do" not in page_of(browser.get(f"/ui/models/{model['id']}")).words  # but in the log
    fresh = browser.post(f"{path}/refit", data=page.hidden)
    assert fresh.status_code == 200
    run_units(settings)
    newest = client.get("/models/mine").json()
    assert newest["id"] != model["id"]
    assert client.get(f"/datasets/{newest['dataset_id']}").json()["num_rows"] == 120


def test_weekly_recalibration_begins_and_ends_on_the_page(browser, client, settings):
    """A button begins it, the page then shows the promise and a button to end it; refusals are shown."""
    model = fitted(client, settings, name="mine", text=table(220), holdout=0.5, calibrate="holdout", seed=3)
    path = f"/ui/models/{model['id']}/outcomes"
    page = page_of(browser.get(path))
    assert "Recalibrate weekly" in page.words
    on = page_of(browser.post(f"{path}/policy", data=page.hidden | {"recalibrate": "weekly"}))
    assert "none was counted yet" in on.words
    assert client.get("/models/mine/outcomes").json()["policy"]["recalibrate"] == "weekly"
    assert "Stop recalibrating weekly" in on.words
    off = page_of(browser.post(f"{path}/policy", data=page.hidden | {"recalibrate": "off"}))
    assert "Stop recalibrating weekly" not in off.words
    few = fitted(client, settings, holdout=0.5, calibrate="holdout", seed=3)
    there = f"/ui/models/{few['id']}/outcomes/policy"
    refused = page_of(browser.post(there, data=page.hidden | {"recalibrate": "weekly"}), 409)
    assert "30 rows calibrated the intervals" in refused.words


def test_a_file_of_outcomes_is_reported_on_the_page(browser, client, settings):
    """The form takes a file with names of rows; a wrong one is refused there, and nothing is kept."""
    model = fitted(client, settings, name="mine")
    path = f"/ui/models/{model['id']}/outcomes"
    page = page_of(browser.get(path))
    assert path in [form["action"] for form in page.forms]
    lines = [
        "size;colour;y;id",
        *(f"{i % 19};red;{i % 19 / 2 + 3:.2f};r{i}".replace(".", ",") for i in range(45)),
    ]
    file = {"file": ("known.csv", "\n".join(lines))}
    sent = page.hidden | {"key": "id", "repeated": "refuse", "decimal": "comma"}
    told = page_of(browser.post(path, data=sent, files=file))
    assert "45 outcomes reported" in told.words
    assert client.get("/models/mine/outcomes").json()["rows"] == 45
    again = page_of(browser.post(path, data=sent, files=file), 409)
    assert "reported before" in again.words
    skipped = page_of(browser.post(path, data=sent | {"repeated": "skip"}, files=file))
    assert "45 rows known before skipped" in skipped.words
    without = {"file": ("known.csv", "size,colour\n1,red\n")}
    assert "y" in page_of(browser.post(path, data=page.hidden, files=without), 422).words
    page_of(browser.post(path, data=page.hidden | {"repeated": "perhaps"}, files=file), 422)
    assert client.get("/models/mine/outcomes").json()["rows"] == 45
