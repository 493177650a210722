"""Fit a method in its own environment, and write the means and quantiles that it predicts for new rows.

    .venv/boards/treeffuser/bin/python lab/in_environment.py treeffuser task.npz found.npz

other_environments.py starts it and says what is in the files. It imports nothing of ours, which need not be
installed where it runs.
"""

import sys
from pathlib import Path

import numpy as np

DRAWS = 1000  # of a row's outcome, by treeffuser
SECONDS = 60  # in which AutoGluon fits its models; the clock's, not the processor's


def treeffuser(train, y, new, levels, seed):
    """Predict by a diffusion model of trees, its defaults, from draws."""
    from treeffuser import Treeffuser

    model = Treeffuser(seed=seed, n_jobs=1).fit(np.column_stack(train), y)
    draws = np.asarray(model.sample(np.column_stack(new), DRAWS, seed=seed)).reshape(DRAWS, -1)
    return draws.mean(axis=0), np.quantile(draws, levels, axis=0)


def autogluon(train, y, new, levels, _seed):
    """Predict by AutoGluon's mixture of quantile models, which have seeds of their own."""
    import pandas as pd
    from autogluon.tabular import TabularPredictor

    table = pd.DataFrame({f"x{k}": column for k, column in enumerate(train)} | {"y": y})
    rows = pd.DataFrame({f"x{k}": column for k, column in enumerate(new)})
    options = {"problem_type": "quantile", "quantile_levels": levels.tolist(), "verbosity": 0}
    model = TabularPredictor("y", path="models", **options)
    # A model may take half of what is left: the first, a LightGBM model of each level, can take all and fail.
    share = {"max_time_limit_ratio": 0.5}
    model.fit(table, time_limit=SECONDS, ag_args_fit=share, num_cpus=1, num_gpus=0)
    quantiles = np.sort(model.predict(rows).to_numpy(float), axis=1).T
    return quantiles.mean(axis=0), quantiles


def main():
    name, task, found = sys.argv[1:]
    with np.load(Path(task)) as given:
        train, new = ([given[f"{part} {k}"] for k in range(given["columns"])] for part in ("train", "new"))
        method = {"treeffuser": treeffuser, "autogluon": autogluon}[name]
        mean, quantiles = method(train, given["y"], new, given["levels"], int(given["seed"]))
    np.savez(Path(found), mean=mean, quantiles=quantiles)


if __name__ == "__main__":
    main()
