"""Declared differences of new rows over HTTP: what is held out, claimed and refused."""

import numpy as np
import pytest

from tests.support.api_calls import of_file, places, post_csv, problem
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, finished, run_units

pytestmark = only("sqlite")
RNG = np.random.default_rng(7)
SUBJECTS, EACH = 40, 5
SUBJECT = np.repeat(np.arange(SUBJECTS), EACH)
DOSE = RNG.uniform(size=SUBJECTS * EACH).round(3)
OUTCOME = (2 * DOSE + RNG.standard_normal(SUBJECTS)[SUBJECT] + 0.3 * RNG.standard_normal(len(DOSE))).round(3)


@pytest.fixture
def dataset(client):
    lines = [
        f"s{s},{d},2024-{1 + k // 28 % 12:02}-{1 + k % 28:02},{y}"
        for k, (s, d, y) in enumerate(zip(SUBJECT, DOSE, OUTCOME, strict=True))
    ]
    return post_csv(client, "\n".join(["subject,dose,day,y", *lines])).json()["id"]


def fitted(client, settings, dataset, **more):
    answer = client.post("/models", json={"dataset_id": dataset, "target": "y"} | SMALL | more)
    return finished(client, settings, answer)


def test_whole_subjects_are_held_out_and_claimed_for(client, settings, dataset):
    """The model has the rows, the claim and the bounds of the library's fit with the same declaration."""
    declared = {"groups": "subject"}
    asked = {"holdout": 0.3, "calibrate": "holdout", "new_rows": declared, "columns": {"day": "date"}}
    model = fitted(client, settings, dataset, **asked)
    assert model["settings"]["new_rows"] == declared
    assert "subject" not in model["settings"]["features"]
    rows = client.get(f"/models/{model['id']}/holdout").json()["rows"]["row"]
    assert len(rows) == 12 * EACH
    assert len({SUBJECT[row - 1] for row in rows}) == 12
    body = {"rows": [{"dose": 0.5, "day": "2024-02-03", "subject": "s99"}], "interval": "calibrated"}
    answer = client.post(f"/models/{model['id']}/predict", json=body).json()
    assert "rows of a new value of subject" in answer["claims"][0]["text"]
    assert answer["claims"][0]["at_least"] == 0.9
    posterior = of_file(client, model)
    table = posterior.conformal_table
    assert (table.count, table.new_rows.groups, len(table.totals)) == (12, "subject", 12)
    totals = {"rows": body["rows"] * 3, "by": "subject", "interval": "calibrated"}
    total = client.post(f"/models/{model['id']}/aggregate", json=totals).json()
    assert "totals of new values of subject, at least 0.9" in total["claim"]
    expected = posterior.aggregate(totals["rows"], "subject", interval="calibrated")
    assert total["sets"] == expected.to_json()["sets"]
    again = client.post(f"/models/{model['id']}/refit", json={"holdout": 0.3})
    run_units(settings)
    assert client.get(again.headers["location"]).json()["settings"]["new_rows"] == declared


def test_folds_are_of_whole_subjects(client, settings, dataset):
    model = fitted(client, settings, dataset, calibrate="folds", new_rows={"groups": "subject"})
    run_units(settings)
    table = of_file(client, model).conformal_table
    assert (table.kind, table.count, table.rows) == ("folds", SUBJECTS, SUBJECTS * EACH)
    assert len(table.totals) == SUBJECTS
    assert "Estimated" in table.at(0.9).text


def test_later_rows_are_rehearsed(client, settings, dataset):
    """Six rehearsals judge fits to the rows before them; their range is claimed."""
    asked = {"calibrate": "folds", "new_rows": {"later": "day", "horizon": 10, "gap": 1}}
    model = fitted(client, settings, dataset, **asked, columns={"day": "date"})
    run_units(settings)
    text = of_file(client, model).conformal_table.at(0.9).text
    assert "rehearsals" in text
    assert "No guarantee" in text


@pytest.mark.parametrize(
    ("new_rows", "field"),
    [
        ("later", "new_rows"),
        ({"group": "subject"}, "new_rows"),
        ({"groups": "subjct"}, "new_rows.groups"),
        ({"later": "subject"}, "subject"),
        ({"groups": "subject", "gap": 3}, "new_rows.gap"),
    ],
)
def test_other_declarations_are_refused_before_the_fit(client, dataset, new_rows, field):
    body = {"dataset_id": dataset, "target": "y", "holdout": 0.2, "new_rows": new_rows} | SMALL
    refusal = problem(client.post("/models", json=body), 422)
    assert field in str(refusal["errors"])


def test_a_horizon_is_refused_before_the_fit_by_the_rows_that_it_learns_from(client, dataset):
    """Two of six rehearsals reach half of their span, and less where the newest rows are held out."""
    body = {"dataset_id": dataset, "target": "y", "calibrate": "folds", "columns": {"day": "date"}} | SMALL
    for holdout, horizon, accepted in ((0.0, 95, True), (0.3, 95, False), (0.3, 69, True), (0.0, 130, False)):
        declared = {"new_rows": {"later": "day", "horizon": horizon}, "holdout": holdout}
        answer = client.post("/models/estimate", json=body | declared)
        if accepted:
            assert answer.status_code == 200, answer.text
        else:
            assert "declare at most" in problem(answer, 422)["detail"]
            assert answer.json()["errors"][0]["column"] == "new_rows"


