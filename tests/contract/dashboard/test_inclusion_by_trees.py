"""Studies "inclusion_by_trees" over HTTP and on the page of features."""

import html
import io
import re

import numpy as np
import pandas as pd
import pytest

from app.services.fits.costs import TooLongError
from app.services.request_context import Actor, OwnerLimits, acting
from app.services.studies.inclusion_by_trees import InclusionByTreesBody, plan
from sampler import Settings, holdout_rows, inclusion_by_trees
from tests.support.api_calls import places, problem, table
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import SMALL, fitted, run_units
from tests.support.study_tables import training_size

pytestmark = [only("sqlite"), pytest.mark.slow]
KIND = {"kind": "inclusion_by_trees"}
LENGTHS = {name: SMALL[name] for name in ("num_chains", "num_burnin", "num_draws", "thin")}


def studied(client, settings, model, **asked) -> dict:
    study = client.post(f"/models/{model['id']}/studies", json=KIND | asked)
    assert study.status_code == 202, study.text
    run_units(settings)
    done = client.get(f"/studies/{study.json()['id']}").json()
    assert done["state"] == "succeeded", done["error"]
    return done


def test_shares_are_the_librarys(client, settings, browser):
    """A study has the shares that the library finds on the training rows, scores by folds, and a chart."""
    model = fitted(client, settings, holdout=0.2, seed=3, noise="constant", transform="none")
    study = studied(client, settings, model, num_trees=[20, 5], folds=2)
    assert study["progress"]["fits"] == 2 * SMALL["num_chains"] + 2 * 2 * 2
    found = study["inclusion_by_trees"]["y"]
    rows = pd.read_csv(io.StringIO(table(60))).drop(index=holdout_rows(60, 0.2, 3))
    same = {"noise": "constant", "transform": "none", "seed": 3}
    X, y = rows[["size", "colour"]], rows["y"]
    expected = inclusion_by_trees(X, y, num_trees=[5, 20], **same, **LENGTHS)
    for name in ("mean", "lower", "upper", "between_chains"):
        assert found[name] == getattr(expected, name).tolist()
    assert (found["names"], found["num_trees"]) == (["size", "colour"], [5, 20])
    assert found["reading"] == expected.reading
    scored = inclusion_by_trees(X, y, num_trees=[5, 20], folds=2, **same).scores
    trials = found["scores"]["trials"]
    assert [each["log_score"] for each in trials] == [each.log_score for each in scored.trials]

    page = page_of(browser.get(f"/ui/models/{model['id']}/features"))
    assert found["reading"] in page.words
    chart = next(each for each in re.findall(r'"(/ui/[^"]*)"', page.text) if "inclusion-by-trees.svg" in each)
    drawn = browser.get(html.unescape(chart))
    assert (drawn.status_code, drawn.headers["content-type"]) == (200, "image/svg+xml")
    assert browser.get(html.unescape(chart).replace("of=y", "of=x")).status_code == 404
    (form,) = (form for form in page.forms if (form["action"] or "").endswith("/inclusion-by-trees"))
    running = page_of(browser.post(form["action"], data=page.hidden | {"compared": "yes"}))
    assert f"0 of {5 * SMALL['num_chains'] + 5 * 5 * 2} chains" in running.words


def test_several_outcomes_and_censored_ones(client, settings):
    """Each outcome has its own shares; those of censored outcomes need no folds, which they don't have."""
    rng = np.random.default_rng(1)
    u, v = rng.uniform(size=(2, 80))
    seen, noise = rng.integers(0, 2, 80), rng.normal(0, 0.1, (2, 80))
    columns = {"u": u, "v": v, "a": 3 * u + noise[0], "b": np.exp(v + noise[1]), "seen": seen}
    text = pd.DataFrame(columns).to_csv(index=False)
    both = fitted(client, settings, text=text, target=["a", "b"], features=["u", "v"])
    found = studied(client, settings, both, num_trees=[3], folds=2)["inclusion_by_trees"]
    assert list(found) == ["a", "b"]
    assert found["a"]["mean"][0][0] > 0.5 > found["b"]["mean"][0][0]
    assert found["a"]["scores"] == found["b"]["scores"]
    times = fitted(client, settings, text=text, target="b", features=["u", "v"], event="seen")
    assert studied(client, settings, times, num_trees=[3])["inclusion_by_trees"]["b"]["scores"] is None
    refused = client.post(f"/models/{times['id']}/studies", json=KIND | {"folds": 2})
    assert "inclusion_by_trees without folds" in problem(refused, 409, "conflict")["detail"]


def test_refused_by_field(client, settings):
    """Numbers out of range are refused by name, single trees by their method, and what is too large."""
    model = fitted(client, settings)
    for wrong, field in (
        ({"num_trees": []}, "num_trees"),
        ({"num_trees": [5, 0]}, "num_trees"),
        ({"num_trees": [5, 10**30]}, "num_trees"),
        ({"num_trees": [1] * 21}, "num_trees"),
        ({"folds": 1}, "folds"),
        ({"level": 1}, "level"),
        ({"trees": 5}, "trees"),
    ):
        refused = client.post(f"/models/{model['id']}/studies", json=KIND | wrong)
        assert places(problem(refused, 422, "invalid-request")) == [(field, None)], wrong
    tree = fitted(client, settings, method="bcart", num_trees=None)
    refused = problem(client.post(f"/models/{tree['id']}/studies", json=KIND), 422, "invalid-request")
    assert "fit by method bart" in refused["detail"]
    assert client.get("/studies").json()["items"] == []
    large = training_size(1_000_000)
    large.settings.update(Settings.resolve(num_draws=1000).to_json())
    with acting(Actor("ann", limits=OwnerLimits(fit_seconds=60.0))), pytest.raises(TooLongError):
        plan(InclusionByTreesBody(**KIND), large, 2)
