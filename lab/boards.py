"""Elo, win rates and improvability on real tables, and whether sets of classes hold at each size of set.

    python -m lab boards [--methods ours lightgbm ..] [--tables Boston Auto ..] [--splits 1]
                         [--keep scores.json] [--set-tables wine iris ..] [--set-splits 3]
                         [--keep-sets sets.json]

First come boards of the pinball loss and of the RMSE of `bakeoff`, whose scores are read from and added to
the file --keep, as TabArena has them, by its authors' package bencheval: Elo (a method whose Elo is 400
higher wins ten of eleven comparisons; the random forest has 1,000) with 95% bootstrap intervals over tables,
the share of comparisons won, and improvability: by what share the smallest error of any method is below the
method's, a mean over tables. A method that failed on a split, or isn't installed, is left out.

Then the tables of `classes`, each in thirds: two thirds train, and one is judged. A quarter of the training
rows makes sets of 90% of the probabilities of a fit to the others: ours, and LightGBM's and CatBoost's by
MAPIE ("lac" takes classes by their probability, as ours do, "aps" the most probable ones up to a sum); ours
by folds take all training rows. Printed over all judged rows are the coverage, the mean size, the coverage at
each size and the size-stratified coverage (Angelopoulos and Bates 2021), the lowest of sizes of at least 50
rows; and its mean over tables, of sizes of at least 20.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split

from lab import bakeoff, classes, command
from lab.papers.study import Kept

LEVEL = 0.9
POOLED, OF_TABLE = 50, 20  # rows of a size, without which its coverage is left out
ROUNDS = 200  # bootstraps of tables, as TabArena has
ANCHOR = "random forest"  # whose Elo is 1,000, as on TabArena
# One of ours, since variants would share its wins.
METHODS = [name for name in bakeoff.METHODS if name == "ours" or not name.startswith("ours")]
SET_TABLES = [name for name in ("wine", *classes.TABLES) if name != "oils"]  # one of whose classes has 3 rows
PEERS = {"lightgbm": classes.lightgbm, "catboost": classes.catboost}
SCORES = ("lac", "aps")
Strata = dict[str, list[int]]  # of a size: rows with a set of that size, and how many of them it holds


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose rows are probabilities of the classes."""

    def __init__(self, count: int) -> None:
        """Keep the number of classes."""
        self.count, self.classes_ = count, np.arange(count)

    def fit(self, _X: np.ndarray, _y: np.ndarray) -> "Given":
        """Do nothing."""
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the rows."""
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the most probable class."""
        return X.argmax(axis=1)


def battles(kept: dict[str, dict[str, Any]], names: list[str], loss: str) -> pd.DataFrame:
    """Return scores by "table | method | split" as bencheval takes them: a row for each, and its loss.

    Methods that lack a split of any table, or failed there, are left out, since all are compared with all.
    """
    rows = [
        {"task": task, "method": method, "seed": int(seed), "metric_error": each[loss]}
        for key, each in kept.items()
        for task, method, seed in [key.split(" | ")]
        if method in names and "failed" not in each
    ]
    frame = pd.DataFrame(rows, columns=["task", "method", "seed", "metric_error"])
    of_method = frame["method"].map(frame["method"].value_counts())
    return frame[of_method == len(frame[["task", "seed"]].drop_duplicates())].reset_index(drop=True)


def leaderboard(frame: pd.DataFrame, rounds: int) -> pd.DataFrame:
    """Return Elo, win rate and improvability [method], with intervals by so many bootstraps of tables."""
    from bencheval.evaluator import BenchmarkEvaluator

    return BenchmarkEvaluator(seed_column="seed", columns_to_agg_extra=None).leaderboard(
        frame,
        elo_kwargs={"calibration_framework": ANCHOR, "BOOTSTRAP_ROUNDS": rounds},
        sort_by=["rank"],
    )


def strata(members: np.ndarray, y: np.ndarray) -> Strata:
    """Count rows and those held by size of set; `members` is bool [row, class], `y` are classes 0, 1, .."""
    sizes, held = members.sum(axis=1), members[np.arange(len(y)), y]
    return {
        str(size): [int((sizes == size).sum()), int(held[sizes == size].sum())] for size in np.unique(sizes)
    }


def pooled(found: list[Strata]) -> Strata:
    """Add up the counts of several tables or splits."""
    sizes = sorted({size for each in found for size in each}, key=int)
    return {size: [sum(each.get(size, [0, 0])[k] for each in found) for k in (0, 1)] for size in sizes}


def size_stratified_coverage(counts: Strata, least: int) -> float:
    """Return the lowest coverage of a size of set that at least so many rows have; NaN if none has."""
    return min((held / rows for rows, held in counts.values() if rows >= least), default=float("nan"))


