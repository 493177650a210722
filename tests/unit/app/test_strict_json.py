"""`app.web.json_body.parse`: strict refusals that name the place; otherwise equal to json."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.services.errors import InvalidRequestError, UnsupportedMediaError
from app.web.json_body import parse

STORABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | STORABLE,
    lambda inner: st.lists(inner) | st.dictionaries(STORABLE, inner),
)


@given(VALUES)
@settings(deadline=None)
def test_plain_json_is_read_as_it_is(value):
    """Finite, storable JSON without duplicate keys is read unchanged, escaped or not."""
    assert value == parse(json.dumps(value).encode())
    assert value == parse(json.dumps(value, ensure_ascii=False).encode())


@pytest.mark.parametrize(
    ("text", "column", "row"),
    [
        ('{"a": 1, "a": 1}', "a", None),
        ('{"a": {"b": 1, "b": 2}}', "a.b", None),
        ('{"rows": [{}, {"x": 1, "x": 2}]}', "x", 2),
        ('{"rows": [{"x": 1e400}]}', "x", 1),
        ('{"columns": {"x": [1, NaN]}}', "x", 2),
        ('{"columns": {"x": [1], "x": [1]}}', "x", None),
        ('{"level": [0.5, Infinity]}', "level.1", None),
        ('{"a": -1e999}', "a", None),
        ("1e999", None, None),
        ('{"rows": [{"x": "\\u0000"}]}', "x", 1),
        ('{"a": "\\ud800"}', "a", None),
        ('{"\\udfff": 1}', "\udfff", None),
    ],
)
def test_refusals_name_the_place(text, column, row):
    """A refusal names the field, or the column and row of the data."""
    with pytest.raises(InvalidRequestError) as caught:
        parse(text.encode())

    assert [(column, row)] == [(fault.column, fault.row) for fault in caught.value.errors]


def test_whole_surrogate_pairs_pass():
    """A complete surrogate pair of escapes is accepted as one character."""
    assert parse(b'"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize("body", [b"", b"{", b"nul", b"\xff", b"[1,]", b"01", b"'a'", b"[" * 10**6, b"{} {}"])
def test_invalid_json_is_refused(body):
    """Invalid JSON is refused with the position of the error, never by another exception."""
    with pytest.raises(InvalidRequestError, match=r"JSON|UTF-8|deep"):
        parse(body)


def test_all_faults_are_reported_together():
    """All faults are reported together."""
    with pytest.raises(InvalidRequestError) as caught:
        parse(b'{"rows": [{"x": NaN}, {"x": 1}, {"x": 1, "y": NaN}]}')

    assert [(fault.column, fault.row) for fault in caught.value.errors] == [("x", 1), ("y", 3)]


def test_a_byte_order_mark_is_no_part_of_json():
    """A byte order mark of UTF-8 is skipped; a compressed body is named as such."""
    assert parse(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
    with pytest.raises(UnsupportedMediaError, match="without gzip"):
        parse(gzip.compress(b'{"a": 1}'))
