"""Two outcomes beside separate fits.

    python -m lab several_outcomes [--tables N] [--rows N] [--trees N] [--uneven] [--peer]

With --classes the second outcome is only known to be above or below its median. With --uneven the errors'
standard deviation grows with the first column from 1 / 3 to 3, and two fits of both at once are compared,
`ours` with noise by row and `separate` of one size (`in 1st`, .. `in 5th`: the share of each fifth of the new
rows, by that column, inside their joint regions of 90%).

Two functions of eight columns (Friedman's, and another with two columns in common), errors of standard
deviation 1 with correlation .8, .4 or 0. Of each the mean over simulated tables, on 500 new rows:

- log score of both outcomes of a row, and what it is above the sum of separate fits' own;
- RMSE of the first outcome given the second, and its quotient by that of the best linear adjustment of
  separate fits (the slope of their residuals on each other, by least squares on the new rows themselves);
- mean RMSE of the outcomes without the other, and its quotient by that of separate fits;
- the share of rows inside the joint regions of 90%;
- the posterior median of the errors' correlation, and the share of tables whose 90% interval holds it;
- processor time, and its quotient by that of the separate fits;
- with --classes the Brier score of the class given the number, and without it.

Beside them bartz's multivariate regression, whose trees have a vector in each leaf. Needs bartz
(locks/bench.txt).
"""

import time
import warnings
from functools import partial
from typing import Any

import numpy as np

from lab import command
from sampler import fit
from sampler.posterior.several.joint_law import JointMixture, log_normal

NEW = 500
CORRELATIONS = (0.8, 0.4, 0.0)
PLACES = ("1st", "2nd", "3rd", "4th", "5th")
Floats = np.ndarray[Any, np.dtype[np.float64]]


def simulated(rows: int, correlation: float, seed: int, *, uneven: bool = False) -> tuple[Floats, Floats]:
    """Return columns [row, 8] and outcomes [row, 2]."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 8))
    first = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    second = 6 * np.abs(X[:, 0] - 0.5) + 4 * X[:, 3] * X[:, 5] + 3 * (X[:, 6] > 0.5)
    covariance = [[1.0, correlation], [correlation, 1.0]]
    errors = rng.multivariate_normal([0, 0], covariance, rows)
    sizes = 9 ** (X[:, 0] - 0.5) if uneven else np.ones(rows)
    return X, np.stack([first, second], axis=1) + errors * sizes[:, None]


def rmse(one: Floats, other: Floats) -> float:
    """Return the root mean squared difference."""
    return float(np.sqrt(np.mean((one - other) ** 2)))


def joint_scores(f: Floats, covariance: Floats, y: Floats) -> dict[str, float]:
    """Score draws of f [draw, row, 2] and covariances [draw, 2, 2] on new rows."""
    logs = log_normal(y - f, covariance)
    known = np.stack([np.full(len(y), np.nan), y[:, 1]], axis=1)
    given = JointMixture.of(f, covariance, known).moments()[0][:, 0]
    mean = f.mean(axis=0)
    return {
        "log score": float(np.mean(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)))),
        "rmse given": rmse(given, y[:, 0]),
        "rmse": float(np.mean([rmse(mean[:, j], y[:, j]) for j in range(2)])),
    }


def ours(
    X: Floats, Y: Floats, new: Floats, y: Floats, correlation: float = 0.0, trees: int = 200
) -> dict[str, float]:
    """Fit both outcomes at once."""
    start = time.process_time()
    posterior: Any = fit(X, Y, seed=1, progress=False, num_trees=trees)
    seconds = time.process_time() - start
    f = np.stack([posterior[name].sample(new).reshape(-1, len(new)) for name in posterior.outcomes], axis=2)
    inside = posterior.predict(new, 0.9).contains(y)[1]
    scores = joint_scores(f, posterior.covariances.reshape(-1, 2, 2), y)
    low, middle, high = np.quantile(posterior.correlations[:, :, 0, 1], [0.05, 0.5, 0.95])
    told = {"correlation": float(middle), "held": float(low <= correlation <= high)}
    return scores | {"in region": float(inside.mean())} | told | {"seconds": seconds}


def separate(X: Floats, Y: Floats, new: Floats, y: Floats, trees: int = 200) -> dict[str, float]:
    """Fit each outcome by itself."""
    start = time.process_time()
    plain = {"noise": "constant", "transform": "none", "num_trees": trees}
    fits = [fit(X, Y[:, j], seed=1, progress=False, **plain) for j in range(2)]
    seconds = time.process_time() - start
    mean = np.stack([each.predict(new, level=None).mean for each in fits], axis=1)
    rest = y - mean
    slope, level = np.polyfit(rest[:, 1], rest[:, 0], 1)
    return {
        "log score": sum(float(each.score(new, y[:, j])["log_score"]) for j, each in enumerate(fits)),
        "rmse given": rmse(mean[:, 0] + level + slope * rest[:, 1], y[:, 0]),
        "rmse": float(np.mean([rmse(mean[:, j], y[:, j]) for j in range(2)])),
        "seconds": seconds,
    }


def by_noise(noise: str, X: Floats, Y: Floats, new: Floats, y: Floats, trees: int = 200) -> dict[str, float]:
    """Fit both outcomes at once with a kind of noise, where its size differs by row."""
    start = time.process_time()
    posterior: Any = fit(X, Y, noise=noise, seed=1, progress=False, num_trees=trees)
    seconds = time.process_time() - start
    predicted = posterior.predict(new, 0.9)
    inside = predicted.contains(y)[1]
    fifths = np.array_split(inside[np.argsort(new[:, 0])], 5)
    scores = posterior.score(new, y, separately=False)
    return {
        "log score": scores.log_score,
        "rmse": float(np.mean([rmse(predicted.mean[:, j], y[:, j]) for j in range(2)])),
        "correlation": float(np.median(posterior.correlations[:, :, 0, 1])),
        "in region": float(inside.mean()),
        **{f"in {place}": float(own.mean()) for place, own in zip(PLACES, fifths, strict=True)},
        "seconds": seconds,
    }


def of_classes(X: Floats, Y: Floats, new: Floats, y: Floats) -> tuple[dict[str, float], dict[str, float]]:
    """Fit both at once, and each by itself, where the second outcome is whether it is above its median."""
    cut = np.median(Y[:, 1])
    labels, truth = (np.where(each[:, 1] > cut, "high", "low") for each in (Y, y))
    start = time.process_time()
    both: Any = fit(X, {"a": Y[:, 0], "b": labels}, family="auto", seed=1, progress=False)
    middle = time.process_time()
    plain = {"noise": "constant", "transform": "none"}
    number = fit(X, Y[:, 0], seed=1, progress=False, **plain)
    other = fit(X, labels, family="probit", seed=1, progress=False)
    end = time.process_time()
    low = truth == "low"
    given_class = both.predict(new, given={"b": truth}).mean[:, 0]
    given_number = both.predict(new, given={"a": y[:, 0]}).mean[:, 1]
    mean, chance = number.predict(new, level=None).mean, other.predict(new, level=None).mean
    apart = [number.score(new, y[:, 0])["log_score"], -other.score(new, truth)["log_loss"]]
    ours = {
        "log score": both.score(new, {"a": y[:, 0], "b": truth}, separately=False).log_score,
        "rmse given": rmse(given_class, y[:, 0]),
        "rmse": rmse(both.predict(new).mean[:, 0], y[:, 0]),
        "brier given": rmse(given_number, low) ** 2,
        "seconds": middle - start,
    }
    separate = {
        "log score": float(sum(apart)),
        "rmse given": rmse(mean + _levels(y[:, 0] - mean, low), y[:, 0]),
        "rmse": rmse(mean, y[:, 0]),
        "brier given": rmse(chance, low) ** 2,
        "seconds": end - middle,
    }
    return ours, separate


def _levels(rest: Floats, low: Floats) -> Floats:
    """Return the mean residual of each row's class, on the new rows themselves."""
    return np.where(low, rest[low].mean(), rest[~low].mean())


