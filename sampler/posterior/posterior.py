"""The posterior of a fit: predictions with intervals, diagnostics, scores, and model files."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from sampler.data.encode import Coded, encode
from sampler.data.row_flags import Flag, by_row
from sampler.errors import NotFittedError, PackedError, SettingsError
from sampler.methods import METHODS
from sampler.noise import DEGREES, NOISES
from sampler.posterior.arviz import to_arviz
from sampler.posterior.assessment.calibration import row_by_row
from sampler.posterior.assessment.conformal import CalibratedIntervals
from sampler.posterior.assessment.convergence import growth
from sampler.posterior.assessment.density import density
from sampler.posterior.assessment.predictive import OutcomeLaw, Predictive
from sampler.posterior.assessment.scoring import LabelledRows, score
from sampler.posterior.display.model_card import ModelCard, model_card
from sampler.posterior.display.plots import Plots, draw_prediction
from sampler.posterior.display.tabular import (
    Convergence,
    Scores,
    posterior_card,
    prediction_card,
    prediction_columns,
    to_pandas,
)
from sampler.posterior.ensemble import Ensemble
from sampler.posterior.explanations.accumulated_effects import AccumulatedEffects, accumulated_effects
from sampler.posterior.explanations.contrasts import Contrast, ContrastWish, contrast
from sampler.posterior.explanations.inclusion import Inclusion, inclusion, rules_per_draw
from sampler.posterior.explanations.interactions import Interactions, interactions
from sampler.posterior.explanations.partial_dependence import (
    PartialDependence,
    Wish,
    partial_dependence,
    spaced,
)
from sampler.posterior.explanations.permutation import PermutationImportance, permutation_importance
from sampler.posterior.explanations.shap_values import ForestToExplain, GameKind, ShapValues, explain
from sampler.posterior.intervals import Interval, IntervalFigures, IntervalKind, Quantile, Request
from sampler.posterior.kernels.tree_sums import BLOCK
from sampler.posterior.kinds.slopes import Slopes
from sampler.posterior.report import diagnose
from sampler.posterior.verdict.reasons import noise_prior_reason
from sampler.posterior.weighting import noise_law
from sampler.posterior.weighting.draw_weights import DrawWeights, EqualWeights
from sampler.storage.draw_codec import unpack
from sampler.storage.draws import concatenate
from sampler.storage.model_file import read_parts, write_model
from sampler.storage.model_header import Header

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sampler.data.binning import Grid
    from sampler.data.schema import Schema
    from sampler.data.transform import Transform
    from sampler.posterior.explanations.permutation import Loss
    from sampler.posterior.verdict.summary import Summary
    from sampler.preparation import PreparedFit
    from sampler.storage.draws import Draws

    Floats = NDArray[np.float64]

PARTS = ("mean", "noise")  # of a model, that may have trees
MIXTURE_ROWS = 1024  # at once, where predictions are mixtures of draws that differ by row
ROOT = np.sqrt(2 * np.pi)
MAX_CELLS = 1 << 21  # draws times rows of a block: 8 MB for each of a few arrays


@dataclass(frozen=True)
class Prediction:
    """Predictions of rows.

    Attributes
    ----------
    mean, sd
        float64 [row]; of more than two classes [row, class], as all other arrays.
    intervals, quantiles
        Those requested, in order.
    warnings
        Warnings about the rows.
    draws
        Number of draws per chain used.
    interval
        What `sd`, intervals and quantiles describe: a new outcome ("predictive") or the regression function
        ("credible").
    flags
        The unusual cells of each row: outside the range of training, unseen levels, missing as never before.
    classes
        Names of the classes, None for numbers; of two, figures are the probability of the second.

    """

    mean: Floats
    sd: Floats
    intervals: list[Interval]
    quantiles: list[Quantile]
    warnings: list[str]
    draws: int
    interval: IntervalKind
    flags: list[list[Flag]]
    classes: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.mean)

    def to_pandas(self) -> Any:
        """Return a data frame [row] with ``mean``, ``sd``, ``lower_90``, ``upper_90`` and so on.

        Of more than two classes there are columns for each: ``mean_setosa``.
        """
        return to_pandas(prediction_columns(self))

    def plot(self, ax: Any = None) -> Any:
        """Draw the first intervals by rank with matplotlib, on `ax` or a new figure; return the axes."""
        return draw_prediction(self, ax)

    def _repr_html_(self) -> str:
        return prediction_card(self)

    @property
    def lower(self) -> Floats:
        """Lower ends, float64 [row], or [level, row] for several levels."""
        return self._ends(1)

    @property
    def upper(self) -> Floats:
        """Upper ends, float64 [row], or [level, row] for several levels."""
        return self._ends(2)

    def _ends(self, part: int) -> Floats:
        ends = [np.asarray(interval[part]) for interval in self.intervals]
        return ends[0] if len(ends) == 1 else np.array(ends).reshape(len(ends), *self.mean.shape)


class Posterior:
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
        self.draw_weights: DrawWeights = EqualWeights(self.num_chains)
        self.origin: Origin | None = None  # data and states from which `extend` continues

    @classmethod
    def from_blocks(
        cls,
        header: bytes,
        blocks: Sequence[Sequence[bytes]],
        statistics: Sequence[dict[str, Any]] | None = None,
    ) -> Posterior:
        """Decode a posterior from a fit's header and each chain's packed blocks.

        Parameters
        ----------
        header
            Header, as `PreparedFit.header` encodes it.
        blocks
            Packed draws, by chain.
        statistics
            Counters of the moves, by chain; None where unknown.

        Raises
        ------
        PackedError
            For bytes that can't be read.
        NotFittedError
            When no chain has a draw.

        """
        chains = [concatenate([unpack(block) for block in chain]) for chain in blocks if chain]
        chains = [draws for draws in chains if draws.num_draws]
        read = Header.from_bytes(header)
        return _kind_of(read)(read, chains, blocks, statistics or [])

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

    def extend(
        self, num_draws: int, X: Any = None, y: Any = None, weights: Any = None, *, progress: bool = True
    ) -> Posterior:
        """Continue the chains for more draws and return a new posterior.

        The result equals, bit for bit, that of one longer fit with the same `num_burnin`. The chains continue
        from their last states, which `save` keeps too. It does not keep the training rows, so a loaded
        posterior needs them again: `load(path).extend(500, X, y)`.

        Parameters
        ----------
        num_draws
            Number of further draws per chain.
        X, y, weights
            Rows given to `fit`, in the same order; needed after `load` only.
        progress
            Whether to show a progress bar.

        Raises
        ------
        SettingsError
            When there are no rows or no states to continue from, or `num_draws` is out of range.
        DataError
            When the rows are not those of the fit.

        """
        if self.origin is None:
            raise SettingsError(
                "this model has no states of its chains (a service's file never has): fit again "
                "with more draws",
                field=None,
                code="unavailable",
            )
        rows = None if X is None and y is None else (X, y, weights)
        fitting = import_module("sampler.fitting")  # it stands above this module
        extended: Posterior = fitting.extend(self, self.origin, num_draws, rows, progress=progress)
        return extended

    def problem_of(self, X: Any, y: Any, weights: Any = None) -> PreparedFit:
        """Prepare the fit's training data again from its rows; raise DataError for rows that don't fit."""
        preparation = import_module("sampler.preparation")  # it stands above this module
        prepared: PreparedFit = preparation.prepare_again(self._header, X, y, weights)
        return prepared

    def diagnostics(self, max_points: int = 500) -> dict[str, Any]:
        """Report on the agreement of the chains, with traces of at most `max_points` points.

        See `sampler.posterior.report.diagnose` for the entries.
        """
        return diagnose(self, self._statistics, max_points)

    def score(self, X: Any, y: Any, weights: Any = None, *, quick: bool = False) -> Scores:
        """Score the posterior on rows that it was not fitted to (`holdout_rows` chooses such rows).

        Parameters
        ----------
        X
            A table with the model's columns, in any order; n rows.
        y
            n outcomes.
        weights
            n positive precision weights, or None: row i has variance sigma^2 / weight.
        quick
            Leave out `crps` and `pinball`, which take most of the time.

        Returns
        -------
        Scores
            A dict, which `to_pandas` arranges as a table: ``rows``, n. For numbers: ``rmse`` of the posterior
            mean, in units of the outcome; ``log_score``, the mean log density of the outcomes under the
            posterior predictive distribution; ``crps``, the mean continuous ranked probability score, and
            ``pinball``, the mean loss of its quantiles 0.05, 0.25, 0.5, 0.75 and 0.95, both in units of the
            outcome, less is better; ``coverage``, a dict for each level (0.5, 0.8, 0.9, 0.95) with the share
            of outcomes inside predictive intervals and that share's own 95% interval; ``intervals_verdict``,
            whether those intervals hold all in all and in each quarter of the prediction and of each numeric
            feature: ``verdict`` ("held", "not_held" or "unknown"), ``text``, ``advice``, ``reasons`` and the
            shares. For classes: ``log_loss``, ``brier`` and ``accuracy`` of the mean probabilities; a class
            that the model never saw has probability 0.

        Raises
        ------
        DataError
            For rows or outcomes that don't fit the model, with each cell named.
        SettingsError
            For weights with classes.

        """
        return Scores(score(self, LabelledRows.read(self, X, y, weights), quick=quick))

    def calibration(self, X: Any, y: Any, weights: Any = None) -> list[dict[str, Any]]:
        """Compare levels of intervals with the shares of outcomes inside them.

        At most 2,000 of the rows are used, evenly spaced.

        Parameters
        ----------
        X, y, weights
            Rows, outcomes and weights, as for `score`.

        Returns
        -------
        list of dict
            For numbers: for each ``level`` of predictive intervals (0.05 to 0.95 and 0.99) the share of
            outcomes inside (``observed``). For two classes: for each tenth of the predicted probability, its
            mean (``level``) and the share of the second class. For more classes: for each tenth of the
            largest probability, the share of rows that are of that class. Each with its 95% binomial interval
            (``lower``, ``upper``) and the number of ``rows`` used.

        Raises
        ------
        DataError, SettingsError
            As `score`.

        """
        rows = LabelledRows.read(self, X, y, weights)
        found: list[dict[str, Any]] = row_by_row(self, rows, np.arange(len(rows.y)))["calibration"]
        return found

    def calibrate(self, X: Any, y: Any, weights: Any = None) -> CalibratedIntervals:
        """Calibrate intervals by rows that the posterior was not fitted to (`holdout_rows` chooses such).

        Of new rows like these, the intervals of `predict` of the result cover at least the share asked for,
        on average, whatever is wrong with the model (split-conformal prediction).

        Parameters
        ----------
        X, y, weights
            Rows, outcomes and weights, as for `score`.

        Raises
        ------
        DataError, SettingsError
            As `score`, and for classes.

        """
        return CalibratedIntervals.of(self, LabelledRows.read(self, X, y, weights))

    def convergence(self) -> Convergence:
        """Compute R-hat and effective sample sizes of sigma and f for growing numbers of draws.

        Returns
        -------
        Convergence
            A dict, which `to_pandas` arranges as a table: ``draws``, up to 12 numbers of draws per chain;
            ``chains``, the number of chains; ``sigma`` (None for two classes) with ``rhat, ess_bulk,
            ess_tail``, each a list over these numbers; ``f`` with their medians over ``rows``, up to 50
            reference rows, and ``rhat_p95``, which 95% of the rows don't exceed; ``limits``, the largest
            R-hat that each verdict allows. Weights of draws are ignored here.

        """
        return Convergence(growth(self, self.num_draws))

    def density(self, row: Any) -> dict[str, Any]:
        """Compute the densities of the regression function and of a new outcome (of weight 1) at one row.

        Parameters
        ----------
        row
            Values by column name, or a table of one row.

        Returns
        -------
        dict
            ``x``, float64 [240], in units of the outcome; at these points ``mean``, the density of the
            regression function (for two classes: of the second's probability), None when all draws are equal,
            and ``outcome``, that of a new outcome, None for two classes; ``centre``, the posterior mean;
            ``intervals``, (lower, upper) at 90%, for ``mean`` and ``outcome``.

        Raises
        ------
        DataError
            For a row that doesn't fit the model, or several rows.
        SettingsError
            For a model of more than two classes.

        """
        return density(self, self._coded(row), self.num_draws)

    def encode(self, X: Any) -> Coded:
        """Encode the rows of a table by column name; raise DataError as `sampler.data.encode.encode`."""
        return encode(X, self._header.schema, self._header.grid, keep_values=self._slopes is not None)

    def predict(
        self,
        X: Any,
        level: float | Sequence[float] | None = 0.9,
        interval: str | None = None,
        quantiles: float | Sequence[float] | None = None,
        num_draws: int | None = None,
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

        Raises
        ------
        DataError
            For rows that don't fit the model, with each cell named.
        SettingsError
            For an invalid level, interval, quantile or number of draws.

        """
        request = Request.check(level, interval or self.usual_interval, quantiles, self.classes)
        coded, several = self._coded(X), self.classes is not None and len(self.classes) > 2
        shape = (coded.num_rows, len(self.classes or ())) if several else (coded.num_rows,)
        figures = IntervalFigures(shape, request)
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

    def inclusion(self, level: float = 0.9, of: str = "mean") -> Inclusion:
        """Compute the share of split rules that use each feature; a category's indicators are added up.

        Draws without any rule are left out of the mean; their number is reported. `level` is the probability
        of the interval over draws; `of` is "mean", or "noise" for the trees that make the noise differ by row
        (raises SettingsError where there are none).
        """
        (level,) = Request.check(level, "credible", None).levels
        names = [column.name for column in self.schema.columns]
        counts = np.concatenate(self._rule_counts_of(check_part(of)))
        return inclusion(names, counts[self.draw_weights.spaced(self.num_draws, len(counts))], level)

    def _rule_counts_of(self, part: str) -> list[NDArray[np.int32]]:
        """Count the rules of each chain's draws by feature, of the trees of that part."""
        if part == "noise":
            raise _without_noise_trees()
        return self._rule_counts

    @property
    def usual_loss(self) -> Loss:
        """The loss by which `importance` ranks unless asked for another."""
        alike = self._degrees is None and self._transform is None and not self.noise_differs
        return "rmse" if self.classes is None and alike else "log_loss"

    def importance(
        self,
        X: Any,
        y: Any,
        weights: Any = None,
        *,
        loss: str | None = None,
        level: float = 0.9,
        permutations: int = 10,
        seed: int = 0,
    ) -> PermutationImportance:
        """Rank the features by how much a loss grows when one of them is shuffled among the rows.

        Features that carry the same information share it: shuffling one of them costs little while the
        other remains.

        Parameters
        ----------
        X, y, weights
            Rows that the posterior was not fitted to (`holdout_rows` chooses such rows), their outcomes and
            weights, as for `score`; at most 1,000 are used, evenly spaced.
        loss
            "rmse", the root mean square error in units of the outcome (not for classes), or "log_loss", the
            mean of minus the log density or log probability of the outcomes. None takes `rmse` for numbers
            with normal noise of the same size everywhere, else `log_loss`, which also sees features that
            matter to the noise alone.
        level
            Probability of the intervals, which are over draws and permutations.
        permutations
            Number of permutations.
        seed
            Seed of the permutations.

        Raises
        ------
        DataError
            For rows or outcomes that don't fit the model, and fewer than two rows.
        SettingsError
            For an invalid loss, level or number, and weights with classes or counts.

        """
        rows = LabelledRows.read(self, X, y, weights)
        losses = None if loss is None else [loss]
        ranked = permutation_importance(self, rows, losses, level=level, permutations=permutations, seed=seed)
        return ranked[0]

    def linear_part(self, level: float = 0.9) -> list[dict[str, Any]] | None:
        """Summarise the slopes of the linear part beside the trees; None without one.

        Slopes are on the columns' own scale. They are not effects: trees take any share of the same signal,
        and predictions add both up.

        Parameters
        ----------
        level
            Probability of the interval over draws.

        Returns
        -------
        list of dict
            For each term ``feature``, ``level`` (of a category; None for other kinds), ``missing`` (whether
            the term is for missing values), ``mean``, ``sd``, ``lower`` and ``upper``.

        """
        (level,) = Request.check(level, "credible", None).levels
        if self._slopes is None:
            return None
        return self._slopes.summary(self.schema, self._choose(None)[0], level)

    def partial_dependence(
        self,
        features: str | Sequence[str],
        X: Any = None,
        grid: Mapping[str, Sequence[Any]] | None = None,
        level: float | Sequence[float] = 0.9,
        *,
        ice: int = 0,
        num_draws: int | None = None,
        max_work: float = math.inf,
        of: str = "mean",
    ) -> PartialDependence:
        """Compute the mean prediction over rows as a function of one or two features, with intervals.

        Parameters
        ----------
        features
            One or two names: "weight" or ["weight"].
        X
            Rows to average over; None takes the up to 200 reference rows.
        grid
            Points by feature; the default is all levels, or up to 19 values that divide the training rows
            evenly.
        level
            Probability of the interval, one or several.
        ice
            Number of single rows whose curves are computed too (individual conditional expectation).
        num_draws
            Use the first `num_draws` draws of each chain; None uses all.
        max_work
            Bound on rows x points x draws x trees; rows are left out, evenly, to respect it.
        of
            "mean", or "noise" for the noise's standard deviation where it differs by row: what makes an
            outcome uncertain.

        Raises
        ------
        DataError
            For rows or points that don't fit the model.
        SettingsError
            For invalid features, levels or numbers, and for too much work.

        """
        levels = Request.check(level, "credible", None).levels
        coded = self.reference if X is None else self._coded(X)
        chosen = self._alike(num_draws)

        if check_part(of) == "noise" and not self.noise_differs:
            raise _without_noise_trees()

        def f(changed: Coded) -> Floats:
            if of == "noise":
                return self.sample_sigma(changed, num_draws).reshape(len(chosen), changed.num_rows)
            return self._mean_of(changed, chosen, num_draws)

        forests = self.leaf_counts.shape[2] / self.num_trees
        wish = Wish(features, grid or {}, levels, ice, max_work / forests)
        found = partial_dependence(self._header, f, coded, len(chosen), wish)
        return replace(found, classes=self.classes)

    def shap(
        self,
        X: Any,
        background: Any = None,
        level: float = 0.9,
        *,
        game: GameKind = "interventional",
        max_draws: int = 200,
    ) -> ShapValues:
        """Compute SHAP values: how much each column moves the prediction of each row, with intervals.

        They are exact on every draw, and add up to f less its average over the background rows. For two
        classes f is on the probit scale; see `scale` of the answer.

        Parameters
        ----------
        X
            A table with the model's columns, in any order; n rows.
        background
            Rows that stand for "not knowing" a column; None takes 100 of the reference rows.
        level
            Probability of the intervals.
        game
            "interventional": an unknown column takes its values from the background rows. "path-dependent":
            it goes both ways at its splits, by the shares of background rows there, so that columns that
            go together share what is due to either.
        max_draws
            Most draws used, evenly spaced over all chains.

        Raises
        ------
        DataError
            For rows that don't fit the model, with each cell named.
        SettingsError
            For an invalid level, game or number of draws, and for soft trees, which have no exact values.

        """
        (level,) = Request.check(level, "credible", None).levels
        rows = self.reference if background is None else self._coded(background)
        return explain(self, X, rows, self._alike(None), level, game, max_draws)

    def accumulated_effects(
        self,
        feature: str,
        X: Any = None,
        level: float | Sequence[float] = 0.9,
        *,
        num_draws: int | None = None,
    ) -> AccumulatedEffects:
        """Compute accumulated local effects of a column of numbers or dates, with intervals over draws.

        Unlike `partial_dependence` they never set a column far from its value in a row, so that columns that
        go together don't lead to rows which the data have nothing like.

        Parameters
        ----------
        feature
            Name of the column.
        X
            Rows; None takes the up to 200 reference rows.
        level
            Probability of the interval, one or several.
        num_draws
            Use the first `num_draws` draws of each chain; None uses all.

        Raises
        ------
        DataError
            For rows that don't fit the model.
        SettingsError
            For a column that is unknown or has no order, and invalid levels and numbers.

        """
        levels = Request.check(level, "credible", None).levels
        coded = self.reference if X is None else self._coded(X)
        chosen = self._alike(num_draws)

        def f(changed: Coded) -> Floats:
            return self._mean_of(changed, chosen, num_draws)

        return accumulated_effects(self._header, f, coded, feature, levels)

    def contrast(
        self,
        X: Any,
        first: Mapping[str, Any],
        second: Mapping[str, Any],
        *,
        by: str | None = None,
        level: float = 0.9,
        num_draws: int | None = None,
    ) -> Contrast:
        """Compute how predictions differ between two settings of some columns, by row and on average.

        It is E[f(x with the first setting) - f(x with the second)], for two classes of the probability of the
        second, for more of each.

        Parameters
        ----------
        X
            Rows whose other columns stay as they are; None takes the up to 200 reference rows.
        first, second
            Values by column, of the same columns: ``{"dose": 2}``, ``{"dose": 1}``.
        by
            A column by which averages are given too: by its levels, or a number or date by quarters.
        level
            Probability of the intervals.
        num_draws
            Use the first `num_draws` draws of each chain; None uses all.

        Raises
        ------
        DataError
            For rows or values that don't fit the model.
        SettingsError
            For unknown columns, settings of different columns, and invalid levels and numbers.

        """
        (level,) = Request.check(level, "credible", None).levels
        coded = self.reference if X is None else self._coded(X)
        chosen = self._alike(num_draws)

        def f(changed: Coded) -> Floats:
            return self._mean_of(changed, chosen, num_draws)

        request = ContrastWish(first, second, by, level)
        return contrast(self._header, f, coded, self.inclusion().mean, request)

    def interactions(
        self,
        features: Sequence[str] | None = None,
        X: Any = None,
        level: float = 0.9,
        *,
        max_draws: int = 200,
    ) -> Interactions:
        """Compute how strongly each two columns act together, with intervals over draws.

        Parameters
        ----------
        features
            At least two columns; None takes the ten that most rules use.
        X
            Rows over which effects are averaged and compared, at most 50, evenly spaced; None takes reference
            rows.
        level
            Probability of the intervals.
        max_draws
            Most draws used for H, evenly spaced over all chains; inclusion takes all.

        Raises
        ------
        DataError
            For rows that don't fit the model.
        SettingsError
            For unknown columns, fewer than two, more than two classes, and soft trees.

        """
        (level,) = Request.check(level, "credible", None).levels
        self.forests_to_explain()
        if self.classes is not None and len(self.classes) > 2:
            raise SettingsError(
                "interactions are of numbers and of two classes only", field=None, code="not_applicable"
            )
        drawn = self._alike(None)
        chosen = drawn[spaced(len(drawn), max_draws)]

        def f(changed: Coded) -> Floats:
            return self._f_of(changed, chosen)

        coded = self.reference if X is None else self._coded(X)
        return interactions(self._header, concatenate(self.chains()), f, coded, features, level)

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

    def model_card(
        self,
        X: Any = None,
        y: Any = None,
        weights: Any = None,
        *,
        scores: Mapping[str, Any] | None = None,
        importance: Mapping[str, Any] | None = None,
        facts: Mapping[str, str] | None = None,
    ) -> ModelCard:
        """Describe the model on one page: data, settings, verdicts, scores, importance, effects and limits.

        Parameters
        ----------
        X, y, weights
            Rows that the model was not fitted to, with their outcomes, for scores and importance; None for a
            card without them.
        scores, importance
            Scores and importance known already, as `score` and `importance(..).to_json()` return them, in
            place of rows.
        facts
            Further facts for the first section, by name.

        Returns
        -------
        ModelCard
            `to_markdown()` and `to_html()` write it; notebooks show it.

        Raises
        ------
        DataError
            For rows that don't fit the model.

        """
        if X is not None:
            scores = self.score(X, y, weights)
            importance = self.importance(X, y, weights).to_json()
        return model_card(self, self._header, scores, importance, facts or {})

    @property
    def plot(self) -> Plots:
        """Charts with matplotlib, which is optional: `posterior.plot.traces()` and so on."""
        return Plots(self)

    def to_arviz(self) -> Any:
        """Convert sigma, and f at the reference rows, to ArviZ's data tree; needs the package arviz-base."""
        return to_arviz(self)

    def to_bytes(self) -> bytes:
        """Encode the posterior as a model file."""
        checkpoints = self.origin.checkpoints if self.origin else []
        return write_model(self._header.to_bytes(), self._blocks, self._statistics, checkpoints)

    @classmethod
    def from_bytes(cls, data: bytes) -> Posterior:
        """Decode a model file; raise PackedError."""
        header, blocks, statistics, checkpoints = read_parts(data)
        posterior = cls.from_blocks(header, blocks, statistics)
        posterior.origin = Origin(None, checkpoints) if checkpoints else None
        return posterior

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file atomically."""
        target = Path(path)
        partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
        try:
            partial.write_bytes(self.to_bytes())
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the posterior as its model file, without the training rows."""
        return Posterior.from_bytes, (self.to_bytes(),)

    def _repr_html_(self) -> str:
        return posterior_card(self)

    def __repr__(self) -> str:
        columns = ", ".join(column.name for column in self.schema.columns)
        return (
            f"<Posterior of {self.schema.target.name} given {columns}: "
            f"{self.num_chains} chains of {self.num_draws} draws of {self.leaf_counts.shape[2]} trees>"
        )


def check_part(of: str) -> str:
    """Check the name of a part of the model that has trees; raise SettingsError."""
    if of not in PARTS:
        raise SettingsError(f"of must be mean or noise, not {of!r}", field="of", code="not_accepted")
    return of


def _without_noise_trees() -> SettingsError:
    return SettingsError(
        "of noise: this model's noise has no trees, since it doesn't differ by row (noise=forest does)",
        field="of",
        code="not_applicable",
    )


def _draws_by_row(values: Floats) -> Floats:
    """Turn values [chain, draw, row] into [row, draw]."""
    return np.ascontiguousarray(values.reshape(-1, values.shape[2]).T)


def _kind_of(header: Header) -> type[Posterior]:
    """Return the class of posteriors for the header's method."""
    method = METHODS.get(str(header.settings.get("method", "bart")), METHODS["bart"])
    return method.posterior_of(header.settings)


@dataclass(frozen=True)
class Origin:
    """State from which a posterior's chains continue: their data (None once loaded) and last states."""

    problem: PreparedFit | None
    checkpoints: list[bytes]
