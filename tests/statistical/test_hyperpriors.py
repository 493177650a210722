"""The hyperpriors (k of the leaves, the columns' shares) keep their laws, alone and with the forest.

The columns differ in how often they can split a node (two codes, gaps, missing values, few rows), so the
latent variables of nodes where some columns can't split matter: without them the shares have another law.
"""

import numpy as np
import pytest
from scipy import stats

from sampler import fit
from sampler.bart.chain import Chain
from sampler.bart.kernels.leaf_models.normal import TAU2, UNIT2
from tests.reference.enumerator import MISSING
from tests.reference.prior import draw_forest, draw_sigma2
from tests.support.chain_driver import check_resuming, f_of, plant, training, with_outcome
from tests.support.reports.p_values import ALARM, all_above

ROWS, TREES, LEAF_SD, K, NU, LAMBDA = 9, 3, 0.5, 2.0, 8.0, 0.5
K_DF, K_SCALE = 4.0, 1.2
THETA = 1.5
PRIOR = {
    "alpha": 0.95, "beta": 0.7, "leaf_sd": LEAF_SD, "k": K, "nu": NU, "lambda": LAMBDA, "sigma_start": 0.7,
}  # fmt: skip
SPARSE = {"sparse": True, "sparse_theta": THETA}
CHI = {"k_df": K_DF, "k_scale": K_SCALE}
MOVES = ["default", "cgm", {"pg": 0.3, "grow": 0.35, "prune": 0.35, "rule": 0.5}]


def codes_of(rng):
    """Return four columns: two codes, three, thirty, and one that is often missing."""
    codes = np.array([rng.integers(0, levels, ROWS) for levels in (2, 3, 30, 4)], np.uint8)
    codes[3, rng.random(ROWS) < 0.4] = MISSING
    return codes


def drawn(codes, rng, *, sparse):
    """Return (forest, sigma2, y, k, shares) drawn from the model."""
    shares = rng.dirichlet(np.full(len(codes), THETA / len(codes))) if sparse else None
    k = K_SCALE * np.sqrt(rng.chisquare(K_DF))
    leaf_sd = LEAF_SD * K / k
    forest = draw_forest(
        codes, TREES, PRIOR["alpha"], PRIOR["beta"], leaf_sd, rng, step=2.0**-15,
        shares=None if shares is None else np.maximum(shares, 1e-290),
    )  # fmt: skip
    sigma2 = draw_sigma2(NU, LAMBDA, rng)
    return forest, sigma2, forest.f + np.sqrt(sigma2) * rng.normal(size=ROWS), k, shares


def functions_of(f, sigma2, y, k, shares, num_leaves):
    """Return the compared quantities."""
    one = {
        "log k": np.log(k), "leaves": np.mean(num_leaves), "f squared": f[0] ** 2 / (1 + f[0] ** 2),
        "log sigma2": np.log(sigma2), "spread of y": np.log(y.var() + 0.01),
    }  # fmt: skip
    if shares is not None:
        one |= {f"share {j}": shares[j] for j in range(4)} | {"largest share": shares.max()}
    return one


def compare(options, moves, replications, sweeps):
    """Return p per function of planted chains (Geweke's successive conditionals) against the prior."""
    rng = np.random.default_rng(5)
    codes, sparse = codes_of(rng), "sparse" in options
    chain, paths = None, []
    for _ in range(replications):
        forest, sigma2, y, k, shares = drawn(codes, rng, sparse=sparse)
        if chain is None:
            data = training(
                codes, y, prior=PRIOR | options, num_trees=TREES, num_draws=1, num_burnin=10**6, moves=moves
            )
            chain = Chain.start(data, 0)
        if sparse:
            chain._hyper._log_share[:] = np.log(np.maximum(shares, 1e-290))
        with_outcome(chain, y)
        plant(chain, forest, sigma2)
        unit2 = chain._models[0].variance[UNIT2]
        chain._models[0].variance[0] = unit2 / k**2
        path = []
        for _ in range(sweeps):
            chain.run(1)
            f, sigma2 = f_of(chain), chain.sigma**2
            y = f + np.sqrt(sigma2) * rng.normal(size=ROWS)
            k = np.sqrt(unit2 / chain._models[0].variance[0])
            shares = chain._hyper.shares if sparse else None
            values = functions_of(f, sigma2, y, k, shares, chain._forests[0].num_leaves)
            path.append(list(values.values()))
            with_outcome(chain, y)
        paths.append(path)
    reference = []
    for _ in range(2000):
        forest, sigma2, y, k, shares = drawn(codes, rng, sparse=sparse)
        leaves = [tree.num_leaves for tree in forest.trees]
        reference.append(list(functions_of(forest.f, sigma2, y, k, shares, leaves).values()))
    paths, reference = np.array(paths), np.array(reference)
    means = stats.ttest_ind(paths.mean(1), reference, equal_var=False).pvalue
    last = [stats.ks_2samp(a, b).pvalue for a, b in zip(paths[:, -1].T, reference.T, strict=True)]
    return {n: min(1.0, 2 * min(m, e)) for n, m, e in zip(values, means, last, strict=True)}


