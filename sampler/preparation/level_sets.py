"""Preparation of rules "x in A": the sets of levels of a fit's categories."""

from __future__ import annotations

from sampler.array_types import Codes
from sampler.data.level_sets import SETS, LevelSets
from sampler.preparation.fit_plan import FitPlan
from sampler.preparation.part import PartDesign, PartRows
from sampler.training import LevelSetsTraining, room_for_codes


class LevelSetsDesign(PartDesign):
    """Columns of sets of levels for trees, and the columns' shares in rules."""

    @classmethod
    def facts(cls, rows: PartRows, planned: FitPlan) -> LevelSets | None:  # noqa: ARG003
        """Choose the sets; None where no category has more than two levels, or they aren't asked for."""
        return LevelSets.of(rows.schema) if rows.settings.categories == SETS else None

    @classmethod
    def codes(cls, facts: LevelSets, rows: PartRows, codes: Codes) -> Codes:  # noqa: ARG003
        """Return the codes with the columns of the sets, as chains need no copy of."""
        room = room_for_codes(len(codes) + sum(facts.counts), codes.shape[1])
        room[:] = facts.add(codes)
        return room

    @classmethod
    def training(cls, facts: LevelSets, rows: PartRows) -> LevelSetsTraining:  # noqa: ARG003
        """Return the columns' shares."""
        return LevelSetsTraining(facts.shares())