def test_too_few_groups_are_refused_with_the_way_out(client, dataset):
    body = {"dataset_id": dataset, "target": "y", "holdout": 0.1, "calibrate": "holdout"} | SMALL
    refusal = problem(client.post("/models", json=body | {"new_rows": {"groups": "subject"}}), 422)
    assert "at least 9 values of subject" in str(refusal["errors"])
    assert "calibrate by folds" in str(refusal["errors"])
    named = body | {"new_rows": {"groups": "subject"}, "features": ["subject", "dose"], "holdout": 0.3}
    assert "features" in str(problem(client.post("/models", json=named), 422)["errors"])


def test_a_tuning_has_the_plan_of_its_model(client, settings, dataset):
    model = fitted(client, settings, dataset, new_rows={"groups": "subject"}, holdout=0.2)
    asked = {"kind": "tuning", "candidates": [{}, {"num_trees": 5}], "folds": 3}
    study = client.post(f"/models/{model['id']}/studies", json=asked)
    assert study.status_code == 202, study.text
    run_units(settings)
    assert client.get(study.headers["location"]).json()["state"] == "succeeded"


def test_what_is_not_declared_is_asked_before_the_fit(client, settings):
    """The estimate, the model and its card name the subjects, until new rows are declared."""
    rows = [f"s{s},{d},{y}" for s, d, y in zip(SUBJECT, DOSE, OUTCOME, strict=True)]
    dataset = post_csv(client, "\n".join(["subject,dose,y", *rows])).json()["id"]
    body = {"dataset_id": dataset, "target": "y", "features": ["dose"]} | SMALL
    (found,) = client.post("/models/estimate", json=body).json()["resemblances"]
    assert (found["kind"], found["column"], found["values"], found["rows"]) == ("groups", "subject", 40, 5.0)
    assert found["correlation"] > 0.5
    declared = {"new_rows": {"groups": "subject"}}
    assert client.post("/models/estimate", json=body | declared).json()["resemblances"] == []
    assert client.post("/models/estimate", json=body | {"groups": ["subject"]}).json()["resemblances"] == []

    model = fitted(client, settings, dataset, features=["dose"], holdout=0.2)
    assert found["text"] in model["warnings"]
    assert "resemble each other" in client.get(f"/models/{model['id']}/card").text
    model = fitted(client, settings, dataset, features=["dose"], holdout=0.2, **declared)
    assert not [each for each in model["warnings"] if "resemble" in each]


@pytest.mark.parametrize("grouped", [True, False])
def test_a_refit_with_outcomes_has_the_same_plan(client, settings, dataset, grouped):
    """New rows, groups and calibration are those declared before; new subjects in outcomes are subjects."""
    declared = {"groups": "subject"}
    asked = {
        "holdout": 0.3,
        "calibrate": "holdout",
        "new_rows": declared,
        "seed": 3,
        "columns": {"day": "date"},
    }
    asked |= {"groups": ["subject"]} if grouped else {}
    model = fitted(client, settings, dataset, name="mine", features=["dose"], **asked)
    rows = [{"dose": i / 20, "subject": f"t{i // 2}", "day": "2025-02-01", "y": 1.0} for i in range(20)]
    assert client.post("/models/mine/outcomes", json={"rows": rows}).status_code == 201
    answer = client.post("/models/mine/outcomes/refit", json={})
    again = finished(client, settings, answer)
    assert again["settings"] == model["settings"] | ({"num_groups": SUBJECTS + 10} if grouped else {})
    assert again["settings"].get("groups") == (["subject"] if grouped else None)
    assert (model["holdout"]["units"], again["holdout"]["units"]) == (12, 15)
    assert again["calibration"]["counted"] == 15
    stored = client.get(f"/datasets/{again['dataset_id']}/preview?rows=300").json()["rows"]
    assert [row["subject"] for row in stored[200:]] == [row["subject"] for row in rows]
    held = client.get(f"/models/{again['id']}/holdout").json()["rows"]["row"]
    names = [stored[row - 1]["subject"] for row in held]
    assert {name: names.count(name) for name in names}.keys() == {*names}
    assert all(names.count(name) == (2 if name.startswith("t") else EACH) for name in names)


def test_a_refit_with_outcomes_without_their_group_is_refused(client, settings, dataset):
    """Rows of no known subject can't be held out by subject: the refusal names the column."""
    asked = {"holdout": 0.3, "new_rows": {"groups": "subject"}, "features": ["dose"], "name": "mine"}
    fitted(client, settings, dataset, **asked)
    rows = [{"dose": 0.5, "y": 1.0}]
    assert client.post("/models/mine/outcomes", json={"rows": rows}).status_code == 201
    refused = problem(client.post("/models/mine/outcomes/refit", json={}), 422)
    assert places(refused) == [("subject", 201)]