def ours(calibrate: str) -> Callable[..., np.ndarray]:
    """Return a maker of our sets, bool [row, class]."""

    def sets(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
        from sampler import fit

        settings = {"holdout": 0.25} if calibrate == "holdout" else {}
        posterior = fit(X, y, family="categorical", calibrate=calibrate, seed=0, progress=False, **settings)
        return posterior.predict(new, level=LEVEL, interval="calibrated").sets[0].members

    return sets


def conformal(
    predict: classes.Predict, X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame
) -> dict[str, np.ndarray]:
    """Return sets by score, bool [row, class], that a quarter of the rows makes of a peer's probabilities."""
    from mapie.classification import SplitConformalClassifier

    train, held, y_train, y_held = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    chances = predict(train, y_train, pd.concat([held, new])).astype(float)
    chances /= chances.sum(axis=1, keepdims=True)
    made = {}
    for score in SCORES:
        maker = SplitConformalClassifier(
            Given(chances.shape[1]), confidence_level=LEVEL, conformity_score=score, random_state=0
        ).conformalize(chances[: len(held)], y_held)
        made[score] = maker.predict_set(chances[len(held) :])[1][:, :, 0].astype(bool)
    return made


def sets_on(kept: Kept, table: str, splits: int) -> dict[str, list[Strata]]:
    """Return by method the counts of sets of each split of a table."""
    X, y, parts = classes.divide(*classes.table(table), 1, 10**9)
    found: dict[str, list[Strata]] = {}
    for number, (train, judged) in enumerate(parts[:splits]):
        rows = X.iloc[train], y[train], X.iloc[judged]
        for way in ("holdout", "folds"):
            counts = kept(
                f"{table} | ours, {way} | {number}",
                lambda way=way, rows=rows, judged=judged: strata(ours(way)(*rows), y[judged]),
            )
            found.setdefault(f"ours, {way}", []).append(counts)
        for name, predict in PEERS.items():
            by_score = kept(
                f"{table} | {name} | {number}",
                lambda predict=predict, rows=rows, judged=judged: {
                    score: strata(members, y[judged]) for score, members in conformal(predict, *rows).items()
                },
            )
            for score, counts in by_score.items():
                found.setdefault(f"{name}, {score}", []).append(counts)
    return found


def show_sets(by_table: list[dict[str, list[Strata]]]) -> None:
    """Print a line for each method: coverage, mean size, coverage by size, and the lowest."""
    print(
        f"\nsets of {LEVEL:.0%}: coverage, mean size, by size (rows), size-stratified, its mean over tables"
    )
    for name in by_table[0]:
        own = [pooled(found[name]) for found in by_table]
        counts = pooled(own)
        rows, held = (sum(each[k] for each in counts.values()) for k in (0, 1))
        size = sum(int(size) * each[0] for size, each in counts.items()) / rows
        by_size = "  ".join(f"{size}: {each[1] / each[0]:.3f} ({each[0]})" for size, each in counts.items())
        of_tables = np.nanmean([size_stratified_coverage(each, OF_TABLE) for each in own])
        print(
            f"{name:16} {held / rows:.3f}  {size:.2f}  {by_size}  "
            f"SSC {size_stratified_coverage(counts, POOLED):.3f}, {of_tables:.3f}"
        )


def main() -> None:
    """Print the boards, and the sets."""
    parser = command(__doc__)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--tables", nargs="*", default=[*bakeoff.TABLES], choices=[*bakeoff.TABLES])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("build/bakeoff.json"))
    parser.add_argument("--set-tables", nargs="*", default=SET_TABLES, choices=SET_TABLES)
    parser.add_argument("--set-splits", type=int, default=3, help="of each table in thirds, up to 3")
    parser.add_argument("--keep-sets", type=Path, default=Path("build/sets.json"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    methods = bakeoff.installed(dict.fromkeys([*args.methods, ANCHOR]))
    kept = json.loads(args.keep.read_text()) if args.keep.exists() else {}
    args.keep.parent.mkdir(parents=True, exist_ok=True)
    chosen = {}
    for table in args.tables:
        for name in methods:
            for seed in range(args.splits):
                chosen[f"{table} | {name} | {seed}"] = bakeoff.kept_scores(kept, args.keep, table, name, seed)
    for loss in ("pinball", "rmse") if chosen else ():
        frame = battles(chosen, methods, loss)
        left_out = sorted({*methods} - {*frame["method"]})
        print(
            f"\n{loss}: {frame['task'].nunique()} tables, {args.splits} splits; without {left_out or 'none'}"
        )
        for name, row in leaderboard(frame, ROUNDS).iterrows():
            print(
                f"{name:26} Elo {row['elo']:.0f} (+{row['elo+']:.0f}, -{row['elo-']:.0f})  "
                f"win rate {row['winrate']:.3f}  improvability {row['improvability']:.3f} "
                f"(+{row['improvability+']:.3f}, -{row['improvability-']:.3f})  rank {row['rank']:.2f}"
            )
    if args.set_tables:
        sets = Kept(args.keep_sets)
        show_sets([sets_on(sets, table, args.set_splits) for table in args.set_tables])
