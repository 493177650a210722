"""Texts of new rows become the levels of a model's categories that they mean."""

import pyarrow as pa
import pytest

from app.services.predictions.row_reading import RowReading
from app.services.readers.options import Options
from sampler.data.schema import Column


@pytest.mark.parametrize(
    ("levels", "text", "meant"),
    [
        (("Zürich", "Bern"), "Zu\u0308rich", "Zürich"),
        (("Cafe\u0301",), " Café ", "Cafe\u0301"),
        (("b ", "b"), "b ", "b "),
        (("b",), "b ", "b"),
        (("1", "2"), "2.00", "2"),
        (("01", "1"), "01", "01"),
        (("true", "false"), "FALSE", "false"),
        (("none", "some"), "none", "none"),
        (("no", "yes"), "none", None),
        (("no", "yes"), "Yes", "Yes"),
    ],
)
def test_a_text_is_the_level_that_it_means(levels, text, meant):
    """A level as spelled comes first, then missing values, numbers, truth values and codes of letters."""
    read = RowReading({}, Options()).levels(pa.array([text, None]), Column("x", "category", levels))

    assert read.to_pylist() == [meant, None]
