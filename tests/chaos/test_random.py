"""Seeded random kills, pauses, wiped brokers and cut sessions of real processes: equal bytes."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx
import pytest
from sqlalchemy import select

from app.store import schema
from app.store.engine import make_engine, session_scope
from app.store.tables import Model
from app.supervisor import LIFELINE
from tests.support import model_history as history
from tests.support.api_calls import post_csv, table
from tests.support.databases import Database
from tests.support.processes import plain_http
from tests.support.processes.embedded_service import free_port
from tests.support.processes.servers import crashing_postgres, folder, redis_client, valkey_in
from tests.support.processes.service_fixtures import dialect, service  # noqa: F401  fixtures
from tests.support.processes.worker_service import LEASE_SECONDS, LONG, Service, children, make_service
from tests.support.reports import chaos_report as report

SHORT_FORM, LONG_FORM = 5, int(os.environ.get("BARTSERVE_CHAOS_EVENTS", "80"))
MODELS = LONG | {"num_draws": 120, "num_chains": 2}
OPEN = 2  # models under way at any time
ACCEPT_SECONDS = 300.0
ROWS = 300


@dataclass
class Api:
    """A `bartserve api` that is restarted whenever it was killed."""

    service: Service
    port: int = field(default_factory=free_port)
    process: subprocess.Popen | None = None

    def start(self) -> None:
        with self.service.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app.cli", "api", "--port", str(self.port)],
                env=self.service.environment | {LIFELINE: str(self.service.lifeline)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(self.service.lifeline,),
                start_new_session=True,
            )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def until(self, ask) -> dict:
        """Repeat a request until it is answered, and return the answer."""
        deadline = time.monotonic() + ACCEPT_SECONDS
        while True:
            with contextlib.suppress(httpx.TransportError):
                with plain_http.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30) as client:
                    answer = ask(client)
                if answer.status_code < 500:
                    assert answer.is_success, answer.text
                    return answer.json()
            assert time.monotonic() < deadline, self.service.log.read_text()[-3000:]
            time.sleep(0.1)


@dataclass
class Storm:
    """Disturb a service at random until a number of disturbances has happened."""

    service: Service
    chance: random.Random
    api: Api
    broker: str | None = None
    dataset_id: str = ""
    did: Counter = field(default_factory=Counter)
    model_ids: list[str] = field(default_factory=list)

    def run(self, count: int) -> None:
        acts = {
            "child of a worker": (self.kill_child, 3),
            "worker": (self.kill_worker, 2),
            "worker that slept past its lease, or its heir": (self.pause, 1),
            "API": (self.kill_api, 2),
        }
        if self.broker is not None:
            acts |= {
                "wiped broker": (self.wipe_broker, 1),
                "cut of all sessions": (self.cut_sessions, 1),
                "worker told to stop": (self.stop_worker, 1),
            }
        self.api.start()
        self.dataset_id = self.api.until(lambda client: post_csv(client, table(ROWS)))["id"]
        while sum(self.did.values()) < count:
            self.keep_busy()
            if self.chance.random() < 0.5:  # the next disturbance meets running chains, not a starting worker
                self.service.eventually(self.at_work, ACCEPT_SECONDS)
            time.sleep(self.chance.uniform(0.0, 1.0))
            self.service.eventually(self.gets_somewhere, ACCEPT_SECONDS)
            name = self.chance.choices([*acts], [weight for _, weight in acts.values()])[0]
            acts[name][0]()
            self.did[name] += 1

    def keep_busy(self) -> None:
        while sum(not self.service.model(model_id).finished_at for model_id in self.model_ids) < OPEN:
            seed = len(self.model_ids) % 3  # a few fits, each run once undisturbed
            self.model_ids.append(self.accepted(MODELS | {"seed": seed}))
        self.worker()

    def accepted(self, settings) -> str:
        """Return the id of an accepted fit, though the API may be killed while accepting."""
        body = settings | {"dataset_id": self.dataset_id, "target": "y", "moves": "growprune"}
        headers = {"Idempotency-Key": f"fit {len(self.model_ids)}"}
        if self.chance.random() < 0.5:  # no client receives this response
            with contextlib.suppress(httpx.TransportError):
                plain_http.post(
                    f"http://127.0.0.1:{self.api.port}/models", json=body, headers=headers, timeout=0.05
                )
            self.kill_api()
            self.did["API"] += 1
        return self.api.until(lambda client: client.post("/models", json=body, headers=headers))["id"]

    def kill_api(self) -> None:
        self.api.kill()
        self.api.start()

    def worker(self):
        """Return the newest living worker; the one told to stop may have been the last."""
        alive = [worker for worker in self.service.workers if worker.poll() is None]
        return alive[-1] if alive else self.service.start_worker()

    def chains(self):
        """Return the chains in progress."""
        all_chains = [chain for model_id in self.model_ids for chain in self.service.chains(model_id)]
        return [chain for chain in all_chains if chain.state in {"queued", "running"}]

    def at_work(self) -> bool:
        """Return whether a living worker has chains that progressed, or all work is done."""
        under_way = self.chains()
        started = any(chain.state == "running" and chain.iteration for chain in under_way)
        return bool(children(self.worker())) and (started or not under_way)

    def gets_somewhere(self) -> bool:
        """Return whether no chain was claimed twice without progress: three such claims fail it."""
        return bool(self.worker()) and all(chain.stalled_attempts < 2 for chain in self.chains())

    def kill_child(self) -> None:
        self.service.eventually(self.at_work, ACCEPT_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.chance.choice(children(self.worker())), signal.SIGKILL)

    def kill_worker(self) -> None:
        worker = self.worker()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def stop_worker(self) -> None:
        self.worker().send_signal(signal.SIGTERM)
        self.service.start_worker()

    def pause(self) -> None:
        """Pause a worker beyond its lease, while another takes over."""
        worker = self.worker()
        os.killpg(worker.pid, signal.SIGSTOP)
        heir = self.service.start_worker()
        time.sleep(LEASE_SECONDS * self.chance.uniform(0.5, 1.5))
        os.killpg(worker.pid, signal.SIGCONT)
        os.killpg(self.chance.choice([worker, heir]).pid, signal.SIGKILL)

    def wipe_broker(self) -> None:
        redis_client(self.broker).flushall()

    def cut_sessions(self) -> None:
        self.service.cut_sessions()
        self.service.engine.dispose()


def storm(under, broker, seed, count):
    attack = Storm(under, random.Random(seed), Api(under), broker)
    try:
        attack.run(count)
    finally:
        attack.api.kill()
    for worker in under.workers:  # sleeping or draining workers play no part in the last phase
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
    under.start_worker()
    with session_scope(under.engine, read_only=True) as session:
        there = set(session.scalars(select(Model.id)))
    assert there == set(attack.model_ids)  # none twice, and none without an accepted request
    assert len(there) == len(attack.model_ids)
    expected = {}
    for model_id in attack.model_ids:
        under.ended(model_id, 300)
        history.check(under.engine, model_id)
        settings_seed = under.model(model_id).settings["seed"]
        if settings_seed not in expected:
            expected[settings_seed] = under.undisturbed_digest(model_id)
        assert under.digest(model_id) == expected[settings_seed]
    on = under.engine.dialect.name
    report.add(
        f"storm {seed} on {on}", attack.did, checked=len(attack.model_ids), compared=len(attack.model_ids)
    )


FORMS = [SHORT_FORM, pytest.param(LONG_FORM, marks=pytest.mark.long)]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", FORMS)
def test_a_storm(service, request, count):  # noqa: F811
    """Every accepted fit succeeds with the draws of an undisturbed one."""
    team = request.node.callspec.params["service"] == "team"
    storm(service, request.getfixturevalue("valkey_url") if team else None, 20261121, count)


@pytest.mark.slow
def test_a_database_and_a_broker_that_crash(tmp_path):
    """After two SIGKILLs of Postgres and the broker during fits, all recover without loss."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(crashing_postgres())
        place = stack.enter_context(folder("bartserve-valkey-"))
        schema.migrate(server.url)
        database = Database("postgres", server.url, make_engine(server.url))
        stack.callback(database.engine.dispose)
        broker = f"redis+socket://{place}/valkey.sock"
        service = stack.enter_context(make_service(database, broker, tmp_path))
        with valkey_in(place, stop=signal.SIGKILL):
            models = [service.create_model(**LONG | {"seed": seed}) for seed in range(2)]
            service.start_worker()
            for _ in range(2):
                service.sampling(models[-1])
                server.crash()
                database.engine.dispose()
                time.sleep(0.5)
                server.start()
        with valkey_in(place):
            ends = {service.ended(model_id, 300).state for model_id in models}
            service.stop()

        assert ends == {"succeeded"}
        for model_id in models:
            history.check(database.engine, model_id)
            assert service.digest(model_id) == service.undisturbed_digest(model_id)
        did = {"database": 2, "broker": 1}
        report.add("a crashing database and broker", did, checked=len(models), compared=len(models))
