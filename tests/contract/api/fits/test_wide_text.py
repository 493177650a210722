"""Text of many levels over HTTP: encoded by means of the outcome, and spoken of by its levels."""

import numpy as np
import pytest

from sampler.data.level_means import LevelOutcomes
from tests.support.api_calls import of_file, post_csv
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, finished, fitted, run_units

pytestmark = only("sqlite")


@pytest.mark.slow
def test_no_fit_sees_outcomes_of_rows_that_judge_it(client, settings, monkeypatch):
    """Held-out rows, and folds of studies: means of levels are those of the rows of each fit alone."""
    seen, of = [], LevelOutcomes.of
    monkeypatch.setattr(LevelOutcomes, "of", lambda y, by_role: seen.append({*y}) or of(y, by_role))
    y = np.random.default_rng(3).normal(size=500)
    text = "\n".join(["x,place,y", *(f"{k % 7},p{k % 60},{each}" for k, each in enumerate(y))])
    model = fitted(client, settings, text=text, target="y", holdout=0.2, calibrate="holdout")
    assert model["settings"]["columns"]["place"] == "encoded"
    held = client.get(f"/models/{model['id']}/holdout").json()
    assert {len(each) for each in seen} == {400}, held
    training = set.union(*seen)
    assert len(training) == 400
    candidates = [{"noise": "constant"}, {"noise": "forest"}]
    for study in ({"kind": "calibration"}, {"kind": "tuning", "folds": 4, "candidates": candidates}):
        seen.clear()
        answer = client.post(f"/models/{model['id']}/studies", json=study)
        assert answer.status_code == 202, answer.text
        run_units(settings)
        assert client.get(answer.headers["location"]).json()["state"] == "succeeded"
        folds = {frozenset(each) for each in seen}
        assert {len(each) for each in folds} == {400 - 400 // study.get("folds", 5)}
        assert len(folds) == study.get("folds", 5)
        assert set.union(*map(set, folds)) == training


def test_wide_text_is_encoded_and_every_answer_speaks_of_its_levels(client, settings):
    rng = np.random.default_rng(3)
    level = np.arange(360) % 60
    x, y = rng.normal(size=360), rng.normal(size=60)[level] + 0.3 * rng.normal(size=360)
    rows = [f"{a:.3f},place {b},{c:.3f}" for a, b, c in zip(x, level, x + y, strict=True)]
    dataset = post_csv(client, "\n".join(["x,place,y", *rows])).json()["id"]
    body = {"dataset_id": dataset, "target": "y", "holdout": 0.2} | SMALL
    estimate = client.post("/models/estimate", json=body).json()
    assert any(each.startswith("place is text with 60 levels") for each in estimate["warnings"])
    answer = client.post("/models", json=body)
    model = finished(client, settings, answer)
    assert model["settings"]["columns"] == {"x": "number", "place": "encoded"}

    new = [{"x": 0.5, "place": name} for name in ("place 3", "place 59", "nowhere", None)]
    told = client.post(f"/models/{model['id']}/predict", json={"rows": new}).json()
    assert [each["flag"] for each in told["flags"][2]] == ["unseen_level"]
    assert any("'nowhere'" in each for each in told["warnings"])
    as_csv = "x,place\n0.5,place 3\n0.5,place 59\n0.5,nowhere\n0.5,\n"
    sent = client.post(
        f"/models/{model['id']}/predict", content=as_csv, headers={"content-type": "text/csv"}
    ).json()
    assert sent["mean"] == told["mean"]
    posterior = of_file(client, model)
    assert np.allclose(posterior.predict(new).mean, told["mean"])

    for page in ("", "/predict", "/what-if", "/effects?feature=place", "/features"):
        answer = client.get(f"/ui/models/{model['id']}{page}")
        assert (answer.status_code, "place" in answer.text) == (200, True), page
    shown = client.post(f"/models/{model['id']}/partial-dependence", json={"features": ["place"]}).json()
    assert set(shown["grid"][0]) <= {f"place {k}" for k in range(60)}
    again = client.post(f"/models/{model['id']}/refit", json={})
    run_units(settings)
    assert client.get(again.headers["location"]).json()["settings"]["columns"]["place"] == "encoded"
    refused = client.post("/models/estimate", json=body | {"columns": {"place": "texts"}})
    assert refused.status_code == 422
