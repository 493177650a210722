"""The part of a law that a treatment has: columns beside the features, and the effect's own forest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from sampler.data.binning import Grid
from sampler.data.treatment.design import HALF_MEAN, ROLE
from sampler.errors import PackedError
from sampler.posterior.core.ensemble import Ensemble
from sampler.storage.draw_codec import unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.data.treatment.design import EffectDesign
    from sampler.storage.draws import Draws

    Floats = NDArray[np.float64]
    Codes = NDArray[np.uint8]

FOREST = "effect"
BLOCK = 4096  # rows whose propensity is computed at once
TREATMENT = Grid((np.array([0.5]),))  # codes of 0 and 1


class EffectColumns:
    """The coded columns that the mean's trees have beside those of the features.

    Raises PackedError for draws of the propensity that split on other columns than the features'.
    """

    def __init__(self, design: EffectDesign, num_features: int) -> None:
        self.design = design
        self._fit: Ensemble | None = None
        if design.cuts is not None or design.trees:
            self._fit = Ensemble([unpack(design.trees)], num_features)

    def propensity(self, codes: Codes) -> Floats:
        """Compute the fitted probability of being treated of rows [feature, row], float64 [row]."""
        assert self._fit is not None, "the propensity was fitted"
        result = np.empty(codes.shape[1])
        for start in range(0, len(result), BLOCK):
            rows = slice(start, start + BLOCK)
            sums = self._fit.sums(np.ascontiguousarray(codes[:, rows]))
            result[rows] = ndtr(self.design.offset + self.design.step * sums).mean(axis=0)
        return result

    def add(self, codes: Codes, treated: Floats) -> Codes:
        """Add the columns to the codes of the features of rows, uint8 [column, row]."""
        more = []
        if self.design.kind != "bcf":
            more.append(TREATMENT.encode(0, treated))
        if self.design.cuts is not None:
            more.append(Grid((self.design.cuts,)).encode(0, self.propensity(codes)))
        return np.vstack([codes, *more]) if more else codes


class EffectDraws:
    """Draws of a treatment's effect, and what the mean's trees see of it.

    Attributes
    ----------
    design
        How the trees see the treatment.
    columns
        Their columns beside the features.

    """

    def __init__(self, design: EffectDesign, chains: Sequence[Draws], num_features: int, step: float) -> None:
        self.design = design
        self.columns = EffectColumns(design, num_features)
        self._forest: Ensemble | None = None
        if design.kind == "bcf":
            if not all(FOREST in each.forests for each in chains):
                raise PackedError("the draws have no forest of the effect")
            if not all(HALF_MEAN in each.scalars for each in chains):
                raise PackedError("the draws have no constant part of the effect")
            halves = np.concatenate([each.scalars[HALF_MEAN] for each in chains])
            self._half = np.rint(halves / step).astype(np.int64)
            self._forest = Ensemble([each.forests[FOREST] for each in chains], num_features)

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes, roughly."""
        return len(self.design.trees) + (0 if self._forest is None else self._forest.nbytes)

    def with_columns(self, coded: Coded) -> Coded:
        """Return the rows with the columns that trees have beside the features.

        Rows whose treatment isn't known are not treated.
        """
        codes = self.columns.add(coded.codes, _treated(coded))
        return replace(coded, codes=codes, copies=None)

    def sums_of(self, ensemble: Ensemble, coded: Coded, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sum the trees of the chosen draws for the arms that rows are in, in grid steps, [draw, row]."""
        sums = ensemble.sums(self.with_columns(coded).codes, chosen).astype(np.int64)
        if self._forest is not None:
            sums += np.where(_treated(coded) == 1, 1, -1) * self._half_effect(coded, chosen)
        return sums

    def _half_effect(self, coded: Coded, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        assert self._forest is not None, "the effect has a forest"
        return self._forest.sums(coded.codes, chosen) + self._half[chosen, None]

    def effect_of(self, ensemble: Ensemble, coded: Coded, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Compute the sums of the trees in one arm less those in the other, in grid steps, [draw, row]."""
        if self._forest is not None:
            return 2 * self._half_effect(coded, chosen)
        treated, others = (self.sums_of(ensemble, coded.with_role(ROLE, arm), chosen) for arm in (1.0, 0.0))
        return treated - others


def _treated(coded: Coded) -> Floats:
    return coded.by_role.get(ROLE, np.zeros(coded.num_rows))
