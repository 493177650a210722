"""Weekly recalibration over HTTP: the tables of the library, answers repeated by name, promise, refusals."""

from datetime import timedelta

import numpy as np
import pytest

from app.services.outcomes import rows as reported
from app.services.outcomes import weekly
from app.store.clock import utc_now
from sampler.storage.weekly_tables import most_outside, weekly_tables
from tests.contract.api.predictions.test_outcomes import features_and_outcomes, report, rows_of, summary_of
from tests.support.api_calls import of_file, problem, table
from tests.support.models.fitted_models import extended, fitted, run_units

ASKED = {"rows": [{"size": 3, "colour": "red"}, {"size": 12, "colour": "blue"}], "interval": "calibrated"}


@pytest.fixture
def model(client, settings) -> dict:
    more = {"holdout": 0.5, "calibrate": "holdout", "seed": 3}
    return fitted(client, settings, text=table(220), name="mine", **more)


@pytest.fixture
def weeks_on(monkeypatch):
    """Set the time to some weeks from now."""
    start = utc_now()

    def go(weeks):
        for module in (weekly, reported):
            monkeypatch.setattr(module, "utc_now", lambda: start + timedelta(weeks=weeks))

    return go


def policy(client, recalibrate, name="mine"):
    return client.post(f"/models/{name}/outcomes/policy", json={"recalibrate": recalibrate})


def posterior_of(client, model):
    return of_file(client, model)


def test_outcomes_of_ended_weeks_move_the_table(client, settings, model, weeks_on):
    """Each table is the library's; answers name it, and repeat an earlier one; the promise is its bound."""
    original = posterior_of(client, model)
    first = client.post("/models/mine/predict", json=ASKED).json()
    assert first["calibration"] == model["calibration"]["checksum"]
    begun = policy(client, "weekly").json()["policy"]
    assert (begun["recalibrate"], begun["outcomes"], begun["at_most"]) == ("weekly", 0, None)
    sent = {week: rows_of(60, seed=week, shift=0.5 * week) for week in range(4)}
    for week, rows in sent.items():
        weeks_on(week)
        assert report(client, rows).status_code == 201
    scores = [
        original.calibrate(*features_and_outcomes(rows)).conformal_table.scores for rows in sent.values()
    ]
    weeks = np.repeat(np.arange(4), 60)[:180]
    expected = weekly_tables(original.conformal_table, np.concatenate(scores)[:180], weeks, weeks)
    now = summary_of(client)["policy"]
    assert [each["outcomes"] for each in now["tables"]] == [0, 60, 60, 60]
    for each, table_of_week in zip(now["tables"][1:], expected.values(), strict=True):
        assert each["calibration"] == table_of_week.checksum
        assert (each["ends"][2]["lower"], each["ends"][2]["upper"]) == table_of_week.at(0.9).ends
    assert (now["outcomes"], now["waiting"], now["pending"]) == (180, 60, 120)
    assert now["at_most"] == pytest.approx(most_outside(0.9, 180, 120))
    assert f"at most {now['at_most']:.1%}" in now["text"]
    assert now["outside"] == sum(each["outside"] for each in now["tables"]) / 180
    assert now["outside"] > 0.2
    assert client.get("/models/mine").json()["calibration"]["checksum"] == now["tables"][-1]["calibration"]
    assert summary_of(client)["era"] == 0

    last = client.post("/models/mine/predict", json=ASKED).json()
    assert last["calibration"] == now["tables"][-1]["calibration"]
    assert last["intervals"] != first["intervals"]
    again = client.post("/models/mine/predict", json=ASKED | {"calibration": first["calibration"]}).json()
    assert again == first
    second = now["tables"][1]["calibration"]
    pinned = client.post("/models/mine/predict", json=ASKED | {"calibration": second})
    assert pinned.json()["calibration"] == second
    own = original.with_table(expected[1]).predict(ASKED["rows"], interval="calibrated").intervals[0]
    assert pinned.json()["intervals"][0]["lower"] == own.lower.tolist()
    as_csv = client.post("/models/mine/predict", json=ASKED, headers={"Accept": "text/csv"})
    assert as_csv.headers["bartserve-calibration"] == last["calibration"]
    batch = {"dataset_id": model["dataset_id"], "interval": "calibrated", "calibration": second}
    job = client.post("/models/mine/predictions", json=batch).json()
    run_units(settings)
    assert client.get(f"/predictions/{job['id']}/result").json()["calibration"] == second
    kinds = [event["kind"] for event in client.get(f"/models/{model['id']}/events").json()["items"]]
    assert kinds.count(weekly.MOVED) == 3
    refused = problem(client.post("/models/mine/predict", json=ASKED | {"level": 0.7}), 422)
    assert "not among those adapted" in refused["errors"][0]["detail"]


