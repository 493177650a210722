"""Schedules of refits: due by time or by the outcomes' alarm, only with new data, within quotas."""

from datetime import timedelta

import pytest
from sqlalchemy import event, func, select, update
from sqlalchemy.orm import Session

from app.services.outcomes import schedules
from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.outcomes import schedules as store
from app.store.tables import Model, RefitSchedule
from tests.contract.api.predictions.test_outcomes import report, rows_of
from tests.support.api_calls import post_csv, problem, table
from tests.support.models.fitted_models import fitted, run_units

PATH = "/models/mine/schedule"


@pytest.fixture
def model(client, settings) -> dict:
    return fitted(client, settings, name="mine", seed=3, holdout=0.3)


def make_due(database) -> None:
    with session_scope(database.engine) as session:
        session.execute(update(RefitSchedule).values(due_at=utc_now() - timedelta(seconds=1)))


def stored(database) -> tuple[int, str | None]:
    """Return the number of models, and the one that the schedule notes."""
    with session_scope(database.engine, read_only=True) as session:
        noted = session.scalar(select(RefitSchedule.last_model_id))
        return session.scalar(select(func.count()).select_from(Model)) or 0, noted


def turn(database, settings) -> None:
    """Let the schedule have its turn, as the dispatcher's process does."""
    with session_scope(database.engine, read_only=True) as session:
        assert store.any_due(session)
    fits, noted = stored(database)

    def look(session: Session) -> None:
        """Assert that no commit lies between a fit and its note: killed there, it would be fitted twice."""
        if not session.get_bind().get_execution_options().get("bartserve_read_only"):
            now, last = stored(database)
            assert (now > fits) == (last != noted)

    event.listen(Session, "after_commit", look)
    try:
        assert schedules.run_due(database.engine, settings) == 1
    finally:
        event.remove(Session, "after_commit", look)
    with session_scope(database.engine, read_only=True) as session:
        assert not store.any_due(session)


def test_a_schedule_fits_to_what_is_new(client, settings, database, model):
    """The newest dataset of the name, else the outcomes, else nothing; each turn says what came of it."""
    problem(client.get(PATH), 404)
    put = client.put(PATH, json={"every": "7d", "promote": "always"})
    assert put.status_code == 200, put.text
    told = put.json()
    assert (told["every"], told["on_alarm"], told["promote"], told["text"]) == ("7d", False, "always", None)
    assert told["due_at"] > (utc_now() + timedelta(days=6)).isoformat()
    assert schedules.run_due(database.engine, settings) == 0  # not yet

    make_due(database)
    turn(database, settings)
    assert "no new data" in client.get(PATH).json()["text"]

    name = client.get(f"/datasets/{model['dataset_id']}").json()["name"]
    newer = post_csv(client, table(90), name=name).json()["id"]
    make_due(database)
    turn(database, settings)
    done = client.get(PATH).json()
    assert f"fitted again to {name}" in done["text"]
    new = client.get(f"/models/{done['last_model_id']}").json()
    assert (new["dataset_id"], new["refit"], new["settings"]["holdout"]) == (
        newer,
        {"of": model["id"], "promote": "always"},
        0.3,
    )
    make_due(database)
    turn(database, settings)
    assert "hasn't ended" in client.get(PATH).json()["text"]
    run_units(settings)
    assert client.get(f"/models/{new['id']}").json()["refit"]["decision"] == "promoted"

    assert report(client, rows_of(12)).status_code == 201
    make_due(database)
    turn(database, settings)
    assert "12 reported outcomes" in client.get(PATH).json()["text"]
    who = [entry["who"] for entry in client.get("/audit").json()["items"]]
    assert "schedule" in who
    assert client.delete(PATH).status_code == 204
    problem(client.delete(PATH), 404)


def test_an_alarm_makes_it_due(client, settings, database, model):
    """Outcomes far from their intervals make a schedule due that waits for an alarm, once."""
    assert client.put(PATH, json={"on_alarm": True}).json()["due_at"] is None
    assert report(client, rows_of(60, shift=40.0)).json()["verdict"] == "no_longer_hold"
    turn(database, settings)
    told = client.get(PATH).json()
    assert (told["due_at"], "60 reported outcomes" in told["text"]) == (None, True)


def test_refusals_of_schedules(client, settings, database, model):
    """One that is never due, has no gate or no name is refused; that of a deleted name goes with it."""
    for body, field in (
        ({}, "every"),
        ({"every": "0d"}, "every"),
        ({"every": "9999d"}, "every"),
        ({"every": "7d", "holdout": 0.0}, "holdout"),
        ({"every": "7d", "promote": "perhaps"}, "promote"),
    ):
        refused = problem(client.put(PATH, json=body), 422)
        assert refused["errors"][0]["column"] == field, body
    unnamed = fitted(client, settings)
    problem(client.put(f"/models/{unnamed['id']}/schedule", json={"every": "7d"}), 409)
    assert client.put(PATH, json={"every": "12h"}).json()["every"] == "12h"
    client.delete(f"/models/{model['id']}")
    make_due(database)
    turn(database, settings)
    with session_scope(database.engine, read_only=True) as session:
        assert session.query(RefitSchedule).count() == 0
