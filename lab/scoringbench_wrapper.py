"""Our method in the interface of ScoringBench (arXiv 2603.29928), to be run by its own loop.

The board's repository, `jonaslandsgesell/ScoringBench`, takes wrappers with `fit`, `predict` and
`predict_distribution`, whose answer is masses in bins. Beside a checkout of it:

    from lab.scoringbench_wrapper import BartserveWrapper
    MODELS["bartserve"] = BartserveWrapper  # of its run_bench_regression.py
"""

import numpy as np

from sampler import fit

LEVELS = np.arange(1, 200) / 200


def masses(quantiles):
    """Return masses in bins [row, bin] and the bins' edges [row, bin + 1].

    `quantiles` [level, row] are those at `LEVELS`; beyond the outer ones is a bin as wide as its neighbour,
    as in the board's own wrappers of quantiles.
    """
    inner = np.sort(quantiles, axis=0).T
    low, high = 2 * inner[:, :1] - inner[:, 1:2], 2 * inner[:, -1:] - inner[:, -2:-1]
    shares = np.diff(LEVELS, prepend=0, append=1)
    return np.tile(shares, (len(inner), 1)), np.hstack([low, inner, high])


class BartserveWrapper:
    """BART with the default settings, or others of `fit`."""

    def __init__(self, seed=42, **settings):
        self.seed, self.settings = seed, settings

    def fit(self, X, y):
        """Fit to a table of features and its outcomes."""
        self.posterior = fit(X, y, seed=self.seed, progress=False, **self.settings)
        return self

    def predict(self, X):
        """Predict means."""
        return self.posterior.predict(X, level=None).mean

    def predict_distribution(self, X):
        """Predict distributions, as the board's container of them."""
        from scoringbench.wrappers.base import DistributionPrediction

        found = self.posterior.predict(X, level=None, quantiles=LEVELS.tolist())
        probas, edges = masses(np.array([values for _, values in found.quantiles]))
        middles = (edges[:, :-1] + edges[:, 1:]) / 2
        return DistributionPrediction(probas, edges, middles, found.mean)
