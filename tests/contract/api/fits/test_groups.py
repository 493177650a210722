"""Columns of groups: known and new ones over HTTP, pages, files, studies, and what is refused."""

import numpy as np
import pytest

from sampler import holdout_rows
from tests.support.api_calls import of_file, post_csv, post_model
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, extended, fitted, run_units


def scores(rows: int = 200) -> str:
    """Make outcomes of a number, in eight schools that differ, and of two sexes."""
    rng = np.random.default_rng(5)
    x, school = rng.uniform(size=rows), rng.integers(0, 8, rows)
    y = 2 * x + np.linspace(-3, 3, 8)[school] + 0.3 * rng.normal(size=rows)
    sex = np.array(["f", "m"])[rng.integers(0, 2, rows)]
    lines = (f"{a:.4f},{b},{c + 101},{d:.4f}\n" for a, b, c, d in zip(x, sex, school, y, strict=True))
    return "x,sex,school,y\n" + "".join(lines)


def test_groups_go_all_the_way(client, settings):
    """A fit with groups: answers of known and new ones, scores, pages, batch, file, more draws."""
    model = fitted(client, settings, text=scores(), groups=["school"], holdout=0.2, seed=1)
    assert model["settings"]["groups"] == ["school"]
    assert model["settings"]["num_groups"] == 8
    assert model["settings"]["features"] == ["x", "sex"]
    assert model["holdout"]["rmse"] < 1.2  # of outcomes with sd 2
    path = f"/models/{model['id']}"
    columns = {"x": [0.5] * 4, "sex": ["f"] * 4, "school": [101, 108, 999, None]}
    answer = client.post(f"{path}/predict", json={"columns": columns}).json()
    assert answer["mean"][0] < answer["mean"][2] < answer["mean"][1]
    assert answer["mean"][2] == answer["mean"][3]
    assert answer["sd"][2] > 1.5 * answer["sd"][0]
    assert [flags and flags[0]["flag"] for flags in answer["flags"]] == [[], [], "unseen_level", "missing"]
    assert "that of a new one with the standard deviation" in answer["groups"]
    credible = client.post(f"{path}/predict", json={"columns": columns, "interval": "credible"}).json()
    assert credible["sd"][2] < answer["sd"][2]
    assert "mean over groups" in credible["groups"]
    without = client.post(f"{path}/predict", json={"columns": {"x": [0.5], "sex": ["f"]}})
    assert without.status_code == 422
    assert "send the column" in str(without.json()["errors"])
    as_csv = {"Content-Type": "text/csv", "Accept": "text/csv"}
    csv = client.post(f"{path}/predict", content="x,sex,school\n0.5,f,101.0\n0.5,f,\n", headers=as_csv)
    assert csv.status_code == 200, csv.text
    assert [float(line.split(",")[0]) for line in csv.text.splitlines()[1:]] == pytest.approx(
        [answer["mean"][0], answer["mean"][3]]
    )
    (table,) = client.get(f"{path}/groups", params={"level": 0.5}).json()["columns"]
    assert (table["column"], table["groups"][0]["group"], table["level"]) == ("school", "101", 0.5)
    assert table["groups"][0]["mean"] < table["groups"][7]["mean"]
    assert client.get(f"{path}/diagnostics").json()["groups"][0]["groups"] == 8
    for part in ("variable-importance", "draws", "card", "holdout"):
        assert client.get(f"{path}/{part}").status_code == 200
    for tab in ("", "/chains", "/effects?part=all", "/features", "/predict?f0=0.5&f1=f&f2=101"):
        page = client.get(f"/ui{path}{tab}")
        assert page.status_code == 200, tab
        assert tab != "/features" or "Groups: school" in page.text
    batch = client.post(f"{path}/predictions", json={"dataset_id": model["dataset_id"]})
    assert batch.status_code == 202, batch.text
    run_units(settings)
    rows = client.get(batch.headers["location"] + "/result", headers={"Accept": "application/json"})
    assert rows.status_code == 200, rows.text
    assert rows.json()["groups"] == answer["groups"]
    data = client.get(f"{path}/file").content
    row = {"x": [0.5], "sex": ["f"], "school": ["101"]}
    assert of_file(client, model).predict(row).mean[0] == pytest.approx(answer["mean"][0])
    back = post_model(client, data)
    assert back.status_code == 201, back.text
    assert client.get(back.headers["location"]).json()["settings"]["groups"] == ["school"]
    again = client.post(f"{path}/refit", json={})
    assert again.status_code == 202, again.text
    assert again.json()["settings"]["groups"] == ["school"]
    extended(client, settings, path)


