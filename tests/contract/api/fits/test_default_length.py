"""A fit whose request states neither rules nor a length ends by its verdict, within a bound that it shows."""

import pytest

from sampler.costs.memory import estimate
from sampler.definitions.stop import DEFAULT_SECONDS
from sampler.posterior.stop_rules import next_look
from tests.support.api_calls import post_csv, table
from tests.support.models.fitted_models import run_units

LENGTHS = ({"num_draws": 60}, {"num_chains": 2}, {"num_burnin": 50}, {"thin": 1})


def resolved(client, rows=60, **settings):
    """Return the settings of a request, and its estimate."""
    dataset = post_csv(client, table(rows)).json()
    response = client.post(
        "/models/estimate", json={"dataset_id": dataset["id"], "target": "y", "seed": 1} | settings
    )
    assert response.status_code == 200, response.text
    return response.json()["settings"], response.json()


@pytest.mark.parametrize("length", LENGTHS, ids=lambda length: next(iter(length)))
def test_a_request_that_states_its_length_keeps_it(client, length):
    """Any length of the chains leaves out the default rule, and the trees that it would choose."""
    settings, cost = resolved(client, 1_500, **length)
    assert settings.get("stop") is None
    assert settings["num_trees"] == 200
    assert cost["most_seconds"] == cost["seconds"]


def test_other_methods_keep_their_length(client):
    """Single trees are drawn as long as before; rules that are given stay as they are."""
    assert resolved(client, method="bcart")[0].get("stop") is None
    own = resolved(client, stop={"max_rhat": 1.5})[0]["stop"]
    assert (own["verdict"], own["max_rhat"], own["max_draws"]) == (None, 1.5, 24 * 125)


@pytest.mark.parametrize("rows", [60, 1_500])
def test_the_bound_is_the_last_look_within_a_minute_of_two_cores(client, rows):
    """The estimate has the bound: one more look would take more than that minute, or there is none."""
    settings, cost = resolved(client, rows)
    stop = settings["stop"]
    assert (stop["verdict"], stop["first_look"]) == ("approximate", 125)
    assert settings["num_trees"] == (800 if rows > 1_200 else 200)
    assert cost["most_seconds"] > cost["seconds"]

    def seconds(draws):
        return estimate(settings | {"num_draws": draws}, rows, len(settings["features"]), slots=2).seconds

    most = stop["max_draws"]
    longer = next_look(most, 24 * 125)
    assert seconds(most) < DEFAULT_SECONDS
    assert longer == most or seconds(longer) > 0.9 * DEFAULT_SECONDS


def test_a_default_fit_ends_by_its_verdict(client, settings):
    """A short fit, but for its trees by default, is done once its chains agree."""
    dataset = post_csv(client, table(60)).json()
    body = {"dataset_id": dataset["id"], "target": "y", "num_trees": 5, "seed": 1}
    model = client.post("/models", json=body).json()
    run_units(settings)
    model = client.get(f"/models/{model['id']}").json()
    assert model["state"] == "succeeded"
    met = model["verdict"] != "not_converged"
    assert model["stopped"]["by"] == ("rules" if met else "max_draws")
    assert met or model["draws"] == model["settings"]["stop"]["max_draws"]
