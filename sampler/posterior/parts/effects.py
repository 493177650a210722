"""The part of a law that a treatment has: columns beside the features, and the effect's own forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sampler.array_types import Codes, Floats
from sampler.data.binning import Grid
from sampler.data.encode import Coded
from sampler.data.treatment.design import HALF_MEAN, ROLE, EffectDesign, of_parts
from sampler.errors import PackedError
from sampler.families import FAMILIES
from sampler.posterior.core.ensemble import Ensemble
from sampler.posterior.core.intervals import Sums
from sampler.posterior.parts.part import LawPart
from sampler.storage.draw_codec import unpack
from sampler.storage.draws import Draws
from sampler.storage.model_header import Header

FOREST = "effect"
PROBABILITY = 150  # cost of a normal probability in trees
BLOCK = 4096  # rows whose propensity is computed at once


class EffectColumns:
    """The coded columns that the mean's trees have beside those of the features.

    `work` is the cost of a row's propensities in trees, see `Law.own_work`.

    Raises PackedError for draws of the propensity that split on other columns than the features'.
    """

    def __init__(self, design: EffectDesign, num_features: int) -> None:
        self.design = design
        fits = [unpack(each.trees) for each in design.propensities]
        self._fits = [Ensemble([each], num_features) for each in fits]
        self.work = sum(each.num_draws * (each.num_trees + PROBABILITY) for each in fits)

    def propensities(self, codes: Codes) -> Floats:
        """Compute the fitted probability of each of the fitted arms of rows [feature, row], [arm, row].

        Of a dose it is the expected one [1, row].
        """
        link = ndtr if self.design.dose is None else np.asarray
        result = np.empty((len(self._fits), codes.shape[1]))
        for start in range(0, codes.shape[1], BLOCK):
            rows = slice(start, start + BLOCK)
            some = np.ascontiguousarray(codes[:, rows])
            for own, fit, each in zip(result, self._fits, self.design.propensities, strict=True):
                own[rows] = link(each.offset + each.step * fit.sums(some)).mean(axis=0)
        return result

    def arms(self, codes: Codes) -> Floats | None:
        """Compute the fitted or known probability of every arm of rows [feature, row], [arm, row]; else None.

        Of a dose it is the expected one [1, row].
        """
        fitted, known = self.propensities(codes), self.design.known_of(codes)
        if not len(fitted):
            if known is None:
                return None
            fitted = known[None]
        if self.design.dose is not None:
            return fitted
        return fitted / fitted.sum(axis=0) if len(fitted) > 1 else np.vstack([1.0 - fitted, fitted])

    def add(self, codes: Codes, treated: Floats) -> Codes:
        """Add the columns to the codes of the features of rows, uint8 [column, row]."""
        more = self.design.codes_of(treated)
        for each, propensity in zip(self.design.propensities, self.propensities(codes), strict=True):
            more.append(Grid((each.cuts,)).encode(0, propensity))
        return np.vstack([codes, *more]) if more else codes


class EffectDraws(LawPart):
    """Draws of a treatment's effect, and what the mean's trees see of it.

    Attributes
    ----------
    design
        How the trees see the treatment.
    columns
        Their columns beside the features.

    """

    work = 100

    @classmethod
    def of(cls, facts: EffectDesign, header: Header, chains: Sequence[Draws]) -> EffectDraws:
        """Read the effect of a treatment."""
        counts = FAMILIES[str(header.settings["family"])].target == "counts"
        columns, step = len(header.grid.cuts), float(header.constants["step"])
        return cls(facts, chains, columns, step, counts=counts)

    def __init__(
        self, design: EffectDesign, chains: Sequence[Draws], num_features: int, step: float, *, counts: bool
    ) -> None:
        self.design = design
        self.columns = EffectColumns(design, num_features)
        self.row_work = self.columns.work
        self._forests: list[Ensemble] = []
        self._halves: list[NDArray[np.int64]] = []
        if design.kind != "bcf":
            return
        names = (of_parts(name, design.num_parts(counts=counts)) for name in (FOREST, HALF_MEAN))
        for forest, scalar in zip(*names, strict=True):
            if not all(forest in each.forests for each in chains):
                raise PackedError("the draws have no forest of the effect")
            self._forests.append(Ensemble([each.forests[forest] for each in chains], num_features))
            if counts:  # whose forests have no constant part beside them
                self._halves.append(np.zeros(sum(each.num_draws for each in chains), np.int64))
                continue
            if not all(scalar in each.scalars for each in chains):
                raise PackedError("the draws have no constant part of the effect")
            halves = np.concatenate([each.scalars[scalar] for each in chains])
            self._halves.append(np.rint(halves / step).astype(np.int64))

    def with_columns(self, coded: Coded) -> Coded:
        """Return the rows with the columns that trees have beside the features.

        Rows whose treatment isn't known are not treated, or have the dose at the centre.
        """
        codes = self.columns.add(coded.codes, self._treated(coded))
        return replace(coded, codes=codes, copies=None)

    def add_steps(self, sums: Sums, coded: Coded, chosen: NDArray[np.int64]) -> Sums:
        """Add the forests of the arms that rows are in, in grid steps, [draw, row]."""
        sums = sums.astype(np.int64)
        treated = self._treated(coded)
        if len(self._forests) == 1:
            sums += np.rint(self._factor(treated) * self._part(0, coded, chosen)).astype(np.int64)
            return sums
        for arm in range(len(self._forests)):
            own = np.flatnonzero(treated == arm)
            if len(own):
                sums[:, own] += self._part(arm, coded.part(own), chosen)
        return sums

    def _factor(self, treated: Any) -> Any:
        """Return by what the one forest of an effect is multiplied in rows with such treatments."""
        dose = self.design.dose
        return np.where(treated == 1, 1, -1) if dose is None else dose.units(treated)

    def _treated(self, coded: Coded) -> Floats:
        """Return the treatments of rows; those that aren't known are none, or the dose at the centre."""
        dose = self.design.dose
        unknown = np.full(coded.num_rows, 0.0 if dose is None else dose.centre)
        return coded.by_role.get(ROLE, unknown)

    def _part(self, number: int, coded: Coded, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sum half the effect, or the part of an arm, in grid steps, [draw, row]."""
        return self._forests[number].sums(coded.codes, chosen) + self._halves[number][chosen, None]

    def effect_of(
        self, ensemble: Ensemble, coded: Coded, chosen: NDArray[np.int64], arms: tuple[float, float]
    ) -> NDArray[np.int64] | Floats:
        """Compute the sums of the trees in one arm less those in the other, in grid steps, [draw, row]."""
        if len(self._forests) == 1:
            factor = self._factor(np.array(arms))
            return np.asarray((factor[0] - factor[1]) * self._part(0, coded, chosen))
        if self._forests:
            first, second = (self._part(int(arm), coded, chosen) for arm in arms)
        else:
            of_arms = (self.with_columns(coded.with_role(ROLE, arm)).codes for arm in arms)
            first, second = (ensemble.sums(codes, chosen).astype(np.int64) for codes in of_arms)
        return first - second
