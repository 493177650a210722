"""Measure how often "usable" is wrong, and what ending a fit by its verdict costs and brings.

    python -m lab usable [--tables Auto Credit ..] [--stuck steps-5 ..] [--fits 4]
                         [--until approximate] [--keep usable.json]

Real tables (of lab/real_tables.py) are divided as there; simulated ones have thousands of fresh rows,
and few trees, little noise or columns that are all alike, so that chains stay in the modes where they came
first. A fifth of the training rows is held out, as the service does, and `Posterior.use` says what can be
used. Its words are compared with fresh rows. "Usable" is wrong

- of 90% intervals: if fewer than 85% of fresh outcomes are inside;
- of predictions: if another fit's matter, that is if the root mean square error on fresh rows is more than 5%
  above that of the mean of the fits with all seeds.

With --until the fits are those of the service's default, which go on until that verdict or a bound, with the
trees that it chooses. Printed are, by table, the verdicts, what is usable, coverage and error relative to the
pooled fits and processor seconds; then how often each rule is wrong. With --keep figures are read from and
added to that file.
"""

import json
import time
from pathlib import Path

import numpy as np

from app.services.fits.stop_rules import with_trees
from lab import command, real_tables
from sampler import fit
from sampler.definitions.stop import TIMES_DRAWS
from sampler.posterior.stop_rules import check_part, check_rules, next_look
from sampler.posterior.verdict.use import use_of
from sampler.settings import Settings

FRESH = 4_000
LEAST, MORE = 0.85, 1.05
SECONDS = 120.0  # of a processor, at most


def columns_alike(rng, rows):
    """Simulate spectra: forty columns that follow three factors, and an outcome of their differences."""
    X = rng.normal(size=(rows, 3)) @ np.random.default_rng(1).normal(size=(3, 40))
    X += 0.01 * rng.normal(size=X.shape)
    return X, 20 * (X[:, 0] - X[:, 1]) ** 2 / 40 + 200 * (X[:, 2] - X[:, 3]) / 40


def steps(rng, rows):
    """Simulate an outcome that takes a value for each cell of a checkerboard of three columns."""
    X = rng.uniform(size=(rows, 5))
    return X, 3.0 * (((2 * X[:, :3]).astype(int).sum(axis=1)) % 2) + (X[:, 3] > 0.7)


def twins(rng, rows):
    """Simulate two columns that are nearly the same, and a function of either."""
    X = rng.uniform(size=(rows, 6))
    X[:, 1] = X[:, 0] + 0.02 * rng.normal(size=rows)
    return X, np.sin(9 * X[:, 0]) + 2 * (X[:, 1] > 0.5) * (X[:, 2] > 0.5)


def smooth(rng, rows):
    """Simulate Friedman's function."""
    X = rng.uniform(size=(rows, 8))
    return X, 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


SHORT = {"num_burnin": 30, "num_draws": 20, "thin": 1}
STUCK = {  # function, rows, noise beside the function's sd, settings
    f"{name}-{note}": (function, rows, noise, settings)
    for name, function in {"alike": columns_alike, "steps": steps, "twins": twins, "smooth": smooth}.items()
    for note, rows, noise, settings in (
        ("1", 1000, 0.1, {"num_trees": 1}),
        ("5", 400, 0.1, {"num_trees": 5}),
        ("5-many", 3000, 0.02, {"num_trees": 5}),
        ("20", 1000, 0.02, {"num_trees": 20}),
        ("200", 1500, 0.01, {}),
        ("200-few", 250, 0.02, {}),
        ("short", 1000, 0.05, SHORT),
        ("one-chain", 600, 0.1, {"num_trees": 10, "num_chains": 1}),
    )
}


def data(name):
    """Return training rows, fresh rows, and settings of a table or of a simulation."""
    if name in STUCK:
        function, rows, noise, settings = STUCK[name]
        X, f = function(np.random.default_rng(7), rows + FRESH)
        y = f + noise * f.std() * np.random.default_rng(8).normal(size=len(f))
        return (X[:rows], y[:rows]), (X[rows:], y[rows:]), settings
    X, y = real_tables.load(name)
    train, held = real_tables.split(len(y), 0)
    part = [(X.iloc[rows], y.iloc[rows].to_numpy()) for rows in (train, held)]
    return *part, {}


def fitted(X, y, settings, seed, until):
    """Fit by default, or until a verdict or the bound as the service does; return it with its seconds."""
    start = time.process_time()
    if until and "num_trees" not in settings:
        trees = with_trees({"verdict": until}, Settings.resolve(), len(y)).num_trees
        settings = settings | ({} if trees is None else {"num_trees": trees})
    posterior = fit(X, y, seed=seed, progress=False, **settings)
    first, rules = posterior.num_draws, {"verdict": until}
    best, check = posterior, check_rules(posterior, rules) if until else None
    while until and not check.satisfied and posterior.num_draws < TIMES_DRAWS * first:
        spent = time.process_time() - start
        more = next_look(posterior.num_draws, TIMES_DRAWS * first) - posterior.num_draws
        if spent * (1 + more / (posterior.num_draws + 60)) > SECONDS:
            break
        posterior = posterior.extend(more, progress=False)
        best, check = check_part(posterior, rules)
    return best, time.process_time() - start


