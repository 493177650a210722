"""Statements of Chipman, George and McCulloch (2010) on intervals far from data, restarts and extensions."""

from __future__ import annotations

from functools import partial

import numpy as np

from lab.cgm10 import PLAIN, friedman
from lab.papers.cgm10_fits import paper_fit
from lab.papers.judges import Seen
from lab.papers.study import Claim, Figures, Parts, Study
from lab.spatial import judge, lattice
from sampler import fit
from sampler.posterior.core.ensemble import columns_of_codes
from sampler.posterior.verdict import rhat_ess

# where the rows of the study of distances are, and where widths are looked at
BESIDE, GAP, EDGE, BEYOND = (0.1, 0.25, 0.75, 0.9), (0.45, 0.5, 0.55), (1.1,), (2.0,)


def _widths(seed: int) -> list[float]:
    """Return mean widths of 90% intervals of f beside the data, in a gap of a third, beyond the edge, far."""
    rng = np.random.default_rng([11, seed])
    x = rng.uniform(0, 2 / 3, 200)
    x[x > 1 / 3] += 1 / 3
    y = np.sin(2 * np.pi * x) + 0.2 * rng.normal(size=200)
    posterior = paper_fit(x[:, None], y, seed, num_draws=2000)
    found = []
    for points in (BESIDE, GAP, EDGE, BEYOND):
        low, high = np.quantile(posterior.sample(np.array(points)[:, None])[0], [0.05, 0.95], axis=0)
        found.append(float(np.mean(high - low)))
    return found


def _run_distance(parts: Parts, count: int) -> Figures:
    runs = [parts(f"widths {seed}", partial(_widths, seed)) for seed in range(1, count + 1)]
    return {"widths": np.mean(runs, axis=0)}


def _in_gap(figures: Figures) -> Seen:
    beside, gap, _, _ = figures["widths"]
    return Seen(f"mean width {gap:.2f} in the gap, {beside:.2f} beside rows", [(beside, gap)])


def _beyond(figures: Figures) -> Seen:
    beside, _, edge, far = figures["widths"]
    ours = f"mean width {edge:.2f} at .1 beyond the edge, {far:.2f} at 1.0, {beside:.2f} beside rows"
    why = "of any sum of trees: beyond the last rule nothing changes; such rows are flagged `outside_range`"
    return Seen(ours, [(1.05 * edge, far)], unless=why)


RESTARTS = 4
RHAT = 1.01  # at most, of starts that are alike (Vehtari and others 2021)
GROUPS, GROUP_SD, CORRELATION = 20, 2.0, 0.8


def _restarts(noise: float, trees: int, seed: int) -> Figures:
    """Compare four starts of one long chain on Friedman's function, with noise of that deviation.

    Returns the least correlation of their fits, how far these are apart in posterior deviations (root mean
    square), R-hat that 95% of the rows don't exceed, and the median effective draws of f of one chain.
    """
    rows = 100 if noise == 1 else 500
    X, f, y = friedman(10, seed, rows=rows)
    y = f + noise * (y - f)
    chains = [paper_fit(X, y, start, trees=trees).sample(X)[0] for start in range(RESTARTS)]
    draws = np.ascontiguousarray(np.array(chains).transpose(2, 0, 1))
    means = draws.mean(axis=2)
    apart = means.std(axis=1, ddof=1) / draws.std(axis=(1, 2))
    return {
        "correlation": np.corrcoef(means.T).min(),
        "apart": np.sqrt(np.mean(apart**2)),
        "rhat": np.quantile(rhat_ess.rhat(draws), 0.95),
        "ess": np.median(rhat_ess.ess_bulk(draws[:, :1])),
    }


