"""Compare ways to spend iterations: many chains or few, long or short, judged by accuracy and by other fits.

    python benchmarks/schedules.py [--data computers concrete Auto friedman-10000] [--chains 32] [--k 2]

Chains of 200 + 350 x 8 iterations are run once, and every schedule takes its share of them: its chains,
burn-in and draws. Printed are processor seconds of a fit, RMSE and pinball loss at up to 400 held-out rows
(means over fits), how far two fits' means are apart in posterior sds (median and 95% over rows and pairs of
fits) and what `precision.reproducibility` foretells, R-hat of f (median and 95% of 100 rows) and the
seconds until fits would be .1 sd apart if more chains were added. The outcome is not transformed.
`concrete` is a simulation of 1,030 rows: eight columns of a mixture, ages with few values, interactions and
little noise.
"""

import argparse
import time

import mixing
import numpy as np
import real_tables

from sampler import fit
from sampler.posterior import rhat_ess

FIRST, DRAWS, THIN, ROWS = 200, 350, 8, 400
SCHEDULES = [
    (4, 1000, 250), (8, 500, 125), (8, 200, 175), (8, 1000, 62), (8, 1000, 125), (16, 200, 62), (16, 500, 62),
    (16, 1000, 62), (16, 1000, 125),
]  # fmt: skip


def concrete():
    """Simulate a table like that of concrete's strength."""
    rng = np.random.default_rng(3)
    X = rng.random((1330, 8))
    X[:, 7] = rng.choice([1, 3, 7, 14, 28, 56, 90, 180, 365], len(X))
    X = np.round(X, 2)
    f = 60 * X[:, 0] / (X[:, 0] + 0.5 + X[:, 3]) * np.log1p(X[:, 7]) / np.log(29)
    f += 10 * (X[:, 1] > 0.5) * X[:, 4] - 15 * (X[:, 3] - 0.4) ** 2 * X[:, 7] ** 0.2
    y = f + 3 * rng.normal(size=len(X))
    return X[:1030], y[:1030], X[1030:], y[1030:]


def load(name):
    """Return training X and y, and held-out X and y."""
    if name == "concrete":
        return concrete()
    if name in mixing.DATA or name.startswith("friedman-"):
        return mixing.load(name, 1)
    X, y = real_tables.load(name)
    train, held = real_tables.split(len(y), 0)
    return X.iloc[train], y.iloc[train], X.iloc[held], y.iloc[held]


def pinball(f, sigma, y, rng):
    """Compute the pinball loss of a fit's predictive quantiles from draws [row, chain, draw]."""
    new = (f + sigma * rng.normal(size=f.shape)).reshape(len(f), -1)
    found = np.quantile(new, real_tables.LEVELS, axis=1)
    return np.mean([np.mean((y - q) * (p - (y < q))) for p, q in zip(real_tables.LEVELS, found, strict=True)])


def compare(f, sigma, y, seconds):
    """Print a line for each schedule; `seconds` are those of an iteration."""
    rng = np.random.default_rng(0)
    for chains, burnin, draws in SCHEDULES:
        begin, fits = (burnin - FIRST) // THIN, f.shape[1] // chains
        if fits < 2 or begin + draws > DRAWS:
            continue
        part = np.s_[: fits * chains, begin : begin + draws]
        g = f[:, *part].reshape(len(f), fits, chains, draws)
        noise = sigma[part].reshape(fits, chains, draws)
        means, sd = g.mean((2, 3)), g.std((2, 3)).mean(1, keepdims=True)
        pairs = np.triu_indices(fits, 1)
        apart = np.abs(means[:, pairs[0]] - means[:, pairs[1]]) / sd
        losses = [pinball(g[:, k], noise[k], y, rng) for k in range(fits)]
        told = [np.mean((rhat_ess.reproducibility(g[:, k]) / sd[:, 0]) ** 2) for k in range(fits)]
        rhat = rhat_ess.rhat(np.ascontiguousarray(g[:100, 0]))
        rmse = np.sqrt(np.mean((means.T - y) ** 2, axis=1)).mean()
        spent, median = chains * (burnin + THIN * draws) * seconds, np.median(apart)
        print(
            f"  {chains:2} x {burnin:4} + {draws:3} x {THIN}  {spent:6.2f} s  "
            f"rmse {rmse:8.4g}  pinball {np.mean(losses):8.4g}  "
            f"apart {median:.3f} ({np.quantile(apart, 0.95):.2f}), foretold {np.sqrt(np.mean(told)):.3f}  "
            f"R-hat {np.median(rhat):.3f} {np.quantile(rhat, 0.95):.3f}  "
            f"to .1 {spent * (median / 0.1) ** 2:6.1f} s",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["computers", "concrete", "Auto", "friedman-10000"])
    parser.add_argument("--chains", type=int, default=32)
    parser.add_argument("--k", type=float, help="instead of drawing it")
    arguments = parser.parse_args()
    prior = {} if arguments.k is None else {"k": arguments.k}
    for name in arguments.data:
        X, y, X_new, y_new = load(name)
        fit(X[:100], y[:100], num_chains=1, num_burnin=5, num_draws=8, thin=1, progress=False)  # compiles
        start = time.process_time()
        posterior = fit(
            X, y, num_chains=arguments.chains, num_burnin=FIRST, num_draws=DRAWS, thin=THIN, seed=5,
            transform="none", prior=prior, progress=False,
        )  # fmt: skip
        seconds = (time.process_time() - start) / arguments.chains / (FIRST + THIN * DRAWS)
        f = np.ascontiguousarray(posterior.sample(X_new[:ROWS]).transpose(2, 0, 1))
        print(f"{name}, n = {len(X):,}: {1000 * seconds:.3f} ms an iteration", flush=True)
        compare(f, posterior.sigma, np.asarray(y_new)[:ROWS], seconds)


if __name__ == "__main__":
    main()
