"""Words of pages: events of a model's log in sentences, and what the service says."""

import re
from pathlib import Path

import pytest

from app.dashboard import render
from app.dashboard.event_words import SAID, sentence
from app.dashboard.formatting import labelled
from app.services.drift import counting
from app.services.fits.events import EventView
from app.services.outcomes import recalibration, reports, weekly
from app.store.outcomes import watches
from app.store.webhooks import outbox


def test_every_kind_of_event_has_a_sentence():
    """Kinds that the API documents, that webhooks tell of and that services log are said in words."""
    (told,) = EventView.__annotations__["kind"].__metadata__
    documented = re.findall("[a-z_]+", re.sub(r"[(][^)]*[)]", "", told.description))
    logged = {kind for event in outbox.EVENTS.values() for kind in event.logged}
    own = {counting.ALERT, recalibration.RECALIBRATED, reports.ALERT, weekly.MOVED, watches.WEEKLY_ENDED}
    assert {"created", "succeeded"} <= {*documented}
    assert {*documented} | logged | own <= {*SAID}


CHECK = {"draws": 1500, "discarded": 500, "held": {"verdict": True, "max_rhat": False}, "rhat": 1.0213}


@pytest.mark.parametrize(
    ("kind", "detail", "said"),
    [
        ("created", {"chains": 1}, "Created, with 1 chain."),
        ("chain_finished", {"chain": 0, "draws": 200}, "Chain 1 ended, with 200 draws."),
        ("chain_recovered", {"chain": 2, "attempt": 2}, "Chain 3 lost its worker and goes on"),
        ("succeeded", {"verdict": "converged"}, "The fit ended. The chains agree."),
        ("succeeded", {"verdict": None}, "The fit ended."),
        ("failed", {"detail": 'set noise="forest"'}, "Failed: set Noise: forest"),
        ("looked", CHECK, "It goes on: “Until R-hat is at most” is not met yet."),
        ("stopped", CHECK | {"by": "max_seconds"}, "It ended after 1500 draws per chain: its time is over."),
        ("promoted", {"by": "request"}, "Predictions by the name come from this model now. Somebody asked"),
        ("kept", {"champion": "mdl_1", "text": "It is worse."}, "stays with the model before. It is worse."),
        (
            "of_a_later_version",
            {"held": {"verdict": True}, "rows": None},
            "Of a later version held verdict yes",
        ),
    ],
)
def test_events_are_said_in_sentences(kind, detail, said):
    """A sentence has the figures of its event; events of later versions are shown as they are."""
    assert said in sentence(kind, detail)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("There is no model: GET /models lists yours.", "There is no model."),
        ("It has succeeded: POST /models/{id}/extend draws more.", "It has succeeded."),
        ("Too many rows. POST /models/a/predictions predicts any number.", "Too many rows."),
        ("Fit again (POST /models/{id}/outcomes/refit), then report.", "Fit again, then report."),
        ("their series and times, as GET /models/a/template has them", "their series and times"),
        ("30% of rows (overlap.outside) are alone (of=treated)", "30% of rows are alone"),
    ],
)
def test_requests_are_left_out_on_pages(told, shown):
    """A request that a program would send is no way on for who reads a page."""
    assert labelled(told) == shown


@pytest.mark.parametrize("kind", SAID)
def test_an_event_without_its_details_is_said_too(kind):
    """Older versions logged fewer details."""
    said = sentence(kind, {"chain": 0} if kind.startswith("chain") else {})
    assert said or kind in {counting.ALERT, reports.ALERT}  # which are their text


def test_what_the_service_says_is_worded_for_pages():
    """Templates put every sentence of the service through the filter that replaces names of settings."""
    for template in (Path(render.__file__).parent / "templates").glob("*.html"):
        said = re.findall(r"{{ [a-z_.]+\.(?:detail|text|refused) }}", template.read_text())
        assert {*said} <= {"{{ snippet.text }}"}, template.name
