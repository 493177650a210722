"""Events of several models in one stream, without a database."""

import pytest

from app.services.fits.event_stream import AT_ONCE, NEWEST, StreamEvent, _Cursor, _News, _Stream
from app.services.request_context import NOBODY


def news(state, *kinds, first=1, progress=0.0):
    events = [StreamEvent(first + i, kind, {}) for i, kind in enumerate(kinds)]
    return _News(state, {"fraction": progress}, events)


def waiting_events(stream):
    """Take the waiting events as (model, number, kind, whether it is the end)."""
    waiting, stream.waiting = stream.waiting, []
    return [(model, one.sequence, one.kind, one.ends) for model, one in waiting]


def stream_of(**after):
    return _Stream(NOBODY, {model: _Cursor(number) for model, number in after.items()})


def test_a_stream_sends_each_event_once_and_ends_with_the_last_model():
    """A stream sends each event once, marks each model's end, and closes after the last model's."""
    stream = stream_of(a=0, b=1)
    counts = {"a": 0, "b": 1}
    stream.feed({"a": news("running", "created", "started"), "b": news("queued", "created")}, counts)
    assert waiting_events(stream) == [
        ("a", None, "progress", False),
        ("a", 1, "created", False),
        ("a", 2, "started", False),
        ("b", None, "progress", False),
    ]
    stream.feed({"a": news("running", "created", "started"), "b": news("queued", "created")}, counts)
    assert waiting_events(stream) == []
    stream.feed({"a": news("succeeded", "succeeded", first=3), "b": news("queued")}, {"a": 2, "b": 1})
    assert waiting_events(stream) == [("a", 3, "succeeded", True)]
    assert not stream.over
    stream.feed({}, {"b": 1})
    assert waiting_events(stream) == [("b", None, "deleted", True)]
    assert stream.over


def test_nothing_is_queued_for_a_slow_reader():
    """Nothing is queued while an event waits: a slow reader costs no memory and misses nothing."""
    stream = stream_of(a=0)
    stream.feed({"a": news("queued", "created")}, {"a": 0})
    stream.feed({"a": news("running", "created", "started")}, {"a": 0})
    assert [kind for _, _, kind, _ in waiting_events(stream)] == ["progress", "created"]
    stream.feed({"a": news("running", "started", first=2)}, {"a": 1})
    assert [kind for _, _, kind, _ in waiting_events(stream)] == ["started"]


def test_a_subscriber_that_joins_during_a_query_misses_nothing():
    """A subscriber that joins during a query is not sent the events beyond what it has seen."""
    late = stream_of(a=0)
    late.feed({"a": news("running", "chain_finished", first=6)}, {"a": 5})
    assert waiting_events(late) == []
    late.feed({}, {"b": 0})
    assert waiting_events(late) == []
    assert not late.over


@pytest.mark.parametrize("last", ["succeeded", "looked"])
def test_the_end_is_sent_after_the_whole_log(last):
    """A model's end is sent after its whole log, however long, and also when the log is empty."""
    stream = stream_of(a=0)
    stream.feed({"a": news("succeeded", *["looked"] * AT_ONCE)}, {"a": 0})
    assert len(waiting_events(stream)) == AT_ONCE
    assert not stream.over
    stream.feed({"a": news("succeeded", last, first=AT_ONCE + 1)}, {"a": AT_ONCE})
    assert waiting_events(stream)[-1][2:] == ("succeeded", True)
    assert stream.over


def test_from_the_newest_event_only_progress_and_end_are_sent():
    """A stream from the newest event on sends only progress and the end, as lists of models need."""
    stream = stream_of(a=NEWEST)
    stream.feed({"a": news("running", "created")}, {"a": 0})
    stream.feed({"a": news("failed", "failed", first=2)}, {"a": 0})
    assert waiting_events(stream) == [("a", None, "progress", False)]
    stream.feed({"a": news("failed", "failed", first=2)}, {"a": 0})
    assert waiting_events(stream) == [("a", None, "failed", True)]
