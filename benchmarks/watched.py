"""Measure the watch on outcomes, the verdict and weekly recalibration on simulated outcomes, beside rows.

    python benchmarks/watched.py [--runs 200]

No fits: outcomes are drawn with their probabilities under the model. A line has what is measured, what is
allowed, and the same where each row counts, or the table stays as it is, which must be beyond its bound: else
the gate tests nothing.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sampler.host.assessment import CountedOnce, OutcomeScores, OutcomeSums, watch
from sampler.posterior.assessment.interval_verdict import Groups, _compare, _overall_fault
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
    level = ndtr(z)
    feature = rng.normal(size=60)[unit]
    edges = np.quantile(feature, [0.25, 0.5, 0.75])
    groups = Groups("feature", np.searchsorted(edges, feature), edges.tolist(), str)

    def doubted(counted: Any) -> float:
        uneven = _compare(level, [groups], counted)[0]
        return float(_overall_fault(level, counted) is not None or uneven.p < uneven.chance)

    return doubted(unit), doubted(None)


def of_growing_noise(rng: np.random.Generator) -> tuple[float, float]:
    """Cover 3,000 outcomes, 20 a week and known two weeks later, whose noise doubles: adapted, and static."""
    z = rng.normal(size=3_000) * np.linspace(1, 2, 3_000)
    scores, weeks = ndtr(z), np.arange(3_000) // 20
    original = ConformalTable.of("holdout", 100, rng.uniform(size=500), of_classes=False)
    tables = weekly_tables(original, scores, weeks, weeks + 2)
    inside = np.zeros((2, 3_000), bool)
    for week in range(150):
        own = weeks == week
        for k, table in enumerate((tables.get(week, original), original)):
            low, high = table.at(0.9).ends or (0.0, 1.0)
            inside[k, own] = (scores[own] >= low) & (scores[own] <= high)
    return float(inside[0].mean()), float(inside[1].mean())


GATES = {
    "8": Gate("weekly tables, noise grows twofold", of_growing_noise, (0.885, 0.915), ("<", 0.8)),
    "14": Gate("alarms, groups of 20 rows, .5", of_groups, (0, 0.03), (">", 0.3)),
    "14b": Gate("alarms, days of AR .9", of_days, (0, 0.03), (">", 0.3)),
    "15": Gate("verdict, 60 groups of 10 rows, .6", of_verdict, (0, 0.015), (">", 0.05)),
}


def measured(name: str, runs: int) -> bool:
    """Print the line of a gate; tell whether it holds."""
    gate = GATES[name]
    ours, other = np.mean([gate.run(np.random.default_rng([k, 14])) for k in range(runs)], axis=0)
    sign, bound = gate.beyond
    tests = other < bound if sign == "<" else other > bound
    holds = bool(gate.allowed[0] <= ours <= gate.allowed[1] and tests)
    allowed = f"{gate.allowed[0]:g} to {gate.allowed[1]:g}"
    print(
        f"{name:<4} {gate.about:<36} {ours:>8.3f}  {allowed:<14} {other:>6.3f} {sign} {bound:g} "
        f"{'holds' if holds else 'FAILS'}",
        flush=True,
    )
    return holds


def main() -> None:
    """Measure all gates, and end with status 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    print(f"{'gate':<4} {'process':<36} {'measured':>8}  {'allowed':<14} {'other':>6} must be")
    held = [measured(name, runs) for name in GATES]
    if not all(held):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