@pytest.mark.parametrize("moves", MOVES, ids=str)
def test_joint(moves):
    """Shares, k, forest, noise and outcome keep their joint prior law under any moves."""
    all_above(compare(CHI | SPARSE, moves, 150, 20), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("moves", MOVES, ids=str)
@pytest.mark.parametrize("options", [CHI, CHI | SPARSE], ids=["k", "k and shares"])
def test_joint_long(options, moves):
    """The joint law is kept in ten times the work, and with k drawn alone."""
    all_above(compare(options, moves, 1500, 30), ALARM)


def test_prior_recovered():
    """Without the likelihood shares, theta and k have their priors."""
    rng = np.random.default_rng(7)
    codes = codes_of(rng)
    prior = PRIOR | CHI | {"sparse": True, "sparse_rho": 4.0, "sparse_a": 2.0, "sparse_b": 2.0}
    data = training(
        codes, rng.normal(size=ROWS), prior=prior, num_trees=TREES, num_draws=1, num_burnin=10**6,
        moves="default", prior_only=True,
    )  # fmt: skip
    chain = Chain.start(data, 0)
    rows = []
    for _ in range(1200):
        chain.run(20)
        variance = chain._models[0].variance
        k2 = variance[UNIT2] / variance[TAU2]
        theta = 4.0 * chain._hyper._grid[0, int(chain._hyper._theta[0])]
        rows.append([k2 / K_SCALE**2, chain._hyper.shares.max(), theta / (theta + 4.0)])
    k2, largest, share = np.array(rows).T
    ratio = rng.beta(2, 2, 4000)
    theta = 4.0 * ratio / (1 - ratio)
    exact = [rng.dirichlet(np.full(4, t / 4)).max() for t in theta]
    results = {
        "k": stats.kstest(k2, stats.chi2(K_DF).cdf).pvalue,
        "largest share": stats.ks_2samp(largest, exact).pvalue,
        "theta": stats.kstest(share + rng.uniform(-0.0025, 0.0025, len(share)), stats.beta(2, 2).cdf).pvalue,
    }
    all_above(results, ALARM)


def test_sparse_finds_the_columns():
    """With sparse shares the five columns of Friedman's function rank first among 200, chains pooled."""
    rng = np.random.default_rng(1)
    X = rng.random((250, 200))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    y += rng.normal(size=250)
    prior = {"sparse": True, "sigma_estimate": "naive"}
    posterior = fit(
        X, y, num_trees=20, num_chains=4, num_burnin=400, num_draws=50, thin=4, prior=prior, progress=False
    )
    assert set(np.argsort(posterior.inclusion().mean)[-5:]) == set(range(5))


def test_resuming_is_exact():
    """Checkpoints contain shares, theta and k: a resumed chain equals an uninterrupted one."""
    rng = np.random.default_rng(8)
    data = training(
        codes_of(rng), rng.normal(size=ROWS), prior=PRIOR | CHI | {"sparse": True}, num_trees=TREES,
        num_draws=40, moves={"pg": 0.2, "grow": 0.4, "prune": 0.4}, start="smc",
    )  # fmt: skip
    check_resuming(data, run=lambda chain: chain.run(3))
