"""The members of a posterior that say what it consists of: draws, header, parts, values at rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.binning import Grid
from sampler.data.encode import Coded
from sampler.data.rows import absent_roles
from sampler.data.schema import Column, Schema
from sampler.data.transform import Transform
from sampler.posterior.core import topology
from sampler.posterior.core.intervals import IntervalKind, Request
from sampler.posterior.core.topology import TreeShape
from sampler.posterior.explanations.groups import summarise_groups
from sampler.posterior.laws.count_law import CountLaw
from sampler.posterior.laws.law import Law
from sampler.posterior.parts.slopes import Slope
from sampler.posterior.predicting import usual_interval
from sampler.posterior.refusals import check
from sampler.posterior.results.groups import GroupEffects
from sampler.posterior.verdict.summary import Summary
from sampler.storage.conformal_table import ConformalTable
from sampler.storage.draws import Draws
from sampler.storage.model_header import Header


class DescribedPosterior:
    """Members of a posterior: its draws and header, the parts of its law, and values of draws at rows.

    Attributes
    ----------
    several
        The `SeveralPosterior` of which this is one outcome's; else None.

    """

    law: Law
    several: Any = None

    @property
    def num_chains(self) -> int:
        """Number of chains with draws."""
        return self.law.draws.num_chains

    @property
    def num_draws(self) -> int:
        """Number of draws used per chain."""
        return self.law.draws.num_draws

    @property
    def num_trees(self) -> int:
        """Number of trees in a draw, of each forest where there are several."""
        return self.law.num_trees

    @property
    def family(self) -> str:
        """Family of the outcomes, one of `sampler.families.FAMILIES`."""
        return self.law.draws.family

    @property
    def leaf_counts(self) -> NDArray[np.int64]:
        """Number of leaves of each tree, int64 [chain, draw, tree]."""
        return self.law.leaf_counts

    @property
    def header(self) -> Header:
        """Header of the model file: the schema, settings and constants of the fit."""
        return self.law.draws.header

    @property
    def grid(self) -> Grid:
        """Cut points of the coded columns."""
        return self.header.grid

    @property
    def schema(self) -> Schema:
        """Columns that the model was trained on."""
        return self.header.schema

    @property
    def inputs(self) -> Sequence[Column]:
        """Columns of rows to predict, of several outcomes those of any of them."""
        return (self.several or self.schema).inputs

    @property
    def unit(self) -> str | None:
        """Unit that the file of the training rows had beside outcomes; None without one, and of classes."""
        return self.law.unit

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of the fit, resolved, as JSON values."""
        return self.header.settings

    @property
    def constants(self) -> dict[str, Any]:
        """Absolute constants of the prior, as JSON values."""
        return self.header.constants

    @property
    def warnings(self) -> list[str]:
        """Warnings given about the training data."""
        return self.header.warnings

    @property
    def exposure(self) -> str | None:
        """Name of the column of exposures of counts; None without one."""
        return self.header.beside.get("exposure")

    @property
    def beside(self) -> dict[str, str]:
        """Names of the columns beside the features that new rows may have, by role; empty without any."""
        return self.header.beside

    @property
    def censoring(self) -> dict[str, str]:
        """Names of the columns that tell of censored outcomes, by role; empty without any."""
        return self.header.censoring

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes; of two, predictions give the probability of the second. None for numbers."""
        return self.law.classes

    @property
    def sigma(self) -> Floats | None:
        """Draws of the noise sd of a row of weight 1, float64 [chain, draw]; None for classes and counts.

        Where the noise differs by row, it is its geometric mean over reference rows.
        """
        return self.law.sigma

    @property
    def typical_sigma(self) -> Floats | None:
        """Draws of the noise sd of a row of typical weight, in units of y, float64 [chain, draw].

        None for classes, and with weights of which the model was stored without a typical one.
        """
        return self.law.typical_sigma

    @property
    def dispersion(self) -> Floats | None:
        """Draws of the dispersion of counts, float64 [chain, draw]; None for others, and Poisson counts.

        The variance is mean + mean^2 / dispersion.
        """
        return self.law.dispersion

    @property
    def weights(self) -> Floats | None:
        """Weights of the draws, float64 [chain, draw], with sum 1; None where all are equal."""
        return self.law.weights.unequal(self.num_draws)

    @property
    def evidence(self) -> dict[str, Any] | None:
        """Log marginal likelihood estimated by weighted draws, pooled and by run, and its sd; else None."""
        return self.law.evidence

    @property
    def transform(self) -> Transform | None:
        """Transform of the outcome; None where the model learns the outcome itself."""
        return self.law.transform or None

    @property
    def noise_differs(self) -> bool:
        """Whether the noise differs from row to row."""
        return self.law.noise_differs

    @property
    def conformal_table(self) -> ConformalTable | None:
        """Table by which intervals are calibrated; None where the model has none."""
        return self.header.calibration

    @property
    def usual_interval(self) -> IntervalKind:
        """The kind of interval that `predict` gives by default."""
        return usual_interval(self.law)

    @property
    def reference(self) -> Coded:
        """Up to 200 training rows, evenly spaced, at which the chains are compared."""
        return self.law.draws.reference

    def degrees(self, num_draws: int | None = None) -> Floats | None:
        """Return draws of the noise's degrees of freedom, float64 [chain, draw]; None for normal noise."""
        return self.law.degrees(num_draws)

    def tree_numbers(self, num_draws: int | None = None) -> Floats | None:
        """Return draws of the number of trees, float64 [chain, draw]; None where it isn't drawn."""
        numbers = self.law.draws.tree_numbers
        return None if numbers is None else numbers[:, : self.law.draws.choose(num_draws)[1]]

    def noise_spread(self, num_draws: int | None = None) -> Floats | None:
        """Return draws of the prior standard deviation of log s(x), s the noise's, float64 [chain, draw].

        None where the noise doesn't differ by row, and for fits of versions that did not draw it.
        """
        spread = self.law.draws.noise_spread
        return None if spread is None else spread[:, : self.law.draws.choose(num_draws)[1]]

    def topologies(self, most: int = topology.MOST) -> list[TreeShape] | None:
        """Return the posterior probabilities of shapes of single trees, the most probable first.

        A ``topology`` is in pre-order, with "." for a leaf and "(" left right ")" for a split;
        ``probability`` is beside it. At most `most` are returned; None of a sum of trees.
        """
        return self.law.topologies(most)

    def chains(self) -> list[Draws]:
        """Decode the draws of each chain that has any; chains may differ in length."""
        return self.law.draws.chains()

    def drawn(self) -> list[Draws | None]:
        """Decode the draws of every chain that was started; None for one without draws."""
        return self.law.draws.drawn()

    def encode(self, X: Any, *, ignore_extra: bool = False) -> Coded:
        """Encode the rows of a table by column name, with the exposures in it.

        `ignore_extra` leaves out columns that the model doesn't know, with a warning. Raises DataError as
        `sampler.data.encode.encode`, and for exposures that are not positive.
        """
        return self.law.draws.encode(X, ignore_extra=ignore_extra)

    def match(self, names: Sequence[str]) -> list[str]:
        """Check the column names of rows to predict; return warnings, raise DataError as `Schema.match`."""
        others = {*self.beside.values(), *self.header.subgroup_kinds, *self.law.draws.of_others}
        others -= {*self.schema.kinds}
        warnings = self.schema.match([name for name in names if name not in others])
        return [*warnings, *absent_roles(self.beside, names)]

    def sample(self, X: Any, num_draws: int | None = None) -> Floats:
        """Return draws of f at each row of X, float64 [chain, draw, row]; large for many rows.

        For two classes, draws are of the second's probability; for more, [chain, draw, row, class]. With a
        transform of the outcome, they are of the outcome's mean; of a row in a new group look at their
        quantiles then, as their average is decided by the rarest.
        """
        return self.law.mean(self.law.draws.coded(X), num_draws)

    def sample_sigma(self, X: Any, num_draws: int | None = None) -> Floats:
        """Return draws of the noise sd at each row, float64 [chain, draw, row]; ones for classes."""
        return self.law.outcome_sd(self.law.draws.coded(X), num_draws)

    def sample_learnt(self, X: Any, num_draws: int | None = None) -> tuple[Floats, Floats]:
        """Return draws of the mean and the noise sd of what the model learns: the outcome, or its transform.

        Both are float64 [chain, draw, row].
        """
        coded = self.law.draws.coded(X)
        return self.law.f(coded, num_draws), self.law.noise(coded, num_draws)

    def pmf(self, X: Any, largest: int = 20) -> Floats:
        """Compute the probabilities of the counts 0 to `largest` at each row of X, float64 [row, count].

        Raises SettingsError for models of other outcomes.
        """
        check("counts", self.law)
        law = self.law.outcome_law(self.law.draws.coded(X))
        assert isinstance(law, CountLaw)
        return np.stack([law.pmf(np.full(len(law.mean), float(k))) for k in range(largest + 1)], axis=1)

    def linear_part(self, level: float = 0.9) -> list[Slope] | None:
        """Summarise the slopes of the linear part beside the trees; None without one.

        Slopes are on the columns' own scale. They are not effects: trees take any share of the same signal,
        and predictions add both up.

        Parameters
        ----------
        level
            Probability of the interval over draws.

        Returns
        -------
        list of Slope
            One for each term, on the column's own scale; of classes less the mean over classes.

        """
        return self.law.linear_part(level)

    def groups(self, level: float = 0.9) -> list[GroupEffects]:
        """Summarise the intercepts of groups beside the trees, for each column of groups; empty without any.

        They are in units of what the trees learn: of the outcome, of its transform, or of the normal quantile
        of the probability of the second class. `level` is the probability of the intervals over draws.
        """
        return summarise_groups(self.law, Request.check_level(level))

    def group_sds(self, num_draws: int | None = None) -> Floats:
        """Return draws of standard deviations of intercepts, float64 [column of groups, chain, draw]."""
        return self.law.group_sds(num_draws)

    @property
    def slopes_of_groups(self) -> tuple[str, ...]:
        """Names of the features whose slope differs by group."""
        coded, groupings = self.schema.coded, self.header.groupings
        sloped = groupings.slopes.column if groupings else ()
        return tuple(self.schema.columns[coded[position][0]].name for position in sloped)

    def group_slope_sds(self, num_draws: int | None = None) -> Floats:
        """Return draws of standard deviations of slopes, [column of groups, slope, chain, draw].

        Slopes are those of standardised features.
        """
        return self.law.group_slope_sds(num_draws)

    def summary(self) -> Summary:
        """Judge whether the chains agree (on up to 200 training rows and sigma), with figures and advice."""
        return self.law.summary