def test_marks_are_of_the_intervals_in_force_at_their_time(client, model, weeks_on):
    """Late rows are judged by the table of their own week, and a correction isn't counted again."""
    policy(client, "weekly")
    rows = rows_of(40, seed=1, shift=3.0, id=lambda i: f"k{i}")
    report(client, rows, key="id")
    weeks_on(1)
    late = (utc_now() - timedelta(minutes=1)).isoformat()
    moved = rows_of(40, seed=2, shift=3.0, when=lambda _: late)
    report(client, moved, at="when")
    summary = summary_of(client)
    assert summary["policy"]["outcomes"] == 80
    assert summary["total"]["coverage"][1]["observed"] == 0
    report(client, [rows[0] | {"y": 0.0}], key="id", repeated="replace")
    weeks_on(2)
    report(client, rows_of(1, seed=5))
    after = summary_of(client)["policy"]
    assert (after["outcomes"], after["waiting"]) == (80, 1)
    assert after["tables"][1]["ends"][2]["upper"] == 1.0
    assert after["endless"] == 1


def test_the_policy_begins_with_known_outcomes_and_ends(client, model, weeks_on):
    """Known ones are in the first table at once, but don't count; off keeps the table, and frees the rest."""
    report(client, rows_of(30, seed=1))
    weeks_on(1)
    begun = policy(client, "weekly").json()
    assert begun["model_id"] == model["id"]
    assert [each["outcomes"] for each in begun["policy"]["tables"]] == [0, 0]
    refused = client.post("/models/mine/outcomes/recalibrate", json={})
    assert "set that policy to off" in problem(refused, 409)["detail"]
    report(client, rows_of(30, seed=2))
    weeks_on(2)
    assert policy(client, "weekly").json()["policy"]["outcomes"] == 30, "counts at once what waits"
    ended = policy(client, "off").json()["policy"]
    assert (ended["recalibrate"], ended["tables"]) == ("off", [])
    present = client.get("/models/mine").json()["calibration"]["checksum"]
    assert client.post("/models/mine/predict", json=ASKED).json()["calibration"] == present
    assert client.post("/models/mine/outcomes/recalibrate", json={}).json()["rows"] == 60
    assert client.post("/models/mine/predict", json=ASKED | {"calibration": present}).status_code == 200


def test_what_cannot_move_is_refused(client, settings, model):
    """Each refusal says why, and what to do."""
    fitted(client, settings, name="plain", seed=3)
    assert "no calibrated intervals" in problem(policy(client, "weekly", "plain"), 409)["detail"]
    fitted(client, settings, name="few", holdout=0.5, calibrate="holdout", seed=3)
    assert "30 rows calibrated the intervals" in problem(policy(client, "weekly", "few"), 409)["detail"]
    text = table(60).replace("y,", "was,", 1).replace(",colour,", ",y,")
    more = {"family": "categorical", "features": ["size"], "holdout": 0.5, "calibrate": "holdout"}
    fitted(client, settings, text=text, name="classes", **more)
    refused = problem(policy(client, "weekly", "classes"), 422)
    assert "weekly recalibration is for outcomes that are numbers" in refused["errors"][0]["detail"]
    problem(policy(client, "daily"), 422)
    problem(policy(client, "weekly", "nobody"), 404)
    assert policy(client, "off", "plain").json()["policy"]["recalibrate"] == "off"
    named = client.post("/models/mine/predict", json=ASKED | {"calibration": "ab12"})
    assert problem(named, 422)["errors"][0]["column"] == "calibration"
    other = {"interval": "predictive", "calibration": model["calibration"]["checksum"]}
    assert (
        "only calibrated"
        in problem(client.post("/models/mine/predict", json=ASKED | other), 422)["errors"][0]["detail"]
    )


