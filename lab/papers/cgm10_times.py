"""Sections 2.2 and 6 of Chipman, George and McCulloch (2010): the priors of figure 1, and execution time."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from lab.cgm10 import friedman
from lab.papers.cgm10_fits import DARK, PALE, RED, SIGMA, paper_fit
from lab.papers.judges import Number, Seen
from lab.papers.study import Claim, Figures, Parts, Study

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = (100, 500, 1000, 2500, 5000, 10_000)
WIDE = (10, 50, 100)
SHORT: dict[str, Any] = {"burnin": 0, "num_draws": 2}
DEFAULT: dict[str, Any] = {"burnin": 100, "num_draws": 1000}


# figure 1, and the sizes of trees


SIZES = (0.05, 0.55, 0.28, 0.09, 0.03)  # the paper's shares of trees with 1 to 4 and with more leaves
SIMULATED = 400_000


def _sizes(count: int = SIMULATED) -> list[float]:
    """Return the shares of trees of the prior with 1 to 5 leaves, by simulation."""
    rng = np.random.default_rng(1)
    leaves = np.zeros(count, dtype=int)
    growing = np.ones(count, dtype=int)  # nodes of each tree at this depth
    for depth in range(12):
        split = rng.binomial(growing, 0.95 * (1 + depth) ** -2.0)
        leaves += growing - split
        growing = 2 * split
    return [float(np.mean(leaves == size)) for size in range(1, 6)]


def _run_1(parts: Parts, _count: int) -> Figures:
    def below() -> Figures:
        X, _, y = friedman(10, 1, rows=100)
        shares = {}
        for name in SIGMA:
            posterior = paper_fit(X, y, 1, sigma=name, prior_only=True, burnin=10)
            estimate = _residual_sd(X, y)
            assert posterior.sigma is not None
            shares[name] = float(np.mean(posterior.sigma < estimate))
        return shares

    return {"below": parts("below", below), "sizes": parts("sizes", _sizes)}


def _residual_sd(X: np.ndarray, y: np.ndarray) -> float:
    """Return sigma by least squares."""
    design = np.column_stack([np.ones(len(y)), X])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return float(np.sqrt(residual @ residual / (len(y) - design.shape[1])))


def _quantile(name: str, figures: Figures) -> Seen:
    share = figures["below"][name]
    error = _share_error(SIGMA[name][1], 5000)
    return Seen(f"{share:.3f} of 5,000 draws of the prior", [share], [error])


def _five_sizes(figures: Figures) -> Seen:
    *few, _ = figures["sizes"]
    shares = np.array([*few, 1 - sum(few)])
    errors = [_share_error(share, SIMULATED) for share in SIZES]
    return Seen(", ".join(f"{share:.3f}" for share in shares), shares.tolist(), errors)


def _share_error(share: float, draws: int) -> float:
    return float(np.sqrt(share * (1 - share) / draws))


def _draw_1(_figures: Figures, figure: Any) -> None:
    axes = figure.subplots()
    at = np.linspace(0.01, 2.5, 300)
    for (name, (nu, q)), color in zip(SIGMA.items(), (DARK, RED, PALE), strict=True):
        word = {"d": "default", "a": "aggressive", "c": "conservative"}[name]
        scale = stats.chi2.ppf(1 - q, nu)  # lambda nu where the estimate is 1: P(sigma < 1) = q
        density = stats.chi2.pdf(scale / at**2, nu) * 2 * scale / at**3
        axes.plot(at, density, color=color, label=f"{word}: nu = {nu:g}, q = {q:g}")
    axes.axvline(1, color="black", lw=0.7)
    axes.set_xlabel("sigma / its estimate")
    axes.set_yticks([])
    axes.legend(frameon=False)


# figures 11 and 12


def _seconds(rows: int, columns: int, options: dict[str, Any]) -> list[float]:
    """Return the seconds of three fits with their training rows' mean."""
    X, _, y = friedman(columns, 1, rows=rows)
    return [_timed(partial(_predicted, X, y, options)) for _ in range(3)]


