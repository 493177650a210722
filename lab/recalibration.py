"""Measure the defaults for numbers: losses, coverage, means, words and time, on new rows.

    python -m lab recalibration [--tables Boston CPS1985 heavy-tails] [--splits 1] [--rows 2000]
        [--earlier FOLDER] [--keep scores.json] [--seconds 3600]
    python -m lab recalibration --kinds

Tables are those of real_tables, simulated ones and, where their package is there, those of common_tables.

Each table is parted into test rows (a quarter), held-out rows (a quarter of the rest) and rows of the fit,
which is the default one; held-out and training rows recalibrate it as a service's finish does. Beside it are
the same fit without recalibration, one with constant noise, and with --earlier the default fit of the
project's checkout in that folder. Prints per table, without recalibration and with: pinball loss over seven
levels and CRPS relative to the earlier default (else to without), the coverage of 50% and 90% intervals of
test rows, the smallest and largest of 90% by quarter of the prediction, and processor seconds of the fit and
of the recalibration; then over the tables what holds: means of the logarithms of relative losses with 95%
bootstrap intervals and the worst; how many tables have intervals of 50% within 4 points, of 90% within 2.5
and quarters from 84 to 96%; in how many fits the mean is off by more than 2.5 standard errors; RMSE relative
to constant noise; by how much the distribution function at quantiles is off; how many fits say that 90%
intervals are usable, as a service does, and have 86 to 94% of the test rows inside, or so many that chance
allows 86 or 94% of all new rows; and processor time. The smallest tables come first, and all of a split
before the next one. With --keep, scores are read from and added to that file, so that a run can be resumed;
it stops after so many processor seconds. With --kinds it prints instead, for fits of each kind, whether
held-out rows recalibrate them, or the reason why not.
"""

import inspect
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom

from lab import command, common_tables
from lab.real_tables import LEVELS, TABLES, bootstrap, load
from sampler import DataWarning, SettingsError, fit
from sampler.data.rows import Rows
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.recalibrating import recalibrate, why_not
from sampler.posterior.recalibration.learning import calibrating

SIMULATED = ("heavy-tails", "by-row", "right")


def simulated(name, seed):
    """Return features and outcomes whose noise is t, differs by row, or is normal, 1,000 rows."""
    rng = np.random.default_rng([seed, SIMULATED.index(name)])
    X = rng.uniform(size=(1_000, 6))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 5 * X[:, 3]
    noise = {
        "heavy-tails": rng.standard_t(3, len(X)),
        "by-row": rng.normal(size=len(X)) * np.exp(2 * X[:, 4] - 1),
        "right": rng.normal(size=len(X)),
    }[name]
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]), f + noise


