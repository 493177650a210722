"""Held-out rows."""

import numpy as np
import pytest

from sampler import holdout_rows


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.25, 0.5, 0.999])
def test_the_held_out_part(fraction):
    """Held-out rows are distinct, sorted, right in number, equal for equal seeds, and leave one to fit."""
    rows = holdout_rows(397, fraction, seed=3)

    assert len(rows) == min(round(397 * fraction), 396)
    assert np.all(np.diff(rows) > 0)
    assert set(rows.tolist()) <= set(range(397))
    assert np.array_equal(rows, holdout_rows(397, fraction, seed=3))


def test_the_held_out_rows_follow_the_seed():
    """Another seed holds out other rows; no fraction holds out none; any fraction at least one row."""
    assert not np.array_equal(holdout_rows(100, 0.3, 1), holdout_rows(100, 0.3, 2))
    assert len(holdout_rows(100, None, 1)) == 0
    assert len(holdout_rows(10, 0.001, 1)) == 1


def test_the_held_out_rows_are_fixed_for_good():
    """The rows for a given seed never change: models of released versions must find their held-out rows."""
    assert holdout_rows(20, 0.25, 0).tolist() == [1, 5, 7, 13, 19]
