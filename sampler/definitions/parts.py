"""The parts that may stand beside the mean's trees, by name: where the code of each is.

Code is named rather than imported, as in `sampler.engines`. An installed package adds a part by an
entry point of the group `bartserve.parts` that names its `Part`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import Any

from sampler.definitions.pairs import Combination, Pair
from sampler.definitions.setting import FormField, Setting


class PartFacts:
    """Facts of a part that the header of a model keeps, with `to_json` and `from_json` (see `Part`)."""

    @property
    def needs_values(self) -> bool:
        """Whether the model needs rows' values before binning."""
        return False

    def coded_columns(self, num_features: int) -> list[int]:  # noqa: ARG002
        """Return the feature (`num_features`: none) of each column that trees have beside these."""
        return []

    def at_reference(self) -> dict[str, Any]:
        """Return what it knows of the reference rows, as fields of `sampler.data.encode.Coded`."""
        return {}


@dataclass(frozen=True)
class Part:
    """A part beside the mean's trees, each piece of its code as "module:name".

    Attributes
    ----------
    setting
        What a fit is told of it, as an entry of `parts`; None where roles and other settings tell.
    design
        How rows make it: a class of `sampler.preparation.part.PartDesign`.
    header
        What the header of a model keeps of it: a class of `PartFacts`, with `to_json` and, as a class method,
        `from_json(value, schema, shape)` of the columns and the shape [coded column, row] of the reference
        rows, which raises ValueError, KeyError or TypeError for anything else.
    key
        Where the header has that; empty for "part " and the part's name.
    chain
        What chains of numbers, or of latent ones, draw of it: a class of `sampler.bart.part.ChainPart`.
    law
        What laws of outcomes have of it, where there is a header: a class of
        `sampler.posterior.parts.part.LawPart`.
    cost
        What it adds to the cost of a fit: a class of `sampler.costs.part.PartCost`.
    card
        Sections of the card of a model: a function of a posterior, which gives none without the part.

    refuses
        What it doesn't go with, beside the pairs of `sampler.pairs`.
    asked_by
        Roles and settings ("name", "name=value" or "parts.name") of which a fit with the part has one: its
        `cost`, and the check of its `design`, are asked of such fits alone.

    """

    setting: Setting | None = None
    design: str = ""
    header: str = ""
    key: str = ""
    chain: str = ""
    law: str = ""
    cost: str = ""
    card: str = ""
    refuses: tuple[Pair, ...] = ()
    asked_by: tuple[str, ...] = ()


def _has_monotone_coordinate(asked: Combination) -> bool:
    """Tell whether a coordinate of a surface is to be monotone."""
    over = asked["parts.spatial"]
    return isinstance(over, list | tuple) and any(name in (asked["monotone"] or {}) for name in over)


# In the order in which a sweep meets them before the mean's trees; after these it meets them in reverse.
PARTS: dict[str, Part] = {
    "line": Part(
        design="sampler.preparation.linear:LineDesign",
        header="sampler.data.linear_terms:LinearTerms",
        key="linear",
        chain="sampler.bart.linear_part:LinearSlopes",
        law="sampler.posterior.parts.slopes:Slopes",
    ),
    "noise": Part(chain="sampler.bart.row_noise:RowNoise"),
    "treatment": Part(
        design="sampler.preparation.propensity:TreatmentDesign",
        header="sampler.data.treatment.design:EffectDesign",
        key="effects",
        chain="sampler.bart.families.effect_forest:EffectForests",
        law="sampler.posterior.parts.effects:EffectDraws",
        cost="sampler.costs.treatment:TreatmentCost",
        asked_by=("treatment", "adoption"),
    ),
    "categories": Part(
        design="sampler.preparation.level_sets:LevelSetsDesign",
        header="sampler.data.level_sets:LevelSets",
        law="sampler.posterior.parts.level_sets:SetColumns",
        cost="sampler.costs.level_sets:LevelSetsCost",
        asked_by=("categories=sets",),
    ),
    "panel": Part(
        design="sampler.preparation.panel:PanelDesign",
        header="sampler.data.treatment.panel:Panel",
        asked_by=("adoption",),
    ),
    "support": Part(header="sampler.data.treatment.support:Support", key="support"),
    "groups": Part(
        design="sampler.preparation.linear:GroupsDesign",
        header="sampler.data.groupings:Groupings",
        key="groupings",
        chain="sampler.bart.intercepts:SampledEffects",
        law="sampler.posterior.parts.intercepts:InterceptDraws",
        cost="sampler.costs.groups:GroupsCost",
        asked_by=("groups",),
    ),
    "spatial": Part(
        setting=Setting(
            "names",
            "model",
            "Two features, the coordinates of a row in one unit of length (east and north, not degrees far "
            "from the equator), over which a smooth surface stands beside the trees.",
            rare=True,
            form=FormField(
                "Smooth surface over",
                "Noise, transform and line",
                "None",
                kinds=("number",),
            ),
        ),
        design="sampler.preparation.spatial:SpatialDesign",
        header="sampler.data.spatial:Surface",
        chain="sampler.bart.spatial:SpatialSurface",
        law="sampler.posterior.parts.spatial:SurfaceDraws",
        cost="sampler.costs.spatial:SpatialCost",
        card="sampler.posterior.charts.surface_card:sections",
        asked_by=("parts.spatial",),
        refuses=(
            Pair(
                _has_monotone_coordinate,
                "parts.spatial",
                "a surface rises and falls along its coordinates, and monotone names one of them",
                "monotone",
                ("monotone", "parts.spatial"),
            ),
        ),
    ),
    "monotone": Part(
        design="sampler.preparation.monotone:MonotoneDesign",
        chain="sampler.bart.monotone:MonotoneFeatures",
        cost="sampler.costs.monotone:MonotoneCost",
        asked_by=("monotone",),
    ),
    "number of trees": Part(chain="sampler.bart.number_of_trees:NumberOfTrees"),
    "recalibration": Part(
        header="sampler.posterior.recalibration.recalibration:Recalibration",
        law="sampler.posterior.parts.recalibration:Recalibrated",
    ),
}
PARTS |= {entry.name: entry.load() for entry in entry_points(group="bartserve.parts")}
PART_SETTINGS = {name: part.setting for name, part in PARTS.items() if part.setting is not None}


def code_of_parts(piece: str) -> dict[str, str]:
    """Return where the code of a piece is, by part: "chain", "law", ..; without the parts that have none."""
    return {name: place for name, part in PARTS.items() if (place := getattr(part, piece))}


def code_asked(piece: str, given: Mapping[str, Any]) -> list[Any]:
    """Import a piece of the parts that a fit with such settings and roles may have, in their order."""
    told = {name for name, value in given.items() if value}
    told |= {f"{name}={value}" for name, value in given.items() if isinstance(value, str)}
    told |= {f"parts.{name}" for name, value in (given.get("parts") or {}).items() if value is not None}
    places = [(place, PARTS[name].asked_by) for name, place in code_of_parts(piece).items()]
    return [resolve_name(place) for place, kinds in places if not kinds or not told.isdisjoint(kinds)]