def parts(rows, seed):
    """Part rows into those of the fit, held-out ones and test rows."""
    order = np.random.default_rng(seed).permutation(rows)
    test, rest = np.split(order, [rows // 4])
    held, train = np.split(rest, [len(rest) // 4])
    return train, held, test


def figures(posterior, X, y):
    """Score test rows."""
    answer = posterior.predict(X, level=[0.5, 0.9], quantiles=list(LEVELS))
    quantiles = np.array([values for _, values in answer.quantiles])
    q = np.array(LEVELS)[:, None]
    half, most = ((each.lower <= y) & (y <= each.upper) for each in answer.intervals)
    quarter = np.argsort(np.argsort(answer.mean)) * 4 // len(y)
    one = posterior.distribution(X)
    by = getattr(getattr(posterior, "law", None), "recalibration", None)
    low, high = (-np.inf, np.inf) if by is None else (by.low, by.high)  # where outcomes are held
    apart = max(
        float(np.abs(np.where((low < values) & (values < high), one.cdf(values) - level, 0)).max())
        for level, values in zip(LEVELS, quantiles, strict=True)
    )
    return {
        "pinball": float(np.mean((y - quantiles) * (q - (y < quantiles)))),
        "crps": float(one.crps(y).mean()),
        "rmse": float(np.sqrt(np.mean((answer.mean - y) ** 2))),
        "bias": float((y - answer.mean).mean() / (y - answer.mean).std(ddof=1) * np.sqrt(len(y))),
        "c50": float(half.mean()),
        "c90": float(most.mean()),
        "quarters": [float(most[quarter == k].mean()) for k in range(4)],
        "apart": apart,
    }


def rows_of(name, seed, rows):
    """Return a table's features and outcomes."""
    if name in SIMULATED:
        return simulated(name, seed)
    known = (*common_tables.TABLES, *common_tables.FURTHER)
    return common_tables.load(name, rows) if name in known else load(name, rows)


EARLIER = f"""
import json, os, pickle, sys, time, warnings
import numpy as np
from sampler import DataWarning, fit
warnings.simplefilter("ignore", DataWarning)
LEVELS = {LEVELS}
{inspect.getsource(figures)}
for line in sys.stdin:
    with open(line.strip(), "rb") as file:
        X, y, new, truth, settings = pickle.load(file)
    begun = time.process_time()
    posterior = fit(X, y, progress=False, **settings)
    seconds = time.process_time() - begun
    print(json.dumps(figures(posterior, new, truth) | {{"seconds": seconds}}), flush=True)
"""


class Earlier:
    """Default fits of another checkout, in a process of its own."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            [sys.executable, "-c", EARLIER], cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def scores(self, *parts):
        """Fit and score, as `figures` does."""
        with tempfile.NamedTemporaryFile() as file:
            pickle.dump(parts, file)
            file.flush()
            self.process.stdin.write(file.name + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())


def warm_up(earlier):
    """Compile and load what fits need, so that none is timed with it."""
    X, y = simulated("by-row", 0)
    short = {"num_chains": 1, "num_draws": 2, "num_burnin": 2, "seed": 0}
    for noise in ("auto", "constant", "t", "forest", "t-forest", "mixture"):
        for linear in (True, False):
            settings = short | {"noise": noise, "linear": linear}
            fit(X, y, progress=False, **settings)
            if earlier:
                earlier.scores(X, y, X[:9], y[:9], settings)


def fitted(X, y, **settings):
    """Fit, and return the posterior with its processor seconds."""
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        posterior = fit(X, y, progress=False, **settings)
    return posterior, time.process_time() - begun


def scores(name, seed, rows, earlier):
    """Fit a table and score test rows with and without recalibration, and beside other defaults."""
    X, y = rows_of(name, seed, rows)
    y = np.asarray(y, np.float64)

    def take(own):
        return X.iloc[own]

    train, held, test = parts(len(y), seed)
    posterior, seconds = fitted(take(train), y[train], seed=seed)
    noise = posterior.settings.get("noise", "constant")
    begun = time.process_time()
    by_rows = held[calibrating(len(held))]
    judged = LabelledRows.read(posterior.law, take(by_rows), y[by_rows])
    target = posterior.schema.target.name
    done = recalibrate(posterior.law, judged, Rows.of_arguments(take(train), y[train], {}, target))
    after = posterior if done.by is None else posterior.recalibrated_by(done.by)
    more = time.process_time() - begun
    word = "made_to_hold"
    if done.by is None or not calibrating(len(held)).all():  # others judge, or all
        judging = held if done.by is None else held[~calibrating(len(held))]
        word = after.use(after.score(take(judging), y[judging], quick=True)).intervals
    found = {
        "without": figures(posterior, take(test), y[test]) | {"seconds": seconds},
        "with": figures(after, take(test), y[test]) | {"seconds": more},
    }
    found["constant"] = found["without"]
    if noise != "constant":
        plain, seconds = fitted(take(train), y[train], seed=seed, noise="constant")
        found["constant"] = figures(plain, take(test), y[test]) | {"seconds": seconds}
    if earlier:
        found["earlier"] = earlier.scores(take(train), y[train], take(test), y[test], {"seed": seed})
    return found | {
        "rows": [len(train), len(held), len(test)],
        "noise": noise,
        "word": word,
        "text": done.text,
    }


def near(each):
    """Tell which of the gates for one table hold: 50%, 90%, quarters."""
    quarters = each["quarters"]
    even = min(quarters) >= 0.84 and max(quarters) <= 0.96
    return abs(each["c50"] - 0.5) <= 0.04, abs(each["c90"] - 0.9) <= 0.025, even


def of_kinds():
    """Print which kinds of fits are recalibrated by held-out rows."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(600, 3)), columns=list("abc")).assign(site=np.arange(600) // 12)
    y = (4 * X["a"] + rng.standard_t(3, 600)).to_numpy()
    count, group = np.floor(np.abs(y)), X["site"].astype(str)
    short = {"num_trees": 5, "num_chains": 1, "num_burnin": 5, "num_draws": 20, "thin": 1}
    shared = {"noise": "constant", "transform": "none", "linear": False}
    kinds = {
        "numbers": (X, y, shared),
        "weights": (X, y, shared | {"weights": rng.uniform(0.5, 2, 600)}),
        "groups": (X.assign(site=group), y, shared | {"groups": "site"}),
        "new_rows groups": (X.assign(site=group), y, shared | {"new_rows": {"groups": "site"}}),
        "new_rows later": (X, y, shared | {"new_rows": {"later": "site", "horizon": 5}}),
        "censored": (X, y - y.min() + 1, {"event": rng.uniform(size=600) < 0.8}),
        "treatment": (X, y, shared | {"treatment": (rng.uniform(size=600) < 0.5) * 1.0}),
        "two classes": (X, np.where(y > 2, "high", "low"), {"family": "auto"}),
        "classes": (X, np.where(y > 3, "high", np.where(y > 1, "some", "low")), {"family": "auto"}),
        "counts": (X, count, {"family": "negative-binomial"}),
        "hurdle": (X, np.where(y > 2, y, 0.0), {"family": "hurdle"}),
    }
    for name, (rows, outcome, settings) in kinds.items():
        calibrated = {"calibrate": "holdout", "holdout": 0.3} | settings
        try:
            posterior, _ = fitted(rows, outcome, **short | calibrated)
        except SettingsError:  # which has no calibration at all
            posterior, _ = fitted(rows, outcome, **short | settings)
        done = posterior.law.recalibration is not None
        declared = "new_rows" in settings
        reason = "yes" if done else f"no: {why_not(posterior.law, 180, declared=declared)}"
        print(f"{name:16} {reason}")


def main():
    """Score tables and print the figures."""
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="+", default=[*TABLES, *SIMULATED])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--rows", type=int, help="of a table, at most")
    parser.add_argument("--earlier", type=Path, help="folder of a checkout whose default is compared with")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--kinds", action="store_true")
    asked = parser.parse_args()
    if asked.kinds:
        of_kinds()
        return
    kept = json.loads(asked.keep.read_text()) if asked.keep and asked.keep.exists() else {}
    sizes = {name: len(rows_of(name, 0, asked.rows)[1]) for name in asked.tables}
    wanted = [(name, seed) for seed in range(asked.splits) for name in sorted(sizes, key=sizes.__getitem__)]
    missing = [pair for pair in wanted if "{} {}".format(*pair) not in kept]
    earlier = Earlier(asked.earlier) if asked.earlier and missing else None
    if missing:
        warm_up(earlier)
    spent = 0.0
    for name, seed in missing:
        if asked.seconds is not None and spent > asked.seconds:
            break
        one = kept[f"{name} {seed}"] = scores(name, seed, asked.rows, earlier)
        spent += sum(each["seconds"] for each in one.values() if isinstance(each, dict))
        if asked.keep:
            asked.keep.write_text(json.dumps(kept))
    runs = {}
    for name, seed in wanted:
        if f"{name} {seed}" in kept:
            runs.setdefault(name, []).append(kept[f"{name} {seed}"])
    report(runs)


def mean_of(values):
    """Print a mean of logarithms as a ratio with its interval, and the largest."""
    mean, low, high = np.exp(bootstrap(np.log(values)))
    return f"{mean:.3f} ({low:.3f} to {high:.3f}), worst {max(values):.3f}"


def report(runs):
    """Print the figures of a table's runs, then those over tables."""
    every = [each for own in runs.values() for each in own]
    base = "earlier" if all("earlier" in each for each in every) else "without"
    kinds = ("without", "with", "constant", base)
    print(f"losses relative to {base}")
    print(f"{'table':<18}{'pinball':>8}{'crps':>7}{'c50':>12}{'c90':>12}{'quarters':>26}{'seconds':>14}")
    pooled = {}
    for name, own in runs.items():
        both = pooled[name] = {
            kind: {k: np.mean([each[kind][k] for each in own], axis=0) for k in own[0][kind]}
            for kind in kinds
        }
        before, after = both["without"], both["with"]
        spans = [f"{min(each['quarters']):.2f}-{max(each['quarters']):.2f}" for each in (before, after)]
        ratios = [after[loss] / both[base][loss] for loss in ("pinball", "crps")]
        print(
            f"{name:<18}{ratios[0]:>8.3f}{ratios[1]:>7.3f}"
            f"{before['c50']:>6.2f}{after['c50']:>6.2f}{before['c90']:>6.2f}{after['c90']:>6.2f}"
            f"{spans[0]:>13}{spans[1]:>13}{before['seconds']:>8.1f}{after['seconds']:>6.1f}"
            f"  {' '.join(each['noise'] for each in own)}",
            flush=True,
        )
    tables = pooled.values()
    print(f"{len(pooled)} tables, {len(every)} fits")
    for kind in ("without", "with"):
        held = np.array([near(each[kind]) for each in tables])
        means = [float(np.mean([each[kind][k] for each in tables])) for k in ("c50", "c90")]
        print(
            f"{kind}: 50% near in {held[:, 0].sum()} of {len(held)} tables, 90% in {held[:, 1].sum()}, "
            f"quarters in {held[:, 2].sum()}, all in {held.all(axis=1).sum()}; means {means[0]:.3f} and "
            f"{means[1]:.3f}"
        )
    for loss in ("pinball", "crps", "rmse"):
        print(f"{loss}: {mean_of([each['with'][loss] / each[base][loss] for each in tables])}")
    print(f"rmse beside constant: {mean_of([e['with']['rmse'] / e['constant']['rmse'] for e in tables])}")
    off = [abs(each["with"]["bias"]) > 2.5 * np.sqrt(1 + each["rows"][2] / each["rows"][0]) for each in every]
    print(f"the mean is off by 2.5 standard errors in {sum(off)} of {len(off)} fits")
    usable = [each for each in every if each["word"] in ("usable", "made_to_hold")]
    shares = np.array([each["with"]["c90"] for each in usable])
    true = (shares >= 0.86) & (shares <= 0.94)
    chance = np.array([binom.interval(0.95, each["rows"][2], [0.86, 0.94]) for each in usable]).reshape(
        -1, 2, 2
    )
    count = np.array([each["rows"][2] for each in usable])
    possible = (shares * count >= chance[:, 0, 0]) & (shares * count <= chance[:, 1, 1])
    print(
        f"usable in {len(usable)} of {len(every)} fits; of these {true.sum()} have .86 to .94 of test rows "
        f"inside, {possible.sum()} by what chance allows"
    )
    print(
        f"probabilities of quantiles are within {max(each['with']['apart'] for each in tables):.1g} of theirs"
    )
    fits, more = ([each[kind]["seconds"] for each in every] for kind in ("without", "with"))
    print(
        f"processor time of recalibrations: {sum(more) / sum(fits):.3f} of the fits' in all, "
        f"{np.mean(np.divide(more, fits)):.3f} on average; at most {max(np.add(fits, more)):.1f} s a fit"
    )
    if base == "earlier":
        total = np.add(fits, more)
        before = np.array([each[base]["seconds"] for each in every])
        print(
            f"processor time beside the earlier default: {total.sum() / before.sum():.2f} in all, "
            f"{np.exp(np.mean(np.log(total / before))):.2f} on average"
        )


if __name__ == "__main__":
    main()
