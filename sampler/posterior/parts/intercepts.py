"""Draws of random intercepts and slopes of groups beside the trees (docs/maths.md#groups)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.groupings import FOREST, Groupings, scalar_names
from sampler.data.schema import Column
from sampler.errors import PackedError
from sampler.posterior.parts.part import LawPart
from sampler.posterior.verdict import rhat_ess
from sampler.posterior.verdict.agreement import FEWEST_DRAWS
from sampler.posterior.verdict.reasons import Reason
from sampler.storage.draws import Draws
from sampler.storage.model_header import Header

if TYPE_CHECKING:
    from sampler.posterior.core.intervals import Sums

GROUP = 50  # work of a column of groups; see `LawPart.work`
MOST_RHAT = 1.2  # largest R-hat of a standard deviation that the summary does not mention
MOST_STEPS = 1 << 30  # largest sum of trees to which int32 intercepts of four columns can be added
LARGEST = 1e150  # largest standard deviation, in units of y: its square is still finite


class InterceptDraws(LawPart):
    """Intercepts and slopes of all draws, one chain after the other, in grid steps."""

    in_steps, knows_all = True, False
    not_explained = ", intercepts of groups left out"
    included: ClassVar[Mapping[str, str]] = {
        "predictive": "a new outcome in its group: the intercept of a known group, that of a new one with "
        "the standard deviation of all groups, and noise",
        "credible": "the mean outcome in the row's group; of a new group the mean over groups, without their "
        "standard deviation",
        "calibrated": "a new outcome in its group, as covered for held-out rows",
    }

    @classmethod
    def of(cls, facts: Groupings, header: Header, chains: Sequence[Draws]) -> InterceptDraws:
        """Read the effects of groups."""
        return cls(facts, header.schema.groups, chains, float(header.constants["step"]))

    def __init__(
        self, groupings: Groupings, columns: Sequence[Column], chains: Sequence[Draws], step: float
    ) -> None:
        self.groupings, self.columns, self._step = groupings, columns, step
        self.terms = 1 + groupings.num_slopes
        self.work = GROUP * len(columns)
        self._sizes = [len(column.levels) for column in columns]
        self._starts = _starts_of(self._sizes, self.terms)
        names = [scalar_names(k, groupings.num_slopes) for k in range(len(columns))]
        for draws in chains:
            there = draws.forests.get(FOREST)
            alone = (
                there is not None
                and there.num_trees == self._starts[-1]
                and there.num_nodes == there.leaf_counts.size
            )
            if not alone or not all(name in draws.scalars for own in names for name in own):
                raise PackedError("the draws don't have the intercepts of the model's groups")
        self._effects = np.concatenate([d.forests[FOREST].leaf.reshape(d.num_draws, -1) for d in chains])
        drawn = [
            np.stack([np.concatenate([d.scalars[name] for d in chains]) for name in own]) for own in names
        ]
        sds = np.array([own[: self.terms] for own in drawn])
        if not np.all((sds > 0) & (sds < LARGEST)):
            raise PackedError("the draws of the groups' standard deviations are out of range")
        partial = np.array([own[self.terms :] for own in drawn])
        if not np.all(np.abs(partial) < 1):
            raise PackedError("the draws of the groups' correlations are out of range")
        self.all_sds = sds  # [column, term, draw]
        self._partial = partial
        self.factor = _factors(sds, partial)

    def for_means(self) -> InterceptDraws:
        """Return the same effects with standard deviations and correlations at their medians in each draw."""
        fixed = copy(self)
        sds, partial = (np.median(each, axis=2, keepdims=True) for each in (self.all_sds, self._partial))
        fixed.all_sds = np.broadcast_to(sds, self.all_sds.shape)
        fixed.factor = np.broadcast_to(_factors(sds, partial), self.factor.shape)
        return fixed

    def drawn(self, k: int, term: int, chosen: NDArray[np.int64], unit: float) -> Floats:
        """Return a column's effects in the chosen draws, in units of y / `unit`, float64 [draw, group]."""
        size = self._sizes[k]
        start = self._starts[k] + term * size
        return self._step / unit * self._effects[chosen, start : start + size]

    @property
    def sds(self) -> Floats:
        """Standard deviations of intercepts, float64 [column, draw]."""
        return self.all_sds[:, 0]

    def reasons(self, chosen: NDArray[np.int64], num_chains: int) -> list[Reason]:
        """Return the reason where chains disagree on standard deviations."""
        used = len(chosen) // num_chains
        if used < FEWEST_DRAWS:
            return []
        worst = float(np.max(rhat_ess.rhat(self.all_sds[:, :, chosen].reshape(-1, num_chains, used))))
        return [Reason("groups_disagree", {"rhat": worst, "limit": MOST_RHAT})] if worst > MOST_RHAT else []

    def add_to(self, f: Floats, coded: Coded, chosen: NDArray[np.int64]) -> None:
        """Add the effects of known groups to draws of f [draw, row]."""
        for k, places in enumerate(self._places(coded)):
            known = np.flatnonzero(places >= 0)
            f[:, known] += self._step * self._of_rows(k, places[known], self._z(coded, known), chosen)

    def known(self, coded: Coded) -> NDArray[np.bool_]:
        """Return which rows are of known groups in every column, bool [row]."""
        return np.asarray(np.all(self._places(coded) >= 0, axis=0))

    def added(self, sums: Sums, coded: Coded, chosen: NDArray[np.int64]) -> Sums:
        """Add the effects of rows of known groups to sums of trees [draw, row], in grid steps."""
        if sums.dtype == np.int32 and int(np.abs(sums).max(initial=0)) >= MOST_STEPS:
            sums = sums.astype(np.int64)
        z = self._z(coded, slice(None))
        for k, places in enumerate(self._places(coded)):
            sums += self._of_rows(k, places, z, chosen)
        return sums

    def _of_rows(
        self, k: int, places: NDArray[np.int32], z: Floats | None, chosen: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return the effects of rows of known groups of a column, int32 [draw, row], as chains round them."""
        start, size = self._starts[k], self._sizes[k]
        effects: NDArray[np.int32] = self._effects[chosen[:, None], start + places]
        if z is None:
            return effects
        along = np.zeros(effects.shape)
        for term, own in enumerate(z, 1):
            along += own * self._effects[chosen[:, None], start + term * size + places]
        return effects + np.rint(np.clip(along, -MOST_STEPS, MOST_STEPS)).astype(np.int32)

    def _z(self, coded: Coded, rows: slice | NDArray[np.int64]) -> Floats | None:
        """Return what slopes are multiplied by at some rows, float64 [slope, row]; None without slopes."""
        if self.terms == 1:
            return None
        assert coded.values is not None, "rows of a model with slopes of groups keep their values"
        return self.groupings.slopes.of(coded.values[:, rows])

    def new_variance(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats | None:
        """Return the variance of the effects of rows of new groups, float64 [draw, row]; None for none."""
        places = self._places(coded)
        if np.all(places >= 0):
            return None
        variance = np.zeros((len(chosen), coded.num_rows))
        for k, own in enumerate(places):
            new = np.flatnonzero(own < 0)
            z = self._z(coded, new)
            if z is None:
                variance[:, new] += self.sds[k, chosen, None] ** 2
                continue
            terms = self.terms_of(coded, new)
            for j in range(self.terms):  # term by term: a row's figure doesn't depend on the other rows
                part = np.zeros((len(chosen), len(new)))
                for i in range(j, self.terms):
                    part += self.factor[k, chosen, i, j, None] * terms[i]
                variance[:, new] += part**2
        return variance

    def covariance(self, k: int, chosen: NDArray[np.int64]) -> Floats:
        """Return the covariance of a column's effects in the chosen draws, float64 [draw, term, term]."""
        factor = self.factor[k, chosen]
        return np.asarray(factor @ factor.transpose(0, 2, 1))

    def terms_of(self, coded: Coded, rows: NDArray[np.int64]) -> Floats:
        """Return what effects are multiplied by at some rows, float64 [term, row]: 1 for intercepts."""
        z = self._z(coded, rows)
        one = np.ones((1, len(rows)))
        return one if z is None else np.concatenate([one, z])

    def with_drawn(
        self, coded: Coded, chosen: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[InterceptDraws, Coded]:
        """Draw the effects of new groups in the chosen draws, as if these had been known.

        Rows of one new group share its effects; each row without a group is one of its own.

        Returns
        -------
        tuple
            The effects with those of new groups, and the rows with the places of these.

        """
        extended, groups = copy(self), self._places(coded).copy()
        parts: list[NDArray[np.int32]] = []
        sizes = []
        for k, own in enumerate(groups):
            missing = np.flatnonzero(own == -1)
            own[missing] = np.iinfo(np.int32).min + np.arange(len(missing))
            new, place = np.unique(own[own < 0], return_inverse=True)
            own[own < 0] = self._sizes[k] + place
            sizes.append(self._sizes[k] + len(new))
            z = rng.standard_normal((len(new), len(chosen), self.terms))
            of_new = np.einsum("dij,gdj->dig", self.factor[k, chosen], z) / self._step
            more = np.zeros((len(self._effects), self.terms, len(new)), np.int32)
            more[chosen] = np.rint(np.clip(of_new, -MOST_STEPS, MOST_STEPS))
            known = self._effects[:, self._starts[k] : self._starts[k + 1]]
            known = known.reshape(len(known), self.terms, self._sizes[k])
            parts.append(np.concatenate([known, more], axis=2).reshape(len(known), -1))
        extended._effects = np.concatenate(parts, axis=1)  # noqa: SLF001
        extended._sizes, extended._starts = sizes, _starts_of(sizes, self.terms)  # noqa: SLF001
        return extended, replace(coded, groups=groups)

    @staticmethod
    def _places(coded: Coded) -> NDArray[np.int32]:
        assert coded.groups is not None, "rows of a model with groups keep them"
        return coded.groups


def _starts_of(sizes: Sequence[int], terms: int) -> NDArray[np.int64]:
    """Find where the effects of each column of groups start, and where the last ones end."""
    return np.cumsum([0, *(terms * size for size in sizes)])


def _factors(sds: Floats, partial: Floats) -> Floats:
    """Compute Cholesky factors of covariances, float64 [column, draw, term, term].

    `sds` are [column, term, draw], `partial` correlations [column, number, draw], row by row of the factor.
    """
    columns, terms, draws = sds.shape
    factors, at = np.zeros((columns, draws, terms, terms)), 0
    for i in range(terms):
        left = np.ones((columns, draws))
        for j in range(i):
            factors[:, :, i, j] = sds[:, i] * partial[:, at] * np.sqrt(left)
            left *= 1 - partial[:, at] ** 2
            at += 1
        factors[:, :, i, i] = sds[:, i] * np.sqrt(left)
    return factors