def _grouped(seed: int) -> Figures:
    """Return RMSE of f at new rows of known groups with intercepts and without, and their sd's interval."""
    X, f, y = friedman(10, seed, rows=1000)
    rng = np.random.default_rng([28, seed])
    group = rng.integers(0, GROUPS, len(y))
    shift = GROUP_SD * rng.normal(size=GROUPS)
    level, y = f + shift[group], y + shift[group]
    names = [f"x{k}" for k in range(X.shape[1])]
    table = dict(zip(names, X.T, strict=True))
    old, new = ({name: each[rows] for name, each in table.items()} for rows in (slice(500), slice(500, None)))
    told = PLAIN | {"seed": seed, "progress": False}
    plain = fit(old, y[:500], **told)
    grouped = fit(old | {"site": group[:500]}, y[:500], groups="site", **told)
    errors = [
        plain.predict(new, level=None).mean - level[500:],
        grouped.predict(new | {"site": group[500:]}, level=None).mean - level[500:],
    ]
    sds = grouped.law.group_sds()[0]
    return {
        "rmse": [np.sqrt(np.mean(each**2)) for each in errors],
        "sd": np.quantile(sds, [0.5, 0.05, 0.95]),
        "truth": shift.std(ddof=1),
    }


def _both(seed: int) -> Figures:
    """Return the errors' correlation of two outcomes with its 90% interval, and RMSE of one at new rows.

    RMSE are without the other outcome, and given it. Of 50 trees: more overfit the errors so much that the
    correlation is too large (docs/several_outcomes.md).
    """
    rng = np.random.default_rng([29, seed])
    X, f, _ = friedman(10, seed, rows=800)
    e = rng.multivariate_normal([0, 0], [[1, CORRELATION], [CORRELATION, 1]], len(f))
    first, second = f + e[:, 0], 5 * X[:, 5] + e[:, 1]
    old, new = slice(400), slice(400, None)
    shape = {"num_trees": 50, "linear": False, "seed": seed, "progress": False}
    both = fit(X[old], {"a": first[old], "b": second[old]}, **shape)
    errors = [
        both.predict(X[new], given=given).mean[:, 0] - first[new] for given in (None, {"b": second[new]})
    ]
    correlation = np.quantile(both.correlations[:, :, 0, 1], [0.5, 0.05, 0.95])
    return {"correlation": correlation, "rmse": [np.sqrt(np.mean(each**2)) for each in errors]}


def _unrelated(correlation: float, seed: int) -> list[float]:
    """Return RMSE of two functions of three columns each: fitted at once, each of its own columns, and apart.

    200 rows, errors of standard deviation 1 with a correlation; 500 new rows.
    """
    rng = np.random.default_rng([30, seed])
    x = rng.uniform(size=(6, 700))
    f = {
        "a": 10 * np.sin(np.pi * x[0] * x[1]) + 5 * x[2],
        "b": 8 * np.abs(x[3] - 0.5) + 6 * x[4] + 4 * (x[5] > 0.5),
    }
    errors = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], 700).T
    own = {"a": ["x0", "x1", "x2"], "b": ["x3", "x4", "x5"]}
    old, new = (
        {f"x{j}": column[rows] for j, column in enumerate(x)} for rows in (slice(200), slice(200, None))
    )
    y = {name: (f[name] + e)[:200] for name, e in zip(f, errors, strict=True)}
    told = {"linear": False, "seed": seed, "progress": False}
    both = fit(old, y, features=own, **told)
    plain = {"noise": "constant", "transform": "none"}
    apart = {name: fit(old, y[name], features=own[name], **plain, **told) for name in f}
    rests = [
        [which[name].predict(new, level=None).mean - f[name][200:] for name in f] for which in (both, apart)
    ]
    return [float(np.mean([np.sqrt(np.mean(rest**2)) for rest in each])) for each in rests]


def _run_unrelated(parts: Parts, count: int) -> Figures:
    return {
        f"{correlation:g}": [
            parts(f"{correlation:g}, {seed}", partial(_unrelated, correlation, seed))
            for seed in range(1, count + 1)
        ]
        for correlation in (CORRELATION, 0.0)
    }


def _gains(key: str, figures: Figures) -> tuple[float, float, float]:
    """Return both means of RMSE, and the standard error of their difference."""
    runs = np.array(figures[key])
    gain = runs[:, 0] - runs[:, 1]
    return *runs.mean(axis=0), float(gain.std(ddof=1) / np.sqrt(len(gain)))


def _gain(figures: Figures) -> Seen:
    both, apart, error = _gains(f"{CORRELATION:g}", figures)
    ours = f"RMSE of f {both:.3f} at once, {apart:.3f} apart (the difference's standard error {error:.3f})"
    return Seen(ours, [(both + 2 * error, apart)])