def test_slopes_go_all_the_way(client, settings):
    """A fit with slopes by group: answers, table, pages, tuning's refit, file, more draws."""
    model = fitted(client, settings, text=scores(), groups=["school"], slopes=["x"], holdout=0.2, seed=1)
    assert model["settings"]["slopes"] == ["x"]
    assert model["settings"]["features"] == ["x", "sex"]
    path = f"/models/{model['id']}"
    columns = {"x": [0.5, 0.0, 0.5], "sex": ["f"] * 3, "school": [999, 999, 101]}
    answer = client.post(f"{path}/predict", json={"columns": columns}).json()
    new, new_elsewhere, known = answer["sd"]
    assert min(new, new_elsewhere) > 2 * known
    assert new != new_elsewhere  # the slope of a new group isn't known either
    (table,) = client.get(f"{path}/groups").json()["columns"]
    (slope,) = table["slopes"]
    assert slope["feature"] == "x"
    assert [group["group"] for group in slope["groups"]] == [str(101 + k) for k in range(8)]
    assert -1 <= slope["correlation"]["lower"] <= slope["correlation"]["upper"] <= 1
    assert slope["standard_deviation"]["mean"] > 0
    page = client.get(f"/ui{path}/features")
    assert page.status_code == 200
    assert "Slopes of x" in page.text
    assert client.get(f"/ui{path}/effects?part=all").status_code == 200
    data = client.get(f"{path}/file").content
    row = {"x": [0.5], "sex": ["f"], "school": ["101"]}
    assert of_file(client, model).predict(row).mean[0] == pytest.approx(answer["mean"][2])
    back = post_model(client, data)
    assert back.status_code == 201, back.text
    assert client.get(back.headers["location"]).json()["settings"]["slopes"] == ["x"]
    again = client.post(f"{path}/refit", json={})
    assert again.json()["settings"]["slopes"] == ["x"]
    extended(client, settings, path)


@only("sqlite")
def test_what_groups_cannot_be_is_refused_before_the_202(client):
    """Unknown columns, features, the target, holes and columns without a slope: each by name."""
    text = scores().replace(",101,", ",,", 1).replace("\n", ",1\n").replace(",1\n", ",one\n", 1)
    dataset = post_csv(client, text).json()
    body = {"dataset_id": dataset["id"], "target": "y", "groups": ["school"]} | SMALL
    for message, more in (
        ("the group is missing", {}),
        ("no such column", {"groups": ["schol"]}),
        ("among the features too", {"groups": ["sex"], "features": ["x", "sex"]}),
        ("is the target already", {"groups": ["y"]}),
        ("is the weights already", {"groups": ["x"], "weights": "x"}),
        ("twice", {"groups": ["sex", "sex"]}),
        (
            "of which there is no slope",
            {"groups": ["sex"], "slopes": ["school"], "columns": {"school": "category"}},
        ),
        ("no two values in the training rows", {"groups": ["sex"], "slopes": ["one"]}),
    ):
        answer = client.post("/models", json=body | more)
        assert answer.status_code == 422, (message, answer.text)
        assert message in str(answer.json()["errors"]), answer.json()


@only("sqlite")
def test_slopes_need_two_values_among_the_rows_to_learn_from(client):
    """A column that varies only in rows that are held out, or have no target, is refused at once."""
    held = set(holdout_rows(40, 0.1, 0).tolist())
    unknown = next(row for row in range(40) if row not in held)
    lines = [
        f"g{row % 4},{int(row == unknown)},{int(row in held)},{row % 7},{'' if row == unknown else row % 5}\n"
        for row in range(40)
    ]
    dataset = post_csv(client, "g,z,in_holdout,x,y\n" + "".join(lines)).json()
    body = {"dataset_id": dataset["id"], "target": "y", "groups": ["g"], "seed": 0, "holdout": 0.1} | SMALL
    body |= {"missing_target": "leave_out"}
    for name in ("z", "in_holdout"):
        answer = client.post("/models", json=body | {"slopes": [name]})
        assert answer.status_code == 422, answer.text
        assert f"'{name}' has no two values in the training rows" in str(answer.json()["errors"])
    assert client.post("/models", json=body | {"slopes": ["x"]}).status_code == 202


@only("sqlite")
def test_estimates_count_groups(client):
    """Thousands of groups take memory of kept draws, and time."""
    lines = "".join(f"{k % 7},g{k % 3000},{k % 11}\n" for k in range(6000))
    dataset = post_csv(client, "x,g,y\n" + lines).json()
    body = {"dataset_id": dataset["id"], "target": "y", "features": ["x"], "num_draws": 1000}
    body |= {"noise": "constant"}  # as fits by groups have
    plain, grouped = (
        client.post("/models/estimate", json=body | more).json() for more in ({}, {"groups": ["g"]})
    )
    assert grouped["memory_bytes"] > plain["memory_bytes"] + 100 * 2**20
    assert grouped["seconds"] > plain["seconds"]
    sloped = client.post("/models/estimate", json=body | {"groups": ["g"], "slopes": ["x"]}).json()
    assert sloped["memory_bytes"] > grouped["memory_bytes"] + 100 * 2**20
    assert sloped["seconds"] > grouped["seconds"]
