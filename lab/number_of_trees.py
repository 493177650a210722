"""Compare numbers of trees at like processor time: agreement of chains, accuracy, and what they cost.

    python -m lab number_of_trees [--data Computers diamonds] [--plans 200:500:125x8 800:500:125x4,280]
                                  [--fits 2] [--split 0] [--keep trees.json]

A plan is trees:burn-in:draws x thin, with further numbers of draws to which the same chains are extended, and
entries of the prior where they are another's: 800:500:125x4:beta=1, 200:500:125x4:num_trees=uniform.
Fits of 8 chains learn at most 5,000 rows (70%, or all but 1,500; the others judge). Printed are processor
seconds of a fit, with its verdict, but without compilation; for up to 500 held-out rows RMSE and pinball loss
relative to the first plan's, coverage of 50% and 90% intervals, and how far two fits' means are apart in
posterior sds (median and 95%); R-hat of f at 95% of the reference rows, and of sigma; what
`precision.reproducibility` expects; the share of reference rows whose mean is .3 and .6 posterior sds or more
from that of the later half of all fits' longest chains of this plan (of the first plan in brackets); sigma's
move from half to half in its own sds; its mean; leaves per tree; megabytes stored, milliseconds to predict
1,000 rows with an interval; the number of trees where it is drawn, with its 90% interval and R-hat; and the
verdicts, C for converged, A for approximate. With --keep fits are read from and added to that file.
"""

import json
import time
from pathlib import Path

import numpy as np

from lab import command, real_tables, schedules
from sampler import fit
from sampler.posterior.verdict.rhat_ess import rhat

MOST_ROWS, HELD = 5000, 1500
DATA = ["Computers", "diamonds", "BudgetItaly", "meats"]
PLANS = ["200:500:125x8,280", "400:500:125x6,280", "800:500:125x4,280", "2000:300:125x2,280"]


def divide(name, split=0):
    """Return training X and y, and X and y to judge by."""
    if name == "concrete":
        return schedules.concrete()
    X, y = real_tables.load(name, MOST_ROWS + HELD)
    order = np.random.default_rng(split).permutation(len(y))
    cut = min(MOST_ROWS, max(round(0.7 * len(y)), len(y) - HELD))
    train, held = np.sort(order[:cut]), np.sort(order[cut:])
    return X.iloc[train], y.iloc[train], X.iloc[held], y.iloc[held]


def read(plan):
    """Return trees, burn-in, thin, numbers of draws and the prior's entries of a plan."""
    trees, burnin, rest, *entries = plan.split(":")
    first, rest = rest.split("x")
    thin, *more = rest.split(",")
    words = {"poisson", "geometric", "uniform"}  # of a number of trees that is drawn
    named = (entry.split("=") for entry in entries)
    prior = {key: value if value in words else float(value) for key, value in named}
    return int(trees), int(burnin), int(thin), [int(each) for each in (first, *more)], prior


def milliseconds(posterior, X):
    """Return the processor time to predict 1,000 rows."""
    X = X.iloc[np.arange(1000) % len(X)] if hasattr(X, "iloc") else X[np.arange(1000) % len(X)]
    posterior.predict(X[:2], level=0.9)
    start = time.process_time()
    posterior.predict(X, level=0.9)
    return 1000 * (time.process_time() - start)


def drawn(posterior):
    """Return mean, 90% interval and R-hat of the number of trees; None where it isn't drawn."""
    numbers = posterior.tree_numbers()
    return (
        None if numbers is None else [*posterior.summary().num_trees.values(), float(rhat(numbers[None])[0])]
    )


def moments(posterior, rows):
    """Return means and sds of f, by row."""
    f = posterior.sample(rows)
    return f.mean((0, 1)).tolist(), f.std((0, 1)).tolist()


