"""Draws of all chains: their values at rows, and predictions with intervals."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from sampler.data.encode import Coded, encode
from sampler.data.row_flags import by_row
from sampler.errors import NotFittedError, PackedError, SettingsError
from sampler.noise import DEGREES, NOISES
from sampler.posterior.assessment.predictive import OutcomeLaw, Predictive
from sampler.posterior.ensemble import Ensemble
from sampler.posterior.explanations.inclusion import rules_per_draw
from sampler.posterior.explanations.shap_values import ForestToExplain
from sampler.posterior.intervals import IntervalFigures, IntervalKind, Request
from sampler.posterior.kernels.tree_sums import BLOCK
from sampler.posterior.kinds.slopes import Slopes
from sampler.posterior.prediction import Prediction
from sampler.posterior.verdict.reasons import noise_prior_reason
from sampler.posterior.weighting import noise_law
from sampler.posterior.weighting.draw_weights import DrawWeights, EqualWeights
from sampler.storage.draw_codec import unpack
from sampler.storage.draws import concatenate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sampler.data.binning import Grid
    from sampler.data.schema import Schema
    from sampler.data.transform import Transform
    from sampler.posterior.explanations.permutation import Loss
    from sampler.posterior.verdict.summary import Summary
    from sampler.storage.draws import Draws
    from sampler.storage.model_header import Header

    Floats = NDArray[np.float64]

# Costs in units of one tree of one draw at one row, about a tenth of a nanosecond: of a normal probability, a
# term of a linear part, the mean of a transformed outcome by its kind; of a predictive bound of a mixture of
# sums of trees, and of one whose components differ by row.
PROBABILITY, TERM, MEAN = 300, 50, {"log": 200, "yeo-johnson": 3500}
BOUND, BOUND_BY_ROW = 70, 2000
MIXTURE_ROWS = 1024  # at once, where predictions are mixtures of draws that differ by row
ROOT = np.sqrt(2 * np.pi)
MAX_CELLS = 1 << 21  # draws times rows of a block: 8 MB for each of a few arrays


class PosteriorDraws:
    """Draws of all chains, with the schema of their data.

    Chains without draws are left out; the others are used up to the length of the shortest.

    Attributes
    ----------
    own_work
        Cost of evaluating a draw at a row besides that of its trees, in trees (about 0.1 ns each).
    num_chains
        Number of chains with draws.
    num_draws
        Number of draws used per chain.
    num_trees
        Number of trees in a draw, of each forest where there are several.
    family
        "gaussian", "probit" or "categorical".
    leaf_counts
        Number of leaves of each tree, int64 [chain, draw, tree].
    draw_weights
        Weights of the draws, and the errors and verdicts that depend on them.

    """

    own_work = 0
    noise_differs = False  # from row to row

    def __init__(
        self,
        header: Header,
        chains: Sequence[Draws],
        blocks: Sequence[Sequence[bytes]],
        statistics: Sequence[dict[str, Any]],
    ) -> None:
        if not chains:
            raise NotFittedError("there is no draw yet: let the chains run past their burn-in first")
        if len({draws.num_trees for draws in chains}) > 1:
            raise PackedError("the chains differ in their number of trees")
        if not all(np.all(np.isfinite(draws.sigma) & (draws.sigma > 0)) for draws in chains):
            raise PackedError("the draws of sigma are not all positive numbers")
        self._header = header
        self._blocks = [list(chain) for chain in blocks]
        self._statistics = list(statistics)
        self._ensemble = self._make_ensemble(chains, len(header.grid.cuts))
        self._starts = np.cumsum([0, *(draws.num_draws for draws in chains)])[:-1]
        self.num_chains = len(chains)
        self.num_draws = min(draws.num_draws for draws in chains)
        self.family = str(header.settings.get("family", "gaussian"))
        self._sigma = np.array([draws.sigma[: self.num_draws] for draws in chains])
        used = [self._forests(draws[: self.num_draws]) for draws in chains]
        self.leaf_counts = np.array(
            [np.concatenate([each.leaf_counts for each in forests], axis=1) for forests in used]
        )
        self._rule_counts = [
            reduce(np.add, [rules_per_draw(each, header) for each in forests]) for forests in used
        ]
        self.num_trees = chains[0].num_trees
        self._offset = float(header.constants["offset"])
        self._step = float(header.constants["step"])
        self._degrees = self._read_degrees(chains)
        if self._degrees is not None:  # sigma is drawn as the scale of t
            self._sigma = self._sigma * noise_law.sd_of(self._degrees)
        self._transform = header.transform
        self._slopes = None if header.linear is None else Slopes(header.linear, chains)
        if self.family == "probit":
            self.own_work += PROBABILITY
        if self._slopes is not None:
            self.own_work += TERM * len(self._slopes.terms.column)
        if self._transform is not None:
            self.own_work += MEAN[self._transform.kind]
        self.draw_weights: DrawWeights = EqualWeights(self.num_chains)

    def _forests(self, draws: Draws) -> list[Draws]:
        """Return the forests whose trees are counted and shown: that of f."""
        return [draws]

    def _make_ensemble(self, chains: Sequence[Draws], num_features: int) -> Ensemble:
        return Ensemble(chains, num_features)

    def _read_degrees(self, chains: Sequence[Draws]) -> Floats | None:
        """Read the draws' degrees of freedom, float64 [chain, draw]; None for noise without heavy tails."""
        kind = NOISES.get(str(self._header.settings.get("noise", "constant")))
        if kind is None or not kind.heavy_tails:
            return None
        if not all(DEGREES in draws.scalars for draws in chains):
            raise PackedError("the draws don't have the degrees of freedom of the model's noise")
        found = np.array([draws.scalars[DEGREES][: self.num_draws] for draws in chains])
        if not noise_law.are_degrees(found):
            raise PackedError("the draws' degrees of freedom are not among those that noise may have")
        return found

    def degrees(self, num_draws: int | None = None) -> Floats | None:
        """Return draws of the noise's degrees of freedom, float64 [chain, draw]; None for normal noise."""
        if self._degrees is None:
            return None
        return self._degrees[:, : self._choose(num_draws)[1]]

    @property
    def sigma(self) -> Floats | None:
        """Draws of the noise standard deviation, float64 [chain, draw]; None for probit."""
        return self._sigma if self.classes is None else None

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes; of two, predictions give the probability of the second. None for numbers."""
        return self.schema.target.levels or None

    @property
    def grid(self) -> Grid:
        """Cut points of the coded columns."""
        return self._header.grid

    @property
    def usual_interval(self) -> IntervalKind:
        """The kind of interval that `predict` gives unless asked for another."""
        return "predictive" if self.classes is None else "credible"

    @property
    def schema(self) -> Schema:
        """Columns that the model was trained on."""
        return self._header.schema

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of the fit, resolved, as JSON values."""
        return self._header.settings

    @property
    def constants(self) -> dict[str, Any]:
        """Absolute constants of the prior, as JSON values."""
        return self._header.constants

    @property
    def warnings(self) -> list[str]:
        """Warnings given about the training data."""
        return self._header.warnings

    @property
    def exposure(self) -> str | None:
        """Name of the column of exposures of counts; None without one."""
        return self._header.exposure

    @property
    def weights(self) -> Floats | None:
        """Weights of the draws, float64 [chain, draw], with sum 1; None where all are equal."""
        return self.draw_weights.unequal(self.num_draws)

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes, roughly."""
        packed = sum(len(block) for chain in self._blocks for block in chain)
        arrays = (self._sigma, self.leaf_counts, *self._rule_counts, self._header.reference)
        slopes = self._slopes.nbytes if self._slopes else 0
        return packed + self._ensemble.nbytes + slopes + sum(array.nbytes for array in arrays)

    @property
    def reference(self) -> Coded:
        """Up to 200 training rows, evenly spaced, at which the chains are compared."""
        return Coded(self._header.reference, [], values=self._header.reference_values)

    def chains(self) -> list[Draws]:
        """Decode the draws of each chain that has any; chains may differ in length."""
        return [draws for draws in self.drawn() if draws is not None and draws.num_draws]

    def drawn(self) -> list[Draws | None]:
        """Decode the draws of every chain that was started; None for one without draws."""
        return [concatenate([unpack(block) for block in chain]) if chain else None for chain in self._blocks]

    def encode(self, X: Any, *, ignore_extra: bool = False) -> Coded:
        """Encode the rows of a table by column name; raise DataError as `sampler.data.encode.encode`.

        `ignore_extra` leaves out columns that the model doesn't know, with a warning.
        """
        header, keep = self._header, self._slopes is not None
        return encode(X, header.schema, header.grid, keep_values=keep, ignore_extra=ignore_extra)

    def predict(
        self,
        X: Any,
        level: float | Sequence[float] | None = 0.9,
        interval: str | None = None,
        quantiles: float | Sequence[float] | None = None,
        num_draws: int | None = None,
        *,
        ignore_extra: bool = False,
    ) -> Prediction:
        """Predict means, standard deviations and intervals at each row of X.

        Parameters
        ----------
        X
            A table with the model's columns, in any order; a single row as a dict or a pandas series; a list
            of such rows; or rows already encoded.
        level
            Probability of the interval: one, several, or None for no interval.
        interval
            "predictive", for a new outcome (of weight 1), or "credible", for the regression function; None
            is predictive for numbers and, for classes, credible: of their probabilities.
        quantiles
            Further quantiles of the same distribution, in (0, 1).
        num_draws
            Use the first `num_draws` draws of each chain, which reproduces an earlier answer after `extend`;
            None uses all.
        ignore_extra
            Whether columns that the model doesn't know are left out with a warning; else they are refused.

        Raises
        ------
        DataError
            For rows that don't fit the model, with each cell named.
        SettingsError
            For an invalid level, interval, quantile or number of draws.

        """
        request = Request.check(level, interval or self.usual_interval, quantiles, self.classes)
        coded = X if isinstance(X, Coded) else self.encode(X, ignore_extra=ignore_extra)
        several = self.classes is not None and len(self.classes) > 2
        shape = (coded.num_rows, len(self.classes or ())) if several else (coded.num_rows,)
        figures = IntervalFigures(shape, request)
        with np.errstate(over="ignore", invalid="ignore"):  # beyond the largest float figures are infinite
            used = self._fill(figures, coded, num_draws)
        return Prediction(
            figures.mean,
            figures.sd,
            figures.intervals,
            figures.quantiles,
            list(coded.warnings),
            used,
            request.kind,
            by_row(coded.marks, self.schema.columns),
            self.classes,
        )

    def _fill(self, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
        """Compute the figures of the rows; return the number of draws per chain used."""
        chosen, used = self._choose(num_draws)
        sigma = np.ascontiguousarray(self._sigma[:, :used]).reshape(-1)
        predictive = figures.request.predictive
        degrees = self.degrees(used)
        one_normal = degrees is None and not self.noise_differs
        transform = self._transform
        of_sums = self._slopes is None and transform is None and (one_normal or not predictive)
        block = min(BLOCK if of_sums else MIXTURE_ROWS, max(16, MAX_CELLS // len(chosen)))
        for start in range(0, coded.num_rows, block):
            rows = slice(start, min(start + block, coded.num_rows))
            part = coded.part(rows)
            if not of_sums:
                f = self._f(part, used)
                noise = self._noise(part, used) if predictive or transform else None
                figures.fill_mixtures(
                    rows,
                    _draws_by_row(f),
                    None if noise is None else _draws_by_row(noise),
                    None if degrees is None else degrees.reshape(-1),
                    transform,
                )
                continue
            sums = self._ensemble.sums(part.codes, chosen)
            if self.family == "probit":
                figures.fill_probabilities(rows, sums, self._offset, self._step)
            else:
                figures.fill(rows, sums, self._offset, self._step, sigma)
        return used

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

    @property
    def transform(self) -> Transform | None:
        """Transform of the outcome; None where the model learns the outcome itself."""
        return self._transform

    def _noise(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Return draws of the noise sd of what the model learns, float64 [chain, draw, row]."""
        chosen, used = self._choose(num_draws)
        return self._noise_of(coded, chosen).reshape(self.num_chains, used, coded.num_rows)

    def _noise_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Return the noise sd of the chosen draws of what the model learns, float64 [draw, row]."""
        return np.broadcast_to(self._sigma[self._places(chosen)][:, None], (len(chosen), coded.num_rows))

    def _places(self, chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find chain and number of the chosen draws."""
        chain = np.searchsorted(self._starts, chosen, side="right") - 1
        return chain, chosen - self._starts[chain]

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

    def bound_work(self, coded: Coded | None = None) -> float:  # noqa: ARG002  # counts depend on the rows
        """Return the cost of a predictive bound by row and draw, in trees; see `own_work`.

        `coded` are the rows, if they are known.
        """
        of_sums = self._slopes is None and self._transform is None and self._degrees is None
        return BOUND if of_sums and not self.noise_differs else BOUND_BY_ROW

    def law(self, coded: Coded, weights: Floats | None = None) -> OutcomeLaw:
        """Make the predictive distribution of the outcomes of rows with such weights (1 for None)."""
        return Predictive.of(self, coded, weights)

    def outcomes_by_draw(
        self, coded: Coded, y: Floats, weights: Floats | None, chosen: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Compute for numbers what each chosen draw says of known outcomes y [row] of rows.

        Parameters
        ----------
        coded, y, weights
            The rows, their outcomes and weights (1 for None).
        chosen
            Draws of all chains, as `spaced_draws` chooses them.

        Returns
        -------
        tuple
            The outcome's mean, and its log density (for counts: log probability), float64 [draw, row].

        """
        f, noise = self._f_of(coded, chosen), self._noise_of(coded, chosen)
        degrees = None if self._degrees is None else self._degrees[self._places(chosen)][None, :, None]
        sigma = noise / np.sqrt(1.0 if weights is None else weights)
        law = Predictive(f[None], sigma[None], None, degrees, self._transform)
        mean = f if self._transform is None else self._transform.moments(f, noise)[0]
        return mean, law.log_density_by_draw(y)[0]

    def probabilities_by_draw(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute the probability of each class in each chosen draw, float64 [draw, row, class]."""
        p = self._f_of(coded, chosen)
        return p if p.ndim == 3 else np.stack([1 - p, p], axis=2)

    def bound_errors(self, part: Coded, used: int) -> Callable[[Floats], Floats]:
        """Return a function from predictive bounds [row] to their Monte Carlo errors."""
        of_f, of_noise = self.sample_learnt(part, used)
        f, sigma = np.ascontiguousarray(of_f.transpose(2, 0, 1)), of_noise.transpose(2, 0, 1)
        transform, degrees = self.transform, self.degrees(used)

        def errors(bound: Floats) -> Floats:
            z = ((bound if transform is None else transform.forward(bound))[:, None, None] - f) / sigma
            density = self.draw_weights.mean_of(noise_law.scaled_density(z, degrees) / (ROOT * sigma), used)
            if transform is not None:
                density = density * np.exp(transform.log_slope(bound))
            return self.draw_weights.mean_error(noise_law.below(z, degrees), used) / density

        return errors

    def draws_by_figure(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Return draws of f, float64 [figure, chain, draw]; a figure is a row, or a row and class.

        With more than two classes, the figures of a row are adjacent.
        """
        f = self._mean(coded, num_draws)
        by_row = f.reshape(*f.shape[:3], -1).transpose(2, 3, 0, 1)
        return np.ascontiguousarray(by_row).reshape(-1, *f.shape[:2])

    def _coded(self, X: Any) -> Coded:
        return X if isinstance(X, Coded) else self.encode(X)

    def _f(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Compute f of the first draws of each chain, float64 [chain, draw, row], or [.., class]."""
        chosen, used = self._choose(num_draws)
        f = self._f_of(coded, chosen)
        return np.ascontiguousarray(f).reshape(self.num_chains, used, *f.shape[1:])

    def _f_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute f of the chosen draws, float64 [draw, row], or [draw, row, class] with several classes."""
        sums = self._ensemble.sums(coded.codes, chosen)
        f = self._offset + self._step * sums.astype(np.float64)
        if self._slopes is not None:
            self._slopes.add_to(f, coded, chosen)
        return np.asarray(ndtr(f)) if self.family == "probit" else f

    def _choose(self, num_draws: int | None) -> tuple[NDArray[np.int64], int]:
        used = self.num_draws if num_draws is None else num_draws
        whole = isinstance(used, int | np.integer) and not isinstance(used, bool)
        if not whole or not 1 <= used <= self.num_draws:
            raise SettingsError(
                f"num_draws must be from 1 to {self.num_draws}, not {num_draws!r}",
                field="num_draws",
                code="out_of_range",
            )
        return (self._starts[:, None] + np.arange(used)).reshape(-1), int(used)

    def spaced_draws(self, count: int) -> NDArray[np.int64]:
        """Choose `count` draws of all chains, evenly spaced by weight, by their numbers."""
        chosen, used = self._choose(None)
        return chosen[self.draw_weights.spaced(used, count)]

    def _alike(self, num_draws: int | None) -> NDArray[np.int64]:
        """Choose draws as `_choose`; weighted draws are repeated in proportion to their weights."""
        chosen, used = self._choose(num_draws)
        return chosen[self.draw_weights.spaced(used, len(chosen))]

    def summary(self) -> Summary:
        """Judge whether the chains agree (on up to 200 training rows and sigma), with figures and advice."""
        return self._summary

    @cached_property
    def _summary(self) -> Summary:
        found = self._summarise()
        told = None if self.sigma is None else noise_prior_reason(self.sigma, self._header)
        return found if told is None else replace(found, reasons=[*found.reasons, told])

    def _summarise(self) -> Summary:
        f = self.draws_by_figure(self.reference)
        return self.draw_weights.summary(f, self.sigma, self.leaf_counts, self._statistics)

    @property
    def usual_loss(self) -> Loss:
        """The loss by which `importance` ranks unless asked for another."""
        alike = self._degrees is None and self._transform is None and not self.noise_differs
        return "rmse" if self.classes is None and alike else "log_loss"

    def forests_to_explain(self) -> tuple[str, list[ForestToExplain]]:
        """Return what SHAP values add up to, in words, and the sums of trees whose values it is, by class."""
        draws = concatenate(self.chains())
        forest = ForestToExplain(
            draws, draws.leaf.astype(np.float64) * self._step, self._offset, self._slopes
        )
        if self._transform is not None:
            return f"{self.schema.target.name}, transformed ({self._transform.kind})", [forest]
        if self.family != "probit":
            return f"{self.schema.target.name}, in its own unit", [forest]
        second = self.schema.target.levels[1]
        return f"the normal quantile of the probability of {second!r} (probit)", [forest]


def _draws_by_row(values: Floats) -> Floats:
    """Turn values [chain, draw, row] into [row, draw]."""
    return np.ascontiguousarray(values.reshape(-1, values.shape[2]).T)
