"""Figures 2 and 3 of DCC-Tree: densities of a new outcome at four held-out rows, by three methods and CART.

The authors' rows are read from a copy of their repository `jodie-c/DCC-Tree` in build/DCC-Tree.
"""

from __future__ import annotations

from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from lab import tree_paper as paper
from lab.papers.cgm10_fits import DARK, PALE, RED
from lab.papers.judges import Seen
from lab.papers.study import Claim, Figures, Parts, Study
from sampler import fit

AUTHORS = Path("build/DCC-Tree")
METHODS = {"rjhmc-df": "HMC-DF", "rjhmc-dfi": "HMC-DFI", "dcc-tree": "DCC-Tree"}
SHADES = {"rjhmc-df": PALE, "rjhmc-dfi": RED, "dcc-tree": DARK}
DATA = ("wu", "cgm")
ROWS = 4
POINTS = 200
LINED_UP = 0.9  # least share in common of two densities that "line up nearly exactly"


def _samples(name: str) -> tuple[paper.Sample, paper.Sample, list[int]]:
    """Return the training and the test rows, and four of the latter at random."""
    train, test = paper.one_sample(name, AUTHORS if AUTHORS.exists() else None)
    return train, test, sorted(np.random.default_rng(1).choice(len(test.y), ROWS, replace=False).tolist())


def _ends(name: str) -> tuple[float, float]:
    """Return the range of the outcomes at which densities are computed."""
    _, test, _ = _samples(name)
    return float(test.y.min()) - 1, float(test.y.max()) + 1


def _points(ends: tuple[float, float]) -> np.ndarray:
    return np.linspace(*ends, POINTS * 5)


def _densities(name: str, method: str) -> list[list[float]]:
    """Return the density of a new outcome at `_points`, for each of the four rows."""
    train, test, rows = _samples(name)
    posterior = fit(train.X, train.y, seed=1, progress=False, **paper.settings_of(method, name, "short"))
    found = [posterior.density(test.X[[row]]) for row in rows]
    points = _points(_ends(name))
    return [np.interp(points, each["x"], each["outcome"], 0.0, 0.0).tolist() for each in found]


def _cart(name: str) -> list[float]:
    """Return the four predictions of a regression tree pruned by five folds."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeRegressor

    train, test, rows = _samples(name)
    pruned = {"ccp_alpha": np.geomspace(1e-4, 1, 13)}
    found = GridSearchCV(DecisionTreeRegressor(min_samples_leaf=5, random_state=1), pruned, cv=5)
    return found.fit(train.X, train.y).predict(test.X[rows]).tolist()


def _run(parts: Parts, _count: int) -> Figures:
    figures: Figures = {}
    for name in DATA:
        _, test, rows = _samples(name)
        figures[name] = {
            "y": test.y[rows],
            "f": test.f[rows],
            "ends": _ends(name),
            "cart": parts(f"{name} cart", partial(_cart, name)),
            "densities": {m: parts(f"{name} {m}", partial(_densities, name, m)) for m in METHODS},
        }
    return figures


def _in_common(name: str, figures: Figures) -> dict[str, float]:
    """Return for each pair of methods the least area below both of their densities."""
    step = float(np.diff(_points(figures[name]["ends"])[:2])[0])
    each = {method: np.array(found) for method, found in figures[name]["densities"].items()}
    return {
        f"{METHODS[a]} and {METHODS[b]}": float(np.minimum(each[a], each[b]).sum(axis=1).min() * step)
        for a, b in combinations(METHODS, 2)
    }


def _lined_up(name: str, figures: Figures) -> Seen:
    shares = _in_common(name, figures)
    ours = "least area in common: " + ", ".join(f"{pair} {share:.2f}" for pair, share in shares.items())
    own = figures[name]
    sds = ", ".join(f"{METHODS[m]} {_mean_sd(own['ends'], each):.2f}" for m, each in own["densities"].items())
    unless = f"mean deviations of the four densities: {sds}"
    return Seen(ours, [(LINED_UP, share) for share in shares.values()], unless=unless)


def _mean_sd(ends: tuple[float, float], densities: list[list[float]]) -> float:
    """Return the mean over rows of the densities' standard deviations."""
    points = _points(ends)
    shares = np.array(densities) / np.sum(densities, axis=1, keepdims=True)
    means = shares @ points
    return float(np.mean(np.sqrt(shares @ points**2 - means**2)))


def _peaked(figures: Figures) -> Seen:
    """Judge by the distance of the densities' peaks from the truth, in deviations of the noise."""
    deviations = {"wu": 0.25, "cgm": 0.2}
    far = [
        abs(_points(figures[name]["ends"])[int(np.argmax(density))] - truth) / deviations[name]
        for name in DATA
        for found in figures[name]["densities"].values()
        for density, truth in zip(found, figures[name]["f"], strict=True)
    ]
    ours = f"peaks of {len(far)} densities at most {max(far):.2f} deviations of the noise from the true mean"
    return Seen(ours, [(each, 0.5) for each in far], unless="the farthest peak's row was in another leaf")


def _like_cart(figures: Figures) -> Seen:
    off = {n: np.abs(np.array(figures[n]["cart"]) - np.array(figures[n]["f"])).max() for n in DATA}
    ours = ", ".join(f"{name.upper()} {each:.2f}" for name, each in off.items())
    return Seen(f"CART at most {ours} from the true mean", [(each, 0.5) for each in off.values()])


def _draw(figures: Figures, figure: Any) -> None:
    every = figure.subplots(len(DATA), ROWS)
    for name, line in zip(DATA, every, strict=True):
        points, own = _points(figures[name]["ends"]), figures[name]
        for row, axes in enumerate(line):
            for method, found in own["densities"].items():
                axes.plot(points, found[row], color=SHADES[method], lw=1, label=METHODS[method])
            axes.axvline(own["y"][row], color="black", lw=0.8, label="y")
            axes.axvline(own["cart"][row], color="black", lw=0.8, ls=":", label="CART")
            axes.set_xlim(own["f"][row] - 1.2, own["f"][row] + 1.2)
            axes.set_yticks([])
        line[0].set_ylabel(f"{name.upper()} data")
    every[0, 0].legend(frameon=False, fontsize=5.5, loc="upper left")


STUDIES = (
    Study(
        "dcc-tree-fig2",
        "dcc-tree",
        "Figures 2 and 3: predictive densities of four rows",
        (
            *(
                Claim(
                    f"{name.upper()} data: densities of RJHMC and DCC-Tree line up nearly exactly",
                    "shown",
                    partial(_lined_up, name),
                )
                for name in DATA
            ),
            Claim("they are highly peaked around the truth", "shown", _peaked),
            Claim("beside the prediction of a single CART", "shown", _like_cart),
        ),
        "Four test rows of each, at random; one fit of each method; CART pruned by five folds. The authors' "
        "rows; `dcc-tree` searches 40 iterations with 4 chains (theirs 500 with 16).",
        _run,
        draw=_draw,
        see="Where the three curves are one, the methods agree; the dotted line is CART's prediction.",
        size=(6.6, 3.2),
    ),
)
