"""Rules of categories: sets of levels beside indicators, on simulated and real tables.

    python -m lab categories [--tables Produc "own 40"] [--splits 2] [--long] [--keep categories.json]

Three ways are compared: "indicators", the default, of which each has the share of a feature in rules; "sets"
(categories="sets"); and "alike", rules by indicators among which, as among sets, each feature has the same
share, to tell what of a difference is due to shares.

Simulated tables are named by what a level adds to 2 sin(pi a b) + c, and the number of levels: 1 for every
second level ("halves"); a number of its own, normal with sd .5 ("own"); 1 for one level ("one");
2 c for every second level ("slopes"); nothing ("none"). 400 rows train, with noise of .5, and RMSE and
coverage of 90% intervals are of f at 1,000 others. Fits have constant noise, no line and no transform.

Real tables have categories of 3 to 48 levels; 70% of the rows train, and RMSE and coverage are of others'
outcomes. Fits have default settings, but constant noise and 4 chains of 60 draws after 250 iterations
unless --long is given.

Printed, per table, are RMSE, pinball loss and CRPS of outcomes relative to indicators', coverage, processor
seconds; then means of the ratios' logarithms over tables with 95% bootstrap intervals. With --keep scores are
read from and added to that file, so that a run can be resumed.
"""

import json
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

from lab import command
from lab.real_tables import TABLES as OTHERS
from lab.real_tables import bootstrap, load, scores_of, split

WAYS = ("indicators", "sets", "alike")
KINDS = ("halves", "own", "one", "slopes", "none")
SIMULATED = [f"{kind} {levels}" for levels in (4, 12, 40) for kind in KINDS]
TRAIN, NEW, NOISE = 400, 1000, 0.5
PLAIN = {"noise": "constant", "transform": "none", "linear": False}
SHORT = {"num_chains": 4, "num_burnin": 250, "num_draws": 60, "noise": "constant"}
# package, table, target, columns left out, most rows
TABLES = {
    "Produc": ("plm", "Produc", "gsp", (), None),
    "Fatalities": ("AER", "Fatalities", "fatal", (), None),
    "Cigar": ("plm", "Cigar", "sales", (), None),
    "mpg": ("ggplot2", "mpg", "hwy", ("cty",), None),
    "Salaries": ("carData", "Salaries", "salary", (), None),
    "ames": ("modeldata", "ames", "Sale_Price", (), 1000),
    **{name: OTHERS[name] for name in ("CPS1985", "RiceFarms", "Carseats")},
    **{name: (*OTHERS[name][:4], 1000) for name in ("Wage", "diamonds", "MedExp")},
}
NAMES = {"Produc": "state", "Fatalities": "state", "Cigar": "state"}  # columns of names
FIGURES = ("rmse", "pinball", "crps")


def simulated(kind, levels, rng, number):
    """Return features, and f, of rows."""
    level = rng.integers(0, levels, number)
    a, b, c = rng.uniform(size=(3, number))
    own = np.random.default_rng(levels).normal(0, 0.5, levels)
    adds = {"halves": level % 2, "own": own[level], "one": level == 0, "slopes": 2 * c * (level % 2)}
    f = 2 * np.sin(np.pi * a * b) + c + adds.get(kind, 0)
    return pd.DataFrame({"level": [f"l{k}" for k in level], "a": a, "b": b, "c": c}), pd.Series(f)


def scores(table, way, settings, seed):
    """Return the scores of a table by one way."""
    alike = mock.patch("sampler.data.level_sets.ways_to_part", lambda levels: np.eye(levels, dtype=bool))
    settings = settings | {"categories": "indicators" if way == "indicators" else "sets"}
    with alike if way == "alike" else mock.patch.dict({}):
        if table in TABLES:
            X, y = load(table, table=TABLES[table])
            X = X.astype({NAMES[table]: str}) if table in NAMES else X
            train, held = split(len(y), seed)
            return scores_of((X.iloc[train], y.iloc[train]), (X.iloc[held], y.iloc[held]), settings, seed)
        kind, levels = table.split()
        rng = np.random.default_rng([seed, int(levels)])
        (X, f), (new, truth) = (simulated(kind, int(levels), rng, number) for number in (TRAIN, NEW))
        y, later = (each + rng.normal(0, NOISE, len(each)) for each in (f, truth))
        return scores_of((X, y), (new, later), settings | PLAIN, seed, truth.to_numpy())


def summary(name, found):
    """Print means over tables, by way."""
    for way in WAYS[1:]:
        cells = []
        for figure in FIGURES:
            logs = np.log([each[way][figure] / each[WAYS[0]][figure] for each in found])
            middle, low, high = np.exp(bootstrap(logs))
            cells.append(f"{figure} {middle:.3f} ({low:.3f} to {high:.3f}), better on {np.sum(logs < 0)}")
        print(f"{name}, {way}: {len(found)} tables; {'; '.join(cells)}")
    for figure in ("cover90", "seconds"):
        means = [f"{way} {np.mean([each[way][figure] for each in found]):.3f}" for way in WAYS]
        print(f"{name}, {figure}: {', '.join(means)}")


def compare(tables, splits, settings, path=None):
    """Return the mean scores of tables by way, printed one by one; with a path scores are kept there."""
    kept = json.loads(path.read_text()) if path and path.exists() else {}
    found = {}
    for table in tables:
        found[table] = {}
        for way in WAYS:
            each = []
            for seed in range(splits):
                key = f"{table} {way} {seed} {settings}"
                if key not in kept:
                    kept[key] = scores(table, way, settings, seed)
                    if path:
                        path.write_text(json.dumps(kept, indent=1))
                each.append(kept[key])
            found[table][way] = {name: np.mean([one[name] for one in each]) for name in each[0]}
        base = found[table][WAYS[0]]
        cells = [
            " ".join(f"{figure} {found[table][way][figure] / base[figure]:.3f}" for figure in FIGURES)
            for way in WAYS[1:]
        ]
        cover, seconds = (
            " ".join(f"{found[table][way][figure]:.{digits}f}" for way in WAYS)
            for figure, digits in (("cover90", 3), ("seconds", 1))
        )
        print(
            f"{table:11} rmse {base['rmse']:.4g}; sets {cells[0]}; alike {cells[1]}; inside {cover}; "
            f"seconds {seconds}",
            flush=True,
        )
    for name, group in (("simulated", SIMULATED), ("real", TABLES)):
        if own := [each for table, each in found.items() if table in group]:
            summary(name, own)
    return found


def main():
    parser = command(__doc__)
    known = [*SIMULATED, *TABLES]
    parser.add_argument("--tables", nargs="+", default=known, choices=known)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    compare(args.tables, args.splits, {} if args.long else SHORT, args.keep)
