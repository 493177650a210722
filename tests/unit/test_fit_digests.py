"""Draws, saved files and predictions of every method and move set stay the same, bit for bit."""

import json

import pytest

from tests.support import fit_digests

pytestmark = pytest.mark.usefixtures("all_kernels")

RECORD = json.loads(fit_digests.FILE.read_text())


def test_every_case_has_digests():
    """The record holds the cases, no more and no less."""
    assert RECORD["cases"].keys() == fit_digests.CASES.keys()


@pytest.mark.skipif(
    RECORD["machine"] != fit_digests.machine(), reason="digests of another processor or other libraries"
)
@pytest.mark.parametrize("case", fit_digests.CASES)
def test_same_bits(case, tmp_path):
    """A fit is what it was when its digests were recorded."""
    assert fit_digests.digests(case, tmp_path) == RECORD["cases"][case]
