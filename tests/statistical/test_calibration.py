"""Simulation-based calibration: the rank of the truth among its posterior draws is uniform.

Truth from the prior by the twins, y from the model, draws by the engine from its own start; f at trained and
at new rows is walked down in plain Python.
"""

import numpy as np
import pytest

from tests.support.chain_driver import draws_of, fits, mixes
from tests.support.models.covering_models import COVERING, Model
from tests.support.reports.p_values import ALARM, all_above, rank_of, uniform_by_name

DRAWS = 63
# a single deep tree forgets its start too slowly for these runs, however right its law; five don't
DEEP = {"name": "deep trees", "num_rows": 70, "num_trees": 5, "beta": 0.35, "levels": (40, 3, 250, 9)}
CALIBRATED = [options for options in COVERING if options["name"] != "one deep tree"] + [DEEP]
SHORT, LONG = 96, 320


def ranks_of(model, seed, rng, thin, num_burnin):
    """Return the ranks of one replication, by name."""
    forest, sigma2 = model.draw(rng)
    y = model.outcome(forest.f, sigma2, rng)
    data = model.training(y, num_draws=DRAWS, thin=thin, num_burnin=num_burnin, seed=seed)
    draws = draws_of(data)
    f = fits(draws, model.codes, data.constants)
    first, new = 0, model.num_rows
    leaves = sum(tree.num_leaves for tree in forest.trees)
    noise = {} if model.family == "probit" else {"sigma": rank_of(np.sqrt(sigma2), draws.sigma, rng)}
    return noise | {
        "f at a row": rank_of(forest.f[first], f[:, first], rng),
        "f at a new row": rank_of(forest.f[new], f[:, new], rng),
        "mean of f": rank_of(forest.f[:new].mean(), f[:, :new].mean(1), rng),
        "leaves": rank_of(leaves, draws.leaf_counts.sum(1), rng),
        "log likelihood": rank_of(
            model.log_likelihood(y, forest.f, sigma2), model.log_likelihood(y, f, draws.sigma**2), rng
        ),
    }


def calibrate(model, replications, thin=None, num_burnin=1500):
    """Return p-values of uniform ranks, by name."""
    rng = np.random.default_rng(99)
    thin = thin or (15 if model.num_trees > 10 else 40)  # many trees forget a start sooner
    bins = 8 if replications < 200 else 16
    ranks = [ranks_of(model, seed, rng, thin, num_burnin) for seed in range(replications)]
    return uniform_by_name(ranks, DRAWS, bins)


@pytest.mark.parametrize("options", CALIBRATED, ids=lambda options: options["name"])
@pytest.mark.sampled(quick=1, slow=2)
def test_calibrated(options):
    """Ranks are uniform with the default moves, over the covering set of options."""
    all_above(calibrate(Model(**options), SHORT), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("moves", mixes(), ids=str)
@pytest.mark.parametrize("options", CALIBRATED, ids=lambda options: options["name"])
def test_calibrated_long(options, moves):
    """Ranks are uniform with every move set and option, in many more replications."""
    model = Model(**options, moves=moves)
    # particle Gibbs on many trees would take half an hour, and forgets sooner
    length = {} if moves == "pg" and model.num_trees > 10 else {"thin": 60, "num_burnin": 3000}
    all_above(calibrate(model, LONG, **length), ALARM)
