"""The default of Chipman, George and McCulloch (2010) as settings: their prior, moves and one long chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lab.cgm10 import friedman
from sampler import fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lab.papers.study import Figures
    from sampler import Posterior

    Floats = NDArray[np.float64]

ROWS = 100
PALE, DARK, RED = "#9fc9c8", "#0b6b72", "#c2571a"
# letters of figure 6: nu and q of the default, the aggressive and the conservative prior of sigma
SIGMA = {"d": (3.0, 0.9), "a": (3.0, 0.99), "c": (10.0, 0.75)}


def settings(
    *,
    trees: int = 200,
    k: float = 2.0,
    sigma: str = "d",
    naive: bool = False,
    burnin: int = 1000,
    **more: Any,
) -> dict[str, Any]:
    """Return the settings of the paper's BART; `naive` anchors sigma's prior at the outcomes' deviation."""
    nu, q = SIGMA[sigma]
    prior = {"k": k, "nu": nu, "q": q, "sigma_estimate": "naive" if naive else "linear"}
    plain: dict[str, Any] = {"transform": "none", "linear": False, "noise": "constant"}
    length = {"moves": "cgm", "num_chains": 1, "num_burnin": burnin, "num_draws": 5000, "progress": False}
    return plain | length | {"num_trees": trees, "prior": prior} | more


def paper_fit(X: Floats, y: Floats, seed: int, **options: Any) -> Posterior:
    """Fit the paper's BART: 5,000 draws of one chain after 1,000 iterations, unless `options` differ."""
    return fit(X, y, seed=seed, **settings(**options))


def ends(draws: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the mean and the ends of the 90% interval of draws [draw, row]."""
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    return draws.mean(axis=0), low, high


def sigma_path(X: Floats, y: Floats, seed: int, **options: Any) -> Floats:
    """Return sigma after each of 6,000 iterations, the burn-in too."""
    posterior = paper_fit(X, y, seed, **{"burnin": 0, "num_draws": 6000} | options)
    assert posterior.sigma is not None
    return posterior.sigma.reshape(-1)


def fitted_f(seed: int, columns: int = 10, *, signal: bool = True, **options: Any) -> Figures:
    """Return f at 100 training and 100 new rows, with its mean and 90% intervals."""
    X, f, y = friedman(columns, seed, rows=2 * ROWS, signal=signal)
    draws = paper_fit(X[:ROWS], y[:ROWS], seed, **options).sample(X)[0]
    mean, low, high = ends(draws)
    return {"f": f, "mean": mean, "low": low, "high": high}


def sigma_of(seed: int, columns: int = 10, **options: Any) -> Figures:
    """Return every twelfth sigma of 6,000, and quantiles of the last 5,000."""
    X, _, y = friedman(columns, seed, rows=2 * ROWS)
    path = sigma_path(X[:ROWS], y[:ROWS], seed, **options)
    quantiles = np.quantile(path[1000:], [0.05, 0.5, 0.95])
    return {"path": path[::12], "quantiles": quantiles, "naive": float(np.std(y[:ROWS], ddof=1))}


def part_of(fitted: Figures, part: str) -> tuple[Floats, ...]:
    """Return f, its mean and the ends of its intervals at the "old" rows, or at the new ones."""
    rows = slice(ROWS) if part == "old" else slice(ROWS, None)
    return tuple(np.array(fitted[name])[rows] for name in ("f", "mean", "low", "high"))


def covered(fitted: Figures, part: str) -> float:
    """Return the share of rows whose interval holds f."""
    f, _, low, high = part_of(fitted, part)
    return float(np.mean((low <= f) & (f <= high)))


def draw_intervals(fitted: Figures, part: str, axes: Any) -> None:
    """Draw the mean and interval of each row against f."""
    f, mean, low, high = part_of(fitted, part)
    axes.vlines(f, low, high, color=PALE, lw=1)
    axes.plot(f, mean, ".", ms=3, color=DARK)
    span = [min(f.min(), low.min()), max(f.max(), high.max())]
    axes.plot(span, span, color=RED, lw=0.7)
    axes.set_xlabel("f(x)")


def draw_sigma(path: Figures, axes: Any, color: str = DARK, label: str | None = None) -> None:
    """Draw sigma by iteration."""
    axes.plot(np.arange(len(path["path"])) * 12, path["path"], color=color, lw=0.5, label=label)
