"""Measure chains per minute, and statements and broker commands per chain, with worker processes as machines.

    python -m lab scaling [--workers 1 2 4 8] [--chains 8] [--sampling]

A separate Postgres with pg_stat_statements and a separate Valkey, the service's default settings, workers
with one slot. One model with that many chains per worker, each so small that computing hardly matters (20
trees, 100 iterations), so that the cost is that of the protocol. The statements of each fit are classified by
purpose: a chain's own (claim, preparation, slices, end), dispatchers' polls, heartbeats.

`--sampling` fits chains with some seconds of computing instead: chains per minute then grow up to the
machine's number of cores.
"""

import contextlib
import os
import tempfile
import time
from collections import Counter
from pathlib import Path

from sqlalchemy import text

from app.store import schema
from app.store.engine import make_engine
from lab import command
from sampler import warm
from tests.support.databases import Database
from tests.support.processes.servers import crashing_postgres, folder, redis_client, valkey_in
from tests.support.processes.worker_service import make_service

TINY = {"num_trees": 20, "num_burnin": 50, "num_draws": 50, "thin": 1, "seed": 1}
SAMPLING = {"num_trees": 200, "num_burnin": 500, "num_draws": 200, "thin": 25, "seed": 1}
LOADED = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "top"}
SETTINGS = ("BARTSERVE_LEASE_SECONDS", "BARTSERVE_SLICE_SECONDS", "BARTSERVE_DISPATCH_SECONDS")
STATEMENTS = text(
    "SELECT query, calls FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid "
    "WHERE d.datname = current_database()"
)


def kind_of(query):
    """Return the purpose of a statement; None for the benchmark's own and for those of drivers."""
    words = " ".join(query.split())
    if words.startswith(("BEGIN", "COMMIT", "ROLLBACK")):
        return "transactions"
    if "pg_stat" in words or "pg_catalog" in words or words.startswith(("SHOW", "SET", "RESET", "show")):
        return None
    if words.startswith("SELECT count(*)") and "LIMIT" in words:
        return "looks"
    swept = "stalled_attempts >=" in words and words.startswith("SELECT")
    if "workers" in words and ("UPDATE" in words or "DELETE" in words or "INSERT" in words):
        return "beats"
    if swept or ("owner = $" in words and "SKIP LOCKED" in words):
        return "beats"
    return "chains"


def fitted(service, admin, broker, workers, settings):
    """Fit a model with that many workers and return the counts."""
    running = [service.start_worker(slots=1) for _ in range(workers)]
    ready = text("SELECT count(*) FROM workers")
    service.eventually(lambda: scalar(service.engine, ready) == workers, 300)
    time.sleep(3.0)  # their first polls
    scalar(admin, text("SELECT pg_stat_statements_reset()"))
    broker.config_resetstat()
    began = time.monotonic()
    model_id = service.create_model(**settings)
    until_ended(service, model_id)
    seconds = time.monotonic() - began
    with service.engine.connect() as connection:
        counts = list(connection.execute(STATEMENTS))
    statements = Counter()
    for query, calls in counts:
        statements[kind_of(query)] += calls
    commands = {name: stat["calls"] for name, stat in broker.info("commandstats").items()}
    for worker in running:
        worker.terminate()
    for worker in running:
        worker.wait()
    return seconds, statements, commands


def until_ended(service, model_id):
    """Wait for the end; poll once a second, so that polling counts for little."""
    query = text("SELECT finished_at FROM models WHERE id = :id")
    while scalar(service.engine, query, id=model_id) is None:
        time.sleep(1.0)


def scalar(engine, query, **values):
    with engine.connect() as connection:
        value = connection.execute(query, values).scalar()
        connection.commit()
        return value


def main():
    parser = command(__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--chains", type=int, default=8, help="per worker")
    parser.add_argument("--sampling", action="store_true")
    arguments = parser.parse_args()
    warm()
    print(f"{os.cpu_count()} cores, {arguments.chains} chains per worker")
    head = ("workers", "chains/min", "statements/chain", "looks/worker s", "beats/worker s")
    print(("{:>17}" * 7).format(*head, "bells/chain", "commands/worker s"))
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(crashing_postgres(LOADED))
        sockets = stack.enter_context(folder("bartserve-valkey-"))
        url = stack.enter_context(valkey_in(sockets))
        schema.migrate(server.url)
        engine = make_engine(server.url)
        stack.callback(engine.dispose)
        with engine.begin() as connection:
            connection.execute(text("CREATE EXTENSION pg_stat_statements"))
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        service = stack.enter_context(make_service(Database("postgres", server.url, engine), url, place))
        for name in SETTINGS:
            del service.environment[name]  # as they come
        for workers in arguments.workers:
            chains = arguments.chains * workers
            settings = (SAMPLING if arguments.sampling else TINY) | {"num_chains": chains}
            seconds, statements, commands = fitted(service, engine, redis_client(url), workers, settings)
            figures = (
                60 * chains / seconds,
                statements["chains"] / chains,
                statements["looks"] / workers / seconds,
                statements["beats"] / workers / seconds,
                commands.get("cmdstat_lpush", 0) / chains,
                sum(commands.values()) / workers / seconds,
            )
            print(("{:>17}" + "{:>17.2f}" * 6).format(workers, *figures), flush=True)
