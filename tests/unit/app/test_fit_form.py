"""The body of `POST /models` that the form of a new model makes."""

from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest
from starlette.datastructures import FormData

from app.dashboard.forms import fit_fields
from app.dashboard.forms.fit_form import body_of
from app.services.errors import InvalidRequestError
from app.services.readers.profile import summarise
from sampler.data.target import guess_family


def test_columns_with_another_role_are_no_features():
    """All columns are ticked at first: one that is chosen as event, limit or exposure is left out."""
    ticked = [("features", name) for name in ("x", "seen", "days")]
    body = body_of(FormData([("target", "t"), ("event", "seen"), ("exposure", "days"), *ticked]))
    assert (body["features"], body["event"], body["exposure"]) == (["x"], "seen", "days")


def test_two_numbers_in_few_rows_stay_numbers():
    """The form goes by the number of rows, as the choice of the family does."""
    for rows, words in ((9, "Numbers from 1 to 2"), (10, "Only 1 and 2")):
        values = np.array([1.0, 2.0] * rows)[:rows]
        summary, profile = summarise("t", pa.chunked_array([values]))
        said = fit_fields.fitted_as(asdict(summary), profile)
        assert said.startswith(words)
        assert ("classes:" in said) == (guess_family(values) == "probit")


def test_what_a_part_is_told_may_be_several_columns():
    """Two columns chosen for a part are its list, and none chosen are no part; both stay features."""
    ticked = [("target", "y"), ("features", "east"), ("features", "north")]
    assert "parts" not in body_of(FormData(ticked))
    chosen = [("parts.spatial", "east"), ("parts.spatial", "north")]
    body = body_of(FormData([*ticked, *chosen]))
    assert (body["parts"], body["features"]) == ({"spatial": ["east", "north"]}, ["east", "north"])


def test_a_line_for_each_target_with_columns_of_its_own():
    """Targets with a line have the columns in it, the others the ticked ones; other lines are named."""
    ticked = [("target", "a"), ("others", "b"), ("features", "u"), ("features", "b")]
    body = body_of(FormData([*ticked, ("features_of", " b: v, w \n\n")]))
    assert body["features"] == {"a": ["u"], "b": ["v", "w"]}
    assert body_of(FormData(ticked))["features"] == ["u"]
    for line in ("c: v", "v, w"):
        with pytest.raises(InvalidRequestError) as raised:
            body_of(FormData([*ticked, ("features_of", line)]))
        assert [each.column for each in raised.value.errors] == ["features_of"]
        assert "a, b" in raised.value.errors[0].detail
