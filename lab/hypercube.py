# ruff: noqa: SLF001  # the state of a chain is looked at, not only its draws
"""Compare particle Gibbs and local moves for one tree with the tables of the PG-BART paper (Hypercube-D).

    python -m lab hypercube [--dimensions 2 3 4 5 7] [--seeds 10] [--samplers growprune cgm pg ..]
    python -m lab hypercube --converge [--dimensions 2 3 4] [--seeds 3] [--iterations 20000]
    python -m lab hypercube --peer      # a PG update of a tree and pymc-bart's, Friedman n = 1,000

Data (Lakshminarayanan, Roy and Teh 2015): 10 rows at each vertex of {-1, 1}^D with sd .1, a value N(0, 9) for
each vertex and noise of sd .01. One tree, alpha .95, beta by D, k 2, cuts="uniform"; 2,000 iterations from a
stump, the first 1,000 discarded. ESS is coda's (spectral density at zero of an autoregression) of the
training log-likelihood. A tree frozen at the truth has an ESS of 500 to 800, so the final log-likelihood,
leaves and test MSE are printed too: medians, and 10% and 90% quantiles over the data seeds. The paper's calls
per second are ESS/s divided by ESS in its tables, times 1,000.

--converge: 8 chains, half from stumps and half from draws of the prior; rank R-hat of the log-likelihood, the
leaves and the root's variable over the second half, and how often the root's variable changes. The first half
is burn-in, in which an annealed chain's likelihood counts less.
"""

import time
from itertools import product

import numpy as np

from lab import command
from lab.cgm10 import PLAIN
from sampler.bart.chain import Chain
from sampler.kernels.arrays import FEATURE
from sampler.posterior.verdict import rhat_ess
from sampler.preparation import prepare

BETA = {2: 1.0, 3: 0.5, 4: 0.4, 5: 0.3, 7: 0.25}
SAMPLERS = {
    "growprune": {"moves": "growprune"},
    "cgm": {"moves": "cgm"},
    "pg": {"moves": "pg"},
    "pg-smc": {"moves": "pg", "start": "smc"},
    "best": {
        "moves": {"grow": 0.25, "prune": 0.25, "change": 0.2, "swap": 0.1, "restructure": 0.2, "rule": 0.5},
        "start": "annealed",
    },
    "unannealed": {
        "moves": {"grow": 0.25, "prune": 0.25, "change": 0.2, "swap": 0.1, "restructure": 0.2, "rule": 0.5}
    },
    "local": {"moves": {"grow": 0.3, "prune": 0.3, "change": 0.25, "swap": 0.15, "rule": 0.5}},
}
PAPER = {  # ESS and ESS/s of CGM, GrowPrune, PG
    2: ((751.66, 473.57, 259.11), (157.67, 114.81, 7.69)),
    3: ((762.96, 285.2, 666.71), (93.01, 26.94, 11.025)),
    4: ((14.01, 11.76, 686.79), (0.961, 0.569, 5.394)),
    5: ((2.92, 1.35, 667.27), (0.130, 0.071, 1.673)),
    7: ((1.16, 1.78, 422.96), (0.027, 0.039, 0.273)),
}


def hypercube(dimension, seed):
    """Simulate X and y, and as many test rows with the same vertex values."""
    rng = np.random.default_rng(seed)
    vertices = np.array(np.meshgrid(*[[-1.0, 1.0]] * dimension)).reshape(dimension, -1).T
    at = np.repeat(vertices, 10, axis=0)
    f = np.repeat(rng.normal(0, 3, len(vertices)), 10)

    def rows():
        return at + 0.1 * rng.normal(size=at.shape), f + 0.01 * rng.normal(size=len(f))

    return *rows(), *rows()


def chain_of(X, y, dimension, seed, chain=0, num_burnin=0, **settings):
    """Start a chain of one tree."""
    prior = {"cuts": "uniform", "alpha": 0.95, "beta": BETA[dimension], "k": 2.0}
    problem = prepare(
        X,
        y,
        num_trees=1,
        num_chains=1,
        num_burnin=num_burnin,
        num_draws=10**6,
        seed=seed,
        prior=prior,
        **PLAIN | settings,
    )
    return problem, Chain.start(problem.training, chain)


