"""Groupings of stored models: read as written, and refused where they can't be those of a fit."""

import numpy as np
import pytest

from sampler.data.groupings import Groupings
from sampler.data.schema import Column, Schema

SITES = Column("site", "category", ["a", "b"])
YEARS = Column("year", "category", ["2019", "2020", "2021"])
INDEX = np.array([[0, 1, 1, 0], [0, 1, 2, 2]], np.int32)


def stored():
    """Return the groupings of four rows in two columns, of which the first and last are reference rows."""
    return Groupings.of([SITES, YEARS], INDEX, 2.5, np.array([0, 3])).to_json()


def read(document, columns=(SITES, YEARS)):
    """Read them for a model of two reference rows."""
    return Groupings.from_json(document, Schema((), SITES, (), (), tuple(columns)), (1, 2))


def test_they_are_read_as_written():
    """Rows by group, groups of the reference rows and scales survive."""
    assert stored() == {"scales": [2.5, 2.5], "rows": [[2, 2], [1, 1, 2]], "reference": [[0, 0], [0, 2]]}
    assert read(stored()).to_json() == stored()


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("rows", [[2, 2]], "don't fit its columns"),
        ("rows", [[2, 2], [1, 1, -2]], "numbers of rows by group"),
        ("rows", [[2, 2], [1, 1, 2.0]], "numbers of rows by group"),
        ("scales", [2.5], "don't fit its columns"),
        ("scales", [2.5, 0.0], "out of range"),
        ("scales", [2.5, float("nan")], "out of range"),
        ("reference", [[0, 0], [0]], "groups of its reference rows"),
        ("reference", [[0, 0], [0, 3]], "groups that don't exist"),
        ("reference", [[0, 0], [0, True]], "groups that don't exist"),
    ],
)
def test_others_are_refused(part, value, message):
    """Each part that doesn't fit the columns, the rows or any fit is refused with its reason."""
    with pytest.raises(ValueError, match=message):
        read(stored() | {part: value})


def test_columns_without_groups_are_refused():
    """A column of groups has at least one."""
    with pytest.raises(ValueError, match="too many groups, or none"):
        read(stored(), (SITES, Column("year", "category", [])))