def run(name, plan, seed, split):
    """Return the figures of each number of draws of one fit."""
    X, y, X_new, y_new = divide(name, split)
    X_new, y_new = X_new[:500], np.asarray(y_new)[:500]
    trees, burnin, thin, numbers, prior = read(plan)
    fit(X[:100], y[:100], num_chains=1, num_burnin=5, num_draws=8, thin=1, progress=False)  # compiles
    results, spent, posterior = [], 0.0, None
    for draws in numbers:
        start = time.process_time()
        if posterior is None:
            posterior = fit(
                X, y, num_trees=trees, num_burnin=burnin, num_draws=draws, thin=thin, seed=seed,
                prior=prior, progress=False,
            )  # fmt: skip
        else:
            posterior = posterior.extend(draws - posterior.num_draws, progress=False)
        summary = posterior.summary()
        spent += time.process_time() - start
        sigma = posterior.sigma
        half = draws // 2
        results.append({
            "seconds": spent,
            "verdict": summary.verdict,
            "rhat": summary.f["rhat_p95"],
            "sigma_rhat": summary.sigma["rhat"],
            "expected": summary.precision.reproducibility,
            "fall": (sigma[:, half:].mean() - sigma[:, :half].mean()) / sigma.std(),
            "sigma": sigma.mean(),
            "leaves": summary.leaves["mean"],
            "scores": [float(each) for each in schedules.scores(posterior, X_new, y_new)],
            "held": moments(posterior, X_new),
            "reference": moments(posterior, posterior.reference),
            "bytes": len(posterior.to_bytes()),
            "milliseconds": milliseconds(posterior, X_new),
            "drawn": drawn(posterior),
        })  # fmt: skip
    f = posterior.sample(posterior.reference)[:, numbers[-1] // 2 :]
    return {"looks": results, "late": f.mean((0, 1)).tolist(), "late_sd": f.std((0, 1)).tolist()}


def distances(fits, look, late):
    """Return shares of reference rows .3 and .6 sds or more from the mean of `late` fits."""
    truth = np.mean([each["late"] for each in late], axis=0)
    sd = np.mean([each["late_sd"] for each in late], axis=0)
    own = [np.abs(np.array(each["looks"][look]["reference"][0]) - truth) / sd for each in fits]
    return np.mean([[np.mean(each > bound) for bound in (0.3, 0.6)] for each in own], axis=0)


def show(plan, fits, base):
    """Print the lines of a plan, beside the fits of the first."""
    trees, burnin, thin, numbers, prior = read(plan)
    of_prior = "".join(f", {name} {value}" for name, value in prior.items())
    reference = np.mean([each["looks"][0]["scores"] for each in base], axis=0)
    for look, draws in enumerate(numbers):
        own = [each["looks"][look] for each in fits]
        means, sds = np.array([each["held"] for each in own]).transpose(1, 0, 2)
        pairs = np.triu_indices(len(own), 1)
        apart = np.abs(means[pairs[0]] - means[pairs[1]]) / sds.mean(0) if len(own) > 1 else [np.nan]
        off, beside = distances(fits, look, fits), distances(fits, look, base)
        names = ("seconds", "rhat", "sigma_rhat", "expected", "fall", "sigma", "leaves", "milliseconds")
        mean = {each: np.mean([one[each] for one in own]) for each in names}
        median, most = np.median(apart), np.quantile(apart, 0.95)
        scored = np.mean([each["scores"] for each in own], axis=0)
        numbers = np.mean([each["drawn"] for each in own], axis=0) if own[0].get("drawn") else None
        of_trees = (
            "" if numbers is None else "drawn {:.0f} ({:.0f} to {:.0f}), R-hat {:.2f}  ".format(*numbers)
        )
        megabytes = np.mean([each["bytes"] for each in own]) / 1e6
        print(
            f"  {trees:4} trees, {burnin} + {draws:3} x {thin}{of_prior}  {mean['seconds']:5.1f} s  "
            f"rmse {scored[0] / reference[0]:.3f}  pinball {scored[1] / reference[1]:.3f}  "
            f"coverage {scored[2]:.3f} {scored[3]:.3f}  "
            f"apart {median:.3f} ({most:.2f}), expected {mean['expected']:.3f}  "
            f"R-hat {mean['rhat']:.3f} {mean['sigma_rhat']:.3f}  "
            f"off {off[0]:.3f} {off[1]:.3f} ({beside[0]:.3f} {beside[1]:.3f})  "
            f"sigma {mean['sigma']:.4g}, falls {-mean['fall']:.2f} sd  leaves {mean['leaves']:.2f}  "
            f"{megabytes:.1f} MB  {mean['milliseconds']:.0f} ms  {of_trees}"
            f"{''.join(schedules.LETTERS[each['verdict']] for each in own)}",
            flush=True,
        )


def main():
    parser = command(__doc__)
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--plans", nargs="+", default=PLANS)
    parser.add_argument("--fits", type=int, default=2)
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    kept = json.loads(arguments.keep.read_text()) if arguments.keep and arguments.keep.exists() else {}
    for name in arguments.data:
        print(f"{name}, n = {len(divide(name)[1]):,}", flush=True)
        base = None
        for plan in arguments.plans:
            fits = []
            for seed in range(arguments.fits):
                key = f"{name} {plan} {seed}" + (f" {arguments.split}" if arguments.split else "")
                if key not in kept:
                    kept[key] = run(name, plan, seed, arguments.split)
                    if arguments.keep:
                        arguments.keep.write_text(json.dumps(kept))
                fits.append(kept[key])
            base = base or fits
            show(plan, fits, base)
