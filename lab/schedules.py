"""Compare ways to spend iterations: many chains or few, long or short, judged by accuracy and by other fits.

    python -m lab schedules [--data Computers diamonds concrete friedman-10000] [--chains 16]
                            [--rows 1500] [--settings default|before]
    python -m lab schedules --stop 60 [--data meats Credit] [--trees 800] [--seed 0]
                            [--keep stops.json]

Chains of 200 + 350 x 8 iterations are run once, and every schedule takes its share of them: its chains,
burn-in and draws. Printed are processor seconds of a fit's iterations; at up to 250 held-out rows, means over
up to four fits, RMSE and pinball loss relative to the first schedule's, and coverage of 50% and 90%
intervals; how far two fits' means are apart in posterior sds (median and 95% over rows and pairs of fits) and
what `precision.reproducibility` expects; the share of reference rows whose mean is .3 and .6 posterior sds
or more from that of the last 200 draws of all chains; R-hat of f at 95% of the reference rows, and of sigma;
the seconds until fits would be .1 sd apart if more chains were added; and the fits' verdicts, C for
converged, A for approximate. `before` is the default until 2026-11-22: k = 2, no transform, no linear part.
`concrete` is a simulation of 1,030 rows: eight columns of a mixture, ages with few values, interactions and
little noise.

With --stop fits of so many trees (by default as many as with a stop rule) to all tables (`concrete` and those
of lab/real_tables.py, at most 5,000 rows) are extended, as by `stop={"verdict": "approximate"}`, until
they are approximate or converged, or that many seconds of two cores have passed (half of the processor
seconds, whatever else runs on the machine), and every look is printed. With --keep they are read from and
added to that file.
"""

import json
import time
from pathlib import Path

import numpy as np

from lab import command, mixing, real_tables
from sampler import Posterior, fit
from sampler.definitions.stop import MORE_TREES, MORE_TREES_ROWS, TIMES_DRAWS
from sampler.posterior.stop_rules import check_part, next_look
from sampler.storage.draw_codec import pack
from sampler.storage.model_file import read_parts

FIRST, DRAWS, THIN, ROWS = 200, 350, 8, 250
LATE = 150  # first of the draws that others are compared with
MOST_ROWS = 5000  # of fits that are extended
SCHEDULES = [
    (4, 1000, 250), (8, 496, 125), (8, 248, 156), (16, 248, 62), (16, 496, 62), (8, 1000, 125),
]  # fmt: skip
SETTINGS = {name: real_tables.SETTINGS[name] for name in ("default", "before")}
LETTERS = {"converged": "C", "approximate": "A", "not_converged": "-"}


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


def first(rows, X, y):
    """Return at most so many rows of a random order."""
    if rows is None or len(y) <= rows:
        return X, y
    kept = np.sort(np.random.default_rng(1).permutation(len(y))[:rows])
    return (X.iloc[kept], y.iloc[kept]) if hasattr(X, "iloc") else (X[kept], y[kept])


def scores(posterior, X, y):
    """Return RMSE, pinball loss, and coverage of 50% and 90% intervals."""
    prediction = posterior.predict(X, level=[0.5, 0.9], quantiles=real_tables.LEVELS)
    losses = [np.mean((y - values) * (q - (y < values))) for q, values in prediction.quantiles]
    inside = [np.mean((low <= y) & (y <= high)) for _, low, high in prediction.intervals]
    return np.sqrt(np.mean((prediction.mean - y) ** 2)), np.mean(losses), *inside


class Chains:
    """Long chains of one fit, of which schedules take their shares."""

    def __init__(self, posterior, seconds, X_new, y_new):
        self.header, *_ = read_parts(posterior.to_bytes())
        self.chains, self.seconds = posterior.chains(), seconds
        self.X, self.y = X_new[:ROWS], np.asarray(y_new)[:ROWS]
        self.held = self.figures(posterior, self.X)
        f = self.figures(posterior, posterior.reference)[:, :, LATE:]
        self.mean, self.sd = f.mean((1, 2)), f.std((1, 2))

    @staticmethod
    def figures(posterior, rows):
        """Return draws of f [row, chain, draw]."""
        return np.ascontiguousarray(posterior.sample(rows).transpose(2, 0, 1))

    def take(self, chains, burnin, draws, number):
        """Return the posterior of one fit of a schedule."""
        begin = (burnin - FIRST) // THIN
        own = self.chains[number * chains : (number + 1) * chains]
        return Posterior.from_blocks(self.header, [[pack(each[begin : begin + draws])] for each in own])

    def compare(self, chains, burnin, draws, base):
        """Print the line of a schedule; return its scores, `base` those of the first."""
        begin, fits = (burnin - FIRST) // THIN, len(self.chains) // chains
        f = self.held[:, : fits * chains, begin : begin + draws].reshape(-1, fits, chains, draws)
        means, sd = f.mean((2, 3)), f.std((2, 3)).mean(1, keepdims=True)
        pairs = np.triu_indices(fits, 1)
        apart = np.abs(means[:, pairs[0]] - means[:, pairs[1]]) / sd if fits > 1 else np.array([np.nan])
        errors, estimates, off, letters = [], [], [], ""
        for number in range(fits):
            posterior = self.take(chains, burnin, draws, number)
            summary = posterior.summary()
            letters += LETTERS[summary.verdict]
            estimates.append(
                (summary.precision.reproducibility, summary.f["rhat_p95"], summary.sigma["rhat"])
            )
            distance = np.abs(self.figures(posterior, posterior.reference).mean((1, 2)) - self.mean) / self.sd
            off.append([np.mean(distance > bound) for bound in (0.3, 0.6)])
            if number < 4:
                errors.append(scores(posterior, self.X, self.y))
        spent = chains * (burnin + THIN * draws) * self.seconds
        own, median = np.mean(errors, 0), np.median(apart)
        base = own if base is None else base
        error, rhat, of_sigma = np.mean(estimates, 0)
        print(
            f"  {chains:2} x {burnin:4} + {draws:3} x {THIN}  {spent:5.1f} s  rmse {own[0] / base[0]:.3f}  "
            f"pinball {own[1] / base[1]:.3f}  coverage {own[2]:.3f} {own[3]:.3f}  "
            f"apart {median:.3f} ({np.quantile(apart, 0.95):.2f}), expected {error:.3f}  "
            f"off {np.mean(off, 0)[0]:.3f} {np.mean(off, 0)[1]:.3f}  R-hat {rhat:.3f} {of_sigma:.3f}  "
            f"to .1 {spent * (median / 0.1) ** 2:5.1f} s  {letters}",
            flush=True,
        )
        return base


