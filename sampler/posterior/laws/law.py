"""The interface of laws, and what they have in common: one forest with slopes and intercepts beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial, reduce
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.schema import Schema
from sampler.data.treatment.design import ROLE
from sampler.posterior.core import topology
from sampler.posterior.core.ensemble import Ensemble, columns_of_codes, rules_per_draw
from sampler.posterior.core.intervals import IntervalFigures, Request, Sums
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.posterior.core.topology import TreeShape
from sampler.posterior.laws.likelihood import log_of_own, sum_over_rows
from sampler.posterior.parts.compared_treatments import TREATED, Compared
from sampler.posterior.parts.effects import EffectDraws
from sampler.posterior.parts.forest_to_explain import ForestToExplain
from sampler.posterior.parts.intercepts import InterceptDraws
from sampler.posterior.parts.part import LawPart, parts_of
from sampler.posterior.parts.recalibration import Recalibrated
from sampler.posterior.parts.slopes import Slope, Slopes
from sampler.posterior.protocol import ExactSums, OutcomeLaw
from sampler.posterior.recalibration.recalibration import Recalibration
from sampler.posterior.verdict.effects import EffectsUse
from sampler.posterior.verdict.reasons import noise_prior_reason
from sampler.posterior.verdict.summary import Summary
from sampler.posterior.weighting.draw_weights import DrawWeights, EqualWeights
from sampler.storage.draws import Draws, concatenate
from sampler.storage.model_header import RECALIBRATION

# Costs in units of one tree of one draw at one row, about a tenth of a nanosecond: of a predictive bound of a
# mixture of sums of trees, and of one whose components differ by row.
P = TypeVar("P", bound=LawPart)
BOUND, BOUND_BY_ROW, BOUND_OF_MIXTURE = 70, 2000, 8000
RECALIBRATED = 700_000  # to change figures of a row, of some hundred rows at once
READ, CELL = 3_000, 600  # per row, and column of it: to read and encode it
FEW_LEAVES, LEAF = 3, 3  # of a tree, and the cost of each more of them


class Law:
    """Law of outcomes given the draws: f, the noise and a new outcome's distribution at rows.

    A family, a kind of noise or a method has a law of its own; a posterior has one.

    Attributes
    ----------
    draws
        The stored draws.
    ensemble
        Trees of f.
    parts
        Parts beside the trees, in the order of `sampler.definitions.parts.PARTS`.
    parts_of_its_own
        Names of parts that it reads itself.
    transform
        Transform of the outcome: what the model learns.
    weights
        Weights of the draws, and the errors and verdicts that depend on them.
    leaf_counts
        Number of leaves of each tree, int64 [chain, draw, tree]; 0 of absent ones, where their number is
        drawn.
    num_trees
        Number of trees in a draw, of each forest where there are several.
    own_work, noise_work
        Cost of evaluating f of a draw at a row besides that of its trees, and of its noise, in trees (about
        0.1 ns each).
    row_work
        Cost of evaluating f at a row whatever the number of draws: of its propensity.
    noise_differs
        Whether the noise differs from row to row.
    counts
        Whether outcomes are counts, whose trees add up to a logarithm.

    """

    draws: StoredDraws
    own_work = noise_work = row_work = 0.0
    parts_of_its_own: ClassVar[tuple[str, ...]] = ()
    noise_differs = False
    counts = False

    def __init__(self, draws: StoredDraws, chains: Sequence[Draws]) -> None:
        header = draws.header
        self.draws = draws
        self.parts = parts_of(header, chains, self.parts_of_its_own)
        self.own_work += sum(part.work for part in self.parts)
        self.row_work += sum(part.row_work for part in self.parts)
        self.ensemble = self._make_ensemble(chains, len(columns_of_codes(header)))
        used = [self._forests(each[: draws.num_draws]) for each in chains]
        self.leaf_counts = np.array(
            [np.concatenate([each.leaf_counts for each in forests], axis=1) for forests in used]
        )
        self._rule_counts = [
            reduce(np.add, [rules_per_draw(each, header) for each in forests]) for forests in used
        ]
        self.num_trees = chains[0].num_trees
        self.offset = float(header.constants["offset"])
        self.step = float(header.constants["step"])
        self.transform = header.transform
        self.weights: DrawWeights = EqualWeights(draws.num_chains)

    def __init_subclass__(cls, **options: Any) -> None:
        """Let a class with another law of outcomes, or mean, say anew what is known of their sums."""
        super().__init_subclass__(**options)
        if vars(cls).keys() & {"sample_outcomes", "outcome_law", "mean_of", "f_of", "noise_of"}:
            for name in {"exact_sums", "mean_grid", "adds_effect"} - vars(cls).keys():
                setattr(cls, name, getattr(Law, name))

    @property
    def exact_sums(self) -> ExactSums | None:
        """Law that sums of outcomes have given the draw; None where none is known, and they are simulated.

        "normal": that of the sum of means, with the sum of the noise's variances; "poisson": of plain sums.
        """
        return None

    @property
    def mean_grid(self) -> tuple[float, float] | None:
        """Offset and step of the grid that a row's mean is on in a draw; None where it is on none."""
        return None

    def _make_ensemble(self, chains: Sequence[Draws], num_features: int) -> Ensemble:
        return Ensemble(chains, num_features)

    def part(self, kind: type[P]) -> P | None:
        """Return the part of a class; None without one."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    @property
    def slopes(self) -> Slopes | None:
        """The linear part beside the trees; None without one, and where classes have one each."""
        return self.part(Slopes)

    @property
    def intercepts(self) -> InterceptDraws | None:
        """Intercepts and slopes of groups; None without them."""
        return self.part(InterceptDraws)

    @property
    def effects(self) -> EffectDraws | None:
        """The effect of a treatment; None without one."""
        return self.part(EffectDraws)

    @property
    def recalibration(self) -> Recalibration | None:
        """Change of the law of outcomes that the draws make; None without one."""
        part = self.part(Recalibrated)
        return None if part is None else part.by

    @property
    def before_recalibration(self) -> Self:
        """The law of outcomes that the draws make."""
        if self.recalibration is None:
            return self
        law = copy(self)
        law.parts = self.adding
        return law

    @property
    def outcome_row_work(self) -> float:
        """Cost of a row's recalibration, whatever the number of draws, in the unit of `own_work`."""
        return 0.0 if self.recalibration is None else RECALIBRATED

    def recalibrated(self, by: Recalibration) -> Self:
        """Return the law recalibrated so, and otherwise as it was."""
        law = copy(self.before_recalibration)
        law.draws = copy(self.draws)
        law.draws.header = replace(self.draws.header, parts={**self.draws.header.parts, RECALIBRATION: by})
        law.parts = [*law.parts, Recalibrated(by)]
        return law

    @property
    def adding(self) -> list[LawPart]:
        """Parts that add to f, or to what is not known of it."""
        return [part for part in self.parts if not part.wraps]

    def added_to_mean(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats | float:  # noqa: ARG002
        """Return what a recalibration adds to the mean by chosen draws at rows [row]; 0 without one."""
        return 0.0

    @property
    def in_steps(self) -> bool:
        """Whether f is a whole number of grid steps at rows of which the parts know all."""
        return all(part.in_steps for part in self.parts)

    @property
    def knows_all(self) -> bool:
        """Whether there are no rows of which a part does not know all, as those of new groups."""
        return all(part.knows_all for part in self.parts)

    def known(self, coded: Coded) -> NDArray[np.bool_]:
        """Return of which rows the parts know all, bool [row]: not of those of new groups."""
        known = np.ones(coded.num_rows, bool)
        for part in self.parts:
            known &= part.known(coded)
        return known

    def with_columns(self, coded: Coded) -> Coded:
        """Return rows with the columns that trees have beside those of the features."""
        for part in self.parts:
            coded = part.with_columns(coded)
        return coded

    def _forests(self, draws: Draws) -> list[Draws]:
        """Return the forests whose trees are counted and shown: that of f."""
        return [draws]

    @cached_property
    def tree_work(self) -> float:
        """Cost of evaluating the trees of a draw at a row, see `own_work`."""
        leaves = float(self.leaf_counts.sum(axis=2).mean())
        trees = int(self.leaf_counts.shape[2])
        return trees + LEAF * max(0.0, leaves - FEW_LEAVES * trees)

    @property
    def reading_work(self) -> float:
        """Cost of reading and encoding a row, see `own_work`."""
        return READ + CELL * len(self.schema.columns)

    @property
    def schema(self) -> Schema:
        """Columns that the model was trained on."""
        return self.draws.header.schema

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes; of two, f is the probability of the second. None for numbers."""
        return self.draws.classes

    @property
    def unit(self) -> str | None:
        """Unit that the file of the training rows had beside outcomes; None without one, and of classes."""
        return None if self.classes is not None else self.draws.header.units.get(self.schema.target.name)

    @cached_property
    def summary(self) -> Summary:
        """Whether the chains agree (on up to 200 training rows and single figures), with advice."""
        f, noise = self.draws_by_figure(self.draws.reference), self._typical_noise()
        summary = self.weights.summary(
            f, self.scalars(), self.leaf_counts, self.draws.statistics, noise, self.judged_effects()
        )
        drawn, (chosen, _) = self.learnt_sigma, self.draws.choose(None)
        more = [
            None if drawn is None else noise_prior_reason(drawn, self.draws.header),
            *(each for part in self.parts for each in part.reasons(chosen, self.draws.num_chains)),
        ]
        reasons = [*summary.reasons, *(reason for reason in more if reason)]
        precision = summary.precision and replace(summary.precision, unit=self.unit)
        shapes = self.topologies(topology.MOST)
        by, table = self.recalibration, self.draws.header.calibration
        return replace(
            summary,
            reasons=reasons,
            precision=precision,
            topologies=shapes,
            num_trees=self._numbers_of_trees(),
            recalibrated_by=None if by is None else by.rows,
            calibration=None if table is None else table.summary(),
        )

    def _numbers_of_trees(self) -> dict[str, float] | None:
        """Return mean and 90% interval of a number of trees that is drawn, else None."""
        if (numbers := self.draws.tree_numbers) is None:
            return None
        lower, upper = np.quantile(numbers, (0.05, 0.95), method="inverted_cdf")
        return {"mean": float(numbers.mean()), "lower": float(lower), "upper": float(upper)}

    def _typical_noise(self) -> Floats | None:
        """Compute the posterior mean of the outcome's noise sd at the reference rows, float64 [row].

        Rows have a typical weight. None for classes, and where that weight is unknown.
        """
        sigma, reference = self.typical_sigma, self.draws.reference
        if sigma is None or not self.transform:
            return None if sigma is None else np.full(reference.num_rows, sigma.mean())
        sd = self.transform.moments(self.f(reference), sigma[:, :, None])[1]
        return np.asarray(sd.mean(axis=(0, 1)))

    def degrees(self, num_draws: int | None = None) -> Floats | None:
        """Return draws of the noise's degrees of freedom, float64 [chain, draw]; None for normal noise."""
        if self.draws.degrees is None:
            return None
        return self.draws.degrees[:, : self.draws.choose(num_draws)[1]]

    @property
    def typical_sigma(self) -> Floats | None:
        """Draws of the noise sd of a row of typical weight, in units of y, float64 [chain, draw].

        None for classes, and with weights of which the model was stored without a typical one.
        """
        header = self.draws.header
        weight = header.typical_weight or (None if header.weighted else 1.0)
        return None if self.sigma is None or weight is None else self.sigma / np.sqrt(weight)

    def group_sds(self, num_draws: int | None = None) -> Floats:
        """Return draws of standard deviations of intercepts, float64 [column of groups, chain, draw]."""
        return self._sds_by_group(num_draws)[:, 0]

    def group_slope_sds(self, num_draws: int | None = None) -> Floats:
        """Return draws of standard deviations of slopes, [column of groups, slope, chain, draw].

        Slopes are those of standardised features.
        """
        return self._sds_by_group(num_draws)[:, 1:]

    def _sds_by_group(self, num_draws: int | None) -> Floats:
        """Return draws of standard deviations, [column of groups, intercept or slope, chain, draw]."""
        chosen, used = self.draws.choose(num_draws)
        sds = self.intercepts.all_sds[:, :, chosen] if self.intercepts else np.zeros((0, 1, len(chosen)))
        return sds.reshape(*sds.shape[:2], self.draws.num_chains, used)

    @property
    def sigma(self) -> Floats | None:
        """Draws of the noise sd of a row of weight 1, float64 [chain, draw]; None for classes and counts."""
        return self.draws.sigma if self.draws.classes is None else None

    @cached_property
    def log_likelihood(self) -> Floats | None:
        """Draws of the log-likelihood of the reference rows, float64 [chain, draw]; None of old models."""
        rows = self.draws.reference_outcomes
        if rows is None:
            return None
        chosen, used = self.draws.choose(None)
        sums = sum_over_rows(partial(self.log_densities, *rows), chosen)
        return sums.reshape(self.draws.num_chains, used)

    def scalars(self, num_draws: int | None = None) -> dict[str, Floats]:
        """Return draws [chain, draw] of the single figures by which chains are judged, by name."""
        both = {"sigma": self.sigma, "log_likelihood": self.log_likelihood}
        return {name: each[:, :num_draws] for name, each in both.items() if each is not None}

    @property
    def learnt_sigma(self) -> Floats | None:
        """Draws of the scale that the prior of sigma is about, float64 [chain, draw]."""
        return self.sigma

    @property
    def dispersion(self) -> Floats | None:
        """Draws of the dispersion of counts, float64 [chain, draw]; None for others."""
        return None

    @property
    def evidence(self) -> dict[str, Any] | None:
        """Log marginal likelihood estimated by weighted draws, pooled and by run, and its sd; else None."""
        return None

    def topologies(self, most: int) -> list[TreeShape] | None:  # noqa: ARG002
        """Return the most probable shapes of single trees; None of sums of trees."""
        return None

    def alike(self, num_draws: int | None) -> NDArray[np.int64]:
        """Choose draws as `StoredDraws.choose`; weighted ones are repeated in proportion to their weights."""
        chosen, used = self.draws.choose(num_draws)
        return chosen[self.weights.spaced(used, len(chosen))]

    def spaced(self, count: int, num_draws: int | None = None) -> NDArray[np.int64]:
        """Choose `count` of the first draws of all chains, evenly spaced by weight, by their numbers."""
        chosen, used = self.draws.choose(num_draws)
        return chosen[self.weights.spaced(used, count)]

    def rules(self, part: str) -> NDArray[Any]:
        """Return the number of rules on each feature, [draw, feature], of the trees of "mean" or "noise".

        Features of soft splits have shares of them. Weighted draws are repeated in proportion.
        """
        counts = np.concatenate(self._rule_counts_of(part))
        return counts[self.weights.spaced(self.draws.num_draws, len(counts))]

    def _rule_counts_of(self, part: str) -> list[NDArray[np.int32]]:  # noqa: ARG002
        """Count the rules of each chain's draws by feature, of the trees of that part."""
        return self._rule_counts

    def f_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute f of the chosen draws, float64 [draw, row], or [draw, row, class] with several classes."""
        raise NotImplementedError

    def level_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute f where outcomes are numbers; of two classes the mean of their latent outcome."""
        return self.f_of(coded, chosen)

    def f(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Compute f of the first draws of each chain, float64 [chain, draw, row], or [.., class]."""
        chosen, used = self.draws.choose(num_draws)
        f = self.f_of(coded, chosen)
        return np.ascontiguousarray(f).reshape(self.draws.num_chains, used, *f.shape[1:])

    def mean_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute the outcome's mean in the chosen draws, to be averaged of `for_means`; see `f_of`."""
        return self.f_of(coded, chosen)

    def mean(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Compute the outcome's mean in the first draws of each chain; see `f` for the shape."""
        chosen, used = self.draws.choose(num_draws)
        mean = self.mean_of(coded, chosen)
        return np.ascontiguousarray(mean).reshape(self.draws.num_chains, used, *mean.shape[1:])

    def draws_by_figure(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Return draws of the outcome's mean, float64 [figure, chain, draw].

        A figure is a row; with more than two classes a row and class, and those of a row are adjacent.
        """
        f = self.mean(coded, num_draws)
        by_row = f.reshape(*f.shape[:3], -1).transpose(2, 3, 0, 1)
        return np.ascontiguousarray(by_row).reshape(-1, *f.shape[:2])

    @property
    def adds_effect(self) -> bool:
        """Whether a treatment's effect is a sum of trees, whatever else the outcome's mean is."""
        return False

    def effect_of(self, coded: Coded, chosen: NDArray[np.int64], compared: Compared = TREATED) -> Floats:
        """Compute what treatment adds to the outcome's mean in the chosen draws, float64 [draw, row].

        `compared` are two arms, or doses, of which the first is compared with the second. The model has a
        treatment.
        """
        if self.adds_effect:
            return self.shift_of(coded, chosen, compared)
        own, other = (coded if compared.lags else coded.with_role(ROLE, compared.pair[0])), compared.pair[1]
        first, second = (self.mean_of(rows, chosen) for rows in (own, coded.with_role(ROLE, other)))
        return np.asarray(compared.scale * (first - second))

    def shift_of(self, coded: Coded, chosen: NDArray[np.int64], compared: Compared = TREATED) -> Floats:
        """Compute what treatment adds to the sum of trees, as `effect_of`: of times, to their logarithms."""
        assert self.effects is not None
        if not compared.lags:
            of_trees = self.effects.effect_of(self.ensemble, coded, chosen, compared.pair)
            return np.asarray(compared.scale * self.step * of_trees)
        treated, found = coded.by_role[ROLE], np.zeros((len(chosen), coded.num_rows))
        for arm in np.unique(treated[treated > 0]):
            own = np.flatnonzero(treated == arm)
            pair = float(arm), compared.pair[1]
            found[:, own] = self.effects.effect_of(self.ensemble, coded.part(own), chosen, pair)
        return np.asarray(self.step * found)

    def judged_effects(self, num_draws: int | None = None) -> list[EffectsUse]:
        """Judge the effects of a treatment by their draws at the reference rows; empty without a treatment.

        Of several arms each is compared with the first; of times with events their logarithms are, since a
        mean is decided by a tail that nobody has seen.
        """
        if not self.effects:
            return []
        law, (chosen, used) = self.for_means, self.draws.choose(num_draws)
        effect_of = law.shift_of if "event" in self.draws.header.roles else law.effect_of
        parts = [
            effect_of(self.draws.reference, chosen, each).T.reshape(-1, self.draws.num_chains, used)
            for each in Compared.beside_first(self.effects.design)
        ]
        return [EffectsUse.of(np.stack([part.mean(axis=0) for part in parts]), np.concatenate(parts))]

    def probabilities_by_draw(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute the probability of each class in each chosen draw, float64 [draw, row, class]."""
        p = self.f_of(coded, chosen)
        return p if p.ndim == 3 else np.stack([1 - p, p], axis=2)

    def noise_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Return the noise sd of what the model learns in the chosen draws, float64 [draw, row]."""
        sigma = self.draws.sigma[self.draws.places(chosen)][:, None]
        return self.with_new_groups(np.broadcast_to(sigma, (len(chosen), coded.num_rows)), coded, chosen)

    def noise(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Return the noise sd of what the model learns in each draw, float64 [chain, draw, row]."""
        chosen, used = self.draws.choose(num_draws)
        return self.noise_of(coded, chosen).reshape(self.draws.num_chains, used, coded.num_rows)

    def outcome_sd(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Return the sd of a new outcome in each draw, float64 [chain, draw, row]; ones for classes."""
        return self.noise(coded, num_draws)

    @property
    def noise_by_row(self) -> bool:
        """Whether the noise differs by row, where all are of known groups."""
        return self.noise_differs

    def own_noise_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Return the noise sd as `noise_of`, without what rows of new groups differ by."""
        alone = copy(self)
        alone.parts = [part for part in self.parts if part.knows_all]
        return alone.noise_of(coded, chosen)

    @property
    def for_means(self) -> Law:
        """The law whose draws of means and variances are averaged: with intercepts and a transform another.

        The standard deviation of groups has heavy tails, and a transform's inverse makes them exponential:
        over its draws the mean of a row in a new group is decided by the rarest. So it is held at its median.
        """
        if self.knows_all or not self.transform:
            return self
        law = copy(self)
        law.parts = [part.for_means() for part in self.parts]
        return law

    def with_new_groups(self, sigma: Floats, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Add to the noise sd [draw, row] what rows of new groups differ by: their intercepts are unknown."""
        for part in self.parts:
            if (more := part.new_variance(coded, chosen)) is not None:
                sigma = np.sqrt(sigma**2 + more)
        return sigma

    def sums_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Sums:
        """Sum all trees of the chosen draws that add up to f, in grid steps, [draw, row]."""
        sums = self.ensemble.sums_of(self.with_columns(coded), chosen)
        for part in self.parts:
            sums = part.add_steps(sums, coded, chosen)
        return sums

    def _sums_and_parts(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute the sums of trees and the parts beside them, float64 [draw, row]."""
        f = self.sums_of(coded, chosen).astype(np.float64, order="C")
        f *= self.step
        f += self.offset
        for part in self.parts:
            part.add_to(f, coded, chosen)
        return f

    def average_of(self, chosen: NDArray[np.int64]) -> Callable[[Coded], Floats] | None:  # noqa: ARG002
        """Return a function from copies of rows to draws of f averaged over each, float64 [draw, copy].

        It is for plain sums of trees, whose averages are exact in whole grid steps; None for others.
        """
        return None

    def fill(self, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
        """Compute the figures of the rows; return the number of draws per chain used."""
        raise NotImplementedError

    def bound_work(self, coded: Coded | None = None) -> float:  # noqa: ARG002
        """Return the cost of a predictive bound by row and draw, in trees; see `own_work`.

        `coded` are the rows, if they are known.
        """
        return BOUND_BY_ROW

    def outcome_law(
        self, coded: Coded, weights: Floats | None = None, num_draws: int | None = None
    ) -> OutcomeLaw:
        """Make the predictive distribution of the outcomes of rows with such weights (1 for None)."""
        raise NotImplementedError

    def sample_outcomes(
        self,
        coded: Coded,
        weights: Floats | None,  # noqa: ARG002
        chosen: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Floats:
        """Draw an outcome of each row, of such weights, from each chosen draw, float64 [draw, row].

        Classes are numbers.
        """
        edges = np.cumsum(self.probabilities_by_draw(coded, chosen)[:, :, :-1], axis=2)
        drawn = np.sum(edges <= rng.uniform(size=(*edges.shape[:2], 1)), axis=2)
        return np.asarray(drawn, np.float64)

    def outcomes_by_draw(
        self, coded: Coded, y: Floats, weights: Floats | None, chosen: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Compute for numbers what each chosen draw says of known outcomes y [row] of rows.

        They are the outcome's mean, and its log density (for counts: log probability), float64 [draw, row].

        Parameters
        ----------
        coded, y, weights
            The rows, their outcomes and weights (1 for None).
        chosen
            Draws of all chains, by their numbers.

        """
        raise NotImplementedError

    def log_densities(
        self, coded: Coded, y: Floats, weights: Floats | None, chosen: NDArray[np.int64]
    ) -> Floats:
        """Compute log densities (of classes log probabilities) of outcomes y [row], float64 [draw, row]."""
        if self.classes is None:
            return self.outcomes_by_draw(coded, y, weights, chosen)[1]
        return log_of_own(self.probabilities_by_draw(coded, chosen), y)

    def bound_errors(self, part: Coded, used: int) -> Callable[[Floats], Floats]:
        """Return a function from predictive bounds [row] to their Monte Carlo errors."""
        raise NotImplementedError

    def linear_part(self, level: float = 0.9) -> list[Slope] | None:
        """Summarise the slopes of the linear part beside the trees; see `Posterior.linear_part`."""
        level = Request.check_level(level)
        if self.slopes is None:
            return None
        return self.slopes.summary(self.schema, self.draws.choose(None)[0], level, self.learnt_unit())

    def forests_to_explain(self) -> tuple[str, list[ForestToExplain]]:
        """Return the figure that SHAP values add up to, in words, and its sums of trees, by class.

        What they are of other models `sampler.posterior.refusals` says: it is asked before.
        """
        draws = concatenate(self.draws.chains())
        forest = ForestToExplain(draws, draws.leaf.astype(np.float64) * self.step, self.offset, self.slopes)
        but = "".join(part.not_explained for part in self.parts)
        return f"{self.learnt_unit()}{but}", [forest]

    @property
    def inverse_link(self) -> Callable[[Floats], Floats] | None:
        """Function from what the trees learn to the outcome it stands for; None where there is none, or need.

        Of a number it is the median of outcomes, of two classes the second's probability.
        """
        if not self.transform:
            return None
        return np.exp if self.transform.kind == "log" else self.transform.outcome

    def learnt_unit(self) -> str:
        """Say what the trees learn, in words."""
        return f"{self.draws.header.schema.target.name}, in its own unit"
