"""`app.web.json_body.parse`: strict refusals that name the place; otherwise equal to json."""

import gzip
import json
from dataclasses import dataclass
from math import inf
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic_core import to_json

from app.application import create_app
from app.services.errors import InvalidRequestError, TooLargeError, UnsupportedMediaError
from app.services.request_bodies import MAX_FIELDS, StrictBody
from app.settings import Settings
from app.web import json_pieces
from app.web.json_body import SMALL_BYTES, StrictRoute, parse

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


TEXTS = st.text(alphabet='[]{},:" \\\n1ae-.', max_size=40)


@given(VALUES, st.sampled_from([1, 2, 5, 13]), st.sampled_from([None, 1]), TEXTS, st.integers(0, 60))
@settings(deadline=None)
def test_pieces_give_what_the_whole_gives(value, piece, indent, noise, at):
    """A text that is scanned in pieces of any size gives the value, or the error, of one scanned at once."""
    text = json.dumps(value, indent=indent)
    decoder = json.JSONDecoder()
    for each in (text, text[:at] + noise + text[at:], text[:at] + text[at + 1 :]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_pieces, "PIECE", piece)
            patch.setattr(json_pieces, "DEEPEST", 100)
            pieces = json_pieces.Pieces(decoder, 10**6)
            assert outcome(pieces.parse, each) == outcome(decoder.decode, each)


def outcome(read, text):
    try:
        return read(text)
    except json.JSONDecodeError as error:
        return str(error)


@dataclass
class View:
    rows: list[Any]
    other: Any


@given(VALUES, st.sampled_from([1, 2, 5, 13]))
@settings(deadline=None)
def test_an_answer_written_in_pieces_is_the_one_written_at_once(value, most):
    """Whatever its parts: objects, lists of any sizes, dataclasses; numbers that aren't finite are null."""
    for each in (value, View([value, inf], {"a": View([], value)}), [View([value], "a")] * 3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_pieces, "VALUES", most)
            assert json_pieces.written(each) == to_json(each, inf_nan_mode="null")


def test_the_compiled_writer_is_given_a_few_values_at_once(monkeypatch):
    """Rows, columns, draws by row and the parts of a view are written in pieces."""
    given = []
    monkeypatch.setattr(
        json_pieces, "to_json", lambda value, **how: given.append(value) or to_json(value, **how)
    )
    wide, long = [[0.5] * 30_000] * 3, [0.5] * 100_000
    for each in (wide, {"a": long}, View(long, {"b": wide}), [{"mean": 0.5, "sd": 0.5}] * 30_000, [[wide]]):
        given.clear()
        json_pieces.written(each)
        assert max(len(str(piece)) for piece in given) < 100_000


SHAPES = ('{"rows": [%s]}', '{"columns": {"a": [[%s]]}}', "[[[%s]]]", "[[%s], [0]]")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("entry", ["{}", "[]", '{"a": "]["}', "[0.1, null]", "1"])
@pytest.mark.sampled(quick=8, slow=12)
def test_a_large_body_is_bounded_while_it_is_parsed(shape, entry):
    """It has as many lists and objects as rows, and no longer lists; brackets in texts are none."""
    text = shape % ",".join([entry] * SMALL_BYTES)
    assert parse(text.encode(), SMALL_BYTES) == json.loads(text)
    with pytest.raises(TooLargeError, match="at most 1000 rows"):
        parse(text.encode(), 1000)


def bodies():
    """Yield the path and the type of each JSON body."""
    app = create_app(Settings(database_url="sqlite:///never-opened"))
    for route in (each.original_route for each in iter_route_contexts(app.routes)):
        if isinstance(route, StrictRoute) and route.body_field is not None:
            yield route.path, route.body_field.field_info.annotation


def most_errors(schema, body, known):
    """Return how many errors there are at most for a value of a schema, of any length."""
    kind = schema["type"]
    inside = sum(most_errors(each, body, known) for each in parts(schema, known))
    if kind in ("list", "dict") and inside and not schema.get("fail_fast"):
        # Pydantic counts the entries of an object once it has validated them.
        return 1 + inside * (schema.get("max_length", inf) if kind == "list" else inf)
    if kind == "model":  # else it may have any number of other fields
        return inside + (
            MAX_FIELDS if schema["cls"] is body or issubclass(schema["cls"], StrictBody) else inf
        )
    return inside + (0 if kind == "any" else 1)


def parts(schema, known):
    """Yield the schemas inside a schema; of an object not those of its keys, which are text in JSON."""
    if schema["type"] == "definition-ref":
        yield known[schema["schema_ref"]]
    if schema["type"] == "model-fields":
        yield from (field["schema"] for field in schema["fields"].values())
    choices = schema.get("choices", [])
    choices = choices.values() if isinstance(choices, dict) else choices
    yield from (each[0] if isinstance(each, tuple) else each for each in choices)
    yield from (schema[name] for name in ("schema", "items_schema", "values_schema") if name in schema)


def test_no_body_has_more_errors_than_are_described_at_once():
    """A list or an object of any length stops at its first fault, and no object has any number of fields."""
    most = dict[str, float]()
    for path, body in bodies():
        schema = TypeAdapter(body).core_schema
        known = {each["ref"]: each for each in schema.get("definitions", [])}
        most[path] = most_errors(schema, body, known)
    assert len(most) > 20
    assert {path: count for path, count in most.items() if count > 10_000} == {}
