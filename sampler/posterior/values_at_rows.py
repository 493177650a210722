"""Values of the draws at rows: f, the noise, and the mean of the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from sampler.posterior.stored_draws import StoredDraws

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sampler.data.encode import Coded

    Floats = NDArray[np.float64]


class ValuesAtRows(StoredDraws):
    """Values of the draws at rows."""

    def sample(self, X: Any, num_draws: int | None = None) -> Floats:
        """Return draws of f at each row of X, float64 [chain, draw, row]; large for many rows.

        For two classes, draws are of the second's probability; for more, [chain, draw, row, class]. With a
        transform of the outcome, they are of the outcome's mean.
        """
        return self._mean(self._coded(X), num_draws)

    def sample_sigma(self, X: Any, num_draws: int | None = None) -> Floats:
        """Return draws of the noise sd at each row, float64 [chain, draw, row]; ones for classes."""
        coded = self._coded(X)
        noise = self._noise(coded, num_draws)
        if self._transform is None:
            return noise
        return self._transform.moments(self._f(coded, num_draws), noise)[1]

    def sample_learnt(self, X: Any, num_draws: int | None = None) -> tuple[Floats, Floats]:
        """Return draws of the mean and the noise sd of what the model learns: the outcome, or its transform.

        Both are float64 [chain, draw, row].
        """
        coded = self._coded(X)
        return self._f(coded, num_draws), self._noise(coded, num_draws)

    def _noise(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Return draws of the noise sd of what the model learns, float64 [chain, draw, row]."""
        chosen, used = self._choose(num_draws)
        return self._noise_of(coded, chosen).reshape(self.num_chains, used, coded.num_rows)

    def _noise_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Return the noise sd of the chosen draws of what the model learns, float64 [draw, row]."""
        sigma = np.broadcast_to(self._sigma[self._places(chosen)][:, None], (len(chosen), coded.num_rows))
        return self._with_new_groups(sigma, coded, chosen)

    def _with_new_groups(self, sigma: Floats, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Add to the noise sd [draw, row] what rows of new groups differ by: their intercepts are unknown."""
        more = None if self._intercepts is None else self._intercepts.new_variance(coded, chosen)
        return sigma if more is None else np.sqrt(sigma**2 + more)

    def _mean(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Compute the outcome's mean, of the first draws of each chain; see `_f` for the shape."""
        f = self._f(coded, num_draws)
        if self._transform is None:
            return f
        return self._transform.moments(f, self._noise(coded, num_draws))[0]

    def _mean_of(self, coded: Coded, chosen: NDArray[np.int64], num_draws: int | None) -> Floats:
        """Compute the outcome's mean of the chosen draws, of the first of each chain; see `_f_of`."""
        if self._transform is None:
            return self._f_of(coded, chosen)
        return self._mean(coded, num_draws).reshape(len(chosen), coded.num_rows)

    def probabilities_by_draw(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute the probability of each class in each chosen draw, float64 [draw, row, class]."""
        p = self._f_of(coded, chosen)
        return p if p.ndim == 3 else np.stack([1 - p, p], axis=2)

    def draws_by_figure(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Return draws of f, float64 [figure, chain, draw]; a figure is a row, or a row and class.

        With more than two classes, the figures of a row are adjacent.
        """
        f = self._mean(coded, num_draws)
        by_row = f.reshape(*f.shape[:3], -1).transpose(2, 3, 0, 1)
        return np.ascontiguousarray(by_row).reshape(-1, *f.shape[:2])

    def _f(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Compute f of the first draws of each chain, float64 [chain, draw, row], or [.., class]."""
        chosen, used = self._choose(num_draws)
        f = self._f_of(coded, chosen)
        return np.ascontiguousarray(f).reshape(self.num_chains, used, *f.shape[1:])

    def _f_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute f of the chosen draws, float64 [draw, row], or [draw, row, class] with several classes."""
        sums = self._ensemble.sums_of(coded, chosen)
        f = sums.astype(np.float64, order="C")
        f *= self._step
        f += self._offset
        if self._slopes is not None:
            self._slopes.add_to(f, coded, chosen)
        if self._intercepts is not None:
            self._intercepts.add_to(f, coded, chosen)
        if self.family != "probit":
            return f
        return np.asarray(ndtr(f / self._with_new_groups(np.ones_like(f), coded, chosen)))

    @property
    def _of_sums(self) -> bool:
        """Whether f is a sum of trees, with nothing beside them."""
        return self._slopes is None and self._intercepts is None

    def _average_of(self, chosen: NDArray[np.int64]) -> Callable[[Coded], Floats] | None:
        """Return a function from copies of rows to draws of f averaged over each, float64 [draw, copy].

        It is for plain sums of trees, whose averages are exact in whole grid steps; None for others.
        """
        usual = all(
            getattr(type(self), name) is getattr(ValuesAtRows, name) for name in ("_f_of", "_mean_of")
        )
        linear = self.family == "gaussian" and self._of_sums and self._transform is None
        if not usual or not linear or not self._ensemble.has_room:
            return None

        def average(coded: Coded) -> Floats:
            totals = self._ensemble.totals_of(coded, chosen)
            num_rows = coded.num_rows // totals.shape[1]
            return np.asarray(self._offset + self._step * (totals / num_rows))

        return average
