"""The body of `POST /models` that the form of a new model makes."""

from starlette.datastructures import FormData

from app.dashboard.forms.fit_form import body_of


def test_columns_with_another_role_are_no_features():
    """All columns are ticked at first: one that is chosen as event, limit or exposure is left out."""
    ticked = [("features", name) for name in ("x", "seen", "days")]
    body = body_of(FormData([("target", "t"), ("event", "seen"), ("exposure", "days"), *ticked]))
    assert (body["features"], body["event"], body["exposure"]) == (["x"], "seen", "days")
