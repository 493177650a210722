"""Every answer of every kind of model is the same bits before it is saved and after it is read."""

from sampler.definitions.data import COLUMN_ROLES
from sampler.families import FAMILIES
from sampler.methods import METHODS
from sampler.noise import AUTO, NOISES
from tests.support.models import kinds


def test_kinds_are_of_every_family_method_noise_and_role():
    """The table of kinds has each family, method and kind of noise, each role of a column, and each part."""
    every = [kinds.Kind(name) for name in kinds.KINDS]
    given = [kind.arguments for kind in every]
    assert {kind.family for kind in every} >= {*FAMILIES}
    assert {each.get("method", "bart") for each in given} >= {*METHODS}
    assert {each.get("noise") for each in given} >= {*NOISES} - {AUTO}
    weighted = {"weights"} if any(kind.weights is not None for kind in every) else set()
    assert weighted | {role for each in given for role in each} >= {*COLUMN_ROLES}
    assert {part for kind in every for part in kind.parts} == {*kinds.PARTS}
