"""Studies of Chipman, George and McCulloch (2010; CGM10) with our sampler.

    python -m lab cgm10 [--studies friedman noise Boston inclusion] [--columns 10 100 1000]
                        [--seeds 10] [--methods paper aggressive default cv] [--keep scores.json]

friedman: Friedman's function of five of p uniform columns, n = 100, noise sd 1 (their section 5.2): RMSE of f
at 1,000 new rows, its median and upper quartile over data sets, the same relative to the best method on each
data set, and the coverage of 90% intervals for f at the training rows and at new ones. noise: the same with
f = 0. Boston: 5/6 of the rows train (section 5.1): RMSE at the others, and relative to the best on each
split. inclusion: share of the split rules with each of the five columns for 10 to 200 trees (figure 5), and
the largest share of any other.

Methods: paper, their default (200 trees, k = 2, nu, q = 3, .90, no transform, no line, constant noise; the
naive estimate of sigma for p >= 100, as theirs); aggressive (50 trees, q = .99); default, ours; cv, chosen by
`tune` from CGM10's grid, without transform and line. Chains are 4 of 1,000 + 750 iterations. With
--keep, scores are read from and added to that file.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lab import command
from sampler import Posterior, fit, tune

ROWS, NEW = 100, 1000
TREES = (10, 20, 50, 100, 200)
LENGTHS: dict[str, Any] = {
    "num_chains": 4,
    "num_burnin": 1000,
    "num_draws": 250,
    "thin": 3,
    "progress": False,
}
PLAIN: dict[str, Any] = {"transform": "none", "linear": False, "noise": "constant"}
Scores = dict[str, float]


def friedman(
    columns: int, seed: int, *, rows: int = ROWS + NEW, signal: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X [rows, columns], f and y."""
    rng = np.random.default_rng([seed, columns])
    X = rng.uniform(size=(rows, columns))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    f = f if signal else np.zeros(len(X))
    return X, f, f + rng.normal(size=len(X))


def paper(columns: int) -> dict[str, Any]:
    """Return the settings of the paper's default."""
    estimate = "naive" if columns >= ROWS else "linear"
    return PLAIN | {"num_trees": 200, "prior": {"k": 2.0, "nu": 3.0, "q": 0.9, "sigma_estimate": estimate}}


def aggressive(columns: int) -> dict[str, Any]:
    """Return the paper's settings for many columns: few trees and little noise."""
    settings = paper(columns)
    return settings | {"num_trees": 50, "prior": settings["prior"] | {"q": 0.99}}


METHODS: dict[str, Callable[[int], dict[str, Any]] | None] = {
    "paper": paper,
    "aggressive": aggressive,
    "default": lambda _: {},
    "cv": None,
}


def fitted(method: str, X: Any, y: Any, seed: int) -> Posterior:
    """Fit by a method."""
    settings = METHODS[method]
    if settings is None:
        return fit(X, y, seed=seed, **LENGTHS | tune(X, y, candidates="prior", seed=seed, **PLAIN).best)
    return fit(X, y, seed=seed, **LENGTHS | settings(np.shape(X)[1]))


def score_f(method: str, columns: int, seed: int, *, signal: bool = True) -> Scores:
    """Return the RMSE of f at new rows and the coverage of its 90% intervals at old and new ones."""
    X, f, y = friedman(columns, seed, signal=signal)
    prediction = fitted(method, X[:ROWS], y[:ROWS], seed).predict(X, interval="credible")
    inside = (prediction.lower <= f) & (f <= prediction.upper)
    error = np.sqrt(np.mean((prediction.mean - f)[ROWS:] ** 2))
    return {"rmse": float(error), "old": float(inside[:ROWS].mean()), "new": float(inside[ROWS:].mean())}


def score_noise(method: str, columns: int, seed: int) -> Scores:
    """Return the same where there is no signal."""
    return score_f(method, columns, seed, signal=False)


def score_boston(method: str, seed: int) -> Scores:
    """Return the RMSE at a sixth of the rows."""
    from lab.real_tables import load

    X, y = load("Boston")
    order = np.random.default_rng(seed).permutation(len(y))
    train, held = np.sort(order[: len(y) * 5 // 6]), np.sort(order[len(y) * 5 // 6 :])
    prediction = fitted(method, X.iloc[train], y.iloc[train], seed).predict(X.iloc[held], level=None)
    return {"rmse": float(np.sqrt(np.mean((prediction.mean - y.iloc[held].to_numpy()) ** 2)))}


def shares(trees: int, seed: int) -> Scores:
    """Return the shares of the rules with x1 to x5, and the largest share of another column."""
    X, _, y = friedman(10, seed)
    settings = paper(10) | {"num_trees": trees}
    inclusion = fit(X[:ROWS], y[:ROWS], seed=seed, **LENGTHS | settings).inclusion().mean
    return {f"x{k + 1}": float(inclusion[k]) for k in range(5)} | {"most other": float(inclusion[5:].max())}


class Kept:
    """Scores by name, kept in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.scores: dict[str, Scores] = json.loads(path.read_text()) if path and path.exists() else {}

    def of(self, name: str, score: Callable[[], Scores]) -> Scores:
        """Return the scores of that name, computed unless they are kept."""
        if name not in self.scores:
            self.scores[name] = score()
            if self.path:
                self.path.write_text(json.dumps(self.scores, indent=1))
        return self.scores[name]


def compare(title: str, scores_of: dict[str, list[Scores]]) -> None:
    """Print a line for each method."""
    error = {method: np.array([each["rmse"] for each in scores]) for method, scores in scores_of.items()}
    best = np.min(list(error.values()), axis=0)
    for method, scores in scores_of.items():
        middle, upper = np.quantile(error[method], [0.5, 0.75])
        relative = np.quantile(error[method] / best, [0.5, 0.75])
        covered = "".join(
            f"  {name} {np.mean([each[name] for each in scores]):.3f}"
            for name in ("old", "new")
            if name in scores[0]
        )
        print(
            f"{title:<15} {method:<11} RMSE {middle:.3f} (75% {upper:.3f})  "
            f"relative {relative[0]:.3f} ({relative[1]:.3f}){covered}",
            flush=True,
        )


def main() -> None:
    """Run the studies and print their tables."""
    parser = command(__doc__)
    parser.add_argument("--studies", nargs="+", default=["friedman", "noise", "Boston", "inclusion"])
    parser.add_argument("--columns", nargs="+", type=int, default=[10, 100, 1000])
    parser.add_argument("--methods", nargs="+", default=[*METHODS], choices=[*METHODS])
    parser.add_argument("--seeds", type=int, default=10, help="data sets or splits")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    kept, seeds = Kept(options.keep), range(options.seeds)

    def scores(name: str, score: Callable[..., Scores], *arguments: Any) -> list[Scores]:
        return [kept.of(f"{name} {seed}", partial(score, *arguments, seed)) for seed in seeds]

    for study in options.studies:
        if study == "inclusion":
            for trees in TREES:
                each = scores(f"shares {trees}", shares, trees)
                figures = {name: np.mean([one[name] for one in each]) for name in each[0]}
                print(f"{trees:4} trees ", *(f"{name} {value:.3f}" for name, value in figures.items()))
        elif study == "Boston":
            compare("Boston", {m: scores(f"Boston {m}", score_boston, m) for m in options.methods})
        else:
            score = score_f if study == "friedman" else score_noise
            for p in options.columns:
                scores_of = {m: scores(f"{study} {p} {m}", score, m, p) for m in options.methods}
                compare(f"{study} p = {p}", scores_of)
