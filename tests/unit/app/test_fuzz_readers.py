"""Every reader of files, fed with inputs mutated where they reach new lines; the long form is a command."""

import pytest

from tests.support.fuzz_readers import READERS, fuzz


@pytest.mark.parametrize("reader", READERS)
def test_whatever_bytes_are_taken_or_refused(reader):
    """Nothing else comes out of a reader; `make fuzz` feeds them as long as one likes."""
    assert fuzz(reader, inputs=400, seed=1) == 0
