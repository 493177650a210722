"""Schedules of refits: due by time or by the outcomes' alarm, only with new data, within quotas."""

from datetime import timedelta

import numpy as np
import pytest
from sqlalchemy import event, func, select, update
from sqlalchemy.orm import Session

from app.services.outcomes import schedules
from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.outcomes import schedules as store
from app.store.tables import Model, RefitSchedule
from tests.contract.api.fits import test_kinds_of_targets
from tests.contract.api.predictions.test_outcomes import report, rows_of
from tests.support.api_calls import post_csv, problem, table
from tests.support.databases import only
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


KINDS = {
    **{kind: of_fit for kind, (of_fit, _) in test_kinds_of_targets.KINDS.items()},
    "numbers": {"target": "number"},
    "several outcomes": {"target": ["number", "time"]},
    "a forecaster": {
        "target": "number",
        "time": "month",
        "horizon": 3,
        "season": 1,
        "difference": "last",
        "features": [],
    },
}


@only("sqlite")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(quick=2, slow=5)
def test_a_plan_is_no_newer_data(client, settings, database, kind):
    """Rows without outcomes of any kind aren't fitted to, whether the column is empty or left out."""
    rows = test_kinds_of_targets.columns()
    months = (np.datetime64("2010-01") + np.arange(len(rows["x"]))).astype("datetime64[D]")
    rows |= {"month": months.tolist(), "to": ["" if seen else 9.0 for seen in rows["seen"]]}
    if kind == "limits":
        rows["time"] = [time if seen else "" for time, seen in zip(rows["time"], rows["seen"], strict=True)]
    asked = {"features": test_kinds_of_targets.FEATURES, **KINDS[kind]}
    body = test_kinds_of_targets.BRIEF | asked | {"missing_target": "leave_out", "name": "mine"}
    if "time" in asked:
        del body["missing_target"]
    sent = {"dataset_id": post_csv(client, as_csv(rows), name="table").json()["id"]}
    made = client.post("/models", json=body | sent)
    assert made.status_code == 202, made.text
    run_units(settings)
    assert client.put(PATH, json={"every": "7d", "promote": "always"}).status_code == 200
    outcomes = {*np.atleast_1d(asked["target"]).tolist()}
    told_by = outcomes | {asked[role] for role in ("lower", "upper") if role in asked}
    kept = {name: values for name, values in rows.items() if name not in told_by}
    for plan in (kept, kept | {name: [""] * len(rows["x"]) for name in told_by}):
        dataset_id = post_csv(client, as_csv(plan), name="table").json()["id"]
        make_due(database)
        turn(database, settings)
        text = client.get(PATH).json()["text"]
        assert "no new data" in text
        assert f"no outcomes in {', '.join(np.atleast_1d(asked['target']))}." in text
        by_hand = client.post("/models/mine/refit", json={"dataset_id": dataset_id, "promote": "always"})
        assert problem(by_hand, 422)["errors"][0]["column"] in told_by
    newer = post_csv(client, as_csv(rows | {"z": rows["x"]}), name="table").json()["id"]
    post_csv(client, as_csv(kept), name="table")
    make_due(database)
    turn(database, settings)
    told = client.get(PATH).json()
    assert "fitted again to table" in told["text"]
    assert "isn't newer data" in told["text"]
    assert client.get(f"/models/{told['last_model_id']}").json()["dataset_id"] == newer


def as_csv(columns: dict) -> str:
    lines = [columns, *zip(*columns.values(), strict=True)]
    return "\n".join(",".join(map(str, line)) for line in lines) + "\n"