def look(chain):
    """Return log-likelihood, leaves, root variable (-1 for a stump)."""
    e, sigma = chain.residual() * chain.training.constants.step, chain.sigma
    leaves = int(chain.leaf_counts[0])
    root = int(chain._forests[0].node[0, 0, FEATURE]) if leaves > 1 else -1
    n = len(e)
    return -0.5 * n * np.log(2 * np.pi * sigma**2) - np.sum(e**2) / (2 * sigma**2), leaves, root


def coda_ess(x):
    """Compute coda's effectiveSize: n var / S(0), S(0) of the AIC-best autoregression by Yule-Walker."""
    n, x = len(x), np.asarray(x) - np.mean(x)
    if not x.any():
        return 0.0
    most = int(10 * np.log10(n))
    acov = np.array([x[: n - k] @ x[k:] / n for k in range(most + 1)])
    best, phi, v = (n * np.log(acov[0]), np.zeros(0), acov[0]), np.zeros(0), acov[0]
    for order in range(1, most + 1):
        reflection = (
            (acov[order] - phi @ acov[order - 1 : 0 : -1][: order - 1]) / v if order > 1 else acov[1] / v
        )
        phi = np.append(phi - reflection * phi[::-1], reflection)
        v *= 1 - reflection**2
        aic = n * np.log(v) + 2 * order
        if aic < best[0]:
            best = (aic, phi, v)
    _, phi, v = best
    spectrum = v * n / (n - len(phi) - 1) / (1 - phi.sum()) ** 2
    return float(n * np.var(x, ddof=1) / spectrum)


def one(dimension, seed, settings):
    """Run one sampler and return the figures of a data seed.

    These are ESS, calls per second, final log-likelihood, leaves, test MSE, and root switches per 1,000
    iterations.
    """
    X, y, X_new, y_new = hypercube(dimension, seed)
    problem, chain = chain_of(X, y, dimension, seed, num_burnin=1000, **settings)
    traces, mean, seconds = [], np.zeros(len(y_new)), 0.0
    codes = np.stack([problem.grid.encode(j, X_new[:, j]) for j in range(dimension)])
    for i in range(2000):
        start = time.process_time()
        chain.run(1)
        seconds += (time.process_time() - start) * (i >= 1000)
        traces.append(look(chain))
        if i >= 1000 and i % 10 == 9:
            mean += predicted(chain, codes) / 100
    chain.take()
    loglik, leaves, root = np.array(traces).T
    switches = np.count_nonzero(np.diff(root[1000:]))
    mse = np.mean((mean - y_new) ** 2)
    return [coda_ess(loglik[1000:]), 1000 / seconds, loglik[-1], leaves[-1], mse, switches]


def predicted(chain, codes):
    """Return the current tree's value at coded rows."""
    node, leaf = chain._forests[0].node[0], chain._forests[0].leaf[0]
    out = np.empty(codes.shape[1])
    for i in range(codes.shape[1]):
        at = 0 if chain.leaf_counts[0] > 1 else -1
        while at >= 0:
            feature, cut, _, left, right = (int(v) for v in node[at, :5])
            at = left if codes[feature, i] <= cut else right
        out[i] = leaf[~at, 0]
    constants = chain.training.constants
    return constants.offset + constants.step * out


def tables(dimensions, seeds, samplers):
    for dimension in dimensions:
        ess, rate = PAPER[dimension]
        calls = rate[2] / ess[2] * 1000
        print(f"\nD = {dimension}   (paper: ESS CGM {ess[0]}, GrowPrune {ess[1]}, PG {ess[2]};")
        print(f"         ESS/s {rate[0]}, {rate[1]}, {rate[2]}; {calls:.2f} PG calls per second)")
        print(f"{'':10}" + "".join(f"{c:>27}" for c in ("ESS", "calls/s", "log-likelihood")))
        print(f"{'':10}" + "".join(f"{c:>27}" for c in ("leaves", "test MSE", "root switches /1,000")))
        for name in samplers:
            results = np.array([one(dimension, seed, SAMPLERS[name]) for seed in range(1, seeds + 1)])
            low, middle, high = np.quantile(results, [0.1, 0.5, 0.9], axis=0)
            cells = [f"{m:10.4g} ({a:.3g} to {b:.3g})" for a, m, b in zip(low, middle, high, strict=True)]
            print(f"{name:10}" + "".join(f"{c:>27}" for c in cells[:3]))
            more = f"   {middle[1] / calls:.0f} x the paper's calls" if name.startswith("pg") else ""
            print(f"{'':10}" + "".join(f"{c:>27}" for c in cells[3:]) + more, flush=True)


