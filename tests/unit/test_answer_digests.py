"""Predictions, scores and explanations of every kind of posterior stay unchanged, bit for bit."""

import json

import pytest

from tests.support import answer_digests

pytestmark = pytest.mark.usefixtures("all_kernels")

RECORD = json.loads(answer_digests.FILE.read_text())


def test_every_case_has_digests():
    """The recorded digests are exactly those of the cases."""
    assert RECORD["cases"].keys() == set(answer_digests.ALL)


@pytest.mark.skipif(
    RECORD["machine"] != answer_digests.machine(), reason="digests of another processor or other libraries"
)
@pytest.mark.parametrize("case", answer_digests.ALL)
@pytest.mark.sampled(quick=25)
def test_answers_have_their_recorded_digests(case, tmp_path):
    """A posterior of a case answers, and refuses, what was recorded for it, before it was saved and after."""
    assert answer_digests.digests(case, tmp_path) in answer_digests.expected(case, RECORD)