def looks(name, limit, trees, seed):
    """Extend a fit until it is approximate; return its rows and [draws, seconds, ..] of each look."""
    X, y = concrete()[:2] if name == "concrete" else real_tables.load(name, MOST_ROWS)
    fit(X[:100], y[:100], num_chains=1, num_burnin=5, num_draws=8, thin=1, progress=False)  # compiles
    fewest, most = MORE_TREES_ROWS
    trees = trees or (MORE_TREES if fewest <= len(y) <= most else None)
    start = time.process_time()
    posterior = fit(X, y, num_trees=trees, seed=seed, progress=False)
    results, most, rules = [], TIMES_DRAWS * posterior.num_draws, {"verdict": "approximate"}
    while True:
        part = check_part(posterior, rules)[0] if results else posterior
        summary, draws = part.summary(), posterior.num_draws
        seconds = (time.process_time() - start) / 2
        figures = summary.f["rhat_p95"], summary.sigma["rhat"], summary.precision.reproducibility
        figures = [round(each, 3) for each in figures]
        results.append([draws, draws - part.num_draws, round(seconds, 1), summary.verdict, *figures])
        # iterations of the burn-in are a third of those of the first fit
        affordable = draws + int((limit - seconds) / (results[0][2] * 2 / 3 / results[0][0]))
        following = min(next_look(draws, most), affordable)
        if summary.verdict != "not_converged" or following <= draws:
            return len(y), results
        posterior = posterior.extend(following - draws, progress=False)


def stops(names, limit, trees, seed, keep):
    """Print the looks of all tables."""
    kept = json.loads(keep.read_text()) if keep and keep.exists() else {}
    for name in names:
        key = f"{name} {limit:g}" + (f" {trees}" if trees else "") + (f" seed {seed}" if seed else "")
        if key not in kept:
            kept[key] = looks(name, limit, trees, seed)
            if keep:
                keep.write_text(json.dumps(kept))
        rows, results = kept[key]
        print(f"{name}, n = {rows:,}")
        for draws, discarded, seconds, verdict, rhat, of_sigma, error in results:
            print(
                f"  {draws:5} draws, {discarded:4} discarded  {seconds:5.1f} s  {verdict:13}  "
                f"R-hat {rhat:.3f}, of sigma {of_sigma:.3f}; another fit would move means by {error:.3f} sd",
                flush=True,
            )


def main():
    parser = command(__doc__)
    parser.add_argument("--data", nargs="+")
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--rows", type=int, help="most rows to fit")
    parser.add_argument("--settings", choices=[*SETTINGS], default="default")
    parser.add_argument("--stop", type=float, metavar="SECONDS")
    parser.add_argument("--trees", type=int, help="with --stop")
    parser.add_argument("--seed", type=int, default=0, help="with --stop")
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    if arguments.stop:
        names = arguments.data or ["concrete", *real_tables.TABLES]
        stops(names, arguments.stop, arguments.trees, arguments.seed, arguments.keep)
        return
    settings = SETTINGS[arguments.settings]
    for name in arguments.data or ["Computers", "diamonds", "concrete", "friedman-10000"]:
        X, y, X_new, y_new = load(name)
        X, y = first(arguments.rows, X, y)
        fit(X[:100], y[:100], num_chains=1, num_burnin=5, num_draws=8, thin=1, progress=False)  # compiles
        start = time.process_time()
        posterior = fit(
            X, y, num_chains=arguments.chains, num_burnin=FIRST, num_draws=DRAWS, thin=THIN, seed=5,
            progress=False, **settings,
        )  # fmt: skip
        seconds = (time.process_time() - start) / arguments.chains / (FIRST + THIN * DRAWS)
        chosen = ", ".join(
            f"{each} {posterior.settings.get(each, False)}" for each in ("transform", "linear")
        )
        print(f"{name}, n = {len(X):,}: {1000 * seconds:.3f} ms an iteration; {chosen}", flush=True)
        run, base = Chains(posterior, seconds, X_new, y_new), None
        for schedule in SCHEDULES:
            base = run.compare(*schedule, base)
