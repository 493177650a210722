"""File readers, fuzzed with coverage-guided mutation; `make fuzz` runs the long form."""

import pytest

from sampler import warm
from tests.support.fuzzing.readers import READERS, fuzz

BATCHES = {"model": 50}  # accepted inputs are mutated often


@pytest.fixture(scope="module", autouse=True)
def _kernels() -> None:
    warm("prediction")


@pytest.mark.parametrize("reader", READERS)
def test_whatever_bytes_are_taken_or_refused(reader):
    """A reader accepts or refuses any bytes; `make fuzz` runs this for as long as desired."""
    batch = BATCHES.get(reader, 200)
    assert fuzz(reader, inputs=2 * batch, seed=1, batch=batch) == 0
