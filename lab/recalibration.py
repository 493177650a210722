"""Measure what recalibrated laws change, in pairs: the same fits with and without, on new rows.

    python -m lab recalibration [--tables Boston CPS1985 heavy-tails] [--splits 1] [--rows 2000]
        [--keep scores.json]

Tables are those of real_tables, simulated ones and, where their package is there, those of common_tables.

Each table is parted into test rows (a quarter), held-out rows (a quarter of the rest) and rows of the fit,
which is the default one; held-out and training rows recalibrate it as a service's finish does. Prints per
table, without and with: pinball loss over seven levels and CRPS relative to without, the coverage of 50% and
90% intervals of test rows, the smallest and largest of 90% by quarter of the prediction, and processor
seconds of the fit and of the recalibration; then over the tables what holds: means of the logarithms of
relative losses with 95% bootstrap intervals and the worst, how many tables have intervals of 50% within 4
points, of 90% within 2.5 and quarters from 84 to 96%, and by how much the distribution function at quantiles
is off; and how many fits say that 90% intervals are usable, as a service does, and have 86 to 94% of the
test rows inside. With --keep, scores are read from and added to that file, so that a run can be resumed.
"""

import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from lab import command, common_tables
from lab.real_tables import LEVELS, TABLES, bootstrap, load
from sampler import DataWarning, fit
from sampler.data.rows import Rows
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.recalibrating import recalibrate
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
    apart = max(
        float(np.abs(one.cdf(values) - level).max()) for level, values in zip(LEVELS, quantiles, strict=True)
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
    return common_tables.load(name, rows) if name in common_tables.TABLES else load(name, rows)


def scores(name, seed, rows):
    """Fit a table and score test rows with and without recalibration."""
    X, y = rows_of(name, seed, rows)
    y = np.asarray(y, np.float64)

    def take(own):
        return X.iloc[own]

    train, held, test = parts(len(y), seed)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        posterior = fit(take(train), y[train], seed=seed, progress=False)
    seconds = time.process_time() - begun
    begun = time.process_time()
    by_rows = held[calibrating(len(held))]
    judged = LabelledRows.read(posterior.law, take(by_rows), y[by_rows])
    target = posterior.schema.target.name
    done = recalibrate(posterior.law, judged, Rows.of_arguments(take(train), y[train], {}, target))
    after = posterior if done.by is None else posterior.recalibrated_by(done.by)
    word = "made_to_hold"
    if done.by is None or not calibrating(len(held)).all():  # others judge, or all
        judging = held if done.by is None else held[~calibrating(len(held))]
        word = after.use(after.score(take(judging), y[judging], quick=True)).intervals
    more = time.process_time() - begun
    return {
        "without": figures(posterior, take(test), y[test]) | {"seconds": seconds},
        "with": figures(after, take(test), y[test]) | {"seconds": more},
        "held": len(held),
        "word": word,
        "text": done.text,
    }


def near(each):
    """Tell which of the gates for one table hold: 50%, 90%, quarters."""
    quarters = each["quarters"]
    even = min(quarters) >= 0.84 and max(quarters) <= 0.96
    return abs(each["c50"] - 0.5) <= 0.04, abs(each["c90"] - 0.9) <= 0.025, even


def main():
    """Score tables and print the figures."""
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="+", default=[*TABLES, *SIMULATED])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--rows", type=int, help="of a table, at most")
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    kept = json.loads(asked.keep.read_text()) if asked.keep and asked.keep.exists() else {}
    print(f"{'table':<14}{'pinball':>8}{'crps':>7}{'c50':>12}{'c90':>12}{'quarters':>26}{'seconds':>14}")
    pooled, every = [], []
    for name in asked.tables:
        runs = []
        for seed in range(asked.splits):
            key = f"{name} {seed}"
            if key not in kept:
                kept[key] = scores(name, seed, asked.rows)
                if asked.keep:
                    asked.keep.write_text(json.dumps(kept))
            runs.append(kept[key])
        every += runs
        both = {}
        for which in ("without", "with"):
            own = [each[which] for each in runs]
            both[which] = {k: np.mean([each[k] for each in own], axis=0) for k in own[0]}
        before, after = both["without"], both["with"]
        pooled.append(both)
        spans = [f"{min(each['quarters']):.2f}-{max(each['quarters']):.2f}" for each in (before, after)]
        print(
            f"{name:<14}{after['pinball'] / before['pinball']:>8.3f}{after['crps'] / before['crps']:>7.3f}"
            f"{before['c50']:>6.2f}{after['c50']:>6.2f}{before['c90']:>6.2f}{after['c90']:>6.2f}"
            f"{spans[0]:>13}{spans[1]:>13}{before['seconds']:>8.1f}{after['seconds']:>6.1f}",
            flush=True,
        )
    for loss in ("pinball", "crps", "rmse"):
        ratios = [np.log(each["with"][loss] / each["without"][loss]) for each in pooled]
        mean, low, high = np.exp(bootstrap(np.array(ratios)))
        print(f"{loss}: {mean:.3f} ({low:.3f} to {high:.3f}), worst {np.exp(max(ratios)):.3f}")
    for which in ("without", "with"):
        held = np.array([near(each[which]) for each in pooled])
        means = [float(np.mean([each[which][k] for each in pooled])) for k in ("c50", "c90")]
        print(
            f"{which}: 50% near in {held[:, 0].sum()} of {len(held)} tables, 90% in {held[:, 1].sum()}, "
            f"quarters in {held[:, 2].sum()}, all in {held.all(axis=1).sum()}; means {means[0]:.3f} and "
            f"{means[1]:.3f}; biased in {sum(abs(each[which]['bias']) > 2.5 for each in pooled)}"
        )
    usable = [each["with"]["c90"] for each in every if each["word"] in ("usable", "made_to_hold")]
    true = sum(0.86 <= share <= 0.94 for share in usable)
    print(
        f"usable in {len(usable)} of {len(every)} fits; of these {true} have .86 to .94 of test rows inside"
    )
    print(
        f"probabilities of quantiles are within {max(each['with']['apart'] for each in pooled):.1g} of theirs"
    )
    times = [each["with"]["seconds"] / each["without"]["seconds"] for each in pooled]
    print(f"processor time: 1 + {np.mean(times):.3f} of the fit's on average, at most 1 + {max(times):.3f}")


if __name__ == "__main__":
    main()
