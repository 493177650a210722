"""Draws, files and predictions of every method and move set stay unchanged, bit for bit."""

import json

import pytest

from tests.support import fit_digests

pytestmark = pytest.mark.usefixtures("all_kernels")

RECORD = json.loads(fit_digests.FILE.read_text())


def test_every_case_has_digests():
    """The recorded digests are exactly those of the cases."""
    assert RECORD["cases"].keys() == fit_digests.CASES.keys()


@pytest.mark.skipif(
    RECORD["machine"] != fit_digests.machine(), reason="digests of another processor or other libraries"
)
@pytest.mark.parametrize("case", fit_digests.CASES)
def test_fits_have_their_recorded_digests(case, tmp_path):
    """A fit has the digests recorded for it."""
    assert fit_digests.digests(case, tmp_path) in fit_digests.expected(case, RECORD)
