"""Estimate effects by a peer in the environment of the boards, and write what it finds of rows and averages.

    .venv/boards/effects/bin/python lab/effect_peers.py forest task.npz found.npz

lab/effect_boards.py starts it. The task has features as numbers [row, column], treatments, outcomes, features
of new rows, the level of intervals and a seed. Found are draws of the rows' effects [draw, row], new rows
last; or their means, with ends of intervals where the peer has any. It imports nothing of ours.
"""

import sys
import warnings
from pathlib import Path
from statistics import NormalDist

import numpy as np

# As many iterations as ours has, all kept; two chains, since eight take minutes a table.
CHAINS, GROWN, BURN, KEPT = 2, 10, 500, 1000


def stochtree(X, z, y, new, _level, seed):
    """Draw effects by stochtree's causal forest, with two chains as long as ours."""
    from stochtree import BCFModel

    model = BCFModel()
    general = {"random_seed": seed, "num_chains": CHAINS, "num_threads": 1}
    model.sample(X, z, y, num_gfr=GROWN, num_burnin=BURN, num_mcmc=KEPT, general_params=general)
    found = [
        np.asarray(model.predict(rows, np.zeros(len(rows)), terms="cate")).reshape(len(rows), -1)
        for rows in (X, new)
    ]
    return {"draws": np.concatenate(found).T}


def forest(X, z, y, new, level, seed):
    """Estimate effects by a causal forest of econml, with forests for the mean and the propensity."""
    from econml.dml import CausalForestDML
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    model = CausalForestDML(
        model_y=RandomForestRegressor(100, min_samples_leaf=5, random_state=seed),
        model_t=RandomForestClassifier(100, min_samples_leaf=5, random_state=seed),
        discrete_treatment=True, n_estimators=500, random_state=seed, n_jobs=1,
    )  # fmt: skip
    model.fit(y, z.astype(int), X=X)
    both = np.concatenate([X, new])
    lower, upper = model.effect_interval(both, alpha=1 - level)
    half = NormalDist().inv_cdf((1 + level) / 2) * float(model.ate_stderr_[0])
    average = float(model.ate_[0]) + np.array([0.0, -half, half])
    return {"mean": model.effect(both), "lower": lower, "upper": upper, "average": average}


def two_models(X, z, y, new, _level, seed):
    """Estimate effects as differences of a LightGBM model of each arm, without intervals."""
    from lightgbm import LGBMRegressor

    both = np.concatenate([X, new])
    arms = [
        LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1).fit(X[z == arm], y[z == arm]).predict(both)
        for arm in (1, 0)
    ]
    return {"mean": arms[0] - arms[1]}


def main():
    warnings.simplefilter("ignore")
    name, task, found = sys.argv[1:]
    method = {"stochtree": stochtree, "forest": forest, "two models": two_models}[name]
    with np.load(Path(task)) as given:
        own = [given[each] for each in ("X", "treated", "y", "new")]
        effects = method(*own, float(given["level"]), int(given["seed"]))
    np.savez(Path(found), **effects)


if __name__ == "__main__":
    main()
