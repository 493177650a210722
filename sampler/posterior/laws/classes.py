"""The law of classes by a sum of trees for each of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.linear_terms import CLASS_FOREST, LinearTerms
from sampler.errors import PackedError
from sampler.posterior.core.ensemble import Ensemble
from sampler.posterior.core.intervals import IntervalFigures, Request
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.posterior.laws.by_figure import fill_by_figure
from sampler.posterior.laws.law import Law
from sampler.posterior.parts.forest_to_explain import ForestToExplain
from sampler.posterior.parts.slopes import Slope, Slopes
from sampler.storage.draws import Draws, concatenate


class ClassesLaw(Law):
    """Draws of a forest for each class; f is the probability, of the second of two classes or [row, class].

    Only ratios of the forests' values mean anything: probabilities alone are shown and compared.
    """

    parts_of_its_own = ("line",)  # each class has slopes

    def __init__(self, draws: StoredDraws, chains: Sequence[Draws]) -> None:
        super().__init__(draws, chains)
        header = draws.header
        shares = np.asarray(header.constants.get("shares", ()), np.float64)
        self.width = len(header.schema.target.levels)
        names = [name for name in chains[0].forests if name != CLASS_FOREST]
        forests = all(list(each.forests) == list(chains[0].forests) for each in chains)
        if self.width < 2 or len(names) != self.width - 1 or not forests:
            raise PackedError("the draws don't have a forest for each class")
        if shares.shape != (self.width,) or not np.all(np.isfinite(shares) & (shares > 0)):
            raise PackedError("the shares of the classes don't fit the model")
        self._log_shares = np.log(shares)
        features = self.ensemble.num_features
        others = [Ensemble([each.forests[name] for each in chains], features) for name in names]
        self._of_classes = [self.ensemble, *others]
        self.own_work = 500 * self.width  # work of the exponentials, see `own_work`
        self._lines = None if header.linear is None else self._read_lines(header.linear, chains)
        if self._lines:
            self.own_work += self.width * self._lines[0].work

    def _read_lines(self, terms: LinearTerms, chains: Sequence[Draws]) -> list[Slopes]:
        """Read the slopes of each class's linear part."""
        count = len(terms.column)
        forests = [draws.forests.get(CLASS_FOREST) for draws in chains]
        leaves = [
            lines.leaf.reshape(lines.num_draws, self.width, count)
            for lines in forests
            if lines is not None
            and lines.num_trees == self.width * count
            and lines.num_nodes == lines.leaf_counts.size
        ]
        if len(leaves) < len(chains):
            raise PackedError("the draws don't have the slopes of the classes' linear parts")
        slopes = self.step * np.concatenate(leaves)
        return [Slopes(terms, chains, np.ascontiguousarray(slopes[:, k])) for k in range(self.width)]

    def linear_part(self, level: float = 0.9) -> list[Slope] | None:
        """Summarise the slopes of each class's linear part, as for numbers, with ``of_class``; None without.

        Only differences of classes' slopes mean anything: a slope is given less the mean over classes.
        """
        level = Request.check_level(level)
        if not self._lines:
            return None
        chosen, mean = self.draws.choose(None)[0], np.mean([slopes.values for slopes in self._lines], axis=0)
        scale = self.forests_to_explain()[0]
        return [
            each
            for name, own in zip(self.schema.target.levels, self._lines, strict=True)
            for each in Slopes(own.terms, (), own.values - mean).summary(
                self.schema, chosen, level, scale, name
            )
        ]

    def _forests(self, draws: Draws) -> list[Draws]:
        """Return the forests of all classes."""
        return [draws, *(forest for name, forest in draws.forests.items() if name != CLASS_FOREST)]

    def fill(self, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
        """Compute the figures of the rows; return the number of draws per chain used."""
        return fill_by_figure(self, figures, coded, num_draws, width=self.width)

    def forests_to_explain(self) -> tuple[str, list[ForestToExplain]]:
        """Return the scale of SHAP values, in words, and the forest of each class."""
        forests = self._forests(concatenate(self.draws.chains()))
        lines: Sequence[Slopes | None] = self._lines or [None] * self.width
        explained = [
            ForestToExplain(draws, draws.leaf.astype(np.float64) * self.step, log_share, slopes)
            for draws, log_share, slopes in zip(forests, self._log_shares.tolist(), lines, strict=True)
        ]
        return "the logarithm of each class's weight: differences are log odds", explained

    def f_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute probabilities in the chosen draws, float64 [draw, row]; of several [draw, row, class]."""
        logs, rows = np.empty((len(chosen), coded.num_rows, self.width)), self.with_columns(coded)
        for number, (ensemble, log_share) in enumerate(zip(self._of_classes, self._log_shares, strict=True)):
            np.multiply(ensemble.sums_of(rows, chosen), self.step, out=logs[:, :, number])
            logs[:, :, number] += log_share
        for number, slopes in enumerate(self._lines or ()):
            own = np.ascontiguousarray(logs[:, :, number])
            slopes.add_to(own, coded, chosen)
            logs[:, :, number] = own
        logs -= logs.max(axis=2, keepdims=True)
        probability = np.exp(logs, out=logs)
        probability /= probability.sum(axis=2, keepdims=True)
        return probability if self.width > 2 else probability[:, :, 1]
