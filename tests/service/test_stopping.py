"""Stop rules: equal draws under any interruption, and every outcome recorded."""

import contextlib
import os
import signal
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sqlalchemy import update

from app.store import draws, events, models
from app.store.engine import session_scope
from app.store.queue import claims, restarts, units
from app.store.tables import Model
from sampler import Posterior
from sampler.posterior.assessment import row_diagnostics
from sampler.posterior.stop_rules import next_look
from sampler.posterior.verdict import rhat_ess
from sampler.running import run
from sampler.storage.draw_codec import pack
from sampler.storage.model_header import with_counts
from tests.support.processes.worker_service import LONG, OWNER, SHORT, children
from worker.fits.fit_spec import prepare_problem, read_rows, read_spec, split
from worker.studies import calibration

FIRST = 20
# Rules that are met after several checks.
RULES = {"min_ess": 10.0, "verdict": None, "max_rhat": None, "max_seconds": None, "max_draws": 320}
SMALL = SHORT | {"num_draws": FIRST}
# A fit with about a second of work between two checks, long enough to interrupt.
SLOW = LONG | {"num_draws": FIRST, "num_burnin": 100, "thin": 10, "seed": 8}
# Chains that are still on their way at the first draws.
DRIFTING = SLOW | {"num_chains": 3, "num_burnin": 10}


def stopping_at(**rules):
    return {"stop": dict.fromkeys(RULES) | {"first_look": FIRST, "max_draws": 16 * FIRST} | rules}


def log(service, model_id):
    with session_scope(service.engine, read_only=True) as session:
        return [(event.kind, event.detail) for event in events.page(session, model_id, 0, 1000)]


def looks(service, model_id):
    details = [detail for kind, detail in log(service, model_id) if kind in {"looked", "stopped"}]
    return [detail["draws"] + detail["discarded"] for detail in details]


def header(service, model_id):
    with session_scope(service.engine, read_only=True) as session:
        return models.header(session, model_id)


