"""Preparation from rows: the coded columns of the category's levels, and the scale of their constants."""

from dataclasses import asdict, dataclass

import numpy as np

from level_constants import NAME
from sampler.definitions.parts import PartFacts
from sampler.errors import SettingsError
from sampler.preparation.part import PartDesign
from sampler.prior import outcome_sd


@dataclass(frozen=True)
class Levels(PartFacts):
    """Facts that the header keeps: coded columns, one a level, and the prior sd of the constants."""

    column: str
    places: tuple[int, ...]
    sd: float

    def of(self, codes):
        """Tell which rows are of each level, bool [level, row], by their codes [coded column, row]."""
        return codes[[*self.places]] == 1

    def to_json(self):
        """Return a dict that `from_json` reads."""
        return asdict(self) | {"places": [*self.places]}

    @classmethod
    def from_json(cls, stored, schema, shape):
        """Read it, of a model of such columns; raise ValueError, KeyError or TypeError."""
        levels = cls(str(stored["column"]), tuple(stored["places"]), float(stored["sd"]))
        inside = all(type(place) is int and 0 <= place < shape[0] for place in levels.places)
        if levels.column not in schema.kinds or not inside or not 0 < levels.sd < 1e150:
            raise ValueError("its constants by level are of columns that don't exist")
        return levels


@dataclass(frozen=True, eq=False)
class LevelTraining:
    """Training data: which rows are of each level, bool [level, row], and the constants' sd."""

    inside: np.ndarray
    sd: float

    @property
    def identity(self):
        """All of it as bytes."""
        return self.inside.tobytes() + repr(self.sd).encode()

    def take(self, rows):
        """Return that of some of the rows."""
        return LevelTraining(self.inside[:, rows], self.sd)


class LevelDesign(PartDesign):
    """A constant for each coded column of the category."""

    @classmethod
    def check(cls, planned, table):
        """Raise SettingsError for a column that is no feature, or no category."""
        column = planned.settings.parts[NAME]
        if planned.choice.kinds.get(column) != "category":
            message = (
                f"{NAME} takes a category among the features: {column!r} is none; name one, or leave it out"
            )
            raise SettingsError(message, field=f"parts.{NAME}", code="not_applicable")

    @classmethod
    def facts(cls, rows, planned):
        """Find the levels; None where the fit has no such part."""
        column = rows.settings.parts.get(NAME)
        if column is None:
            return None
        names = [rows.schema.columns[place].name for place, _ in rows.schema.coded]
        places = tuple(k for k, name in enumerate(names) if name == column)
        latent = rows.settings.family != "gaussian"
        return Levels(column, places, 1.0 if latent else outcome_sd(rows.y, rows.weights))

    @classmethod
    def training(cls, facts, rows):
        """Tell which rows are of each level."""
        return LevelTraining(facts.of(rows.codes), facts.sd)
