"""Kills, pauses, wiped brokers and cut sessions at random, by seed, of real processes: the same bytes."""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field

import pytest
from sqlalchemy import create_engine, text

from app.store import schema
from app.store.engine import make_engine
from tests.chaos import history
from tests.conftest import Database
from tests.integration.worker.conftest import dialect, service  # noqa: F401  fixtures
from tests.integration.worker.harness import LEASE_SECONDS, LONG, Service, children, make_service
from tests.servers import crashing_postgres, folder, redis_client, valkey_in

SHORT_FORM, LONG_FORM = 5, int(os.environ.get("BARTSERVE_CHAOS_EVENTS", "60"))
MODELS = LONG | {"num_draws": 120, "num_chains": 2}
OPEN = 2  # models under way at any time


@dataclass
class Storm:
    """Disturbs a service at random until so much has happened."""

    service: Service
    chance: random.Random
    broker: str | None = None
    did: Counter = field(default_factory=Counter)
    made: list[str] = field(default_factory=list)

    def run(self, count: int) -> None:
        acts = [self.kill_child, self.kill_child, self.kill_worker, self.pause]
        if self.broker is not None:
            acts += [self.wipe_broker, self.cut_sessions, self.stop_worker]
        while sum(self.did.values()) < count:
            self.keep_busy()
            time.sleep(self.chance.uniform(0.0, 1.0))
            act = self.chance.choice(acts)
            act()
            self.did[act.__name__] += 1

    def keep_busy(self) -> None:
        while sum(not self.service.model(model_id).finished_at for model_id in self.made) < OPEN:
            seed = len(self.made) % 3  # a few fits, each undisturbed once
            self.made.append(self.service.create_model(**MODELS | {"seed": seed}))
        alive = [worker for worker in self.service.workers if worker.poll() is None]
        if not alive:
            self.service.start_worker()

    def worker(self):
        return next(worker for worker in reversed(self.service.workers) if worker.poll() is None)

    def kill_child(self) -> None:
        found = children(self.worker())
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.chance.choice(found), signal.SIGKILL)

    def kill_worker(self) -> None:
        worker = self.worker()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def stop_worker(self) -> None:
        self.worker().send_signal(signal.SIGTERM)
        self.service.start_worker()

    def pause(self) -> None:
        """Longer than its lease, while another one takes over."""
        worker = self.worker()
        os.killpg(worker.pid, signal.SIGSTOP)
        heir = self.service.start_worker()
        time.sleep(LEASE_SECONDS * self.chance.uniform(0.5, 1.5))
        os.killpg(worker.pid, signal.SIGCONT)
        os.killpg(self.chance.choice([worker, heir]).pid, signal.SIGKILL)

    def wipe_broker(self) -> None:
        redis_client(self.broker).flushall()

    def cut_sessions(self) -> None:
        admin = create_engine(self.service.engine.url)
        with admin.begin() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )
            )
        admin.dispose()
        self.service.engine.dispose()


def storm(under, broker, seed, count):
    found = Storm(under, random.Random(seed), broker)
    found.run(count)
    for worker in under.workers:  # what still sleeps or drains is none of the last phase's business
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
    under.start_worker()
    expected = {}
    for model_id in found.made:
        under.ended(model_id, 300)
        history.check(under.engine, model_id)
        settings_seed = under.model(model_id).settings["seed"]
        if settings_seed not in expected:
            expected[settings_seed] = under.undisturbed_digest(model_id)
        assert under.digest(model_id) == expected[settings_seed]
    told = ", ".join(f"{number} {what}" for what, number in sorted(found.did.items()))
    print(
        f"\nseed {seed}: {sum(found.did.values())} disturbances ({told}); {len(found.made)} fits, same bytes"
    )


FORMS = [pytest.param(count, marks=pytest.mark.long) for count in (SHORT_FORM, LONG_FORM)]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", FORMS)
def test_a_storm(service, request, count):  # noqa: F811
    """Whatever happened, every accepted fit succeeds with the draws of an undisturbed one."""
    team = request.node.callspec.params["service"] == "team"
    storm(service, request.getfixturevalue("valkey_url") if team else None, 20261121, count)


def test_a_database_and_a_broker_that_crash(tmp_path):
    """SIGKILL of Postgres and of the broker in mid-fit, twice: they come back, and nothing is lost."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(crashing_postgres())
        place = stack.enter_context(folder("bartserve-valkey-"))
        schema.migrate(server.url)
        database = Database("postgres", server.url, make_engine(server.url))
        stack.callback(database.engine.dispose)
        broker = f"redis+socket://{place}/valkey.sock"
        service = stack.enter_context(make_service(database, broker, tmp_path))
        with valkey_in(place, stop=signal.SIGKILL):
            made = [service.create_model(**LONG | {"seed": seed}) for seed in range(2)]
            service.start_worker()
            for _ in range(2):
                service.sampling(made[-1])
                server.crash()
                database.engine.dispose()
                time.sleep(0.5)
                server.start()
        with valkey_in(place):
            ends = {service.ended(model_id, 300).state for model_id in made}
            service.stop()

        assert ends == {"succeeded"}
        for model_id in made:
            history.check(database.engine, model_id)
            assert service.digest(model_id) == service.undisturbed_digest(model_id)
