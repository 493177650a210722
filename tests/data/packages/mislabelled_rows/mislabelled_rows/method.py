"""A method of somebody else's: Bayesian CART with fewer iterations."""

from dataclasses import replace

from sampler.methods import METHODS

SHORT_BCART = replace(METHODS["bcart"], num_chains=2, num_draws=20, thin=2, most_burnin=50)
