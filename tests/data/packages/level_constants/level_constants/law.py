"""Law of outcomes with it: the constant of a row's level is added to f."""

import numpy as np

from level_constants.chain import scalar_names
from sampler.errors import PackedError
from sampler.posterior.parts.part import LawPart


class LevelLaw(LawPart):
    """Constants of all draws, float64 [draw, level], one chain after the other."""

    work = 5
    not_explained = ", constants by level left out"

    def __init__(self, levels, values):
        self.levels, self.values = levels, values

    @classmethod
    def of(cls, facts, header, chains):
        """Read the constants."""
        names = scalar_names(len(facts.places))
        if not all(name in draws.scalars for draws in chains for name in names):
            raise PackedError("the draws don't have the constants of the model's levels")
        return cls(facts, np.concatenate([np.stack([d.scalars[name] for name in names], 1) for d in chains]))

    def add_to(self, f, coded, chosen):
        """Add the constants of the rows' levels to f [draw, row]."""
        for k, inside in enumerate(self.levels.of(coded.codes)):
            f[:, inside] += self.values[chosen, k, None]
