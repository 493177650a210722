"""`sampler.storage.model_header`: the facts of a model stored beside its draws."""

import numpy as np

from sampler import prepare
from sampler.storage.model_header import Header, with_counts


def test_with_counts_is_the_header_of_a_fit_with_those_counts():
    """Changed counts give the header bytes of a fit with those numbers of draws and chains."""
    X, y = {"x": np.arange(30.0)}, np.arange(30.0)

    def header(**counts):
        return prepare(X, y, num_burnin=100, thin=2, seed=3, **counts).header()

    longer = with_counts(header(num_draws=20, num_chains=4), num_draws=50, num_chains=3)
    assert longer == header(num_draws=50, num_chains=3)
    assert Header.from_bytes(longer).settings["thin"] == 2
