"""Retried and extended models equal uninterrupted ones."""

import pytest

from app.store import models
from app.store.engine import session_scope
from app.store.queue import restarts
from sampler.storage.model_header import Header
from tests.support.processes.worker_service import LONG, OWNER, SHORT
from worker.fits.fit_spec import prepare_problem, read_rows, read_spec, split


def again(service, model_id, how):
    with session_scope(service.engine) as session:
        how(session, restarts.locked(session, OWNER, model_id))


def header(service, model_id):
    with session_scope(service.engine, read_only=True) as session:
        return models.header(session, model_id)


def retitled(data, num_draws):
    read = Header.from_bytes(data)
    read.settings["num_draws"] = num_draws
    return read.to_bytes()


def fitted_header(service, model_id):
    """Return the header that a fit of the model's present settings writes."""
    with session_scope(service.engine, read_only=True) as session:
        spec = read_spec(session, model_id)
        training = split(spec, read_rows(session, spec)).training
    return prepare_problem(spec, training).header()


@pytest.mark.slow
def test_a_cancelled_model_is_retried(service):
    """A model cancelled twice and retried has the draws of an undisturbed fit."""
    model_id = service.create_model(**LONG)
    service.start_worker()
    for _ in range(2):
        service.sampling(model_id)
        service.cancel(model_id)
        assert service.ended(model_id, 5).state == "cancelled"
        num_draws = [chain.num_draws for chain in service.chains(model_id)]
        again(service, model_id, restarts.retry)
        assert [chain.num_draws for chain in service.chains(model_id)] >= num_draws
    model = service.ended(model_id, 120)

    assert (model.state, model.error, model.cancel_requested) == ("succeeded", None, False)
    assert model.verdict is not None
    assert {0} == {chain.stalled_attempts for chain in service.chains(model_id)}
    assert service.undisturbed_digest(model_id) == service.digest(model_id)


@pytest.mark.slow
def test_an_extended_model_is_the_longer_fit(service):
    """50 draws, then 70 and 1 more, give the bytes, header and scores of 121 at once."""
    settings = SHORT | {"num_chains": 2}
    model_id = service.create_model(**settings)
    at_once = service.create_model(**settings | {"num_draws": 121})
    service.start_worker()
    first = service.ended(model_id)
    for more, total in ((70, 120), (1, 121)):
        settings_before = service.model(model_id).settings
        again(
            service,
            model_id,
            lambda session, model, more=more, total=total: restarts.extend(
                session, model, more, retitled(header(service, model_id), total)
            ),
        )
        waiting = service.model(model_id)
        assert waiting.verdict is not None  # of its draws
        assert waiting.settings == settings_before | {"num_draws": total}
        model = service.ended(model_id, 120)
        assert (model.state, model.started_at) == ("succeeded", first.started_at)
        assert {total} == {chain.num_draws for chain in service.chains(model_id)}
    whole = service.ended(at_once, 120)

    assert service.digest(at_once) == service.digest(model_id)
    assert service.undisturbed_digest(model_id) == service.digest(model_id)
    assert header(service, at_once) == header(service, model_id) == fitted_header(service, model_id)
    assert (model.diagnostics, model.holdout) == (whole.diagnostics, whole.holdout)
    assert model.holdout != first.holdout
    assert model.verdict == whole.verdict


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", ["cancelled", "killed"])
def test_an_extension_is_interrupted(service, interrupted):
    """An extension cancelled and retried, or killed, equals the longer fit."""
    settings = LONG | {"num_draws": 20}
    model_id = service.create_model(**settings)
    worker = service.start_worker()
    service.ended(model_id, 120)
    again(
        service,
        model_id,
        lambda session, model: restarts.extend(session, model, 180, retitled(header(service, model_id), 200)),
    )
    service.eventually(lambda: any(20 < chain.num_draws < 190 for chain in service.chains(model_id)))
    if interrupted == "killed":
        worker.kill()
        service.start_worker()
    else:
        service.cancel(model_id)
        assert service.ended(model_id, 5).state == "cancelled"
        again(service, model_id, restarts.retry)
    model = service.ended(model_id, 120)

    assert model.state == "succeeded"
    assert service.undisturbed_digest(model_id) == service.digest(model_id)
