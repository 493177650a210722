"""Compare the posterior with bartz's, for equal cuts, leaf minimum, lambda and leaf prior on an easy problem.

    python -m lab agreement [--draws 1000]

Needs bartz besides this project's own packages. n = 100, 20 trees, 8 chains each. Prints the rank-normalised
split R-hat of f at every row over the chains of both packages together, as if they were one sampler's: values
near 1 mean that the posteriors agree. (bartz determines a column's available cuts by the ancestors' cuts,
this project by the codes at the node, so the priors differ a little in deep nodes. bartz's trees stop at
depth 6.)
"""

import numpy as np
from arviz_stats.base import array_stats

from lab import command
from lab.cgm10 import PLAIN
from sampler import Chain, prepare

TREES, CHAINS, BURNIN, THIN = 20, 8, 2000, 10
CONSTANTS = {"offset": 0.5, "leaf_sd": 0.15, "nu": 3.0, "lambda": 0.6, "sigma_start": 1.0}


def problem(num_rows=100):
    """Simulate X and y: three columns of eight levels each, a smooth f, noise sd 1."""
    rng = np.random.default_rng(17)
    X = rng.integers(0, 8, (num_rows, 3)) / 8
    return X, np.sin(4 * X[:, 0]) + X[:, 1] + rng.normal(size=num_rows)


def ours(X, y, draws):
    """Fit and return f [chain, draw, row] and sigma [chain, draw]."""
    settings = {
        "num_trees": TREES,
        "num_chains": CHAINS,
        "num_burnin": BURNIN,
        "num_draws": draws,
        "thin": THIN,
    }
    data = prepare(X, y, prior=CONSTANTS, **PLAIN | settings).training
    f, sigma = [], []
    for number in range(CHAINS):
        chain = Chain.start(data, number)
        here = []
        for step in range(BURNIN + draws * THIN):
            if step >= BURNIN and (step - BURNIN) % THIN == 0:
                here.append(data.grid_y - chain.residual())
            chain.run(1)
        f.append(data.constants.offset + data.constants.step * np.array(here))
        sigma.append(chain.take().sigma)
    return np.array(f), np.array(sigma)


def theirs(X, y, draws):
    """Fit by bartz, with every constant set to ours, and return f and sigma."""
    from bartz.BART import mc_gbart

    cuts = [(np.unique(column)[1:] + np.unique(column)[:-1]) / 2 for column in X.T]
    xinfo = np.full((X.shape[1], max(map(len, cuts))), np.nan)
    for row, points in zip(xinfo, cuts, strict=True):
        row[: len(points)] = points
    fitted = mc_gbart(
        X, y.astype(np.float32), xinfo=xinfo, sigdf=CONSTANTS["nu"], lambda_=CONSTANTS["lambda"],
        offset=CONSTANTS["offset"], k=1.0, tau_num=CONSTANTS["leaf_sd"] * TREES**0.5, power=2.0, base=0.95,
        ntree=TREES, ndpost=draws * CHAINS, nskip=BURNIN, keepevery=THIN, mc_cores=CHAINS,
        printevery=None, seed=3,
        bart_kwargs={"init_kw": {"min_points_per_leaf": 1, "min_points_per_decision_node": None}},
    )  # fmt: skip
    f = np.asarray(fitted.yhat_train).reshape(CHAINS, draws, len(y))
    sigma = np.asarray(fitted.sigma)
    return f, sigma[-draws:].T if sigma.ndim == 2 else sigma.reshape(CHAINS, -1)[:, -draws:]


def rhat(draws):
    """Compute rank-normalised split R-hat of [chain, draw, ..]."""
    return np.asarray(array_stats.rhat(draws, chain_axis=0, draw_axis=1))


def main():
    parser = command(__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    X, y = problem()
    (f, sigma), (g, tau) = ours(X, y, draws), theirs(X, y, draws)
    for name, one in (("ours", rhat(f)), ("bartz", rhat(g)), ("together", rhat(np.concatenate([f, g])))):
        print(f"R-hat of f, {name:>9}: median {np.median(one):.4f}, largest {one.max():.4f}")
    print(f"R-hat of sigma, together: {float(rhat(np.concatenate([sigma, tau]))):.4f}")
    means, sds = f.mean((0, 1)) - g.mean((0, 1)), f.std((0, 1))
    print(f"largest difference of means of f: {np.abs(means / sds).max():.3f} posterior sd")
    print(f"sd of f, ours / bartz: {np.quantile(sds / g.std((0, 1)), [0, 0.5, 1]).round(3)}")
    print(
        f"sigma: ours {sigma.mean():.4f} (sd {sigma.std():.4f}), bartz {tau.mean():.4f} (sd {tau.std():.4f})"
    )
