"""Refits with a gate: the name moves only to a model that is no worse, and back by one call."""

import numpy as np
import pytest

from app.client import Client, ProblemError
from sampler import holdout_rows
from tests.support.api_calls import post_csv, problem, table
from tests.support.models.fitted_models import fitted, run_units
from worker.fits import finish

ROWS = {"rows": [{"size": 3, "colour": "red"}]}


def csv(count: int, seed: int, noise: float = 0.1) -> str:
    """Return rows of the process that `table` makes, with new values and more or less noise."""
    rng = np.random.default_rng(seed)
    lines = ["y,size,colour,note"]
    for row in range(count):
        size, colour = rng.uniform(0, 18), ("red", "green", "blue")[row % 3]
        y = size / 2 + 3 * (colour == "red") + noise * rng.standard_normal()
        lines.append(f"{y:.4f},{size:.4f},{colour},n{row}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def champion(client, settings) -> dict:
    return fitted(client, settings, name="mine", seed=3, holdout=0.3)


def refitted(client, settings, text: str, **body) -> dict:
    dataset = post_csv(client, text).json()["id"]
    response = client.post("/models/mine/refit", json={"dataset_id": dataset} | body)
    assert response.status_code == 202, response.text
    assert response.json()["withheld"] == (body.get("promote") != "always")
    run_units(settings)
    return client.get(response.headers["location"]).json()


def answering(client) -> str:
    """Return the id of the model that the name means."""
    return client.post("/models/mine/predict", json=ROWS).json()["model_id"]


def test_a_name_moves_to_a_refit_that_is_no_worse(client, settings, champion):
    """It is compared on rows that neither model has seen; both are recorded; one call goes back."""
    grown = table(60) + csv(150, 1).split("\n", 1)[1]
    waiting = client.post(
        "/models/mine/refit", json={"dataset_id": post_csv(client, grown).json()["id"], "holdout": 0.4}
    ).json()
    assert (waiting["refit"], waiting["withheld"]) == ({"of": champion["id"], "promote": "auto"}, True)
    assert answering(client) == champion["id"]  # until it is decided
    run_units(settings)
    model = client.get(f"/models/{waiting['id']}").json()
    decided = model["refit"]
    assert (decided["decision"], decided["champion"], model["withheld"]) == (
        "promoted",
        champion["id"],
        False,
    )
    scores = decided["log_score"]
    held = holdout_rows(210, 0.4, seed=3)
    seen = {row for row in range(60) if row not in set(holdout_rows(60, 0.3, seed=3).tolist())}
    assert 30 <= scores["rows"] <= len(held) - len(seen & set(held.tolist()))
    assert scores["difference"] == pytest.approx(scores["challenger"] - scores["champion"])
    assert scores["lower"] < scores["difference"] < scores["upper"]
    assert scores["upper"] >= 0
    assert "no worse" in decided["text"]
    assert answering(client) == model["id"]
    kinds = [event["kind"] for event in client.get(f"/models/{model['id']}/events").json()["items"]]
    assert kinds[-2:] == ["promoted", "succeeded"]

    back = client.post("/models/mine/rollback", headers={"Idempotency-Key": "once"})
    assert (back.status_code, back.json()["id"]) == (200, champion["id"])
    again = client.post("/models/mine/rollback", headers={"Idempotency-Key": "once"})
    assert again.json() == back.json()
    assert answering(client) == champion["id"]
    problem(client.post("/models/mine/rollback"), 409, "conflict")
    problem(client.post(f"/models/{model['id']}/rollback"), 409, "conflict")
    promoted = client.post(f"/models/{model['id']}/promote").json()
    assert (promoted["id"], promoted["withheld"]) == (model["id"], False)
    assert answering(client) == model["id"]
    assert client.post(f"/models/{champion['id']}/promote").json()["id"] == champion["id"]
    assert answering(client) == champion["id"]


def test_a_worse_refit_is_refused(client, settings, champion):
    """Its training rows are noise, the others are not: the name stays; `always` moves it anyway."""
    head, *rows = csv(160, 3).splitlines()
    noise = csv(160, 2, noise=30.0).splitlines()[1:]
    held = set(holdout_rows(160, 0.5, seed=3).tolist())
    spoilt = "\n".join([head, *(rows[i] if i in held else noise[i] for i in range(160))]) + "\n"
    model = refitted(client, settings, spoilt, holdout=0.5)
    refit = model["refit"]
    assert (refit["decision"], model["withheld"]) == ("refused", True)
    assert refit["log_score"]["rows"] == 80
    assert "The name stays with the model before" in refit["text"]
    assert answering(client) == champion["id"]
    moved = refitted(client, settings, csv(90, 4), holdout=0.4, promote="always")
    assert (moved["refit"]["decision"], answering(client)) == ("promoted", moved["id"])
    kept = refitted(client, settings, csv(90, 5), holdout=0.4, promote="never")
    assert (kept["refit"]["decision"], answering(client)) == ("kept", moved["id"])


@pytest.mark.parametrize(("new_rows", "units"), [({"groups": "colour"}, 7), ({"later": "day"}, None)])
def test_rows_that_go_together_count_once(client, settings, new_rows, units):
    """The gate of a model for new groups counts each once, and so does that for later rows their weeks."""

    def text(seed: int) -> str:
        rng = np.random.default_rng(seed)
        rows = [
            (rng.uniform(0, 18), row % 24, f"2024-{1 + row // 28:02}-{1 + row % 28:02}") for row in range(240)
        ]
        level, weekly = rng.standard_normal(24), 3 * rng.standard_normal(60)
        return "y,size,colour,day\n" + "".join(
            f"{size / 2 + level[c] + weekly[row // 7]:.4f},{size:.4f},c{c},{day}\n"
            for row, (size, c, day) in enumerate(rows)
        )

    kept = {"new_rows": new_rows, "columns": {"day": "date"}, "features": ["size"], "holdout": 0.3}
    fitted(client, settings, text=text(1), name="mine", **kept)
    found = refitted(client, settings, text(2))["refit"]["log_score"]
    assert found["rows"] >= 70, found
    assert found["units"] == units if units else 8 <= found["units"] <= 16, found
    assert found["lower"] < found["difference"] < found["upper"]


def test_too_few_unseen_rows_decide_nothing(client, settings, champion):
    """Without enough rows that neither has seen, `auto` refuses and says how many there are."""
    same = client.post("/models/mine/refit", json={"promote": "auto"}).json()
    run_units(settings)
    refit = client.get(f"/models/{same['id']}").json()["refit"]
    assert refit["decision"] == "refused"
    assert "18 held-out rows that neither has seen: 30 are needed" in refit["text"]
    assert refit["log_score"]["difference"] is None
    plain = client.post("/models/mine/refit", json={}).json()
    assert (plain["refit"], plain["withheld"], plain["settings"]["holdout"]) == (None, False, 0.0)


def test_refits_that_end_together_do_not_both_win_against_one(client, settings, champion, monkeypatch):
    """While one is compared another gets the name: it is compared again, with that one."""
    body = {"dataset_id": post_csv(client, csv(120, 6)).json()["id"], "holdout": 0.5}
    first, second = (client.post("/models/mine/refit", json=body).json()["id"] for _ in range(2))
    compared, ending = finish.decided, []

    def beside_another(*asked):
        decision = compared(*asked)
        ending.append(decision["champion"])
        if len(ending) == 1:
            run_units(settings)  # the other one ends in between
        return decision

    monkeypatch.setattr(finish, "decided", beside_another)
    run_units(settings)
    assert ending[:2] == [champion["id"]] * 2
    decided = [client.get(f"/models/{each}").json()["refit"] for each in (first, second)]
    assert {each["champion"] for each in decided if each["decision"] == "promoted"} >= {champion["id"]}
    assert sorted(each["champion"] == champion["id"] for each in decided) == [False, True]
    assert {decided[0]["champion"], decided[1]["champion"]} & {first, second}


def test_refusals_of_refits(client, settings, champion):
    """An absent dataset, missing columns and unnamed models are refused in words."""
    problem(client.post("/models/mine/refit", json={"dataset_id": "ds_1"}), 404)
    other = post_csv(client, "".join(f"{line.rsplit(',', 2)[0]}\n" for line in table(40).splitlines()))
    other = other.json()["id"]
    refused = problem(client.post("/models/mine/refit", json={"dataset_id": other}), 422)
    assert "colour" in str(refused)
    unnamed = fitted(client, settings)
    for call in ("promote", "rollback"):
        problem(client.post(f"/models/{unnamed['id']}/{call}"), 409, "conflict")


def test_the_client_refits_and_goes_back(client, settings, champion):
    """Methods of the Python client for refits with a gate, which model a name means, and schedules."""
    with Client(str(client.base_url)) as bart:
        dataset = bart.dataset(champion["dataset_id"])
        new = bart.refit("mine", dataset, promote="always")
        run_units(settings)
        new = bart.model(new.id)
        assert (new.document["refit"]["decision"], new.settings["holdout"]) == ("promoted", 0.3)
        assert bart.roll_back("mine").id == champion["id"]
        assert bart.promote(new).id == new.id
        put = bart.set_schedule("mine", every="7d", on_alarm=True)
        assert bart.schedule("mine") == put
        bart.delete_schedule("mine")
        with pytest.raises(ProblemError):
            bart.schedule("mine")
