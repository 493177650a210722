"""Measure how long each package takes to predict as well as our default fits, on real tables.

    python -m lab time_to_accuracy [--tables Boston Auto ..] [--seed 0] [--within .02]
                                   [--methods ours stochtree ..] [--keep runs.json]

Each method is run with longer and longer settings (iterations, boosted trees, rows of the Gaussian process)
on the split of `bakeoff.py`, on one core, up to and beyond its default. Printed are each run's processor
seconds, its pinball loss over seven levels relative to our default fit's, and its coverage of 90% intervals;
then, per method, on how many tables a run is within 2% of our default's loss, and of the smallest loss of any
run, with intervals that cover 85 to 95%, and the median seconds of the shortest such run. Compilation isn't
counted, nor are imports: the shortest run of a method is repeated, and every run of bartz, which compiles for
each length. With --keep, runs are read from and added to that file: a table at a time, or resumed.
"""

import importlib.util
import json
from functools import partial
from pathlib import Path

import numpy as np

from lab import command
from lab.bakeoff import bartz, catboost, conformalised, gaussian_process, lightgbm, ours, scores, stochtree
from lab.real_tables import TABLES

SCALES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)


def of_default_length(scale):
    """Return our settings with a burn-in and a spacing of draws scaled from the defaults."""
    return {"num_burnin": int(500 * scale), "thin": max(1, int(8 * scale))}


LADDERS = {  # the package that it needs, and methods of growing length
    "ours": ("sampler", [ours(of_default_length(scale)) for scale in SCALES]),
    "stochtree": ("stochtree", [stochtree(0, int(1000 * scale)) for scale in (*SCALES, 4)]),
    "bartz": ("bartz", [bartz(int(1000 * scale)) for scale in (*SCALES, 4)]),
    "lightgbm": ("lightgbm", [conformalised(partial(lightgbm, trees=n)) for n in (25, 100, 400, 1600)]),
    "catboost": ("catboost", [conformalised(partial(catboost, trees=n)) for n in (100, 300, 1000, 3000)]),
    "gaussian process": ("sklearn", [gaussian_process(rows) for rows in (250, 500, 1000)]),
}


def climb(table, name, seed):
    """Return the scores of a method's runs, shortest first."""
    runs = []
    for method in LADDERS[name][1]:
        if name == "bartz" or not runs:
            scores(table, method, seed)
        runs.append(scores(table, method, seed))
    return runs


def summary(tables, name, within):
    """Return for both targets on how many tables a method reaches it, and the median seconds there."""
    words = []
    for of_all in (False, True):
        seconds = []
        for results in tables:
            smallest = min(run["pinball"] for runs in results.values() for run in runs)
            enough = (1 + within) * (smallest if of_all else results["our default"][0]["pinball"])
            good = [r for r in results[name] if r["pinball"] <= enough and 0.85 <= r["cover90"] <= 0.95]
            seconds += [min(run["seconds"] for run in good)] if good else []
        median = f"{np.median(seconds):.2f} s" if seconds else "-"
        words.append(f"{len(seconds)} of {len(tables)}, {median}")
    return words


def main():
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="+", default=[*TABLES], choices=[*TABLES])
    parser.add_argument("--methods", nargs="+", default=[*LADDERS], choices=[*LADDERS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--within", type=float, default=0.02)
    parser.add_argument("--keep", type=Path, help="JSON file of runs")
    args = parser.parse_args()
    kept = json.loads(args.keep.read_text()) if args.keep and args.keep.exists() else {}
    default = ours({})
    if any(f"{table} {args.seed}" not in kept for table in args.tables):
        scores(args.tables[0], default, args.seed)  # loads the kernels
    methods = [name for name in args.methods if importlib.util.find_spec(LADDERS[name][0])]
    for name in sorted(set(args.methods) - set(methods)):
        print(f"{name}: left out, {LADDERS[name][0]} is not installed")
    tables = []
    for table in args.tables:
        results = kept.setdefault(f"{table} {args.seed}", {})
        if "our default" not in results:
            results["our default"] = [scores(table, default, args.seed)]
        (base,) = results["our default"]
        print(
            f"{table}: our default took {base['seconds']:.2f} s, coverage {base['cover90']:.2f}", flush=True
        )
        for name in methods:
            if name not in results:
                results[name] = climb(table, name, args.seed)
                if args.keep:
                    args.keep.write_text(json.dumps(kept))
            cells = [
                f"{run['seconds']:.2f} s {run['pinball'] / base['pinball']:.3f} ({run['cover90']:.2f})"
                for run in results[name]
            ]
            print(f"  {name:18}{'; '.join(cells)}", flush=True)
        tables.append({name: results[name] for name in ("our default", *methods)})
    print("\ntables within 2% of our default's loss, and of the smallest loss, with 85 to 95% covered")
    for name in methods:
        ours_reached, best_reached = summary(tables, name, args.within)
        print(f"{name:18}{ours_reached:>20}{best_reached:>20}")
