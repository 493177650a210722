"""Draws of all chains as they are stored, and what their model's header says of them."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.encode import Coded, encode
from sampler.data.rows import missing_role
from sampler.data.target import no_exposure
from sampler.errors import DataError, NotFittedError, PackedError, SettingsError
from sampler.noise import DEGREES, NOISES, SPREAD
from sampler.posterior.ensemble import Ensemble
from sampler.posterior.explanations.inclusion import rules_per_draw
from sampler.posterior.kinds.intercepts import InterceptDraws
from sampler.posterior.kinds.slopes import Slopes
from sampler.posterior.weighting import noise_law
from sampler.posterior.weighting.draw_weights import DrawWeights, EqualWeights
from sampler.storage.draw_codec import unpack
from sampler.storage.draws import concatenate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.data.binning import Grid
    from sampler.data.schema import Schema
    from sampler.data.transform import Transform
    from sampler.storage.draws import Draws
    from sampler.storage.model_header import Header

    Floats = NDArray[np.float64]

# Costs in units of one tree of one draw at one row, about a tenth of a nanosecond: of a normal probability, a
# linear part, each of its terms, intercepts of a column of groups, and the mean of a transformed outcome.
PROBABILITY, LINE, TERM, GROUP, MEAN = 300, 150, 5, 50, {"log": 200, "yeo-johnson": 3500}


class StoredDraws:
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
        Family of the outcomes, one of `sampler.families.FAMILIES`.
    leaf_counts
        Number of leaves of each tree, int64 [chain, draw, tree].
    draw_weights
        Weights of the draws, and the errors and verdicts that depend on them.

    """

    own_work = 0

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
        self._noise_spread: Floats | None = None
        if all(SPREAD in draws.scalars for draws in chains):
            self._noise_spread = np.array([draws.scalars[SPREAD][: self.num_draws] for draws in chains])
        self._transform = header.transform
        self._slopes = self._read_slopes(chains)
        self._intercepts = None
        if header.groupings is not None:
            self._intercepts = InterceptDraws(header.groupings, header.schema.groups, chains, self._step)
            self.own_work += GROUP * len(header.schema.groups)
        if self.family == "probit":
            self.own_work += PROBABILITY
        if self._slopes is not None:
            self.own_work += LINE + TERM * len(self._slopes.terms.column)
        if self._transform is not None:
            self.own_work += MEAN[self._transform.kind]
        self.draw_weights: DrawWeights = EqualWeights(self.num_chains)

    def _read_slopes(self, chains: Sequence[Draws]) -> Slopes | None:
        """Read the slopes of a linear part beside the trees; None without one."""
        return None if self._header.linear is None else Slopes(self._header.linear, chains)

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
        degrees = np.array([draws.scalars[DEGREES][: self.num_draws] for draws in chains])
        if not noise_law.are_degrees(degrees):
            raise PackedError("the draws' degrees of freedom are not among those that noise may have")
        return degrees

    def degrees(self, num_draws: int | None = None) -> Floats | None:
        """Return draws of the noise's degrees of freedom, float64 [chain, draw]; None for normal noise."""
        if self._degrees is None:
            return None
        return self._degrees[:, : self._choose(num_draws)[1]]

    def noise_spread(self, num_draws: int | None = None) -> Floats | None:
        """Return draws of the prior standard deviation of log s(x), s the noise's, float64 [chain, draw].

        None where the noise doesn't differ by row, and for fits of versions that did not draw it.
        """
        if self._noise_spread is None:
            return None
        return self._noise_spread[:, : self._choose(num_draws)[1]]

    def group_sds(self, num_draws: int | None = None) -> Floats:
        """Return draws of standard deviations of intercepts, float64 [column of groups, chain, draw]."""
        chosen, used = self._choose(num_draws)
        if self._intercepts is None:
            return np.zeros((0, self.num_chains, used))
        return self._intercepts.sds[:, chosen].reshape(-1, self.num_chains, used)

    @property
    def slopes_of_groups(self) -> tuple[str, ...]:
        """Names of the features whose slope differs by group."""
        groupings = self._header.groupings
        if groupings is None or groupings.slopes is None:
            return ()
        coded = self.schema.coded
        return tuple(self.schema.columns[coded[position][0]].name for position in groupings.slopes.column)

    def group_slope_sds(self, num_draws: int | None = None) -> Floats:
        """Return draws of standard deviations of slopes, [column of groups, slope, chain, draw].

        Slopes are those of standardised features.
        """
        chosen, used = self._choose(num_draws)
        if self._intercepts is None:
            return np.zeros((0, 0, self.num_chains, used))
        sds = self._intercepts.all_sds[:, 1:, chosen]
        return sds.reshape(*sds.shape[:2], self.num_chains, used)

    @property
    def sigma(self) -> Floats | None:
        """Draws of the noise sd of a row of weight 1, float64 [chain, draw]; None for classes."""
        return self._sigma if self.classes is None else None

    @property
    def typical_sigma(self) -> Floats | None:
        """Draws of the noise sd of a row of typical weight, in units of y, float64 [chain, draw].

        None for classes, and with weights of which the model was stored without a typical one.
        """
        weight = self._header.typical_weight or (None if self._header.weighted else 1.0)
        return None if self.sigma is None or weight is None else self.sigma / np.sqrt(weight)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes; of two, predictions give the probability of the second. None for numbers."""
        return self.schema.target.levels or None

    @property
    def header(self) -> Header:
        """Header of the model file: the schema, settings and constants of the fit."""
        return self._header

    @property
    def grid(self) -> Grid:
        """Cut points of the coded columns."""
        return self._header.grid

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
    def censoring(self) -> dict[str, str]:
        """Names of the columns that tell of censored outcomes, by role; empty without any."""
        return self._header.censoring

    @property
    def weights(self) -> Floats | None:
        """Weights of the draws, float64 [chain, draw], with sum 1; None where all are equal."""
        return self.draw_weights.unequal(self.num_draws)

    @property
    def transform(self) -> Transform | None:
        """Transform of the outcome; None where the model learns the outcome itself."""
        return self._transform

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes, roughly."""
        packed = sum(len(block) for chain in self._blocks for block in chain)
        arrays = (self._sigma, self.leaf_counts, *self._rule_counts, self._header.reference)
        beside = sum(part.nbytes for part in (self._slopes, self._intercepts) if part)
        return packed + self._ensemble.nbytes + beside + sum(array.nbytes for array in arrays)

    @property
    def reference(self) -> Coded:
        """Up to 200 training rows, evenly spaced, at which the chains are compared."""
        header = self._header
        groups = None if header.groupings is None else header.groupings.reference_index()
        return Coded(header.reference, [], values=header.reference_values, groups=groups)

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
        header, keep = self._header, self._header.needs_values
        return encode(
            X,
            header.schema,
            header.grid,
            keep_values=keep,
            ignore_extra=ignore_extra,
            beside=header.exposure,
        )

    def match(self, names: Sequence[str]) -> list[str]:
        """Check the column names of rows to predict; return warnings, raise DataError as `Schema.match`."""
        exposure = self.exposure
        warnings = self.schema.match([name for name in names if name != exposure])
        return warnings if exposure is None or exposure in names else [*warnings, no_exposure(exposure)]

    def _coded(self, X: Any) -> Coded:
        return X if isinstance(X, Coded) else self.encode(X)

    def _coded_to_average(self, X: Any) -> Coded:
        """Encode rows over which an answer is averaged; None takes the reference rows, of exposure 1.

        Raises DataError as `encode`, and for rows without the exposures of the model.
        """
        if X is None:
            return self.reference
        coded = self._coded(X)
        if self.exposure is not None and coded.exposure is None:
            raise DataError([missing_role("exposure", self.exposure)])
        return coded

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

    def _places(self, chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find chain and number of the chosen draws."""
        chain = np.searchsorted(self._starts, chosen, side="right") - 1
        return chain, chosen - self._starts[chain]

    def spaced_draws(self, count: int) -> NDArray[np.int64]:
        """Choose `count` draws of all chains, evenly spaced by weight, by their numbers."""
        chosen, used = self._choose(None)
        return chosen[self.draw_weights.spaced(used, count)]

    def _alike(self, num_draws: int | None) -> NDArray[np.int64]:
        """Choose draws as `_choose`; weighted draws are repeated in proportion to their weights."""
        chosen, used = self._choose(num_draws)
        return chosen[self.draw_weights.spaced(used, len(chosen))]
