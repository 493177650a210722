"""Columns of sets of levels, which trees with rules "x in A" have beside those of the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from sampler.data.encode import Coded
from sampler.data.level_sets import LevelSets
from sampler.posterior.parts.part import LawPart
from sampler.storage.draws import Draws

ROW = 10  # cost of a set at a row, see `LawPart.row_work`


class SetColumns(LawPart):
    """The columns of the sets, made of those of the features; to f they add nothing of their own."""

    in_steps: ClassVar[bool] = True

    def __init__(self, sets: LevelSets, chains: Sequence[Draws]) -> None:  # noqa: ARG002
        self.sets = sets
        self.row_work = ROW * sum(sets.counts)

    def with_columns(self, coded: Coded) -> Coded:
        """Return the rows with the columns of the sets; copies that differ by a category differ in them."""
        copies = coded.copies
        if copies is not None:
            copies = replace(copies, features=tuple(map(self.sets.with_sets, copies.features)))
        return replace(coded, codes=self.sets.add(coded.codes), copies=copies)
