"""Database for one test, and the choice of one dialect."""

from dataclasses import dataclass

import pytest
from sqlalchemy import Engine

DIALECTS = ("sqlite", "postgres")


@dataclass(frozen=True)
class Database:
    """A database for one test, at head."""

    dialect: str
    url: str
    engine: Engine


def only(dialect: str) -> pytest.MarkDecorator:
    """Run a test that uses `database` only on this dialect."""
    return pytest.mark.parametrize("dialect", [dialect], indirect=True)
