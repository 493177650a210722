"""Different move sets sample one posterior: their pooled chains agree like one sampler's."""

import numpy as np
import pytest
from scipy import stats

from sampler.bart.chain import Chain
from tests.support.chain_driver import RESTRUCTURED, f_of, move_sets
from tests.support.models.covering_models import Model
from tests.support.reports.p_values import holds

CHAINS, THIN = 4, 10
# particle Gibbs alone mixes too slowly for these lengths
SETS = {name: name for name in move_sets() if name != "pg"}
SETS |= {
    "restructured": RESTRUCTURED,
    "particles among others": {"pg": 0.2, "grow": 0.3, "prune": 0.3, "change": 0.1, "swap": 0.1},
}
EASY = {"num_rows": 100, "num_trees": 20, "beta": 2.0, "levels": (8, 8, 30), "missing": 0.05}


def chains_of(model, y, draws):
    """Return f [chain, draw, row] and log sigma [chain, draw] of one move set."""
    burnin = min(5 * draws, 1500)
    data = model.training(y, num_draws=1, num_burnin=burnin + draws * THIN, seed=31)
    f, noise = [], []
    for number in range(CHAINS):
        chain = Chain.start(data, number)
        chain.run(burnin)
        states = [(chain.run(THIN), f_of(chain), chain.sigma) for _ in range(draws)]
        f.append([state[1] for state in states])
        noise.append([np.log(state[2]) for state in states])
    return np.array(f), np.array(noise)


def check_agreement(family, draws, bound):
    """Check R-hat over the chains of all move sets, and each set's means against the others'."""
    from arviz_stats.base import array_stats

    first = Model("easy", **EASY, family=family)
    rng = np.random.default_rng(4)
    forest, sigma2 = first.draw(rng)
    y = first.outcome(forest.f, sigma2, rng)
    chains = {
        name: chains_of(Model("easy", **EASY, family=family, moves=moves), y, draws)
        for name, moves in SETS.items()
    }
    together = np.concatenate([f for f, _ in chains.values()])
    rhat = np.asarray(array_stats.rhat(together, chain_axis=0, draw_axis=1))
    print(
        f"\n{family}: R-hat of f over all move sets: median {np.median(rhat):.4f}, largest {rhat.max():.4f}"
    )
    assert rhat.max() < bound
    if family == "gaussian":
        noise = np.concatenate([s for _, s in chains.values()])
        assert float(array_stats.rhat(noise, chain_axis=0, draw_axis=1)) < bound
    # chain means are nearly normal: one-way analysis of variance with move sets as groups
    by_set = [f.mean(1) for f, _ in chains.values()]
    if len(by_set) > 1:
        p = np.array([stats.f_oneway(*[means[:, row] for means in by_set]).pvalue for row in range(len(y))])
        print(f"  smallest p of {len(y)} rows: {p.min():.3g}")
        holds(p.min() * len(y))


@pytest.mark.parametrize("family", ["gaussian", "probit"])
def test_agreement(family):
    """Short chains of every move set agree on an easy posterior."""
    check_agreement(family, 150, 1.06)


@pytest.mark.long
@pytest.mark.parametrize("family", ["gaussian", "probit"])
def test_agreement_long(family):
    """Long chains of every move set agree closely."""
    check_agreement(family, 1500, 1.01)