def _predicted(X: np.ndarray, y: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    return paper_fit(X, y, 1, **options).predict(X, level=None).mean


def _timed(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def _run_11(parts: Parts, _count: int) -> Figures:
    return {
        "short": {str(n): parts(f"short, {n}", partial(_seconds, n, 10, SHORT)) for n in ROWS},
        "default": {str(n): parts(f"default, {n}", partial(_seconds, n, 10, DEFAULT)) for n in ROWS},
        "columns": {str(p): parts(f"{p} columns", partial(_seconds, 1000, p, DEFAULT)) for p in WIDE},
        "leaves": {str(n): parts(f"leaves, {n}", partial(_leaves, n)) for n in (100, 10_000)},
    }


def _leaves(rows: int) -> list[float]:
    """Return the mean and the largest number of leaves of 50 trees."""
    X, _, y = friedman(10, 1, rows=rows)
    counts = paper_fit(X, y, 1, trees=50, **DEFAULT).leaf_counts
    return [float(np.mean(counts)), int(np.max(counts))]


def _median(seconds: dict[str, list[float]]) -> dict[int, float]:
    return {int(size): float(np.median(each)) for size, each in seconds.items()}


def _powers(seconds: dict[str, list[float]]) -> list[float]:
    """Return the power of the rows by which the time grows from 1,000 rows on, of each run."""
    runs = {int(rows): each for rows, each in seconds.items() if int(rows) >= 1000}
    return list(np.polyfit(np.log(list(runs)), np.log(list(runs.values())), 1)[0])


def _said(seconds: dict[str, list[float]], unit: str) -> str:
    return ", ".join(f"{size:,}: {each:.2f} s" for size, each in _median(seconds).items()) + f" ({unit})"


def _grows(which: str, figures: Figures) -> Seen:
    powers = _powers(figures[which])
    power, error = float(np.median(powers)), float(np.std(powers, ddof=1))
    ours = f"power {power:.2f} ({error:.2f}) from 1,000 rows on; {_said(figures[which], 'rows')}"
    return Seen(ours, [power], [error])


def _flat(figures: Figures) -> Seen:
    seconds = _median(figures["columns"])
    ours = _said(figures["columns"], "columns")
    return Seen(ours, [(max(seconds.values()) / min(seconds.values()), 1.1)], why="close is within a tenth")


def _tree_sizes(rows: int, figures: Figures) -> Seen:
    mean, largest = figures["leaves"][str(rows)]
    unless = "of one data set, without an error; over how many draws the paper's largest is, it doesn't say"
    return Seen(f"mean {mean:.2f}, at most {largest:.0f}", [mean, largest], unless=unless)


def _draw_11(figures: Figures, figure: Any) -> None:
    every = figure.subplots(1, 3)
    for axes, (which, seconds) in zip(every, list(figures.items())[:3], strict=True):
        medians = _median(seconds)
        axes.plot(list(medians), list(medians.values()), marker="o", ms=3, color=DARK)
        axes.set_title(
            {"short": "2 iterations", "default": "1,100 iterations", "columns": "n = 1,000"}[which]
        )
        axes.set_xlabel("columns" if which == "columns" else "rows")
        axes.set_ylim(0, None)
    every[0].set_ylabel("seconds")


def _minimal(trees: int, rows: int) -> list[float]:
    """Return the correlation of the minimal version's fit with the default's, and the ratio of its RMSE."""
    X, f, y = friedman(10, 1, rows=rows)
    short = _predicted(X, y, {"trees": trees, "burnin": 20, "num_draws": 10})
    long = _predicted(X, y, DEFAULT)
    errors = [float(np.sqrt(np.mean((each - f) ** 2))) for each in (short, long)]
    return [float(np.corrcoef(short, long)[0, 1]), errors[0] / errors[1]]


PEERS = ("random forest", "gradient boosting", "neural network")


def _peer(name: str, rows: int) -> float:
    """Return the seconds of another method with the paper's settings, with its training rows' predictions."""
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
    from sklearn.neural_network import MLPRegressor

    X, _, y = friedman(10, 1, rows=rows)
    model = {
        "random forest": RandomForestRegressor(500, max_features=10, min_samples_leaf=5, random_state=1),
        "gradient boosting": GradientBoostingRegressor(n_estimators=100, max_depth=3, random_state=1),
        "neural network": MLPRegressor(
            hidden_layer_sizes=(6,), solver="lbfgs", alpha=1.0, max_iter=100, random_state=1
        ),
    }[name]
    return _timed(lambda: model.fit(X, y).predict(X))


def _run_12(parts: Parts, _count: int) -> Figures:
    import warnings

    warnings.filterwarnings("ignore", message=".*lbfgs failed to converge.*")
    minimal = {"trees": 20, "burnin": 20, "num_draws": 10}
    seconds = {
        "BART, 1,100 iterations": {
            str(n): parts(f"default, {n}", partial(_seconds, n, 10, DEFAULT))[-1] for n in ROWS
        },
        "BART, 30 iterations of 20 trees": {
            str(n): parts(f"minimal, {n}", partial(_seconds, n, 10, minimal))[-1] for n in ROWS
        },
    }
    seconds |= {
        name: {str(n): parts(f"{name}, {n}", partial(_peer, name, n)) for n in ROWS} for name in PEERS
    }
    alike = {
        f"{trees} trees, n = {rows}": parts(f"alike, {trees}, {rows}", partial(_minimal, trees, rows))
        for trees, rows in ((20, 100), (20, 1000), (200, 1000))
    }
    return {"seconds": seconds, "alike": alike}


def _comparable(figures: Figures) -> Seen:
    last = {name: list(each.values())[-1] for name, each in figures["seconds"].items()}
    ours = ", ".join(f"{name} {each:.2g} s" for name, each in last.items())
    slowest = max(last[name] for name in PEERS)
    first = last["BART, 1,100 iterations"]
    fastest = min(last[name] for name in PEERS)
    return Seen(
        ours + " at n = 10,000", [(fastest, first), (first, slowest)], why="between the other methods"
    )


def _fastest(figures: Figures) -> Seen:
    last = {name: list(each.values())[-1] for name, each in figures["seconds"].items()}
    minimal = last.pop("BART, 30 iterations of 20 trees")
    return Seen(f"{minimal:.3f} s; the next {min(last.values()):.3f} s", [(minimal, min(last.values()))])


def _slowest(figures: Figures) -> Seen:
    last = {name: list(each.values())[-1] for name, each in figures["seconds"].items()}
    first = last["BART, 1,100 iterations"]
    others = max(last[name] for name in PEERS)
    unless = "scikit-learn's forest is slower"
    return Seen(f"{first:.2f} s; the slowest other {others:.2f} s", [(others, first)], unless=unless)


def _alike(figures: Figures) -> Seen:
    said = [f"{name}: {r:.3f}, {e:.1f} x" for name, (r, e) in figures["alike"].items()]
    least = min(r for r, _ in figures["alike"].values())
    why = "30 iterations from stumps haven't reached the fit; the text of the paper lost its n and m"
    return Seen("; ".join(said), [(0.99, least)], unless=why)


STUDIES = (
    Study(
        "cgm10-fig1",
        "cgm10",
        "Figure 1 and section 2.2: the priors",
        (
            *(
                Claim(text, paper, partial(_quantile, name), Number((SIGMA[name][1],), unit=0.01))
                for name, text, paper in (
                    ("d", "P(sigma < its estimate), default", ".90"),
                    ("a", "aggressive", ".99"),
                    ("c", "conservative", ".75"),
                )
            ),
            Claim(
                "trees with 1 to 4 and with 5 or more leaves, a priori",
                ".05, .55, .28, .09, .03",
                _five_sizes,
                Number(SIZES, unit=0.01),
            ),
        ),
        "Draws of the engine without data, and 400,000 simulated trees.",
        _run_1,
        draw=_draw_1,
        see="The mass left of 1, the estimate by least squares, is .90, .99 and .75.",
        small=1,
    ),
    Study(
        "cgm10-fig11",
        "cgm10",
        "Figure 11 and section 6: execution time",
        (
            Claim(
                "2 iterations: linear in n", "power 1", partial(_grows, "short"), Number((1.0,), good="less")
            ),
            Claim(
                "1,100 iterations: quadratic in n",
                "power 2",
                partial(_grows, "default"),
                Number((2.0,), good="less"),
            ),
            Claim("close to independent of p", "shown", _flat),
            *(
                Claim(
                    f"leaves of 50 trees, n = {rows:,}",
                    f"{mean}, at most {largest}",
                    partial(_tree_sizes, rows),
                    Number((mean, largest), unit=0.01),
                )
                for rows, mean, largest in ((100, 2.52, 4), (10_000, 3.34, 10))
            ),
        ),
        "Medians of three runs (theirs: ten), seconds of a processor, of fit and fitted values; 200 trees.",
        _run_11,
        draw=_draw_11,
        see="Time grows in proportion to rows or less, and hardly with columns.",
        size=(6.4, 2.2),
    ),
    Study(
        "cgm10-fig12",
        "cgm10",
        "Figure 12 and section 6: time beside other methods",
        (
            Claim("BART's time is comparable with that of the others", "shown", _comparable),
            Claim("the minimal version is the fastest of all", "fastest", _fastest),
            Claim("the default version is the slowest", "slowest", _slowest),
            Claim("the minimal version's fit is indistinguishable (correlation, RMSE)", "virtually", _alike),
        ),
        "One thread; scikit-learn's forest of 500 trees, boosting by 100 of depth 3, and network of 6 units.",
        _run_12,
    ),
)
