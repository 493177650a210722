"""Short fits with a treatment of two arms, which several files of tests ask."""

from functools import cache

import numpy as np

from sampler import Posterior, fit

SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 60, "num_draws": 20, "thin": 2, "progress": False}
NUM_ROWS = 220


def rows():
    """Return a table, treatments that follow its first column, and outcomes with effects of 2 and 4."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, NUM_ROWS))
    treated = (rng.uniform(size=NUM_ROWS) < 1 / (1 + np.exp(-a))).astype(float)
    site = np.where(rng.uniform(size=NUM_ROWS) < 0.5, "north", "south")
    y = a + 0.3 * rng.normal(size=NUM_ROWS) + treated * np.where(site == "north", 4.0, 2.0)
    return {"a": a, "b": b, "site": list(site), "treatment": treated}, y


def features(table):
    """Return the columns besides the treatment."""
    return {name: values for name, values in table.items() if name != "treatment"}


def load_of(posterior):
    """Return the posterior as its file has it."""
    return Posterior.from_bytes(posterior.to_bytes())


@cache
def fitted(effects="bcf", **more):
    """Return a short fit."""
    table, y = rows()
    return fit(features(table), y, treatment=table["treatment"], effects=effects, **SHORT, **more)
