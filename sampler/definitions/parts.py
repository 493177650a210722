"""The parts that may stand beside the mean's trees, by name: where the code of each is.

Code is named rather than imported, as in `sampler.engines`. An installed package adds a part by an
entry point of the group `bartserve.parts` that names its `Part`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points


@dataclass(frozen=True)
class Part:
    """A part beside the mean's trees, each piece of its code as "module:name".

    Attributes
    ----------
    chain
        What chains of numbers, or of latent ones, draw of it: a class of `sampler.bart.part.ChainPart`.

    law
        What laws of outcomes have of it: a class of `sampler.posterior.parts.part.LawPart`.

    """

    chain: str = ""
    law: str = ""


# In the order in which a sweep meets them before the mean's trees; after these it meets them in reverse.
PARTS: dict[str, Part] = {
    "line": Part(
        chain="sampler.bart.linear_part:LinearSlopes",
        law="sampler.posterior.parts.slopes:Slopes",
    ),
    "noise": Part(chain="sampler.bart.row_noise:RowNoise"),
    "treatment": Part(
        chain="sampler.bart.families.effect_forest:EffectForests",
        law="sampler.posterior.parts.effects:EffectDraws",
    ),
    "groups": Part(
        chain="sampler.bart.intercepts:SampledEffects",
        law="sampler.posterior.parts.intercepts:InterceptDraws",
    ),
}
PARTS |= {entry.name: entry.load() for entry in entry_points(group="bartserve.parts")}