def _no_gain(figures: Figures) -> Seen:
    both, apart, error = _gains("0", figures)
    ours = f"RMSE of f {both:.3f} at once, {apart:.3f} apart (the difference's standard error {error:.3f})"
    return Seen(ours, [(abs(both - apart), 0.03 * apart + 2 * error)])


def _surface(seed: int) -> Figures:
    """Return RMSE at unseen sites of a lattice, in deviations of outcomes, without coordinates and so on."""
    rows, y = lattice("smooth", seed)
    order = np.random.default_rng([7, seed]).permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]
    ways = ("without", "features", "surface")
    return {"rmse": [judge(rows, y, train, test, way, **PLAIN)[0] for way in ways]}


def _run_statements(parts: Parts, _count: int) -> Figures:
    found = {
        f"{noise:g}, {trees}": parts(f"restarts {noise:g}, {trees}", partial(_restarts, noise, trees, 1))
        for noise, trees in ((1.0, 200), (0.1, 200), (1.0, 1))
    }
    extended = {"groups": _grouped, "both": _both, "surface": _surface}
    return found | {name: parts(name, partial(run, 1)) for name, run in extended.items()}


def _similar(key: str, figures: Figures) -> Seen:
    found = figures[key]
    ours = (
        f"correlation of their fits at least {found['correlation']:.4f}; they are {found['apart']:.2f} "
        f"posterior deviations apart, R-hat at most {found['rhat']:.2f} at 95% of the rows"
    )
    unless = "the starts are apart, and on real tables with little noise farther ([mixing](mixing.md))"
    return Seen(ours, [(found["rhat"], RHAT)], unless=unless)


def _mixes(figures: Figures) -> Seen:
    many, one = figures["1, 200"], figures["1, 1"]
    ours = (
        f"R-hat of four starts {many['rhat']:.2f}, one tree {one['rhat']:.2f}; "
        f"effective draws of f in 5,000 {many['ess']:.0f}, one tree {one['ess']:.0f}"
    )
    return Seen(ours, [(many["rhat"], one["rhat"]), (10 * one["ess"], many["ess"])])


def _with_groups(figures: Figures) -> Seen:
    found = figures["groups"]
    (plain, grouped), (middle, low, high) = found["rmse"], found["sd"]
    ours = (
        f"RMSE of f at new rows {plain:.2f} without and {grouped:.2f} with intercepts of {GROUPS} groups; "
        f"their deviation {middle:.2f} ({low:.2f} to {high:.2f}), in truth {found['truth']:.2f}"
    )
    return Seen(ours, [(grouped, plain), (low, found["truth"]), (found["truth"], high)])


def _with_both(figures: Figures) -> Seen:
    (middle, low, high), (alone, given) = figures["both"]["correlation"], figures["both"]["rmse"]
    ours = (
        f"correlation of the errors {middle:.2f} ({low:.2f} to {high:.2f}), in truth {CORRELATION}; RMSE of "
        f"one outcome at new rows {alone:.2f}, given the other {given:.2f}"
    )
    return Seen(ours, [(low, CORRELATION), (CORRELATION, high), (given, alone)])


def _with_surface(figures: Figures) -> Seen:
    without, features, surface = figures["surface"]["rmse"]
    ours = (
        f"RMSE at unseen sites of a lattice {surface:.2f} with a surface, {features:.2f} with the "
        f"coordinates among the features, {without:.2f} without them"
    )
    return Seen(ours, [(surface, features), (surface, without)])