def figures(name, seed, until):
    """Return what a fit says of itself, and what fresh rows say; its predictions of them last."""
    (X, y), (fresh, truth), settings = data(name)
    order = np.random.default_rng(9).permutation(len(y))  # so that fits differ by their seeds alone
    held, train = np.sort(order[: len(y) // 5]), np.sort(order[len(y) // 5 :])
    at = (lambda rows: X.iloc[rows]) if hasattr(X, "iloc") else (lambda rows: X[rows])
    posterior, seconds = fitted(at(train), y[train], settings, seed, until)
    scores = posterior.score(at(held), y[held], quick=True)
    prediction = posterior.predict(fresh, level=[0.5, 0.9], quantiles=real_tables.LEVELS)
    inside = [(low <= truth) & (truth <= high) for _, low, high in prediction.intervals]
    losses = [np.mean((truth - each) * (q - (truth < each))) for q, each in prediction.quantiles]
    summary = posterior.summary().to_json()
    return {
        "summary": {key: summary[key] for key in ("verdict", "precision", "f", "sigma")},
        "scores": {key: scores[key] for key in ("rows", "rmse", "coverage")}
        | {"intervals_verdict": {"verdict": scores["intervals_verdict"]["verdict"]},
           "reasons": scores["intervals_verdict"]["reasons"]},
        "rows": len(train),
        "fresh": len(truth),
        "draws": posterior.num_draws,
        "trees": posterior.num_trees,
        "cover50": float(inside[0].mean()),
        "cover90": float(inside[1].mean()),
        "pinball": float(np.mean(losses)),
        "rmse": float(np.sqrt(np.mean((prediction.mean - truth) ** 2))),
        "seconds": seconds,
        "mean": prediction.mean.tolist(),
    }  # fmt: skip


def judged(name, until, fits, kept, keep):
    """Return the figures of all fits to a table, with `worse`, the error relative to the pooled fits."""
    found = []
    for seed in range(fits):
        key = f"{name} | {until} | {seed}"
        if key not in kept:
            kept[key] = figures(name, seed, until)
            if keep:
                keep.write_text(json.dumps(kept))
        found.append(kept[key])
    _, (_, truth), _ = data(name)
    pooled = np.sqrt(np.mean((np.mean([each["mean"] for each in found], axis=0) - truth) ** 2))
    return [each | {"worse": each["rmse"] / pooled, "table": name} for each in found]


def report(found):
    """Print how often "usable" is wrong, and how often it is said, by what is used."""
    uses = [(use_of(each["summary"], each["scores"]), each) for each in found]
    for title, chosen in (("all", uses), ("not_converged", [u for u in uses if u[0].credible == "not_yet"])):
        of_intervals = [each["cover90"] < LEAST for use, each in chosen if use.intervals == "usable"]
        of_means = [each["worse"] > MORE for use, each in chosen if use.predictions == "usable"]
        print(
            f"{title}: {len(chosen)} fits; intervals usable in {len(of_intervals)}, wrong in "
            f"{sum(of_intervals)}; predictions usable in {len(of_means)}, wrong in {sum(of_means)}"
        )


def main():
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="*", default=[*real_tables.TABLES], choices=[*real_tables.TABLES])
    parser.add_argument("--stuck", nargs="*", default=[*STUCK], choices=[*STUCK])
    parser.add_argument("--fits", type=int, default=4)
    parser.add_argument("--until", choices=("converged", "approximate"))
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    kept = json.loads(args.keep.read_text()) if args.keep and args.keep.exists() else {}
    for title, names in (("real tables", args.tables), ("stuck", args.stuck)):
        found = []
        for name in names:
            some = judged(name, args.until, args.fits, kept, args.keep)
            found += some
            for each in some:
                use = use_of(each["summary"], each["scores"])
                print(
                    f"{name:14} {each['rows']:5} rows  {use.chains.verdict:13} {each['trees']:4} trees "
                    f"{each['draws']:5} draws {each['seconds']:6.1f} s  predictions {use.predictions:8} "
                    f"intervals {use.intervals:10} held out {use.held_out.inside:.2f} "
                    f"of {use.held_out.rows:4}  fresh {each['cover90']:.3f} of {each['fresh']}  "
                    f"rmse {each['rmse']:.4g} ({each['worse']:.3f})  pinball {each['pinball']:.4g}",
                    flush=True,
                )
        if found:
            print(title)
            report(found)
