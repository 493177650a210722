"""Laws of outcomes that held-out rows recalibrate: what a fit says of it, and every face answers."""

import numpy as np
import pytest

from sampler import Posterior
from tests.support.api_calls import post_csv
from tests.support.models.fitted_models import fitted, run_units

MEDIA_TYPE = "application/vnd.bartserve.model"
NEW = {"rows": [{"size": 0.2, "kind": 0.3}, {"size": 0.9, "kind": 0.1}], "level": [0.5, 0.9]}


def table(rows: int) -> str:
    """Return a table whose noise has heavy tails and differs by row."""
    rng = np.random.default_rng(0)
    size, kind = rng.uniform(size=(2, rows)).round(3)
    y = 4 * size + rng.standard_t(3, rows) * np.exp(2 * kind - 1)
    lines = [f"{a:.3f},{b},{c}" for a, b, c in zip(y, size, kind, strict=True)]
    return "y,size,kind\n" + "\n".join(lines) + "\n"


def fit(client, settings, rows, **more):
    shared = {"noise": "constant", "transform": "none", "holdout": 0.5, "seed": 3}
    return fitted(client, settings, text=table(rows), **shared | more)


def test_held_out_rows_make_intervals_hold(client, settings):
    """A fit says so, its file, its page, its draws and totals answer alike, and an extension keeps it."""
    model = fit(client, settings, 600, name="mine", calibrate="holdout")
    held = model["holdout"]
    assert held["recalibration"]["rows"] == 300
    assert "recalibrated by 300 held-out rows" in held["recalibration"]["text"]
    assert held["intervals_verdict"]["verdict"] == model["use"]["intervals"] == "made_to_hold"
    assert held["coverage"] == []  # rows that calibrate are no evidence
    page = client.get("/ui/models/mine").text
    assert held["recalibration"]["text"] in page
    assert "before the rows made them hold" in page

    posterior = Posterior.from_bytes(client.get(f"/models/{model['id']}/file").content)
    assert posterior.law.recalibration is not None
    answer = client.post("/models/mine/predict", json=NEW).json()
    own = posterior.predict(NEW["rows"], level=NEW["level"])
    assert answer["mean"] == own.mean.tolist()
    for each, mine in zip(answer["intervals"], own.intervals, strict=True):
        assert (each["lower"], each["upper"]) == (mine.lower.tolist(), mine.upper.tolist())
    imported = client.post(
        "/models", content=posterior.to_bytes(), headers={"Content-Type": MEDIA_TYPE}
    ).json()
    again = client.post(f"/models/{imported['id']}/predict", json=NEW).json()
    assert again["intervals"] == answer["intervals"]
    plain = Posterior.from_bytes(posterior.to_bytes())
    plain.law = plain.law.before_recalibration
    for kind in ("credible", "calibrated"):
        asked = client.post("/models/mine/predict", json=NEW | {"interval": kind}).json()
        assert asked["mean"] == plain.predict(NEW["rows"], interval=kind).mean.tolist()
        assert asked["intervals"][1]["lower"] == plain.predict(NEW["rows"], interval=kind).lower.tolist()

    assert client.post("/models/mine/extend", json={"num_draws": 10}).status_code == 202
    run_units(settings)
    more = Posterior.from_bytes(client.get(f"/models/{model['id']}/file").content)
    assert more.num_draws == 50
    assert more.law.recalibration.to_json() == posterior.law.recalibration.to_json()
    assert client.get("/models/mine").json()["holdout"]["recalibration"] == held["recalibration"]
    earlier = client.post("/models/mine/predict", json=NEW | {"draws": 40}).json()
    assert (earlier["mean"], earlier["intervals"]) == (answer["mean"], answer["intervals"])
    rows = NEW["rows"]
    for each in (posterior, more):
        np.testing.assert_array_equal(
            each.sample_predictive(rows, num_draws=20), posterior.sample_predictive(rows, num_draws=20)
        )
        assert each.aggregate(rows, num_draws=40).mean == posterior.aggregate(rows, num_draws=40).mean


def test_of_many_held_out_rows_half_judge(client, settings):
    """They say how many are inside, and count once."""
    model = fit(client, settings, 2_100)
    held = model["holdout"]
    assert (held["recalibration"]["rows"], held["rows"]) == (525, 525)
    assert held["intervals_verdict"]["verdict"] == "held"
    shares = {each["level"]: each["coverage"] for each in held["coverage"]}
    assert abs(shares[0.5] - 0.5) < 0.06
    off = fit(client, settings, 2_100, recalibrate="off")["holdout"]
    assert "recalibration" not in off
    assert {each["level"]: each["coverage"] for each in off["coverage"]}[0.5] > 0.58


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"holdout": 0.1}, "there are 30 held-out rows, and it takes 90"),
        ({"treatment": "site"}, "the model has a treatment"),
        ({"groups": ["site"]}, "the model has groups"),
        ({"target": ["y", "count"]}, "the model has several outcomes"),
        ({"new_rows": {"groups": "site"}}, "new rows are of other groups, or later"),
        (
            {"target": "count", "family": "poisson", "noise": None, "transform": None},
            "outcomes are not numbers",
        ),
        (
            {"method": "bcart", "noise": None, "transform": None, "num_trees": None, "linear": None},
            "no sum of trees",
        ),
    ],
)
@pytest.mark.slow
def test_other_laws_stay_with_a_word(client, settings, more, reason):
    """A fit says that it is off, and why, where it isn't shown to hold."""
    header, *lines = table(300).splitlines()
    text = "\n".join([header + ",site,count", *(f"{each},{i % 2},{i % 5}" for i, each in enumerate(lines))])
    if "new_rows" in more or "groups" in more:
        text = "\n".join([header + ",site", *(f"{each},s{i % 40}" for i, each in enumerate(lines))])
    shared = {"noise": "constant", "transform": "none", "holdout": 0.5} | more
    body = {key: value for key, value in shared.items() if value is not None}
    dataset = post_csv(client, text + "\n").json()
    small = {"num_trees": 5, "num_chains": 2, "num_draws": 20, "num_burnin": 20, "linear": False}
    asked = {key: value for key, value in (small | more).items() if value is not None}
    response = client.post("/models", json={"dataset_id": dataset["id"], "target": "y"} | body | asked)
    assert response.status_code == 202, response.text
    run_units(settings)
    model = client.get(response.headers["location"]).json()
    assert reason in model["holdout"]["recalibration"]["text"], model["holdout"]
    assert model["use"]["intervals"] != "made_to_hold"
