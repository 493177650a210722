"""POST /models/{id}/retry and /extend, and predictions before the end of a fit."""

from dataclasses import replace
from threading import Thread

import pytest
from sqlalchemy import update

from app.client import Client
from app.store.engine import session_scope
from app.store.queue import claims, lifecycle, units
from app.store.tables import Unit
from tests.support import store_factories
from tests.support.api_calls import places, post_csv, problem, table
from tests.support.models.fitted_models import SMALL, fitted, run_units
from tests.support.models.partial_chains import give_back, take_chains
from tests.support.waiting import eventually
from worker.context import Context
from worker.fits.fit_spec import prepare_problem, read_rows, read_spec
from worker.units import run_one

ROWS = [{"size": 3, "colour": "red"}, {"size": 11, "colour": "blue"}]


@pytest.fixture
def model_id(client) -> str:
    dataset = post_csv(client, table(60)).json()["id"]
    return client.post("/models", json={"dataset_id": dataset, "target": "y"} | SMALL).json()["id"]


def ask(client, model, **more):
    return client.post(f"/models/{model}/predict", json={"rows": ROWS} | more)


def answered(client, model, **more):
    response = ask(client, model, **more)
    assert response.status_code == 200, response.text
    return response.json()


def state(client, model_id):
    return client.get(f"/models/{model_id}").json()["state"]


def test_a_running_fit_answers(client, settings, database, model_id):
    """A running fit predicts from the draws that all chains have, with a verdict on those draws."""
    (first,) = take_chains(database.engine, 10)
    problem(ask(client, model_id), 409, "model-not-finished")
    claims = [first, *take_chains(database.engine, 7)]
    early = answered(client, model_id)
    give_back(database.engine, claims)
    take_chains(database.engine, 30, 12)
    later = answered(client, model_id)

    assert (early["draws"], later["draws"]) == (7, 12)
    assert early["verdict"] in {"converged", "approximate", "not_converged"}
    assert state(client, model_id) == "running"
    assert answered(client, model_id, draws=7) == early
    problem(ask(client, model_id, draws=13), 422)


def test_what_the_data_choose_is_chosen_once(client, settings, database):
    """A chain that begins while another chooses waits for what that stores, and samples by it."""
    dataset = post_csv(client, table(400)).json()["id"]
    made = client.post("/models", json={"dataset_id": dataset, "target": "y"} | SMALL | {"num_draws": 5})
    held = store_factories.claim(database.engine, "another")
    with session_scope(database.engine, read_only=True) as session:
        spec = read_spec(session, held.model_id)
        rows = read_rows(session, spec)
    chosen = replace(spec, settings=spec.settings | {"noise": "constant", "transform": "none"})
    header = prepare_problem(chosen, rows).header()
    context = Context(settings, "tests")
    thread = Thread(target=run_one, args=[context])
    thread.start()
    address = made.headers["location"]
    eventually(lambda: client.get(address).json()["progress"]["chains"][1]["state"] == "running")
    with session_scope(database.engine) as session:
        assert units.keep_header(session, held, header, []) == header
    thread.join()
    context.close()
    give_back(database.engine, [held])
    run_units(settings)
    assert client.get(address).json()["diagnostics"]["chosen"]["noise"] == "constant"


def test_answers_that_pin_draws_stay(client, settings, database, model_id):
    """An answer with pinned draws stays equal during the fit, at its end, and after an extension."""
    claims = take_chains(database.engine, 10, 10)
    query = {"level": [0.5, 0.9], "interval": "predictive", "mcse": True}
    early = answered(client, model_id, **query)
    give_back(database.engine, claims)
    run_units(settings)
    assert state(client, model_id) == "succeeded"
    whole = answered(client, model_id, **query)
    assert (early["draws"], whole["draws"]) == (10, 40)
    client.post(f"/models/{model_id}/extend", json={"num_draws": 20})
    assert answered(client, model_id, **query) == whole  # the new draws don't exist yet
    run_units(settings)
    extended = answered(client, model_id, **query)

    assert extended["draws"] == 60
    assert extended["mean"] != whole["mean"]
    assert answered(client, model_id, draws=10, **query) == early
    assert answered(client, model_id, draws=40, **query) == whole


