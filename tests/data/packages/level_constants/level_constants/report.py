"""Words and figures for people before and after a fit: its cost, and a section of the model's card."""

from level_constants.law import LevelLaw
from sampler.costs.part import PartCost
from sampler.posterior.results.card_document import CardTable, Section

ROW_SECONDS, ROW_BYTES = 5e-9, 8


class LevelCost(PartCost):
    """A pass over the rows in each iteration, and their places by level."""

    @classmethod
    def sweep_seconds(cls, settings, rows, columns):
        """Estimate the seconds of an iteration of one chain."""
        return ROW_SECONDS * rows

    @classmethod
    def row_bytes(cls, settings, columns):
        """Estimate the bytes that a chain takes for each row."""
        return ROW_BYTES


def sections(posterior):
    """Tabulate the mean constant of each level; no section of a model without the part."""
    part = posterior.law.part(LevelLaw)
    if part is None:
        return []
    names = [posterior.schema.coded[place][1] or "missing" for place in part.levels.places]
    rows = [(name, f"{mean:.3g}") for name, mean in zip(names, part.values.mean(axis=0), strict=True)]
    sentence = f"Each level of {part.levels.column} has a constant beside the trees."
    return [Section("Constants by level", [sentence], [CardTable(("Level", "Constant"), rows)])]
