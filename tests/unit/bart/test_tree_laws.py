"""Priors of trees that particle Gibbs draws from: chains, refusals, costs and the card."""

import numpy as np
import pytest

from sampler import SettingsError, fit
from sampler.bart.prior import check_prior
from sampler.costs.durations import chain_seconds
from sampler.definitions.tree_laws import TREE_LAWS
from sampler.preparation import prepare
from tests.support.chain_driver import check_resuming, draws_of
from tests.support.tree_laws import LAWS

OTHERS = [name for name in LAWS if name != "depth"]
SHORT = {"num_trees": 5, "num_chains": 1, "num_burnin": 8, "num_draws": 6, "thin": 1, "moves": "pg"}
rng = np.random.default_rng(3)
X = rng.uniform(size=(60, 3)).round(1)
LEVEL = 2 * np.sin(3 * X[:, 0]) + 2 * (X[:, 1] > 0.5) + rng.normal(0, 0.4, 60)
GRADES = ["low", "mid", "top"]
KINDS = {  # of outcomes, with what stands beside the mean
    "weights": (LEVEL, {"weights": rng.uniform(0.5, 2, 60)}),
    "effect": (LEVEL, {"treatment": rng.integers(0, 2, 60)}),
    "noise forest": (LEVEL, {"noise": "t-forest"}),
    "hurdle": (np.maximum(LEVEL, 1.8), {"family": "hurdle"}),
    "counts": (rng.poisson(np.exp(LEVEL / 2)), {"family": "zero-inflated-poisson"}),
    "classes": (np.array(GRADES)[np.searchsorted([1, 2.5], LEVEL)], {"family": "categorical"}),
    "grades": (
        np.array(GRADES)[np.searchsorted([1, 2.5], LEVEL)],
        {"family": "ordinal", "levels": GRADES},
    ),
    "two classes": (LEVEL > 1.5, {"family": "probit", "categories": "sets"}),
}


@pytest.mark.parametrize("law", OTHERS)
def test_chains_resume(law):
    """From a checkpoint after any iteration, with a first state by free particles, some of which die."""
    trees = LAWS[law] | ({"num_leaves": 20.0} if "num_leaves" in LAWS[law] else {})
    check_resuming(prepare(X, LEVEL, **SHORT, prior=trees, start="smc").training)


@pytest.mark.parametrize("law", OTHERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(quick=2, slow=6)
def test_chains_of_every_family_resume(kind, law):
    """Every family's trees may have every prior, beside whatever stands beside them."""
    y, arguments = KINDS[kind]
    training = prepare(X, y, **SHORT | arguments, prior=LAWS[law]).training
    assert training.constants.to_json()["trees"] == LAWS[law]
    check_resuming(training)


def test_fifty_leaves_of_few_rows():
    """Chains keep trees that rows allow, where nearly all particles ask for more leaves."""
    training = prepare(X[:12], LEVEL[:12], **SHORT, start="smc", prior={"trees": "leaves", "num_leaves": 50})
    assert draws_of(training.training).leaf_counts.max() <= 12


def test_what_asks_for_a_density_is_refused():
    """Local moves and drawn shares of columns, with ways that work; entries that have no meaning."""
    for settings, entries, field, words in (
        ({}, {"trees": "leaves"}, "moves", "set moves=pg, or leave out prior.trees"),
        ({"moves": {"pg": 0.5, "grow": 0.25, "prune": 0.25}}, {"trees": "pinball"}, "moves", "set moves=pg"),
        ({"moves": "pg"}, {"trees": "balanced", "sparse": True}, "prior.sparse", "leave out prior.sparse"),
        (
            {"moves": "pg"},
            {"trees": "leaves", "alpha": 0.5},
            "prior.alpha",
            "only with trees: depth or balanced",
        ),
        ({}, {"num_leaves": 3}, "prior.num_leaves", "only with trees: leaves or pinball"),
        ({"moves": "pg"}, {"trees": "leaves", "tries": 3}, "prior.tries", "only with trees: balanced"),
        ({"moves": "pg"}, {"trees": "pinballs"}, "prior.trees", "did you mean pinball"),
        ({"method": "bcart"}, {"trees": "leaves"}, "prior.trees", "of a single tree"),
    ):
        with pytest.raises(SettingsError, match=words) as refused:
            prepare(X, LEVEL, prior=entries, **settings)
        assert refused.value.field == field
    assert prepare(X, LEVEL, prior={"trees": "leaves"}, recipe="pg-bart").training.constants.trees


@pytest.mark.parametrize("law", OTHERS)
def test_a_resolved_prior_is_accepted_again(law):
    """Workers are told the prior with its defaults."""
    settings = prepare(X, LEVEL, **SHORT).training.settings
    resolved = check_prior({"trees": law}, settings)
    assert check_prior(resolved, settings) == resolved


def test_the_card_names_the_prior():
    """A model knows its prior of trees."""
    settings = SHORT | {"noise": "constant", "progress": False, "seed": 1}
    posterior = fit(X, LEVEL, prior={"trees": "pinball", "num_leaves": 4}, **settings)
    card = posterior.model_card().to_markdown()
    assert r"trees pinball, num\_leaves 4, evenness 1, " in card
    assert "alpha" not in card
    assert "alpha 0.95" in fit(X, LEVEL, prior={"trees": "balanced"}, **settings).model_card().to_markdown()


def test_a_fit_costs_by_its_trees():
    """Larger trees, and more rules tried, take longer."""
    settings = prepare(X, LEVEL, **SHORT).training.settings.to_json()

    def seconds(**prior):
        return chain_seconds(settings | {"prior": prior}, 10_000, 5)

    assert seconds() == seconds(trees="leaves", num_leaves=2.5)
    assert seconds(trees="leaves", num_leaves=10.0) > 1.3 * seconds()
    assert seconds() < seconds(trees="balanced", tries=3) < seconds(trees="balanced", tries=10)
    assert {law.density for name, law in TREE_LAWS.items() if name != "depth"} == {False}