def test_a_new_calibration_ends_the_policy(client, settings, model):
    """An extension calibrates anew: nothing moves any more, until somebody says so again."""
    policy(client, "weekly")
    extended(client, settings, "/models/mine")
    assert summary_of(client)["policy"]["recalibrate"] == "off"
    assert client.get("/models/mine").json()["calibration"]["kind"] == "holdout"
    kinds = [event["kind"] for event in client.get(f"/models/{model['id']}/events").json()["items"]]
    assert kinds.count("weekly_recalibration_ended") == 1, "and the log says when it ended"


def of_subjects(count, each, seed, shift=0.0):
    """Rows of new subjects, all of whose outcomes differ from what is usual by as much."""
    rng = np.random.default_rng(seed)
    return [
        {"subject": 100 * seed + i, "x": float(x), "y": float(x + own + 0.1 * rng.normal() + shift)}
        for i, own in enumerate(0.5 * rng.normal(size=count))
        for x in rng.uniform(size=each)
    ]


def test_an_alarm_speaks_of_adapted_intervals_once_they_were(client, model, weeks_on):
    """Not of a policy that hasn't counted any outcome; nor is an alarm dated by a slip of the year."""
    policy(client, "weekly")
    for week in range(2):
        weeks_on(week)
        said = report(client, rows_of(100, seed=week, shift=9.0)).json()
        assert said["verdict"] == "no_longer_hold"
        assert ("adapted each week" in said["text"]) == (week > 0), said
    early = report(client, [row | {"when": "1800-01-01"} for row in rows_of(1, seed=0)], at="when")
    assert "before 1970" in problem(early, 422)["detail"]


def test_new_groups_count_once_each_week(client, settings, weeks_on):
    """Tables are the library's by groups; rows of no known subject move nothing; by hand too."""
    lines = [f"{row['subject']},{row['x']},{row['y']}" for row in of_subjects(60, 5, 0)]
    more = {"holdout": 0.5, "calibrate": "holdout", "new_rows": {"groups": "subject"}, "seed": 3}
    text = "\n".join(["subject,x,y", *lines])
    model = fitted(client, settings, text=text, name="subjects", **more)
    original = posterior_of(client, model)
    begun = policy(client, "weekly", "subjects").json()["policy"]
    assert (begun["recalibrate"], begun["counted_once"]) == ("weekly", 0)
    sent = [of_subjects(12, 4, 1, 1.0), [{"x": 0.5, "y": 9.0, "subject": None}] * 20]
    for rows in sent:
        assert report(client, rows, "subjects").status_code == 201
    weeks_on(1)
    report(client, of_subjects(3, 2, 2), "subjects")
    now = summary_of(client, "subjects")["policy"]
    assert (now["outcomes"], now["counted_once"], now["pending"]) == (48, 12, 12)
    assert now["waiting"] == 6
    own = original.calibrate(*features_and_outcomes(sent[0])).conformal_table.scores
    unit = np.repeat(np.arange(12), 4)
    expected = weekly_tables(original.conformal_table, own, np.zeros(48), np.zeros(48), unit)[1]
    present = posterior_of(client, model).conformal_table
    assert present.count == expected.count == 42
    for level in (0.5, 0.9, 0.99):
        assert present.tails[level] == pytest.approx(expected.tails[level])
        assert present.at(level).ends == expected.at(level).ends
    assert "12 values of subject" in now["text"]
    assert now["at_most"] == pytest.approx(most_outside(0.9, 12, 12))

    policy(client, "off", "subjects")
    by_hand = client.post("/models/subjects/outcomes/recalibrate", json={}).json()
    assert by_hand["rows"] == 54
    assert "over values like the 15 with outcomes reported after the fit" in by_hand["claims"][-1]["text"]
