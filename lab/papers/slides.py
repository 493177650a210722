"""The slides: Boston houses beside other methods, and Friedman's function with normal inputs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lab.papers.cgm10_fits import DARK, PALE, RED, paper_fit, sigma_path
from lab.papers.judges import Number, Order, Seen
from lab.papers.study import NOT_RUN, Claim, Figures, Parts, Study

SLIDES = {"linear": 27.65, "bagging": 22.98, "random forest": 19.87, "boosting": 18.96, "BART": 15.29}


def _boston(seed: int) -> tuple[np.ndarray, ...]:
    """Return X and y of 70% of the rows, and of the others."""
    from lab.real_tables import load

    X, y = (each.to_numpy(float) for each in load("Boston"))
    order = np.random.default_rng(seed).permutation(len(y))
    train, held = np.sort(order[:354]), np.sort(order[354:])
    return X[train], y[train], X[held], y[held]


def _error(method: str, seed: int) -> float:
    """Return the mean squared error at the held rows."""
    from sklearn.ensemble import BaggingRegressor, GradientBoostingRegressor, RandomForestRegressor
    from sklearn.linear_model import LinearRegression

    X, y, new, truth = _boston(seed)
    if method == "BART":
        options: dict[str, Any] = {"num_draws": 1000, "burnin": 100}
        predicted = paper_fit(X, y, seed, **options).predict(new, level=None).mean
    else:
        boosting = {"n_estimators": 5000, "learning_rate": 0.01, "max_depth": 4, "random_state": seed}
        model = {
            "linear": LinearRegression(),
            "bagging": BaggingRegressor(n_estimators=500, random_state=seed),
            "random forest": RandomForestRegressor(500, max_features=1 / 3, random_state=seed),
            "boosting": GradientBoostingRegressor(**boosting),
        }[method]
        predicted = model.fit(X, y).predict(new)
    return float(np.mean((predicted - truth) ** 2))


def _run_table(parts: Parts, count: int) -> Figures:
    return {
        method: float(
            np.mean([parts(f"{method} {s}", partial(_error, method, s)) for s in range(1, count + 1)])
        )
        for method in SLIDES
    }


def _mse(method: str, figures: Figures) -> Seen:
    return Seen(f"{figures[method]:.1f}", [figures[method]])


def _order(figures: Figures) -> Seen:
    ranked = sorted(figures, key=lambda method: figures[method])
    place = ("first", "second", "third", "fourth", "last")[ranked.index("BART")]
    unless = f"BART is {place} on these splits, of which none is the slides'"
    return Seen(", ".join(ranked), figures, unless=unless)


def _run_figures(parts: Parts, _count: int) -> Figures:
    def fitted() -> Figures:
        from sklearn.linear_model import LinearRegression

        X, y, new, truth = _boston(1)
        draws = paper_fit(X, y, 1, num_draws=1000).sample(new)[0]
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        line = LinearRegression().fit(X, y).predict(new)
        return {"truth": truth, "mean": draws.mean(axis=0), "low": low, "high": high, "line": line}

    def path() -> list[float]:
        X, y, _, _ = _boston(1)
        return sigma_path(X, y, 1, num_draws=1000).tolist()

    return {"fit": parts("fit", fitted), "sigma": parts("sigma", path)}


def _quick(figures: Figures) -> Seen:
    path = np.array(figures["sigma"])
    low, high = path[500:].min(), path[500:].max()
    first = int(np.flatnonzero((path >= low) & (path <= high))[0])
    settled = int(np.flatnonzero(np.abs(path - np.median(path[500:])) < 2 * path[500:].std())[0])
    ours = f"within the later draws' range after {first} iterations, within two deviations after {settled}"
    unless = "sigma falls slowly here; the later draws are the yardstick"
    return Seen(ours, [(first, 50.5), (settled, 50.5)], unless=unless)


def _closer(figures: Figures) -> Seen:
    fit = {name: np.array(each) for name, each in figures["fit"].items()}
    values = {n: np.corrcoef(fit[n], fit["truth"])[0, 1] for n in ("mean", "line")}
    ours = f"correlation with y: BART {values['mean']:.3f}, linear {values['line']:.3f}"
    return Seen(ours, [(values["line"], values["mean"])])


def _draw(figures: Figures, figure: Any) -> None:
    trace, scatter, ordered = figure.subplots(1, 3)
    fit = {name: np.array(each) for name, each in figures["fit"].items()}
    trace.plot(figures["sigma"], color=DARK, lw=0.6)
    trace.axvline(50, color="black", lw=0.7, ls=":")
    trace.set(title="sigma", xlabel="iteration")
    scatter.plot(fit["truth"], fit["line"], ".", ms=3, color=RED, label="linear")
    scatter.plot(fit["truth"], fit["mean"], ".", ms=3, color=DARK, label="BART")
    scatter.set(title="held-out tracts", xlabel="y")
    scatter.legend(frameon=False, fontsize=7)
    order = np.argsort(fit["mean"])
    ordered.vlines(np.arange(len(order)), fit["low"][order], fit["high"][order], color=PALE, lw=1)
    ordered.plot(fit["mean"][order], color=DARK, lw=1)
    ordered.set(title="ordered predictions", xlabel="tract")


def _friedman(seed: int) -> Figures:
    """Return R2 at new rows and the shares of the rules, with ten normal columns."""
    rng = np.random.default_rng([3, seed])
    X = rng.normal(size=(1000, 10))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    y = f + rng.normal(size=len(f))
    posterior = paper_fit(X[:500], y[:500], seed, trees=20)
    mean = posterior.predict(X[500:], level=None).mean
    r2 = float(1 - np.mean((mean - f[500:]) ** 2) / np.var(f[500:]))
    moves = {
        name: {kind: each[kind] for kind in ("proposed", "accepted")}
        for name, each in posterior.summary().moves.items()
    }
    return {"r2": r2, "shares": posterior.inclusion().mean, "moves": moves}


def _run_friedman(parts: Parts, _count: int) -> Figures:
    return parts("fit", partial(_friedman, 1))


def _good(figures: Figures) -> Seen:
    return Seen(f"R2 of f at new rows {figures['r2']:.3f}", [(0.9, figures["r2"])])


def _important(figures: Figures) -> Seen:
    shares = figures["shares"]
    ours = f"shares {min(shares[:5]):.3f} to {max(shares[:5]):.3f}, others up to {max(shares[5:]):.3f}"
    unless = "one of the five is used less than another"
    return Seen(ours, [(max(shares[5:]), min(shares[:5]))], unless=unless)


def _usual(figures: Figures) -> Seen | str:
    if "moves" not in figures:
        return NOT_RUN
    moves = figures["moves"]
    shares = {kind: {name: each[kind] for name, each in moves.items()} for kind in ("proposed", "accepted")}
    ours = "; ".join(
        f"{kind} " + ", ".join(f"{name} {each / sum(of.values()):.2f}" for name, each in of.items())
        for kind, of in shares.items()
    )
    pairs = [(max(of["change"], of["swap"]), min(of["grow"], of["prune"])) for of in shares.values()]
    unless = "changes are proposed most, as Chipman, George and McCulloch have it ([mixing](mixing.md))"
    return Seen(ours, pairs, unless=unless)


STUDIES = (
    Study(
        "slides-boston-table1",
        "slides-boston",
        "Table 1: Boston beside other methods",
        (
            *(
                Claim(
                    f"MSE, {method}",
                    f"{theirs}",
                    partial(_mse, method),
                    Number((theirs,), unit=0.01),
                    other="another split than the slides', which isn't known",
                )
                for method, theirs in SLIDES.items()
            ),
            Claim(
                "order, the least first",
                "BART, boosting, random forest, bagging, linear",
                _order,
                Order(tuple((name,) for name in reversed(SLIDES)), rising=True),
            ),
        ),
        "70% of the rows train, of all 13 covariates (the slides have 12, and don't say which). 500 trees "
        "for bagging and the forest, 5,000 of depth 4 for boosting; BART is the default of Chipman, George "
        "and McCulloch, 1,000 draws after 100 iterations.",
        _run_table,
        count=3,
        of=1,
        unit="split",
    ),
    Study(
        "slides-boston-figures",
        "slides-boston",
        "Figures 1 to 3: sigma, fits, and predictions in order",
        (
            Claim("sigma converges by 50 iterations", "50", _quick),
            Claim("the fit of BART is nearer to y than the line's", "shown", _closer),
        ),
        "1,000 draws.",
        _run_figures,
        unit="split",
        draw=_draw,
        see="Left: sigma settles soon. Middle: BART bends where the line can't. Right: with 90% intervals.",
        small=1,
    ),
    Study(
        "slides-trees-friedman",
        "slides-trees",
        "Friedman's function with normal inputs",
        (
            Claim("BART predicts y well", "shown", _good),
            Claim("and finds which columns matter", "shown", _important),
            Claim("grow and prune are the most usual moves", "stated", _usual),
        ),
        "500 training and 500 new rows, ten columns, Friedman's coefficients; 20 trees.",
        _run_friedman,
        small=1,
    ),
)
