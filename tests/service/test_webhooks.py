"""Deliveries of webhooks by real workers: the end of a fit arrives, in both forms of the service."""

import json

import pytest

from app.store.engine import session_scope
from app.store.tables import Webhook, WebhookDelivery
from app.store.webhooks.outbox import EVENTS
from tests.support.processes.receiver import is_signed, receiving
from tests.support.processes.worker_service import OWNER, SHORT

pytestmark = pytest.mark.slow
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_end_of_a_fit_arrives(service):
    """The dispatcher starts the sender, which delivers the end of a fit, signed, once."""
    service.environment["BARTSERVE_WEBHOOK_NETWORKS"] = "127.0.0.0/8"
    with receiving() as receiver:
        hook = Webhook(id="wh_1", owner=OWNER, url=receiver.url, events=[*EVENTS], secret=SECRET)
        with session_scope(service.engine) as session:
            session.add(hook)
        model_id = service.create_model(**SHORT)
        service.start_worker()
        verdict = service.ended(model_id).verdict
        service.eventually(lambda: receiver.heard)

        def is_delivered():
            with session_scope(service.engine, read_only=True) as session:
                return session.query(WebhookDelivery.state).all() == [("succeeded",)]

        service.eventually(is_delivered)
    ((headers, body),) = receiver.heard
    assert is_signed(headers, body, SECRET)
    told = json.loads(body)["data"]
    assert (told["model_id"], told["state"], told["verdict"]) == (model_id, "succeeded", verdict)