def start_from_prior(chain, prior):
    """Replace a new chain's tree by that of a chain after 500 iterations without data."""
    prior.run(500)
    while chain._forests[0].leaf.shape[1] < prior._forests[0].leaf.shape[1]:
        chain._enlarge_trees()
    chain._forests[0] = prior._forests[0]
    chain._recompute()


def traces_of(dimension, iterations, seed, settings):
    """Return log-likelihood, leaves and root variable [figure, chain, draw] of 8 chains' second halves."""
    X, y, *_ = hypercube(dimension, seed)
    traces = []
    for number in range(8):
        _, chain = chain_of(X, y, dimension, seed, number, **{"num_burnin": iterations // 2} | settings)
        if number % 2:
            start_from_prior(chain, chain_of(X, y, dimension, seed, number, prior_only=True)[1])
        path = []
        for _ in range(iterations // 10):
            chain.run(10)
            path.append(look(chain))
            chain.take()
        traces.append(path[len(path) // 2 :])
    return np.array(traces).transpose(2, 0, 1)


def converge(dimensions, iterations, samplers, seeds):
    print("rank R-hat of 8 chains, half from stumps, half from the prior; root switches per 1,000 iterations")
    print(f"{'':23}{'log-lik':>10}{'leaves':>10}{'root':>10}{'switches':>10}")
    for dimension, seed, name in product(dimensions, range(1, seeds + 1), samplers):
        traces = traces_of(dimension, iterations, seed, SAMPLERS[name])
        roots = [(traces[2] == j).astype(float) for j in range(dimension)]
        roots = [root for root in roots if root.any()]
        rhat = [rhat_ess.rhat(traces[k][None])[0] for k in (0, 1)]
        root = max(rhat_ess.rhat(np.array(roots))) if roots else np.nan
        switches = np.count_nonzero(np.diff(traces[2], axis=1)) / traces[2].size * 100
        print(
            f"D {dimension} seed {seed} {name:12}{rhat[0]:10.3f}{rhat[1]:10.3f}{root:10.3f}{switches:10.2f}",
            flush=True,
        )


def peer(rounds=5):
    """Return seconds of a PG update of one tree: ours, and pymc-bart's where it is installed."""
    rng = np.random.default_rng(1)
    X = rng.random((1000, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    y += rng.normal(size=1000)
    problem = prepare(X, y, num_trees=50, num_chains=1, num_burnin=0, num_draws=10**6, moves="pg", **PLAIN)
    chain = Chain.start(problem.training, 0)
    chain.run(100)
    ours = []
    for _ in range(rounds):
        start = time.process_time()
        chain.run(20)
        ours.append((time.process_time() - start) / (20 * 50))
    print(f"ours: {1e6 * np.median(ours):.1f} microseconds per PG update of a tree (C = 10, m = 50)")
    try:
        import pymc as pm
        import pymc_bart as pmb
    except ImportError as error:
        print(f"pymc-bart is absent ({error})")
        return
    with pm.Model():
        mu = pmb.BART("mu", X, y, m=50)
        pm.Normal("y", mu, pm.HalfNormal("sigma", 5.0), observed=y)
        step = pmb.PGBART([mu], num_particles=10, batch=(1.0, 1.0))
        point = pm.model.modelcontext(None).initial_point()
        for _ in range(3):
            point, _ = step.step(point)
        step.stop_tuning()
        theirs = []
        for _ in range(rounds):
            start = time.process_time()
            point, _ = step.step(point)
            theirs.append((time.process_time() - start) / 50)
    print(f"pymc-bart {pmb.__version__}: {1e6 * np.median(theirs):.1f} microseconds")
    print(f"ours is {np.median(theirs) / np.median(ours):.0f} times as fast")


def main():
    parser = command(__doc__)
    parser.add_argument("--dimensions", type=int, nargs="+", default=list(BETA))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS))
    parser.add_argument("--iterations", type=int, default=20_000)
    parser.add_argument("--converge", action="store_true")
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    if options.peer:
        peer()
    elif options.converge:
        converge(options.dimensions, options.iterations, options.samplers, options.seeds)
    else:
        tables(options.dimensions, options.seeds, options.samplers)
