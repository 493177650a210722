"""Every reader of files, fed with inputs mutated where they reach new lines; the long form is a command."""

import pytest

from sampler import warm
from tests.support.fuzz_readers import READERS, fuzz

BATCHES = {"model": 50}  # what is taken is asked a lot


@pytest.fixture(scope="module", autouse=True)
def _kernels() -> None:
    warm("prediction")


@pytest.mark.parametrize("reader", READERS)
def test_whatever_bytes_are_taken_or_refused(reader):
    """Nothing else comes out of a reader; `make fuzz` feeds them as long as one likes."""
    batch = BATCHES.get(reader, 200)
    assert fuzz(reader, inputs=2 * batch, seed=1, batch=batch) == 0
