"""Cost of a treatment's effect, and of its propensity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampler.costs.durations import LATENT_ROW, MOVE_SECONDS, WEIGHTED, tree_seconds
from sampler.costs.part import PartCost
from sampler.families import FAMILIES

EFFECT_TREES = 50  # of a treatment's effect, or of each of several arms
BESIDE_EFFECT = 1.5  # factor on their time, for what is drawn beside them
# Updates of trees of a propensity's fit with those to halves, and rows of them in those of the fit; of each
# of several arms.
PROPENSITY, PROPENSITY_ROWS = 70_000, 60_000


class TreatmentCost(PartCost):
    """Cost of the trees of an effect, one forest or one of each arm, and of the propensity's fit."""

    @classmethod
    def trees(cls, settings: Mapping[str, Any]) -> int:
        """Return the number of trees of the effect, none where it is among the mean's."""
        if settings.get("effects", "bcf") != "bcf":
            return 0
        counts = FAMILIES[settings.get("family") or "gaussian"].target == "counts"
        return EFFECT_TREES * int(settings.get("num_arms") or (2 if counts else 1))

    @classmethod
    def sweep_seconds(cls, settings: Mapping[str, Any], rows: int, columns: int) -> float:  # noqa: ARG003
        """Estimate the seconds of an update of each tree of the effect."""
        if not (trees := cls.trees(settings)):
            return 0.0
        update, of_row = tree_seconds(settings)
        weighted = WEIGHTED if settings.get("num_arms") else 1.0
        return BESIDE_EFFECT * trees * (update + weighted * of_row * rows)

    @classmethod
    def prepare_seconds(cls, settings: Mapping[str, Any], rows: int) -> float:
        """Estimate the seconds of the propensity's fit, or of those of several arms."""
        fitted = settings.get("treatment") and settings.get("effects", "bcf") != "plain"
        if not fitted or settings.get("propensity") or settings.get("assignment") == "random":
            return 0.0
        (update, of_row), latent = MOVE_SECONDS["rule"], LATENT_ROW["two"]
        each = PROPENSITY * update + PROPENSITY_ROWS * rows * (of_row + latent / EFFECT_TREES)
        return int(settings.get("num_arms") or 1) * each