def test_a_cancelled_model_answers_and_is_retried(client, settings, database, model_id):
    """A cancelled model predicts from its draws; retried, it equals one that was never cancelled."""
    claims = take_chains(database.engine, 10, 20)
    client.post(f"/models/{model_id}/cancel")
    refused = problem(client.post(f"/models/{model_id}/retry"), 409, "conflict")
    assert "being cancelled" in refused["detail"]
    for claim in claims:
        with session_scope(database.engine) as session:
            units.stop(session, claim)
    assert state(client, model_id) == "cancelled"
    cancelled = answered(client, model_id)
    response = client.post(f"/models/{model_id}/retry")
    run_units(settings)
    undisturbed = fitted(client, settings)

    assert response.status_code == 202
    assert response.headers["location"] == f"/models/{model_id}"
    assert response.json()["state"] == "queued"
    assert cancelled["draws"] == 10
    assert state(client, model_id) == "succeeded"
    assert answered(client, model_id, draws=10) == cancelled
    same = answered(client, undisturbed["id"]) | {"model_id": model_id}
    assert answered(client, model_id) == same


def test_a_failed_model_is_retried(client, settings, database, model_id):
    """A failed chain continues from its last slice without losing draws; its error is cleared."""
    claims = take_chains(database.engine, 10, 20)
    with session_scope(database.engine) as session:
        units.fail(session, claims[0], {"type": "internal", "detail": "A cosmic ray."})
    failed = client.get(f"/models/{model_id}").json()
    assert (failed["state"], failed["error"]["detail"]) == ("failed", "A cosmic ray.")
    assert answered(client, model_id)["draws"] == 10
    again = client.post(f"/models/{model_id}/retry").json()
    give_back(database.engine, claims[1:])  # hadn't noticed that the model had failed
    run_units(settings)

    assert (again["state"], again["error"], again["finished_at"]) == ("queued", None, None)
    assert state(client, model_id) == "succeeded"
    undisturbed = fitted(client, settings)
    assert answered(client, model_id) == answered(client, undisturbed["id"]) | {"model_id": model_id}


def test_a_retry_overtakes_the_end_of_a_chain(client, settings, database, model_id):
    """A chain about to end with its failed model is queued again when the model was retried meanwhile."""
    claims = take_chains(database.engine, 5, 6)
    with session_scope(database.engine) as session:
        units.fail(session, claims[0], {"type": "internal", "detail": "A cosmic ray."})
    client.post(f"/models/{model_id}/retry")
    with session_scope(database.engine) as session:
        units.stop(session, claims[1])  # as a slice before the retry reported
    run_units(settings)

    assert state(client, model_id) == "succeeded"


def test_a_model_whose_finish_failed_is_retried(client, settings, database, model_id):
    """When all chains have ended, a retry repeats only the finish."""
    run_units(settings)
    before = client.get(f"/models/{model_id}").json()
    client.post(f"/models/{model_id}/extend", json={"num_draws": 5})
    with session_scope(database.engine) as session:  # every chain ended except for the finish
        session.execute(update(Unit).where(Unit.model_id == model_id).values(state="done"))
        lifecycle.settle(session, model_id)
        finish = claims.claim(session, "w", 60)
        units.fail(session, finish, {"type": "internal", "detail": "A cosmic ray."})
    client.post(f"/models/{model_id}/retry")

    assert run_units(settings) == 1
    after = client.get(f"/models/{model_id}").json()
    assert (before["verdict"], "succeeded") == (after["verdict"], after["state"])


def test_extend_tells_what_it_does(client, settings, model_id):
    """An extension gives 202, the added iterations and the old verdict; then all draws count."""
    run_units(settings)
    before = client.get(f"/models/{model_id}").json()
    response = client.post(f"/models/{model_id}/extend", json={"num_draws": 60})
    model = response.json()

    assert response.status_code == 202
    assert response.headers["location"] == f"/models/{model_id}"
    assert (model["state"], model["verdict"], model["finished_at"]) == ("queued", before["verdict"], None)
    assert model["settings"] == before["settings"] | {"num_draws": 100}
    assert {160} == {chain["iterations"] for chain in model["progress"]["chains"]}
    assert 0.5 < model["progress"]["fraction"] < 0.7
    assert run_units(settings) == 3
    after = client.get(f"/models/{model_id}").json()
    assert (after["state"], after["draws"], after["progress"]["fraction"]) == ("succeeded", 100, 1)
    assert after["finished_at"] > before["finished_at"]


