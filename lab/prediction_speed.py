"""Measure speed and size of posteriors.

Friedman's function, n = 1,000, p = 10, 200 trees, 4 chains of 250 kept draws (with `--full` at the default
length, else after a short run with similar trees). Times are the best of several runs on one core. Installed
peers (stochtree, bartz; dbarts through rpy2) predict the same rows in the same run.
"""

import time

import numpy as np

from lab import command

TREES, CHAINS, DRAWS = 200, 4, 250


def friedman(num_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(num_rows, 10))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f + rng.normal(size=num_rows)


def best(run, repeats=5):
    """Return the seconds of the fastest of some runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def report(name, rows, seconds, draws_and_trees):
    per = 1e9 * seconds / (rows * draws_and_trees)
    print(f"{name:46}{1e3 * seconds:10.2f} ms{per:10.3f} ns per row, draw and tree")


def ours(X_new, *, full):
    from sampler import Posterior, fit, unpack
    from sampler.posterior.core.ensemble import Ensemble
    from sampler.storage.model_file import read_parts

    length = {} if full else {"num_burnin": 200, "thin": 1}
    posterior = fit(*friedman(1000, 0), num_chains=CHAINS, num_draws=DRAWS, progress=False, **length)
    data = posterior.to_bytes()
    header, blocks, _ = read_parts(data)[:3]
    trees = posterior.leaf_counts.size
    packed = sum(len(block) for chain in blocks for block in chain)
    print(f"trees {trees}, leaves per tree {posterior.leaf_counts.mean():.2f}")
    print(f"bytes per tree: {packed / trees:.2f} (with the header {len(data) / trees:.2f})")
    chains = [unpack(chain[0]) for chain in blocks]
    print(f"{'unpack all trees':46}{1e3 * best(lambda: [unpack(chain[0]) for chain in blocks]):10.2f} ms")
    print(f"{'bytes to a posterior':46}{1e3 * best(lambda: Posterior.from_blocks(header, blocks)):10.2f} ms")
    ensemble = Ensemble(chains, 10)
    for rows in sorted({1, 16, 256, len(X_new)}):
        coded = posterior.encode(X_new[:rows])
        report(f"sums of trees, {rows} rows", rows, best(lambda c=coded.codes: ensemble.sums(c)), trees)
        for interval in ("credible", "predictive"):
            seconds = best(lambda c=coded, i=interval: posterior.predict(c, 0.9, i))
            report(f"mean, sd, 90% {interval} interval, {rows} rows", rows, seconds, trees)
    feature = posterior.schema.columns[0].name
    effect = posterior.partial_dependence([feature])
    points = len(effect.mean)
    seconds = best(lambda: posterior.partial_dependence([feature]))
    report(f"partial dependence, {points} x {effect.rows} rows", points * effect.rows, seconds, trees)


def stochtree(X_new):
    from stochtree import BARTModel

    model = BARTModel()
    X, y = friedman(1000, 0)
    params = {"num_trees": TREES}
    model.sample(X_train=X, y_train=y, num_gfr=0, num_burnin=50, num_mcmc=100, mean_forest_params=params)
    for rows in (1, len(X_new)):
        report(f"stochtree, {rows} rows", rows, best(lambda r=rows: model.predict(X_new[:r]), 2), 100 * TREES)


def bartz(X_new):
    from bartz.BART import gbart

    X, y = friedman(1000, 0)
    model = gbart(X, y.astype(np.float32), ntree=TREES, ndpost=100, nskip=50, printevery=None)
    for rows in (1, len(X_new)):
        run = lambda r=rows: np.asarray(model.predict(X_new[:r]))  # noqa: E731
        run()
        report(f"bartz, {rows} rows", rows, best(run, 2), 100 * TREES)


def dbarts(X_new):
    from rpy2.robjects import numpy2ri, packages

    library, values = packages.importr("dbarts"), numpy2ri.converter
    with values.context():
        X, y = friedman(1000, 0)
        settings = {"ntree": TREES, "ndpost": 100, "nskip": 50, "keeptrees": True, "verbose": False}
        model = library.bart(X, y, **settings)
        predict = packages.importr("stats").predict
        for rows in (1, len(X_new)):
            report(
                f"dbarts, {rows} rows", rows, best(lambda r=rows: predict(model, X_new[:r]), 2), 100 * TREES
            )


def main():
    parser = command(__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--full", action="store_true", help="fit at the default length")
    arguments = parser.parse_args()
    X_new, _ = friedman(arguments.rows, 1)
    ours(X_new, full=arguments.full)
    for peer in (dbarts, stochtree, bartz):
        try:
            peer(X_new)
        except ImportError as error:
            print(f"{peer.__name__}: not here ({error})")
