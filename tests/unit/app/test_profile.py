"""Column profiles: figures equal numpy's and are valid JSON."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.services.readers.profile import summarise
from sampler import describe

DATES = st.dates()
COLUMNS = st.one_of(
    st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)).map(
        lambda cells: pa.array(cells, pa.float64())
    ),
    st.lists(st.none() | st.integers(-50, 50)).map(lambda cells: pa.array(cells, pa.float64())),
    st.lists(st.none() | st.booleans()).map(lambda cells: pa.array(cells, pa.bool_())),
    st.lists(st.none() | st.text(max_size=5)).map(lambda cells: pa.array(cells, pa.string())),
    st.lists(st.none() | DATES).map(lambda cells: pa.array(cells, pa.date32()).cast(pa.timestamp("us"))),
)


@given(COLUMNS)
@settings(deadline=None)
@pytest.mark.slow
def test_a_profile_is_json_and_counts_every_row(array):
    """For any column figures are finite, and histogram, distinct and missing counts add up to the rows."""
    summary, profile = summarise("x", pa.chunked_array([array]))

    json.dumps(profile, allow_nan=False)
    present = len(array) - array.null_count
    assert summary.missing == array.null_count
    assert summary.distinct == len(set(array.drop_null().to_pylist()))
    assert sum(entry["count"] for entry in profile["top"]) <= present
    if profile["histogram"] is not None:
        assert sum(profile["histogram"]["counts"]) == present
        assert len(profile["histogram"]["edges"]) == len(profile["histogram"]["counts"]) + 1


@given(COLUMNS)
@settings(deadline=None)
def test_the_summary_is_the_notebook_s(array):
    """Kind, missing, distinct, range and levels equal those of `sampler.describe`."""
    (expected,) = describe(pa.table({"x": array}))
    summary, _ = summarise("x", pa.chunked_array([array]))

    if array.null_count < len(array):
        assert summary == expected


def test_numbers_are_profiled_as_numpy_does():
    """Quantiles equal numpy's with method `lower`, and the histogram equals numpy's."""
    values = np.random.default_rng(1).normal(size=1001)
    _, profile = summarise("x", pa.chunked_array([values]))

    for level, value in profile["quantiles"].items():
        assert value == np.quantile(values, float(level), method="lower")
    counts, edges = np.histogram(values, bins=20)
    assert profile["histogram"]["counts"] == counts.tolist()
    assert profile["histogram"]["edges"] == pytest.approx(edges.tolist())
    assert (profile["mean"], profile["sd"]) == pytest.approx((values.mean(), values.std(ddof=1)))


def test_whole_numbers_have_whole_bins():
    """Bins of integers and of days all contain equally many values, so that none is empty by rounding."""
    _, numbers = summarise("x", pa.chunked_array([pa.array([3.0, 4, 4, 8])]))
    days = pa.array(["2026-01-01", "2026-01-03", None]).cast(pa.timestamp("us"))
    _, dates = summarise("x", pa.chunked_array([days]))

    assert numbers["histogram"] == {
        "edges": [2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5],
        "counts": [1, 2, 0, 0, 0, 1],
    }
    assert dates["histogram"]["counts"] == [1, 0, 1]
    assert dates["histogram"]["edges"][:2] == ["2026-01-01", "2026-01-02"]
    assert numbers["top"][0] == {"value": 4.0, "count": 2}