def _rules(seed: int) -> Figures:
    """Return shares in first rules, by the prior, of a factor of four levels beside two numbers, and of sets.

    The latter are of the factor's rules.
    """
    rng = np.random.default_rng([21, seed])
    X = {"factor": [*"abcd"] * 10, "one": rng.uniform(size=40), "other": rng.uniform(size=40)}
    shape = {"num_trees": 100, "num_chains": 4, "num_burnin": 100, "num_draws": 200, "thin": 20}
    plain = {"noise": "constant", "transform": "none", "linear": False, "prior": {"k": 2.0, "sigma": 1.0}}
    drawn = fit(X, X["one"], categories="sets", prior_only=True, seed=seed, progress=False, **shape, **plain)
    first = np.concatenate([each.feature[each.tree_start[:-1]] for each in drawn.law.draws.chains()])
    first = first[first >= 0]
    of_sets = first[columns_of_codes(drawn.header)[first] == 0]
    sets = np.bincount(of_sets - len(drawn.schema.coded), minlength=SETS_OF_FOUR) / len(of_sets)
    return {"factor": len(of_sets) / len(first), "sets": [sets.min(), sets.max()]}


def _run_rules(parts: Parts, count: int) -> Figures:
    runs = [parts(f"rules {seed}", partial(_rules, seed)) for seed in range(1, count + 1)]
    return {name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}


def _any_set(figures: Figures) -> Seen:
    low, high = figures["sets"]
    ours = (
        f"each of a factor's {SETS_OF_FOUR} sets has {low:.3f} to {high:.3f} of its first rules, 1/7 = .143"
    )
    return Seen(ours, [(SETS_OF_FOUR * high, 1 + NEAR), (1 - NEAR, SETS_OF_FOUR * low)])


def _any_variable(figures: Figures) -> Seen:
    share = figures["factor"]
    ours = f"a factor of four levels has {share:.3f} of first rules beside two numbers"
    why = 'by `categories="sets"`; less where few of its levels are left ([law](maths.md#sets-of-levels))'
    return Seen(ours, [(3 * share, 1 + NEAR), (1 - NEAR, 3 * share)], why=why)


SETS_OF_FOUR, NEAR = 7, 0.05  # ways to part four levels; how far shares may be from equal ones

STUDIES = (
    Study(
        "cgm10-rules",
        "cgm10",
        "Section 2: rules of categories",
        (
            Claim("rules {x in A}: A is any set of a category's levels (2.1)", "stated", _any_set),
            Claim("variables are uniform in rules (2.2.1)", "stated", _any_variable),
        ),
        "First rules of 80,000 trees by the prior, of 40 rows with a factor of four levels and two numbers.",
        _run_rules,
        of=0,
        small=1,
    ),
    Study(
        "cgm10-distance",
        "cgm10",
        "Section 3.2: intervals far from the data",
        (
            Claim("intervals widen in a gap between rows", "stated", _in_gap),
            Claim("and with the distance beyond the edge", "stated: far from the data", _beyond),
        ),
        "200 rows of one column of [0, 1] without its middle third, a sine with noise of .2, the default.",
        _run_distance,
        count=5,
        of=0,
        small=2,
    ),
    Study(
        "cgm10-statements",
        "cgm10",
        "Sections 3 and 7: restarts, and extensions",
        (
            Claim("restarts give remarkably similar results", "stated", partial(_similar, "1, 200")),
            Claim("even in difficult problems: noise of .1", "stated", partial(_similar, "0.1, 200")),
            Claim("backfitting mixes dramatically better than a single tree", "stated", _mixes),
            Claim("random effects can stand beside the trees (28)", "proposed", _with_groups),
            Claim("several outcomes with errors that depend on each other (29)", "proposed", _with_both),
            Claim("a spatial component (SBART)", "proposed", _with_surface),
        ),
        "Friedman's function of ten columns: four starts of one long chain of the paper's default, of 100 "
        "rows, and with noise of .1 of 500; the extensions by our default, two outcomes with 50 trees each, "
        "of 500 and 400 rows; the surface is smooth, over half of 20 x 20 sites.",
        _run_statements,
        of=0,
    ),
    Study(
        "cgm10-unrelated",
        "cgm10",
        "Section 7: seemingly unrelated regressions",
        (
            Claim(
                "at correlation .8 functions of different columns are learnt better at once (Zellner's gain)",
                "proposed (29)",
                _gain,
            ),
            Claim("without correlation as well as apart, within 3%", "proposed (29)", _no_gain),
        ),
        "Two outcomes of 200 rows, each of three columns that the other hasn't, our default without a line.",
        _run_unrelated,
        count=10,
        of=0,
    ),
)
