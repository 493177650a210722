"""Print the verdict on the intervals of default fits to real tables, beside what new rows say.

    python -m lab verdicts [--tables Auto cpus ..] [--splits 1]
    python -m lab verdicts --planted 50

Tables are divided as by lab/real_tables.py. A quarter of the training rows is held out and the fit
goes on until `approximate`, as the service does by default. A line has the word, the share of held-out rows
inside 90% intervals and that of new rows; the sentence is below. At the end: how many say usable, and of
these how many have .86 to .94 of new rows inside.

With --planted, 560 rows are judged so many times whose 90% intervals hold .9, but in a quarter by a feature
.7: printed is in how many the quarter is refused and the rest holds, and in how many without the fault
anything is refused.
"""

import numpy as np

from lab import command, real_tables
from lab.usable import fitted
from sampler.posterior.assessment.interval_verdict import LEVELS, Groups, verdict_of


def judged(name, seed):
    """Return `Use` of a default fit to a table, and the share of new rows inside its 90% intervals."""
    X, y = real_tables.load(name)
    train, new = real_tables.split(len(y), seed)
    order = np.random.default_rng(seed).permutation(train)
    held, learnt = np.sort(order[: len(order) // 4]), np.sort(order[len(order) // 4 :])
    posterior, _ = fitted(X.iloc[learnt], y.iloc[learnt].to_numpy(), {}, seed, "approximate")
    scores = posterior.score(X.iloc[held], y.iloc[held].to_numpy(), quick=True)
    prediction, truth = posterior.predict(X.iloc[new]), y.iloc[new].to_numpy()
    inside = np.mean((prediction.lower <= truth) & (truth <= prediction.upper))
    return posterior.use(scores), scores["intervals_verdict"], float(inside)


def planted(seeds, rows=560, columns=3):
    """Print how often a quarter of too narrow intervals is refused, and how often right ones are."""
    level = np.array(LEVELS)[:, None]
    found = refused = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        groups = []
        for name in ("", *(f"x{j + 1}" for j in range(columns))):
            values = rng.normal(size=rows)
            edges = np.quantile(values, [0.25, 0.5, 0.75])
            quarter = np.searchsorted(edges, values)
            groups.append(Groups(name or None, quarter, edges.tolist(), "{:.3g}".format))
        size = rng.uniform(size=rows)  # of the interval that just holds an outcome
        narrow = np.where((quarter == 3) & (size < 0.9) & (rng.uniform(size=rows) > 0.7 / 0.9), 0.95, size)
        reports = [
            verdict_of(groups, inside, np.broadcast_to(level, inside.shape), None)
            for inside in (narrow <= level, size <= level)
        ]
        found += reports[0]["verdict"] == "held" and any(
            each["feature"] == f"x{columns}" for each in reports[0]["refused"]
        )
        refused += bool(reports[1]["reasons"])
    print(f"a quarter that holds .70 is refused in {found} of {seeds}, one of right intervals in {refused}")


def main():
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="*", default=[*real_tables.TABLES], choices=[*real_tables.TABLES])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--planted", type=int, default=0)
    args = parser.parse_args()
    if args.planted:
        planted(args.planted)
        return
    usable, true, fits = 0, 0, 0
    for name in args.tables:
        for seed in range(args.splits):
            use, report, inside = judged(name, seed)
            fits += 1
            if use.intervals in ("usable", "made_to_hold"):
                usable, true = usable + 1, true + (0.86 <= inside <= 0.94)
            held = "" if use.held_out.inside is None else f" held out {use.held_out.inside:.3f}"
            print(f"{name:14} {use.intervals:12}{held}  new {inside:.3f}", flush=True)
            for part in ("text", "others", "advice"):
                if report.get(part):
                    print(f"    {report[part]}", flush=True)
    print(f"usable in {usable} of {fits}; of these {true} have .86 to .94 of new rows inside")
