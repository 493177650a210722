"""Every pair of things that a fit may be asked to have is planned, or refused with ways that are accepted."""

from functools import cache
from itertools import combinations

import pytest

from sampler import DataError, Settings, SettingsError
from sampler.pairs import KINDS, TABLE
from tests.support.fit_kinds import FAMILIES_ASKED, OUTCOMES, PARTS, THINGS, after, kind_of, refusal, together

OF_TABLE = [name for name, asked in PARTS.items() if "prior" not in asked]  # whose entries are a family's own
PAIRS = [(), *((name,) for name in THINGS), *combinations(THINGS, 2)]
TRIPLES = [(family, *pair) for family in FAMILIES_ASKED for pair in combinations(OF_TABLE, 2)]


@cache
def fault(names: tuple[str, ...], of: str) -> str | None:
    """Name the setting at fault where things are refused together, for outcomes of a kind."""
    arguments = together(*names)
    return None if arguments is None else getattr(refusal(arguments, OUTCOMES[of]), "field", None)


def check(names: tuple[str, ...]) -> str | None:
    """Ask for things together: planned, or refused with ways, each of which leads to a plan.

    Where some of the things are refused without the others too, that remains. Returns the refusal.
    """
    arguments = together(*names)
    if arguments is None:
        return None
    of = kind_of(arguments)
    refused = refusal(arguments, OUTCOMES[of])
    if refused is None:
        return None
    assert isinstance(refused, SettingsError), (names, str(refused))
    remain = {fault(some, of) for size in range(1, len(names)) for some in combinations(names, size)}
    for way in refused.ways or [{refused.field: None}]:
        changed = after(arguments, way)
        assert changed != arguments, (names, str(refused), way)
        again = refusal(changed, OUTCOMES[of])
        left = (
            again is None
            or ("outcomes" in changed and isinstance(again, DataError))
            or (getattr(again, "field", "") in remain and str(again) != str(refused))
        )
        assert left, (names, str(refused), way, again)
        for name, value in way.items() if refused.ways else ():
            assert name == "outcomes" or f"{name}" in str(refused), (names, str(refused))
            assert value is None or name == "outcomes" or str(value) in str(refused), (names, str(refused))
    return str(refused)


def test_every_pair():
    """Pairs of parts, methods, families, kinds of noise and transforms."""
    refused = [check(names) for names in PAIRS]
    assert 600 < sum(each is None for each in refused) < 1200


@pytest.mark.slow
def test_every_pair_of_parts_with_every_family():
    """Triples of a family and two parts: what two of them are refused for may remain, no more."""
    for names in TRIPLES:
        check(names)


def test_the_table_is_whole():
    """Each kind is of some entry, and each entry names a way, of things that exist."""
    named = {kind for pair in TABLE for kind in (pair.one, pair.other)}
    assert {*KINDS} <= named
    assert all(pair.ways and pair.reason for pair in TABLE)


def test_settings_alone_may_be_of_a_fit_with_a_treatment():
    """Whether there is a treatment isn't known to them, as where those of a model are tuned."""
    assert Settings.resolve(effects="plain", assignment="random").effects == "plain"
