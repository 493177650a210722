"""Noise that is a mixture: independent draws from its prior, and the engine's components."""

import numpy as np

from sampler.bart.noise_mixture import CONCENTRATION, PULL
from sampler.noise import COMPONENTS


def draw_mixture(model, rng):
    """Draw shares, means and sds from the prior of a small model, float64 [3, component]."""
    factor = rng.chisquare(1)
    variance = model.nu * model.lambda_ * factor / rng.chisquare(model.nu, COMPONENTS)
    mean = np.sqrt(variance / PULL) * rng.normal(size=COMPONENTS)
    share = rng.dirichlet(np.full(COMPONENTS, CONCENTRATION / COMPONENTS))
    return np.array([share, mean, np.sqrt(variance)])


def mixture_of(chain):
    """Return the components of a chain's state, which are its first scalars but sigma."""
    return chain._likelihood.outcome.scalars[1:-1].reshape(3, COMPONENTS).copy()


def noise_of(parts, rows, rng):
    """Draw the noise of some rows."""
    share, mean, sd = parts
    label = rng.choice(COMPONENTS, rows, p=share / share.sum())
    return rng.normal(mean[label], sd[label])