def test_a_name_keeps_answering_while_its_model_is_extended(client, settings):
    """Requests by name use the model that is being extended, not an older one."""
    older = fitted(client, settings, name="cars")
    newer = fitted(client, settings, name="cars")
    client.post(f"/models/{newer['id']}/extend", json={"num_draws": 5})

    assert older["id"] != newer["id"] == answered(client, "cars")["model_id"]


def test_what_can_not_be_continued_is_refused(client, settings, model_id):
    """A wrong state is a 409 with advice, an invalid number a 422, an unknown model a 404."""
    for path in ("retry", "extend"):
        problem(client.post(f"/models/mdl_none/{path}", json={"num_draws": 5}), 404)
    extend = f"/models/{model_id}/extend"
    problem(client.post(f"/models/{model_id}/retry"), 409, "conflict")
    problem(client.post(extend, json={"num_draws": 5}), 409, "conflict")
    client.post(f"/models/{model_id}/cancel")
    assert "retry" in problem(client.post(extend, json={"num_draws": 5}), 409)["detail"]
    client.post(f"/models/{model_id}/retry")
    run_units(settings)
    assert "extend" in problem(client.post(f"/models/{model_id}/retry"), 409)["detail"]
    for body in ({}, {"num_draws": 0}, {"num_draws": 1.5}, {"num_draws": "5"}, {"num_draws": 1_000_000}):
        assert places(problem(client.post(extend, json=body), 422)) == [("num_draws", None)]
    assert state(client, model_id) == "succeeded"


def test_extend_honours_an_idempotency_key(client, settings, model_id):
    """An extension repeated under its key is done once."""
    run_units(settings)
    key = {"Idempotency-Key": "one"}
    path, body = f"/models/{model_id}/extend", {"num_draws": 5}
    first, again = (client.post(path, json=body, headers=key) for _ in range(2))

    assert first.status_code == again.status_code == 202
    assert first.content == again.content
    assert client.get(f"/models/{model_id}").json()["settings"]["num_draws"] == 45


def test_the_client_extends_refits_and_amends(client, settings, model_id):
    """Methods of the Python client for stop rules, a fit to all rows, and an amended dataset."""
    run_units(settings)
    with Client(str(client.base_url)) as bart:
        stop = {"max_rhat": 5.0}
        cost = bart.estimate_extension(model_id, stop=stop)
        longer = bart.extend(model_id, stop=stop)
        new = bart.refit(model_id, name="all")
        dataset = bart.model(model_id).document["dataset_id"]
        text = bart.amend(dataset, {"size": {"kind": "category"}}, name="text")

    assert longer.settings["stop"] == cost["stop"]
    assert (new.name, new.settings["holdout"]) == ("all", 0.0)
    assert (text.name, [column["kind"] for column in text.columns][:2]) == ("text", ["number", "category"])


def test_a_model_is_extended_until_its_rules_hold(client, settings, model_id):
    """Stop rules of an extension hold at its end, which its estimate and its settings announced."""
    run_units(settings)
    path, body = f"/models/{model_id}/extend", {"stop": {"max_rhat": 1.15}}
    estimate = client.post(f"{path}/estimate", json=body).json()
    assert state(client, model_id) == "succeeded"
    assert (estimate["num_draws"], estimate["stop"]["max_draws"]) == (20, 24 * 60)
    assert 0 < estimate["seconds"] <= estimate["most_seconds"]
    queued = client.post(path, json=body).json()
    assert queued["settings"]["stop"] == estimate["stop"]
    assert queued["settings"]["num_draws"] == 60
    run_units(settings)

    model = client.get(f"/models/{model_id}").json()
    stopped = model["stopped"]
    assert model["state"] == "succeeded"
    assert stopped["by"] == "max_draws" or stopped["rhat"] <= 1.15
    assert stopped["draws"] == model["draws"] >= 60
    problem(client.post(path, json={}), 422)
    problem(client.post(path, json={"stop": {}}), 422)
    problem(client.post(path, json={"stop": {"verdict": "fine"}}), 422)
    problem(client.post(path, json={"stop": {"verdict": "converged", "max_draws": 10}}), 422)
    again = client.post(path, json={"num_draws": 5}).json()
    run_units(settings)
    assert again["stopped"] == stopped, "a plain extension has no rules to check"
    assert client.get(f"/models/{model_id}").json()["draws"] == model["draws"] + 5
