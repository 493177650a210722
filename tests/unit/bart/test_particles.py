"""Particle Gibbs of every kind of forest, beside whatever a chain has."""

import numpy as np
import pytest

from sampler import fit
from sampler.bart import chain as chains
from sampler.bart import particle_gibbs
from sampler.preparation import prepare
from tests.support.chain_driver import check_resuming, draws_of

MIXED = {"pg": 0.6, "grow": 0.2, "prune": 0.2, "rule": 0.1}
SHORT = {"num_trees": 5, "num_chains": 1, "num_burnin": 8, "num_draws": 6, "thin": 1}
GRADES = ["low", "mid", "top"]


def table(rows, seed=0):
    """Columns, groups, and a level that outcomes of every kind follow."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(rows, 3))
    columns = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "site": np.arange(rows) % 4}
    return columns, 2 * np.sin(3 * x[:, 0]) + 2 * (x[:, 1] > 0.5) + rng.normal(0, 0.4, rows), rng


def case(name, rows=70):
    """Return columns, outcomes and arguments of a fit."""
    X, level, rng = table(rows)
    counts = rng.poisson(np.exp(level / 2)) * (rng.uniform(size=rows) < 0.8)
    grades = np.array(GRADES)[np.searchsorted([1, 2.5], level)]
    treatment = rng.integers(0, 2, rows)
    weights = rng.uniform(0.5, 2, rows)
    kinds = {
        "weights": (level, {"weights": weights}),
        "line and groups": (level + 3 * X["c"], {"linear": True, "groups": "site", "slopes": "c"}),
        "effect": (level + treatment, {"treatment": treatment, "weights": weights}),
        "noise forest": (level, {"noise": "forest", "groups": "site"}),
        "heavy tails": (level, {"noise": "t-forest", "linear": True}),
        "mixture": (level, {"noise": "mixture"}),
        "hurdle": (np.maximum(level, 1.8), {"family": "hurdle", "linear": True}),
        "counts": (counts, {"family": "zero-inflated-negative-binomial"}),
        "arms of counts": (counts, {"family": "poisson", "treatment": treatment}),
        "classes": (grades, {"family": "categorical", "linear": True}),
        "grades": (grades, {"family": "ordinal", "levels": GRADES, "groups": "site"}),
    }
    y, arguments = kinds[name]
    return X, y, arguments


CASES = [
    *("weights", "line and groups", "effect", "noise forest", "heavy tails", "mixture", "hurdle", "grades"),
    *("counts", "arms of counts", "classes"),
]


def training_of(name, **settings):
    """Prepare a short fit of a case."""
    X, y, arguments = case(name)
    return prepare(X, y, **SHORT | arguments | settings).training


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(quick=4, slow=7)
def test_a_chain_resumes_bit_for_bit(name):
    """From a checkpoint after any iteration, whichever moves it made."""
    check_resuming(training_of(name, moves=MIXED, start="smc"))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(quick=4, slow=7)
def test_room_that_is_found_on_the_way_changes_nothing(monkeypatch, name):
    """An iteration that lacked room for nodes, leaves or draws is done again as if it had had it."""
    large = {"alpha": 0.99, "beta": 0.3}
    training = training_of(name, moves="pg", start="smc", num_burnin=0, prior=large)
    drawn = []
    for nodes, leaves in ((1, 8), (256, 128)):
        monkeypatch.setattr(particle_gibbs, "FIRST_NODES", nodes)
        monkeypatch.setattr(chains, "FIRST_LEAVES", leaves)
        drawn.append(draws_of(training))
    assert drawn[0] == drawn[1]
    assert drawn[0].leaf_counts.max() > 8, "the problem no longer grows large trees"


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(slow=2)
def test_predictions_agree_with_the_default_moves(name):
    """Means at the rows are those of the default sampler, within Monte Carlo error."""
    X, y, arguments = case(name, 200)
    longer = {
        "num_trees": 20,
        "num_chains": 2,
        "num_burnin": 150,
        "num_draws": 200,
        "progress": False,
        "seed": 1,
    }
    fits = (fit(X, y, moves=moves, **longer | arguments) for moves in ("default", "pg"))
    mean, other = (np.asarray(each.predict(X).mean) for each in fits)
    assert np.sqrt(np.mean((other - mean) ** 2)) < 0.2 * mean.std()
