"""A few trees of precisions whose spread is one of a few, and their prior by the twins."""

import numpy as np
import pytest

from sampler.bart import noise_forest, row_noise
from sampler.bart.kernels.leaf_models.log_linear_pass import STEP

TREES = 3
LEAST, MOST, GRID = 0.2, 0.8, 12  # of the spread


def make_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let further chains have that few precisions, and these spreads."""
    for name, value in {"NOISE_TREES": TREES, "LEAST": LEAST, "MOST": MOST, "GRID": GRID}.items():
        monkeypatch.setattr(noise_forest, name, value)
    monkeypatch.setattr(row_noise, "NOISE_TREES", TREES)


def draw_precisions(model, rng):
    """Draw the rows' log precisions from the prior; return them, the trees' leaves and the spread."""
    spreads = np.geomspace(LEAST, MOST, GRID)
    spread = rng.choice(spreads, p=spreads / spreads.sum())
    shape, rate = noise_forest.gamma_prior(2 * spread, TREES)
    log_w, leaves = model.draw_tree_sum(TREES, lambda count: np.log(rng.gamma(shape, 1 / rate, count)), rng)
    return log_w, leaves, spread


def log_precisions(chain):
    """Return the logarithms of the rows' precisions of a chain's state."""
    return STEP * chain._models[1].log_value[: len(chain.training.y)]


def spread_of(chain):
    """Return the spread of a chain's state."""
    return chain._likelihood.scalars[chain._likelihood.scalar_names.index("noise_spread")]


def figures_of_noise(f, sigma2, log_w=(0.0,) * 4):
    """Return figures ranked under every noise, whose size at a row is known better than sigma."""
    return {
        "f at a row": f[0],
        "mean of f": f.mean(),
        "spread of f": f.var(),
        "noise at a row": 0.5 * (np.log(sigma2) - log_w[3]),
    }


def figures_of_precisions(log_w, spread):
    """Return figures of noise by row that are ranked."""
    return {"log w at a row": log_w[0], "spread of log w": log_w.var(), "spread": spread}