def check_ended(service, model_id):
    """Check that the fit ended at the first check with all rules met, like a fit of that length.

    The rules are met by all draws, or, after the first check, by what is left without the first third.
    """
    model = service.ended(model_id, 120)
    assert (model.state, model.error, model.stopped["by"]) == ("succeeded", None, "rules")
    kept, discarded = model.stopped["draws"], model.stopped["discarded"]
    made = kept + discarded
    assert {kept} == {chain.num_draws for chain in service.chains(model_id)}
    assert model.settings["num_draws"] == kept
    assert model.settings.get("discarded", 0) == discarded
    checked_at = looks(service, model_id)
    assert checked_at == [n for n in expected_looks() if n <= made]
    assert len(checked_at) > 1
    assert service.undisturbed_digest(model_id) == service.digest(model_id)
    posterior = posterior_of(service, model_id)
    assert model.settings["num_draws"] == posterior.settings["num_draws"] == posterior.num_draws
    assert posterior.settings.get("discarded", 0) == discarded

    whole, least = with_all_draws(service, model_id), model.settings["stop"]["min_ess"]
    assert whole.num_draws == made
    by_all = [ess(whole, 0, n) >= least for n in checked_at]
    by_part = [n > FIRST and ess(whole, n // 3, n) >= least for n in checked_at]
    assert [a or b for a, b in zip(by_all, by_part, strict=True)] == [n == made for n in checked_at]
    assert discarded == (0 if by_all[-1] else made // 3)
    return model


def with_all_draws(service, model_id):
    """Fit again what a model consists of, with the draws that were discarded."""
    with session_scope(service.engine, read_only=True) as session:
        spec = read_spec(session, model_id)
        training = split(spec, read_rows(session, spec)).training
    made = spec.settings["num_draws"] + spec.settings.pop("discarded", 0)
    spec.settings["num_draws"] = made
    return run(prepare_problem(spec, training), progress=False)


def ess(posterior, first, last):
    """Return the figure that `min_ess` checks, for some draws of each chain."""
    parts = [[pack(chain[first:last])] for chain in posterior.chains()]
    posterior = Posterior.from_blocks(posterior.header.to_bytes(), parts)
    of_f = row_diagnostics.agreement(posterior.law, posterior.reference, last - first)
    sigma = posterior.sigma[None]
    of_sigma = min(rhat_ess.ess_bulk(sigma)[0], rhat_ess.ess_tail(sigma)[0])
    return min(np.quantile(np.minimum(of_f.ess_bulk, of_f.ess_tail), 0.05), of_sigma)


def expected_looks():
    looks = [FIRST]
    while looks[-1] < RULES["max_draws"]:
        looks.append(next_look(looks[-1], RULES["max_draws"]))
    return looks


def posterior_of(service, model_id):
    with session_scope(service.engine, read_only=True) as session:
        return Posterior.from_blocks(models.header(session, model_id), draws.read(session, model_id))


@pytest.mark.slow
def test_a_fit_goes_on_until_its_rules_hold(service):
    """Three chains on one slot are checked at 20, 30, 45, ... draws, and none waits holding the slot."""
    models = [service.create_model(**DRIFTING, **stopping_at(min_ess=16.0)) for _ in range(2)]
    service.start_worker(slots=1)
    first, again = (check_ended(service, model_id) for model_id in models)

    assert first.stopped == again.stopped
    assert service.digest(models[0]) == service.digest(models[1])
    assert header(service, models[0]) == header(service, models[1])
    assert (first.diagnostics, first.holdout) == (again.diagnostics, again.holdout)
    assert first.stopped["ess"] >= 16.0
    assert first.stopped["held"] == {"min_ess": True}
    assert first.stopped["discarded"] > 0


@pytest.mark.slow
def test_a_fit_without_its_first_draws_is_extended(service):
    """Chains of which draws were discarded go on where they are, and nothing more is discarded of them."""
    model_id = service.create_model(**DRIFTING, **stopping_at(min_ess=16.0))
    service.start_worker()
    model = service.ended(model_id, 120)
    kept, discarded = model.stopped["draws"], model.stopped["discarded"]
    assert discarded > 0
    before = posterior_of(service, model_id)
    rules = stopping_at(min_ess=1e6)["stop"] | {"first_look": kept + 10, "max_draws": kept + 30}
    with session_scope(service.engine) as session:
        row = restarts.locked(session, OWNER, model_id)
        longer = with_counts(header(service, model_id), num_draws=kept + 10, num_chains=3)
        restarts.extend(session, row, 10, longer, rules)
    extended = service.ended(model_id, 120)

    assert (extended.state, extended.error, extended.stopped["by"]) == ("succeeded", None, "max_draws")
    assert (extended.settings["num_draws"], extended.settings["discarded"]) == (kept + 30, discarded)
    assert (extended.stopped["draws"], extended.stopped["discarded"]) == (kept + 30, discarded)
    assert service.undisturbed_digest(model_id) == service.digest(model_id)
    after = posterior_of(service, model_id)
    rows = before.reference
    assert np.array_equal(before.predict(rows).mean, after.predict(rows, num_draws=kept).mean)
    iterations = DRIFTING["num_burnin"] + DRIFTING["thin"] * (kept + 30 + discarded)
    chains = service.chains(model_id)
    assert {(chain.iteration, chain.iterations) for chain in chains} == {(iterations, iterations)}


@pytest.mark.slow
@pytest.mark.parametrize("service", ["team"], indirect=True)
def test_chains_with_rules_share_workers(service):
    """Chains moving between two workers from round to round have equal draws."""
    model_id = service.create_model(**SLOW, **stopping_at(min_ess=RULES["min_ess"]))
    for _ in range(2):
        service.start_worker(slots=1)

    check_ended(service, model_id)


@pytest.mark.parametrize("service", ["embedded"], indirect=True)
def test_folds_burn_in_for_as_long_as_their_model(service):
    """The fits by which a model is calibrated have its discarded draws as further burn-in."""
    with session_scope(service.engine, read_only=True) as session:
        spec = read_spec(session, service.create_model(**SMALL))
        rows = read_rows(session, spec)

    def scores(**settings):
        return calibration.run({}, replace(spec, settings=spec.settings | settings), rows, 0, lambda _: None)

    as_model = scores(num_draws=10, discarded=10)
    assert as_model == scores(num_draws=10, num_burnin=SMALL["num_burnin"] + 10 * SMALL["thin"])
    assert as_model != scores(num_draws=10)


def kill_children(worker):
    for pid in children(worker):
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself meanwhile
            os.kill(pid, signal.SIGKILL)


def over_or_looked(service, model_id, times):
    return service.model(model_id).finished_at is not None or len(looks(service, model_id)) >= times


def ended_or_looked(service, model_id, times, worker):
    return worker.poll() is not None or over_or_looked(service, model_id, times)


def looked_at_last(service, model_id, times, worker):
    """Wait for a number of checks, or the end; restart a worker that ended after a kill."""
    while not over_or_looked(service, model_id, times):
        with contextlib.suppress(AssertionError):
            service.eventually(partial(ended_or_looked, service, model_id, times, worker), 60)
        if worker.poll() is not None:
            worker = service.start_worker()
    return worker


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_fit_stops_at_the_same_draws(service):
    """A fit whose children and worker are killed has an undisturbed fit's rules, draws and verdict.

    This process holds a chain itself at the first kill, so that the fit can't have ended by then.
    """
    model_id = service.create_model(**SLOW, **stopping_at(min_ess=RULES["min_ess"]))
    with session_scope(service.engine) as session:
        held = claims.claim(session, "test", 600.0)
    worker = service.start_worker()
    service.eventually(lambda: any(chain.num_draws for chain in service.chains(model_id)))
    assert looks(service, model_id) == []
    kill_children(worker)
    with session_scope(service.engine) as session:
        units.release(session, held)
    for round_ in (1, 2, 3):
        worker = looked_at_last(service, model_id, round_, worker)
        if round_ < 3:
            kill_children(worker)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    service.start_worker()

    check_ended(service, model_id)


@pytest.mark.slow
def test_a_cancelled_fit_with_rules_is_retried(service):
    """A fit cancelled between checks and retried stops at the same draws."""
    model_id = service.create_model(**SLOW, **stopping_at(min_ess=RULES["min_ess"]))
    service.start_worker()
    service.eventually(lambda: looks(service, model_id))
    service.cancel(model_id)
    assert service.ended(model_id).stopped is None
    with session_scope(service.engine) as session:
        restarts.retry(session, restarts.locked(session, OWNER, model_id))

    check_ended(service, model_id)


@pytest.mark.slow
@pytest.mark.parametrize("service", ["embedded"], indirect=True)
def test_rules_that_never_hold_end_at_the_most_draws(service):
    """`max_draws` ends a fit with unmet rules and records them; it can be extended."""
    rules = stopping_at(max_rhat=1.0001, verdict="approximate", max_draws=50)
    model_id = service.create_model(**SMALL, **rules)
    service.start_worker()
    model = service.ended(model_id)

    assert (model.state, model.stopped["by"], model.stopped["draws"]) == ("succeeded", "max_draws", 50)
    assert model.stopped["held"]["max_rhat"] is False
    assert looks(service, model_id) == [20, 30, 45, 50]
    with session_scope(service.engine) as session:
        row = restarts.locked(session, OWNER, model_id)
        expected_header = with_counts(
            header(service, model_id), num_draws=60, num_chains=row.settings["num_chains"]
        )
        restarts.extend(session, row, 10, expected_header)
    extended = service.ended(model_id)
    assert (extended.state, extended.stopped, extended.settings["num_draws"]) == (
        "succeeded",
        model.stopped,  # the rules had done their part
        60,
    )
    assert service.undisturbed_digest(model_id) == service.digest(model_id)


@pytest.mark.slow
@pytest.mark.parametrize("service", ["embedded"], indirect=True)
def test_time_ends_a_fit_with_what_all_chains_have(service):
    """At the time limit chains end, and chains without draws are dropped.

    The model's earlier predictions don't change when it is extended.
    """
    settings = LONG | {"num_draws": 4000, "num_chains": 3}
    model_id = service.create_model(**settings, **stopping_at(max_seconds=600.0, max_draws=4000))
    service.start_worker(slots=2)
    service.eventually(lambda: sum(chain.num_draws > 0 for chain in service.chains(model_id)) == 2)
    with session_scope(service.engine) as session:
        session.execute(update(Model).where(Model.id == model_id).values(deadline=0.0))
    model = service.ended(model_id)

    assert (model.state, model.error, model.stopped["by"]) == ("succeeded", None, "max_seconds")
    num_draws = [chain.num_draws for chain in service.chains(model_id)]
    assert all(num_draws)
    assert model.settings["num_draws"] == model.stopped["draws"] == min(num_draws) < 4000
    assert model.settings["num_chains"] == len(num_draws) == 2
    assert "2 of 3 chains" in model.warnings[-1]
    assert model.deadline is None
    before = posterior_of(service, model_id)
    count = before.num_draws + 40
    with session_scope(service.engine) as session:
        row = restarts.locked(session, OWNER, model_id)
        expected_header = with_counts(header(service, model_id), num_draws=count, num_chains=2)
        restarts.extend(session, row, 40, expected_header)
    assert service.ended(model_id, 120).state == "succeeded"
    after = posterior_of(service, model_id)
    assert after.num_draws == count
    rows = before.reference
    pinned = after.predict(rows, num_draws=before.num_draws)
    assert np.array_equal(before.predict(rows).mean, pinned.mean)


@pytest.mark.slow
@pytest.mark.parametrize("service", ["embedded"], indirect=True)
def test_time_that_is_over_before_any_draw(service):
    """A fit that ends without draws fails with the reason; a retry has the full time again."""
    model_id = service.create_model(**LONG | {"num_burnin": 1_000_000}, **stopping_at(max_seconds=0.5))
    service.start_worker()
    model = service.ended(model_id)

    assert (model.state, model.error["type"]) == ("failed", "out_of_time")
    with session_scope(service.engine) as session:
        restarts.retry(session, restarts.locked(session, OWNER, model_id))
    again = service.ended(model_id)
    assert (again.state, again.error["type"]) == ("failed", "out_of_time")
