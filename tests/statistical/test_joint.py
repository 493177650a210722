"""Geweke's joint-distribution test: y | state, one sweep | y, and so on; all must keep its prior law.

Each replication is planted in the engine at an exact draw from the prior, made by the twins, so every state
along it has the prior law: replications are independent, no mixing is presumed, and the engine does not vouch
for itself. Compared with independent prior draws are the mean along the path and the law of the last state.
"""

import numpy as np
import pytest
from scipy import stats

from sampler.bart.chain import Chain
from tests.support.chain_driver import f_of, mixes, plant, with_outcome
from tests.support.models.covering_models import COVERING, Model
from tests.support.reports.p_values import ALARM, all_above

SHORT = {"replications": 250, "sweeps": 40, "reference": 3_000}
LONG = {"replications": 1_500, "sweeps": 60, "reference": 15_000}


def functions_of(model, f, y, sigma2, num_leaves):
    """Return the functions compared; f and y at the training rows, num_leaves per tree."""
    f = f[: model.num_rows]
    num_leaves = np.asarray(num_leaves)
    noise = {
        "log sigma2": np.log(sigma2),
        "log sigma2 squared": np.log(sigma2) ** 2,
        "leaves x log sigma2": num_leaves.mean() * np.log(sigma2),
    }
    number = (
        {"trees": (num_leaves > 0).mean(), "of all trees": (num_leaves > 0).all()} if model.number else {}
    )
    return (
        number
        | (noise if model.family == "gaussian" else {"leaves x y": num_leaves.mean() * y.mean()})
        | {
            "leaves": num_leaves.mean(),
            "stumps": (num_leaves == 1).mean(),
            "trees of 4 leaves or more": (num_leaves >= 4).mean(),
            "f at a row": f[0],
            "f at a row squared": (f[0] - model.offset) ** 2,
            "spread of f": f.var(),
            "product of f at two rows": (f[0] - model.offset) * (f[1] - model.offset),
            "spread of y": np.log(y.var() + 0.01),
            "log likelihood": model.log_likelihood(y, f, sigma2) / model.num_rows,
        }
    )


def prior_state(model, rng):
    """Return (forest, sigma2, y) drawn from the model."""
    forest, sigma2 = model.draw(rng)
    return forest, sigma2, model.outcome(forest.f, sigma2, rng)


def paths(model, replications, sweeps, seed):
    """Return the functions along planted chains, [replication, sweep, function], and their names."""
    rng = np.random.default_rng(seed)
    out = []
    chain = None
    for _ in range(replications):
        forest, sigma2, y = prior_state(model, rng)
        if chain is None:
            chain = Chain.start(model.training(y, num_draws=1, num_burnin=1_000_000, seed=seed), 0)
        with_outcome(chain, y)
        plant(chain, forest, sigma2)
        path = []
        for _ in range(sweeps):
            chain.run(1)
            f, sigma2 = f_of(chain), chain.sigma**2
            y = model.outcome(f, sigma2, rng)
            values = functions_of(model, f, y, sigma2, chain._forests[0].num_leaves)
            path.append(list(values.values()))
            with_outcome(chain, y)
        out.append(path)
    return np.array(out), list(values)


def reference(model, size, seed):
    """Return the functions at independent draws from the prior, [size, function]."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(size):
        forest, sigma2, y = prior_state(model, rng)
        rows.append(
            list(functions_of(model, forest.f, y, sigma2, [t.num_leaves for t in forest.trees]).values())
        )
    return np.array(rows)


def compare(model, replications, sweeps, reference_size, seed=1):
    """Return p per function: Welch's test of path means, Kolmogorov-Smirnov of the last states."""
    chain, names = paths(model, replications, sweeps, seed)
    prior = reference(model, reference_size, seed + 1)
    means = stats.ttest_ind(chain.mean(1), prior, equal_var=False).pvalue
    last = [stats.ks_2samp(a, b).pvalue for a, b in zip(chain[:, -1].T, prior.T, strict=True)]
    return {n: min(1.0, 2 * min(m, e)) for n, m, e in zip(names, means, last, strict=True)}


@pytest.mark.parametrize("options", COVERING, ids=lambda options: options["name"])
@pytest.mark.sampled(quick=1, slow=2)
def test_joint(options):
    """The default moves keep the joint law, over the covering set of options."""
    all_above(compare(Model(**options), *SHORT.values()), ALARM)


@pytest.mark.slow
@pytest.mark.parametrize("moves", mixes(), ids=str)
@pytest.mark.sampled(quick=1, slow=2)
def test_joint_moves(moves):
    """Every move set keeps the joint law where missing values and few rows reach its special cases."""
    all_above(compare(Model(**COVERING[-1], moves=moves), *SHORT.values(), seed=2), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("moves", mixes(), ids=str)
@pytest.mark.parametrize("options", COVERING, ids=lambda options: options["name"])
def test_joint_long(options, moves):
    """Every move set with every option keeps the joint law, at nine times the work."""
    all_above(compare(Model(**options, moves=moves), *LONG.values()), ALARM)
