"""Certainty and range of the rows of a fit by arm, by which other rows are supported or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Bools, Codes
from sampler.data.binning import MISSING
from sampler.data.schema import OF_LEVELS, Schema
from sampler.data.treatment.follow_up import FollowUp
from sampler.definitions.parts import PartFacts

SUPPORT = "support"
NEAR = 0.1  # a number is beyond an arm's rows if more than this share of the cut points lies between


@dataclass(frozen=True)
class Support(PartFacts):
    """Certainty and range of the rows of the fit in each arm; of a dose all rows are one arm.

    Attributes
    ----------
    most
        Posterior sd of the mean above which a row is extrapolated: the largest of the arm's rows in their
        own arm, plus a standard deviation of these.
    lowest, highest
        Codes between which the arm's rows are, uint8 [arm, coded column], where they are known.
    followed
        How long the arms' rows were followed; None of other outcomes than times with events.

    """

    most: tuple[float, ...]
    lowest: NDArray[np.uint8]
    highest: NDArray[np.uint8]
    followed: FollowUp | None = None

    def beyond(self, codes: Codes, place: int, schema: Schema) -> Bools:
        """Mark rows [coded column, row] that are far from every row of an arm in one of the features.

        Levels and booleans must be its rows'; numbers are beyond these by a tenth of the cut points.
        """
        kinds = [schema.columns[column].kind for column, _ in schema.coded]
        width = [0.0 if kind in (*OF_LEVELS, "boolean") else NEAR for kind in kinds]
        widths = np.array(width) * np.maximum(self.highest.max(axis=0), 1)
        low, high = self.lowest[place] - widths, self.highest[place] + widths
        far = (codes < low[:, None]) | (codes > high[:, None])
        return np.asarray(np.any(far & (codes != MISSING), axis=0))

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads."""
        own = {"most": [*self.most], "lowest": self.lowest.tolist(), "highest": self.highest.tolist()}
        return own | ({} if self.followed is None else {"followed": self.followed.to_json()})

    @classmethod
    def from_json(cls, values: dict[str, Any], schema: Schema, shape: tuple[int, ...]) -> Support:  # noqa: ARG003
        """Read and check what `to_json` returned; raises ValueError for what no model has."""
        most = tuple(map(float, values["most"]))
        ends = [np.array(values[name], np.uint8) for name in ("lowest", "highest")]
        if not all(each.shape == (len(most), shape[0]) for each in ends):
            raise ValueError("the ranges of its arms don't fit its columns")
        if not all(0 <= each < math.inf for each in most):
            raise ValueError("the certainty of its arms is no number")
        followed = FollowUp.from_json(values["followed"], len(most)) if "followed" in values else None
        return cls(most, ends[0], ends[1], followed)
