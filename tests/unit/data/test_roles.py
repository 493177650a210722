"""Roles of columns: one entry of the definitions each, which the rest of the code loops over."""

import re
from pathlib import Path

import pytest

from app.cli.fit_predict import FIT
from sampler.definitions.data import COLUMN_ROLES
from sampler.engines import load_code
from sampler.families import FAMILIES, takes

ROOT = Path(__file__).parents[3]
SOURCES = [file for package in ("sampler", "app", "worker") for file in (ROOT / package).rglob("*.py")]


def test_few_files_spell_a_role():
    """They are its entry, signatures for people (`fit`, the client's, a property), its reader and its use."""
    spelled = [
        str(file.relative_to(ROOT)) for file in SOURCES if re.search(r"\bexposure\b", file.read_text())
    ]
    assert len(spelled) <= 9, spelled


@pytest.mark.parametrize("name", COLUMN_ROLES)
def test_an_entry_is_whole(name):
    """Its code exists, some family takes it, and others refuse it in words."""
    role = COLUMN_ROLES[name]
    assert all(callable(load_code(place)) for place in (role.reader, role.constants) if place)
    assert any(takes(family, name) for family in FAMILIES)
    assert role.of_outcome or role.refusal.format(family="x", families="y")
    assert role.form is not None
    assert role.noun
    assert not role.example or f"bartserve fit {role.example}\n" in FIT