def peer(X: Floats, Y: Floats, new: Floats, y: Floats) -> dict[str, float]:
    """Fit both by bartz."""
    from bartz._interface import Bart  # slow to import

    start = time.process_time()
    model = Bart(X.T, Y.T.astype(np.float32), n_save=250, n_burn=250, seed=1, printevery=None)
    f = np.asarray(model.predict(new.T, kind="latent_samples"), float)  # [draw, outcome, row]
    seconds = time.process_time() - start
    f = f.transpose(0, 2, 1)
    precision = np.asarray(model.get_latent_prec(), float)
    chains = model.num_chains or 1
    precision = precision.reshape(chains, -1, 2, 2)[:, -(len(f) // chains) :]  # without burn-in
    covariance = np.linalg.inv(precision.reshape(-1, 2, 2))
    return joint_scores(f, covariance, y) | {"seconds": seconds}


def main() -> None:
    """Print the means over tables, and ours over those of separate fits."""
    parser = command(__doc__)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--trees", type=int, default=200, help="of each outcome; of numbers alone")
    parser.add_argument("--correlations", type=float, nargs="+", default=CORRELATIONS)
    parser.add_argument("--classes", action="store_true", help="let the second outcome have two classes")
    parser.add_argument("--uneven", action="store_true", help="let the errors' size differ by row")
    parser.add_argument("--peer", action="store_true", help="fit bartz's too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, Y = simulated(80, 0.0, 0)
    loaded: tuple[Any, ...] = (of_classes,) if options.classes else (ours, separate)
    loaded = (partial(by_noise, "forest"),) if options.uneven else loaded
    for run in loaded:  # kernels, which the first fit of a process loads or compiles
        run(X[:40], Y[:40], X[40:], Y[40:])
    for correlation in options.correlations:
        fitters: dict[str, Any] = {
            "ours": partial(ours, correlation=correlation, trees=options.trees),
            "separate": partial(separate, trees=options.trees),
        } | ({"bartz": peer} if options.peer else {})
        if options.uneven:
            of_noise = {"ours": "forest", "separate": "constant"}
            fitters = {name: partial(by_noise, own, trees=options.trees) for name, own in of_noise.items()}
        found: dict[str, list[dict[str, float]]] = {name: [] for name in fitters}
        for table in range(options.tables):
            X, Y = simulated(options.rows + NEW, correlation, 100 + table, uneven=options.uneven)
            parts = X[:-NEW], Y[:-NEW], X[-NEW:], Y[-NEW:]
            if options.classes:
                for name, scores in zip(fitters, of_classes(*parts), strict=False):
                    found[name].append(scores)
                continue
            for name, run in fitters.items():
                found[name].append(run(*parts))
        print(f"correlation {correlation}, {options.tables} tables of {options.rows} rows")
        means = {
            name: {score: np.mean([each[score] for each in runs]) for score in runs[0]}
            for name, runs in found.items()
        }
        for name, scores in means.items():
            print(f"  {name:9}", "  ".join(f"{score} {value:.4f}" for score, value in scores.items()))
        both = means["ours"], means["separate"]
        compared = [score for score in both[0] if score in both[1] and score != "log score"]
        quotients = {score: both[0][score] / both[1][score] for score in compared}
        gain = both[0]["log score"] - both[1]["log score"]
        print(
            f"  log score + {gain:.4f};",
            "  ".join(f"{name} x {q:.3f}" for name, q in quotients.items()),
            flush=True,
        )
