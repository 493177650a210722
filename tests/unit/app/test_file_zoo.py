"""The zoo of files: none is read wrongly in silence."""

import io

import pytest

from app.services.readers.options import Options, ReaderLimits
from app.services.readers.table import open_table
from tests.support.file_zoo import KINDS, LOOKS, NAMES, VALUES


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_the_same_in_every_file(kind, look):
    """Each cell has its value in every kind of file and every look, and what was decided is said."""
    write, said = KINDS[kind]

    with open_table(io.BytesIO(write(LOOKS[look])), Options(), ReaderLimits()) as table:
        columns = {each.name: each.values.to_pylist() for each in sorted(table.columns())}

    assert [*columns] == NAMES
    assert columns == VALUES
    assert said in " ".join(table.warnings)
