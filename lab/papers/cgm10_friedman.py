"""Section 5.2.1 and 5.2.2 of Chipman, George and McCulloch (2010): Friedman's function."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lab.cgm10 import TREES, friedman
from lab.papers.cgm10_fits import (
    DARK,
    PALE,
    RED,
    ROWS,
    covered,
    draw_intervals,
    draw_sigma,
    fitted_f,
    paper_fit,
    part_of,
    sigma_of,
)
from lab.papers.judges import Number, Order, Seen
from lab.papers.study import Claim, Figures, Parts, Study

# figure 3


def _run_3(parts: Parts, _count: int) -> Figures:
    return {
        "fit": parts("fit", partial(fitted_f, 1)),
        "many": parts("sigma, 200 trees", partial(sigma_of, 1)),
        "one": parts("sigma, 1 tree", partial(sigma_of, 1, trees=1)),
    }


def _agree(figures: Figures) -> Seen:
    old, new = (np.corrcoef(*part_of(figures["fit"], part)[:2])[0, 1] for part in ("old", "new"))
    return Seen(f"{old:.3f} and {new:.3f}", [(0.8, new), (new, old)])


def _widths(figures: Figures) -> Seen:
    old, new = (np.mean(np.subtract(*part_of(figures["fit"], p)[:1:-1])) for p in ("old", "new"))
    return Seen(f"{old:.2f} and {new:.2f}", {"old": old, "new": new})


def _one_set(figures: Figures) -> Seen:
    old, new = (covered(figures["fit"], part) for part in ("old", "new"))
    return Seen(f"{old:.2f} and {new:.2f}", [old, new])


def _wander(figures: Figures) -> Seen:
    low, middle, high = figures["many"]["quantiles"]
    return Seen(f"median {middle:.2f}, 5% to 95% {low:.2f} to {high:.2f}", [(low, 1), (1, high)])


def _above(figures: Figures) -> Seen:
    low, middle, high = figures["one"]["quantiles"]
    return Seen(f"median {middle:.2f}, 5% to 95% {low:.2f} to {high:.2f}", [(1.5, low)])


def _draw_3(figures: Figures, figure: Any) -> None:
    old, new, paths = figure.subplots(1, 3)
    draw_intervals(figures["fit"], "old", old)
    draw_intervals(figures["fit"], "new", new)
    old.set_ylabel("posterior mean, 90% interval")
    old.set_title("training rows")
    new.set_title("new rows")
    draw_sigma(figures["one"], paths, RED, "1 tree")
    draw_sigma(figures["many"], paths, DARK, "200 trees")
    paths.axhline(1, color="black", lw=0.7)
    paths.set_ylim(0, None)
    paths.set_title("sigma")
    paths.set_xlabel("iteration")
    paths.legend(frameon=False, fontsize=7)


# coverage

# deviations of a coverage between 200 data sets of the study below: 14.1 of its standard errors
BETWEEN_SETS = (0.057, 0.033)


def _coverage(seed: int) -> list[float]:
    fitted = fitted_f(seed)
    return [covered(fitted, "old"), covered(fitted, "new")]


def _run_coverage(parts: Parts, count: int) -> Figures:
    each = np.array([parts(f"seed {seed}", partial(_coverage, seed)) for seed in range(1, count + 1)])
    return {"mean": each.mean(axis=0), "error": each.std(axis=0, ddof=1) / np.sqrt(count)}


def _covers(which: int, figures: Figures) -> Seen:
    mean, error = figures["mean"][which], figures["error"][which]
    return Seen(f"{mean:.3f} (standard error {error:.3f})", [mean], [error])


# figure 4


def _dependence(seed: int) -> Figures:
    X, _, y = friedman(10, seed, rows=2 * ROWS)
    posterior = paper_fit(X[:ROWS], y[:ROWS], seed)
    effects = {}
    for name in (f"x{number}" for number in range(1, 11)):
        grid = {name: np.linspace(0.05, 0.95, 10).tolist()}
        effect = posterior.partial_dependence(name, X[:ROWS], grid, num_draws=2000)
        _, low, high = effect.intervals[0]
        effects[name] = {"mean": effect.mean, "low": low, "high": high}
    return effects


def _run_4(parts: Parts, _count: int) -> Figures:
    return {"effects": parts("effects", partial(_dependence, 1))}


def _ranges(figures: Figures) -> list[float]:
    return [float(np.ptp(effect["mean"])) for effect in figures["effects"].values()]


def _nonzero(figures: Figures) -> Seen:
    ranges = _ranges(figures)
    others = max(ranges[5:])
    ours = f"ranges of x1 to x5: {', '.join(f'{each:.1f}' for each in ranges[:5])}"
    return Seen(ours, [(2 * others, min(ranges[:5]))])


def _zero(figures: Figures) -> Seen:
    effects = list(figures["effects"].values())[5:]
    centre = float(np.mean([effect["mean"] for effect in effects]))
    inside = np.mean([(np.array(e["low"]) <= centre) & (centre <= np.array(e["high"])) for e in effects])
    ours = f"largest range {max(_ranges(figures)[5:]):.1f}; {inside:.0%} of the intervals hold a constant"
    return Seen(ours, [(0.95, inside)])


def _draw_4(figures: Figures, figure: Any) -> None:
    every = figure.subplots(2, 5, sharex=True, sharey=True).ravel()
    for axes, (name, effect) in zip(every, figures["effects"].items(), strict=True):
        at = np.linspace(0.05, 0.95, len(effect["mean"]))
        axes.fill_between(at, effect["low"], effect["high"], color=PALE, lw=0)
        axes.plot(at, effect["mean"], color=DARK, lw=1)
        axes.set_title(name)


# figure 5


def _shares(seed: int, rows: int, trees: int) -> list[float]:
    X, _, y = friedman(10, seed, rows=rows)
    return paper_fit(X, y, seed, trees=trees).inclusion().mean.tolist()


def _run_5(parts: Parts, _count: int) -> Figures:
    return {
        str(rows): {
            str(trees): parts(f"{rows} rows, {trees} trees", partial(_shares, 1, rows, trees))
            for trees in TREES
        }
        for rows in (100, 500)
    }


def _separated(trees: int, rows: int, figures: Figures) -> Seen:
    shares = figures[str(rows)][str(trees)]
    least, most = min(shares[:5]), max(shares[5:])
    ours = f"x1 to x5 {least:.3f} to {max(shares[:5]):.3f}, another at most {most:.3f}"
    return Seen(ours, [(2 * most, least)])


def _mixed(figures: Figures) -> Seen:
    shares = figures["500"]["200"]
    ours = f"x1 to x5 {min(shares[:5]):.3f} to {max(shares[:5]):.3f}, x6 to x10 up to {max(shares[5:]):.3f}"
    return Seen(ours, [(0.05, max(shares[5:]))])


def _sharper(figures: Figures) -> Seen:
    ratios = {t: min(s[:5]) / max(s[5:]) for t, s in figures["500"].items()}
    ours = ", ".join(f"{trees}: {ratio:.1f}" for trees, ratio in ratios.items())
    return Seen(ours, ratios)


def _draw_5(figures: Figures, figure: Any) -> None:
    every = figure.subplots(1, 2, sharey=True)
    for axes, (rows, by_trees) in zip(every, figures.items(), strict=True):
        for number, (trees, shares) in enumerate(by_trees.items()):
            shade = str(0.75 * (1 - number / 4)) if number else DARK
            axes.plot(range(1, 11), shares, marker=".", ms=4, lw=0.9, color=shade, label=f"{trees} trees")
        axes.set_xticks(range(1, 11))
        axes.set_title(f"n = {rows}")
        axes.set_xlabel("column")
    every[0].set_ylabel("share of the rules")
    every[1].legend(frameon=False, fontsize=7)


# figure 6

MANY = (1, 10, 50, 100, 200, 300)


def _errors(seed: int, trees: int) -> Figures:
    """Return the RMSE at old and new rows and the fits at new ones, by k and prior of sigma."""
    fits = {
        f"{k}{sigma}": fitted_f(seed, trees=trees, k=float(k), sigma=sigma)
        for k in (1, 2, 3)
        for sigma in ("d", "a", "c")
    }
    if trees == 100:
        X, f, y = friedman(10, seed, rows=2 * ROWS)
        fits["again"] = {"f": f, "mean": paper_fit(X[:ROWS], y[:ROWS], seed + 1000).sample(X)[0].mean(axis=0)}
    return {
        name: {
            "old": float(np.sqrt(np.mean((each["mean"] - each["f"])[:ROWS] ** 2))),
            "new": float(np.sqrt(np.mean((each["mean"] - each["f"])[ROWS:] ** 2))),
            "fit": each["mean"][ROWS:],
        }
        for name, each in fits.items()
    }


def _run_6(parts: Parts, _count: int) -> Figures:
    return {str(trees): parts(f"{trees} trees", partial(_errors, 1, trees)) for trees in MANY}


def _new(figures: Figures, trees: int) -> list[float]:
    return [each["new"] for name, each in figures[str(trees)].items() if name != "again"]


def _span(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _small_is_poor(figures: Figures) -> Seen:
    one, many = _new(figures, 1), _new(figures, 100)
    ours = f"RMSE at new rows {_span(one)} with 1 tree, {_span(many)} with 100"
    return Seen(ours, [(max(many), min(one))])


def _similar(figures: Figures) -> Seen:
    many = [each for trees in MANY[2:] for each in _new(figures, trees)]
    return Seen(
        f"{_span(many)} over nine priors and 50 to 300 trees",
        [(max(many) / min(many), 1.2)],
        why="very similar is within a fifth",
    )


def _degrades(figures: Figures) -> Seen:
    middle = {trees: float(np.median(_new(figures, trees))) for trees in MANY[2:]}
    ours = "median of the priors " + ", ".join(f"{trees}: {error:.2f}" for trees, error in middle.items())
    least = min(middle.values())
    return Seen(
        ours, [(least, middle[300]), (middle[300], 1.1 * least)], why="slightly is by a tenth at most"
    )


def _correlation(one: str, other: str, figures: Figures) -> Seen:
    value = np.corrcoef(figures["100"][one]["fit"], figures["100"][other]["fit"])[0, 1]
    return Seen(f"{value:.4f}", [value], [_correlation_error(value)])


def _correlation_error(value: float) -> float:
    """Return the standard error of a correlation over the new rows."""
    return (1 - value**2) / np.sqrt(ROWS - 3)


def _pairs(figures: Figures) -> Seen:
    fits = [e["fit"] for t in MANY[2:] for name, e in figures[str(t)].items() if name != "again"]
    values = np.corrcoef(fits)[np.triu_indices(len(fits), 1)]
    above = np.mean(values > 0.99)
    return Seen(
        f"{above:.0%} of the pairs of settings; least {values.min():.3f}",
        [(0.95, above)],
        unless="the aggressive prior with k = 1 against conservative ones lies below",
    )


def _draw_6(figures: Figures, figure: Any) -> None:
    every = figure.subplots(1, 2, sharey=True)
    for axes, part, title in zip(every, ("old", "new"), ("training rows", "new rows"), strict=True):
        for place, trees in enumerate(MANY):
            for name, each in figures[str(trees)].items():
                if name != "again":
                    axes.text(place, each[part], name, fontsize=6, ha="center", color=DARK)
        axes.set_xticks(range(len(MANY)), MANY)
        axes.set_xlim(-0.5, len(MANY) - 0.5)
        axes.set_ylim(0, 5)
        axes.set_title(title)
        axes.set_xlabel("trees")
    every[0].set_ylabel("RMSE of f")


STUDIES = (
    Study(
        "cgm10-fig3",
        "cgm10",
        "Figure 3: inference on Friedman's function, n = 100, p = 10",
        (
            Claim("estimates correlate with f, less so at new rows (correlations)", "shown", _agree),
            Claim(
                "intervals are wider at new rows (mean widths of 90% intervals)",
                "shown",
                _widths,
                Order((("new",), ("old",))),
            ),
            Claim(
                "90% intervals of this data set hold f (training, new rows)",
                ".89 and .96",
                _one_set,
                Number((0.89, 0.96), BETWEEN_SETS, 0.01),
            ),
            Claim("sigma wanders around its true value 1 with 200 trees", "shown", _wander),
            Claim("sigma remains substantially above 1 with a single tree", "shown", _above),
        ),
        "5,000 draws after 1,000 iterations of one chain, the paper's default; another data set than theirs.",
        _run_3,
        draw=_draw_3,
        small=1,
        see="Left and middle: intervals cross the red line, where they hold f, nine times in ten. Right: "
        "a single tree leaves too much to the noise.",
    ),
    Study(
        "cgm10-coverage",
        "cgm10",
        "Section 5.2.1: coverage over 200 data sets",
        (
            Claim(
                "90% intervals hold f at training rows",
                ".87",
                partial(_covers, 0),
                Number((0.87,), unit=0.01),
            ),
            Claim("90% intervals hold f at new rows", ".93", partial(_covers, 1), Number((0.93,), unit=0.01)),
        ),
        "As in figure 3.",
        _run_coverage,
        count=200,
        of=200,
        small=4,
    ),
    Study(
        "cgm10-fig4",
        "cgm10",
        "Figure 4: partial dependence",
        (
            Claim("x1 to x5 have nonzero marginal effects", "shown", _nonzero),
            Claim("x6 to x10 have zero marginal effects", "shown", _zero),
        ),
        "2,000 of the draws of the fit of figure 3, averaged over the training rows.",
        _run_4,
        draw=_draw_4,
        small=1,
        see="The sine of x1 and x2, the parabola of x3, the lines of x4 and x5 with slopes 10 and 5, and "
        "five columns without effect.",
        size=(6.4, 3.2),
    ),
    Study(
        "cgm10-fig5",
        "cgm10",
        "Figure 5: shares of the rules by number of trees",
        (
            Claim("10 trees, n = 500: only x1 to x5 are used", "shown", partial(_separated, 10, 500)),
            Claim("20 trees, n = 500", "shown", partial(_separated, 20, 500)),
            Claim("200 trees, n = 500: irrelevant columns are mixed in", "shown", _mixed),
            Claim(
                "fewer trees separate better (least of x1 to x5 / largest other)",
                "shown",
                _sharper,
                Order(tuple((str(trees),) for trees in sorted(TREES))),
            ),
            Claim("10 trees, n = 100", "", partial(_separated, 10, 100), other="not in the paper"),
        ),
        "5,000 draws of one chain.",
        _run_5,
        draw=_draw_5,
        small=1,
        see="With 10 trees the last five columns almost vanish; with 200 every column is used. Of your own "
        "columns `inclusion_by_trees` draws this, over HTTP `POST /models/{id}/studies` with "
        '`{"kind": "inclusion_by_trees"}`.',
    ),
    Study(
        "cgm10-fig6",
        "cgm10",
        "Figure 6: robustness to the prior and the number of trees",
        (
            Claim("a very small number of trees gives a poor RMSE", "shown", _small_is_poor),
            Claim("with enough trees priors hardly matter", "shown", _similar),
            Claim("many more trees degrade the RMSE slightly", "shown", _degrades),
            Claim(
                "correlation of fits, 100 trees: default and k = 3 with nu = 10, q = .75",
                ".9948",
                partial(_correlation, "2d", "3c"),
                Number((0.9948,), (_correlation_error(0.9948),), 0.0001),
            ),
            Claim(
                "correlation of fits of two seeds, 100 trees",
                ".9994",
                partial(_correlation, "2d", "again"),
                Number((0.9994,), (_correlation_error(0.9994),), 0.0001),
            ),
            Claim("correlations of fits are almost always above .99", "almost always", _pairs),
        ),
        "Nine priors (k = 1, 2, 3 with the default, aggressive and conservative prior of sigma), six numbers "
        "of trees, 5,000 draws each.",
        _run_6,
        draw=_draw_6,
        see="1d stands for k = 1 with the default prior of sigma, 3c for k = 3 with the conservative one: "
        "from 50 trees on all are near each other.",
    ),
)
