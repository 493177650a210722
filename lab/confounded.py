"""Bias and coverage of effects where the treatment follows the mean, by the way effects are learnt.

    python -m lab confounded [--tables 40] [--ways bcf ps-bart plain wide known] [--seconds 600] [--keep FILE]

Tables of 300 to 500 rows with three normal features a, b and c and a category d of four levels. The mean is
2 sin(a) + b^2 / 2 + c, and 1 more in one level of d; rows are treated with probability Phi(1.2 m), m the mean
standardised; the effect is 1, and 2 where b is above 0; the noise has sd 1. Ways are the three of a fit,
trees of the mean with twice their prior sd ("wide"), and the true propensity as a feature ("known"), all else
by default. Prints bias of the average effect of the rows with its standard error, its root mean square error,
coverage and width of its 90% intervals, the same of rows, and on how many tables the average is closer than
that of bcf. Figures of each table are kept in a file: the same command goes on where it was stopped.
"""

import warnings
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import norm

from lab import command, effect_boards
from lab.effect_boards import LEVEL
from sampler import fit

WAYS = {
    "bcf": {},
    "ps-bart": {"effects": "ps-bart"},
    "plain": {"effects": "plain"},
    "wide": {"prior": {"k": 1.0}},
    "known": {"propensity": "e"},
}


def simulate(seed):
    """Return features, treatments, outcomes, true effects and propensities of a table."""
    rng = np.random.default_rng([8, seed])
    rows = int(rng.integers(300, 501))
    a, b, c = rng.normal(size=(3, rows))
    d = rng.integers(0, 4, rows)
    mean = 2 * np.sin(a) + b**2 / 2 + c + (d == 0)
    propensity = norm.cdf(1.2 * (mean - mean.mean()) / mean.std())
    treated, effect = rng.uniform(size=rows) < propensity, 1.0 + (b > 0)
    y = mean + effect * treated + rng.normal(size=rows)
    features = {"a": a, "b": b, "c": c, "d": [*np.array(list("pqrs"))[d]]}
    return features, treated.astype(float), y, effect, propensity


def figures(way, seed):
    """Return error, coverage and width of the average effect, and error and coverage of rows, of a table."""
    features, treated, y, effect, propensity = simulate(seed)
    features |= {"e": propensity} if way == "known" else {}
    answer = fit(features, y, treatment=treated, seed=seed, progress=False, **WAYS[way]).effects(level=LEVEL)
    average, truth = answer.average, effect.mean()
    return [
        float(average.mean - truth),
        float(average.lower <= truth <= average.upper),
        float(average.upper - average.lower),
        float(np.sqrt(np.mean((answer.mean - effect) ** 2))),
        float(np.mean((answer.lower <= effect) & (effect <= answer.upper))),
    ]


def main():
    """Print a line for each way."""
    parser = command(__doc__)
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--ways", nargs="+", default=[*WAYS], choices=WAYS)
    parser.add_argument("--seconds", type=float, default=np.inf, help="of the processor")
    parser.add_argument("--keep", type=Path, default=Path("build/confounded.jsonl"), help="their figures")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tasks = [(way, seed) for seed, way in product(range(options.tables), options.ways)]
    known = effect_boards.kept_figures(options.keep, tasks, figures, options.seconds)
    for way in options.ways:
        seeds = [seed for seed in range(options.tables) if (way, seed) in known]
        error, held, width, of_rows, rows_held = np.array([known[way, seed] for seed in seeds]).T
        both = [seed for seed in seeds if ("bcf", seed) in known]
        closer = sum(abs(known[way, seed][0]) < abs(known["bcf", seed][0]) for seed in both)
        print(
            f"{way:8} {len(seeds):3} tables, average: bias {error.mean():+.3f} "
            f"(se {error.std(ddof=1) / len(seeds) ** 0.5:.3f}) error {np.sqrt(np.mean(error**2)):.3f} "
            f"covered {held.mean():.3f} width {width.mean():.3f} | rows: error {of_rows.mean():.3f} "
            f"covered {rows_held.mean():.3f} | closer than bcf on {closer}"
        )
