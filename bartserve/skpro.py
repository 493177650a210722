"""BART as a probabilistic regressor of skpro: whole distributions, for its metrics, tuning and pipelines.

>>> from bartserve.skpro import BARTProbaRegressor
>>> distributions = BARTProbaRegressor().fit(X, y).predict_proba(X_new)

Needs ``pip install 'bartserve[skpro]'``.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from sklearn.base import clone
from skpro.distributions.base import BaseDistribution
from skpro.regression.base import BaseProbaRegressor

from sampler.families import FAMILIES
from sampler.sklearn import BARTRegressor

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sampler.posterior.posterior import Posterior

    Floats = NDArray[np.float64]

__all__ = ["BARTProbaRegressor", "PosteriorPredictive"]

DRAWN, SEED = 4_000, 0  # outcomes that are drawn for variances and energies, at least, and their seed


class PosteriorPredictive(BaseDistribution):  # type: ignore[misc]  # skpro has no types
    """Posterior predictive distribution of the outcome of each row of a table.

    Densities, probabilities and quantiles are exact; variances and energies are of drawn outcomes, the same
    at each call, and the CRPS by energies is exact.

    Parameters
    ----------
    posterior
        A `Posterior` of numbers or counts.
    rows
        DataFrame with the model's columns.
    index, columns
        Labels of the rows, and the name of the outcome in a list; without both it is of one row, a scalar.

    """

    _tags = {  # noqa: RUF012  # as skpro has it
        "capabilities:approx": ["pdfnorm"],
        "capabilities:exact": ["mean", "var", "energy", "pdf", "log_pdf", "pmf", "log_pmf", "cdf", "ppf"],
        "distr:measuretype": "continuous",
        "broadcast_init": "off",
    }

    def __init__(
        self, posterior: Posterior, rows: pd.DataFrame, index: Any = None, columns: Any = None
    ) -> None:
        """Describe the rows; raise as `Posterior.distribution`."""
        self.posterior, self.rows = posterior, rows
        super().__init__(index=index, columns=columns)
        self._exact = posterior.distribution(rows)
        if FAMILIES[posterior.family].target == "counts":
            self.set_tags(**{"distr:measuretype": "discrete"})

    def _of(self, figure: Callable[[Any], Floats], x: Any) -> Floats:
        """Return a figure of outcomes, in their shape: one for each row."""
        values = np.asarray(x, np.float64)
        return figure(values.reshape(-1)).reshape(values.shape)

    def _shaped(self, figures: Floats) -> Floats:
        """Return a figure of each row in the shape of the distribution."""
        return figures.reshape(self.shape)

    def _log_pdf(self, x: Any) -> Floats:
        return self._of(self._exact.log_prob, x)

    def _pdf(self, x: Any) -> Floats:
        return self._of(self._exact.prob, x)

    _log_pmf, _pmf = _log_pdf, _pdf

    def _cdf(self, x: Any) -> Floats:
        return self._of(self._exact.cdf, x)

    def _ppf(self, p: Any) -> Floats:
        def at(shares: Floats) -> Floats:
            found = np.empty(len(shares))
            for share in np.unique(shares):
                own = np.flatnonzero(shares == share)
                found[own] = self.posterior.distribution(self.rows.iloc[own]).quantile(float(share))
            return found

        return self._of(at, p)

    def _mean(self) -> Floats:
        return self._shaped(self._exact.mean)

    def _var(self) -> Floats:
        return self._shaped(self._outcomes().var(axis=0))

    def _energy_self(self) -> Floats:
        outcomes = np.sort(self._outcomes(), axis=0)
        places = 2 * np.arange(1, len(outcomes) + 1) - len(outcomes) - 1
        return self._shaped(2 * places @ outcomes / len(outcomes) ** 2)

    def _energy_x(self, x: Any) -> Floats:
        return self._of(self._exact.crps, x) + self._energy_self() / 2

    def _sample(self, n_samples: int | None = None) -> Any:
        """Draw outcomes of the rows, independently of one another."""
        count = n_samples or 1
        rng = np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002  # the seed that users of skpro set
        drawn = self._outcomes(count, int(rng.integers(2**30)))
        outcomes = rng.permuted(drawn, axis=0)[:count].reshape(-1, 1)
        if self.ndim == 0:
            return float(outcomes[0, 0]) if n_samples is None else pd.DataFrame(outcomes)
        labels = self.index
        if n_samples is not None:
            labels = pd.concat({k: self.index.to_frame() for k in range(n_samples)}).index
        return pd.DataFrame(outcomes, index=labels, columns=self.columns)

    def _outcomes(self, count: int = DRAWN, seed: int = SEED) -> Floats:
        """Draw `count` outcomes of each row or more, as many from each draw, float64 [outcome, row]."""
        draws = self.posterior.num_chains * self.posterior.num_draws
        seeds = range(seed, seed + ceil(count / draws))
        drawn = [self.posterior.sample_predictive(self.rows, seed=each) for each in seeds]
        outcomes = np.concatenate(drawn, axis=1).reshape(-1, len(self.rows))
        if self.posterior.weights is None:
            return outcomes
        shares = np.tile(self.posterior.weights, (1, len(seeds))).reshape(-1)
        picked = np.random.default_rng(seed).choice(len(outcomes), len(outcomes), p=shares / shares.sum())
        return outcomes[picked]

    def _iloc(self, rowidx: Any = None, colidx: Any = None) -> PosteriorPredictive:
        """Return the distribution of some rows; there is one column."""
        if isinstance(rowidx, (int, np.integer)) and isinstance(colidx, (int, np.integer)):
            return self._iat(rowidx, colidx)
        kept = slice(None) if rowidx is None else np.atleast_1d(np.arange(len(self.rows))[rowidx])
        return PosteriorPredictive(self.posterior, self.rows.iloc[kept], self.index[kept], self.columns)

    def _iat(self, rowidx: Any = None, colidx: Any = None) -> PosteriorPredictive:
        """Return the distribution of one row, a scalar."""
        if rowidx is None or colidx is None:
            raise ValueError("iat requires the number of a row, and of a column")
        return PosteriorPredictive(self.posterior, self.rows.iloc[[rowidx]])


class BARTProbaRegressor(BaseProbaRegressor):  # type: ignore[misc]
    """BART with predictive distributions.

    Intervals are those of the distributions; `BARTRegressor` has calibrated ones.

    Parameters
    ----------
    estimator
        A `BARTRegressor` with the settings, left as it is; default: `BARTRegressor()`.

    Attributes
    ----------
    estimator_
        The fitted `BARTRegressor`; its `posterior_` is the posterior.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bartserve import BARTRegressor
    >>> from bartserve.skpro import BARTProbaRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BARTProbaRegressor(BARTRegressor(num_trees=20, num_draws=50, random_state=0))
    >>> distributions = model.fit(X[:300], y[:300]).predict_proba(X[300:])

    """

    _tags = {"capability:missing": True, "capability:multioutput": False}  # noqa: RUF012

    def __init__(self, estimator: BARTRegressor | None = None) -> None:
        """Keep the estimator, as it is."""
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: pd.DataFrame) -> BARTProbaRegressor:
        template = BARTRegressor() if self.estimator is None else self.estimator
        self.estimator_ = clone(template).fit(_named(X), y.iloc[:, 0])
        self._outcome = y.columns
        return self

    def _predict(self, X: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(self.estimator_.predict(_named(X)), index=X.index, columns=self._outcome)

    def _predict_proba(self, X: pd.DataFrame) -> PosteriorPredictive:
        return PosteriorPredictive(self.estimator_.posterior_, _named(X), X.index, self._outcome)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:  # noqa: ARG003
        """Return parameters for skpro's own checks: small fits, with normal noise and with heavy tails."""
        small: dict[str, Any] = {"num_trees": 5, "num_chains": 1, "num_burnin": 20, "num_draws": 30}
        return [
            {"estimator": BARTRegressor(**small, random_state=0)},
            {"estimator": BARTRegressor(**small, noise="t", random_state=0)},
        ]


def _named(X: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns are named by text, as those of a model."""
    return X.rename(columns=str)
