"""Held-out rows."""

import numpy as np
import pytest

from sampler import holdout_rows


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.25, 0.5, 0.999])
def test_the_held_out_part(fraction):
    """The rows have the right number, each once, in order, equal for equal seeds, with one left to fit."""
    rows = holdout_rows(397, fraction, seed=3)

    assert len(rows) == min(round(397 * fraction), 396)
    assert np.all(np.diff(rows) > 0)
    assert set(rows.tolist()) <= set(range(397))
    assert np.array_equal(rows, holdout_rows(397, fraction, seed=3))


def test_the_held_out_rows_follow_the_seed():
    """Another seed holds out other rows; no fraction holds out none; the smallest part is one row."""
    assert not np.array_equal(holdout_rows(100, 0.3, 1), holdout_rows(100, 0.3, 2))
    assert len(holdout_rows(100, None, 1)) == 0
    assert len(holdout_rows(10, 0.001, 1)) == 1


def test_the_held_out_rows_are_fixed_for_good():
    """These very rows: a released version's models must find their held-out part again."""
    assert holdout_rows(20, 0.25, 0).tolist() == [1, 5, 7, 13, 19]
