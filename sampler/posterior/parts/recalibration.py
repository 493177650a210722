"""The recalibration of a law as its part: what it does to figures of rows and to draws of outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sampler.array_types import Codes, Floats
from sampler.posterior.core.intervals import Given, RowIndex
from sampler.posterior.parts.part import LawPart
from sampler.posterior.recalibration.recalibration import Recalibration
from sampler.posterior.recalibration.score_table import ScoreTable
from sampler.storage.draws import Draws


class Recalibrated(LawPart):
    """A recalibration `by`, which wraps the law of outcomes and leaves f as it is."""

    in_steps: ClassVar[bool] = True
    wraps: ClassVar[bool] = True

    def __init__(self, by: Recalibration, chains: Sequence[Draws] = ()) -> None:  # noqa: ARG002
        self.by = by


@dataclass(frozen=True)
class RecalibratedFigures:
    """Figures of rows with these codes, uint8 [coded column, row], by a recalibration."""

    by: Recalibration
    codes: Codes

    def figures(
        self,
        rows: RowIndex,
        moments: tuple[Floats, Floats],
        given: Given,
        tails: Floats,
        bounds_of: Callable[[RowIndex, Floats], Floats],
    ) -> tuple[Floats, Floats, Floats]:
        """Compute mean, sd and bounds [tail, row]; see `sampler.posterior.core.intervals.Wrapped`."""
        by, (mean, sd) = self.by, moments
        scale = by.scale(self.codes[:, rows], mean, sd)
        bounds = np.empty((len(tails), len(mean)))
        every = np.unique(scale) if len(tails) else scale[:0]
        for each in every:
            own: RowIndex = slice(None) if len(every) == 1 else np.flatnonzero(scale == each)
            bounds[:, own] = by.inside(bounds_of(own, by.tails(tails, float(each))))
        return *ScoreTable.of(given, mean, sd).moments(by, scale), bounds
