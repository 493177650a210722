"""Checks of a model over HTTP: convergence by number of draws, and held-out rows."""

import numpy as np
import pytest

from sampler import holdout_rows
from sampler.posterior.assessment.convergence import POINTS
from sampler.posterior.verdict import rhat_ess
from tests.support.api_calls import of_file, post_csv, problem, table, two_classes
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, fitted
from tests.support.models.partial_chains import give_back, take_chains

pytestmark = only("sqlite")


def test_convergence_equals_the_notebooks_figures_at_each_count(client, settings):
    """R-hat and ESS at each number of draws equal those of the sampler's functions."""
    model = fitted(client, settings)
    curves = client.get(f"/models/{model['id']}/diagnostics/growth").json()
    posterior = of_file(client, model)
    f = np.ascontiguousarray(posterior.sample(posterior.reference).transpose(2, 0, 1))
    rows = np.unique(np.rint(np.linspace(0, len(f) - 1, min(len(f), 50))).astype(int))

    assert (curves["chains"], curves["f"]["rows"], curves["draws"][-1]) == (2, 50, 40)
    assert curves["draws"] == sorted(set(curves["draws"]))
    assert len(curves["draws"]) <= POINTS
    assert curves["draws"][0] >= 8
    for i, count in enumerate(curves["draws"]):
        sigma = np.ascontiguousarray(posterior.sigma[None, :, :count])
        assert curves["sigma"]["rhat"][i] == pytest.approx(float(rhat_ess.rhat(sigma)[0]), rel=1e-12)
        assert curves["sigma"]["ess_tail"][i] == pytest.approx(float(rhat_ess.ess_tail(sigma)[0]), rel=1e-12)
        some = np.ascontiguousarray(f[rows][:, :, :count])
        rhat = rhat_ess.rhat(some)
        assert curves["f"]["rhat"][i] == pytest.approx(np.median(rhat), rel=1e-12)
        assert curves["f"]["rhat_p95"][i] == pytest.approx(np.quantile(rhat, 0.95), rel=1e-12)
    assert curves["limits"]["converged"]["rhat"] == 1.05


def test_convergence_is_available_during_a_fit(client, settings, database):
    """During a fit convergence covers the draws of all chains; 409 while some chain has none."""
    dataset = post_csv(client, table(60)).json()
    body = {"dataset_id": dataset["id"], "target": "y"} | SMALL
    at = client.post("/models", json=body).headers["location"]
    problem(client.get(f"{at}/diagnostics/growth"), 409)

    give_back(database.engine, take_chains(database.engine, 20, 30))

    assert client.get(f"{at}/diagnostics/growth").json()["draws"][-1] == 20


def test_held_out_rows_are_the_models_own_predictions_of_them(client, settings):
    """Held-out rows have the model's own predictions and intervals; calibration counts outcomes inside."""
    model = fitted(client, settings, holdout=0.3, seed=4)
    holdout = client.get(f"/models/{model['id']}/holdout").json()
    rows = holdout["rows"]
    numbers = holdout_rows(60, 0.3, 4)
    lines = [line.split(",") for line in table(60).splitlines()[1:]]
    new_rows = [{"size": float(lines[i][1]), "colour": lines[i][2]} for i in numbers]
    sent = {"rows": new_rows, "interval": "predictive", "level": [0.5, 0.9]}
    predicted = client.post(f"/models/{model['id']}/predict", json=sent).json()

    assert rows["row"] == [int(i) + 1 for i in numbers]
    assert rows["actual"] == [float(lines[i][0]) for i in numbers]
    assert rows["mean"] == predicted["mean"]
    assert (rows["lower"], rows["upper"]) == tuple(
        predicted["intervals"][1][end] for end in ("lower", "upper")
    )
    assert (holdout["level"], holdout["interval"], holdout["classes"]) == (0.9, "predictive", None)
    by_level = {entry["level"]: entry for entry in holdout["calibration"]}
    assert len(by_level) == 20
    for score in model["holdout"]["coverage"]:
        entry = by_level[score["level"]]
        assert (entry["observed"], entry["lower"], entry["upper"], entry["rows"]) == (
            score["coverage"],
            score["lower"],
            score["upper"],
            len(numbers),
        )


def test_held_out_rows_of_two_classes(client, settings):
    """For two classes outcomes are 0 or 1, and calibration compares probabilities with shares by bin."""
    model = fitted(client, settings, text=two_classes(80), holdout=0.4, family="probit")
    holdout = client.get(f"/models/{model['id']}/holdout").json()

    assert holdout["interval"] == "credible"
    assert len(holdout["classes"]) == 2
    assert set(holdout["rows"]["actual"]) == {0.0, 1.0}
    assert sum(entry["rows"] for entry in holdout["calibration"]) == len(holdout["rows"]["row"]) == 32
    for entry in holdout["calibration"]:
        assert 0 <= entry["lower"] <= entry["observed"] <= entry["upper"] <= 1


def test_without_held_out_rows_there_is_nothing_to_show(client, settings):
    """Without held-out rows the response is a 404 with the reason."""
    model = fitted(client, settings)
    assert "no holdout" in problem(client.get(f"/models/{model['id']}/holdout"), 404, "not-found")["detail"]
