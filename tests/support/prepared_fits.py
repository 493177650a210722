"""Small tables and fits prepared from them, for tests of preparation."""

import numpy as np
import pandas as pd
import pytest

from sampler import DataError, prepare

N = 60
RNG = np.random.default_rng(0)
SETTINGS = {"num_trees": 5, "num_chains": 1, "num_burnin": 1, "num_draws": 2}


def mixed_columns(**more):
    """Make columns of every kind, 60 rows."""
    columns = {
        "size": RNG.normal(size=N).tolist(),
        "flag": (RNG.random(N) < 0.5).tolist(),
        "pair": RNG.choice(["no", "yes"], N).tolist(),
        "trio": RNG.choice(["a", "b", "c"], N).tolist(),
        "when": pd.date_range("2020-01-01", periods=N).to_numpy(),
        "name": [f"n{i}" for i in range(N)],
    }
    return columns | more


def outcomes():
    """Draw 60 outcomes."""
    return RNG.normal(size=N)


def problem_of(X=None, outcome=None, **arguments):
    """Prepare a fit to these or to random rows."""
    return prepare(
        mixed_columns() if X is None else X,
        outcomes() if outcome is None else outcome,
        **SETTINGS,
        **arguments,
    )


def refusal_of(X=None, outcome=None, error=DataError, **arguments):
    """Return the error with which the preparation ends."""
    with pytest.raises(error) as caught:
        problem_of(X, outcome, **arguments)
    return caught.value
