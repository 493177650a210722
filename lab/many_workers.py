"""Measure what claims, slices and the like cost the database, and replay them with up to a thousand workers.

    python -m lab many_workers [--workers 10 100 1000] [--queued 100000] [--owners 3] [--explain]
        [--chain-seconds 30] [--slice-seconds 1] [--cores 16] [--costs claim=383 poll=13.5]

A separate Postgres has models of eight chains, of which the first run on workers with eight slots and the
others wait. The service's own functions act on it; their costs are processor seconds of the server's process
for the connection, which other work on the machine doesn't change: means of fifty calls.

Then they are replayed: each slot claims a chain, stores a slice every second (`--slice-seconds`) and ends it;
each worker polls and beats every two seconds. Each transaction takes one of the server's cores for its cost,
in the order of arrival. The chains need no processor here. `--costs` replaces measured ones, in milliseconds.
"""

import contextlib
import heapq
import os
import random
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

from sqlalchemy import insert, text

from app.store import schema
from app.store.clock import utc_now
from app.store.draws import StoredBlock
from app.store.engine import make_engine, session_scope
from app.store.queue import claims, lifecycle, units
from app.store.queue import workers as store
from app.store.tables import CHAIN, QUEUED, RUNNING, Model, Unit, Worker
from lab import command
from tests.support.processes.servers import crashing_postgres

CHAINS, SLOTS, CALLS = 8, 8, 50
CHECKPOINT, BLOCK = 5_000, 100_000  # bytes, of 200 trees and of a chain's draws
NETWORK = 0.0005  # seconds there and back
REPLAYED = 120.0  # seconds; the first third is not counted
ME = "wk_measured"
LOGGED = {
    "shared_preload_libraries": "auto_explain",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_min_duration": "2ms",
}


def fill(engine, queued, running, owners):
    """Queue that many chains, in models of eight, behind others that run."""
    now, models, units = utc_now(), [], []
    for number in range((queued + running) // CHAINS):
        owner, created = f"owner {number % owners}", now + timedelta(milliseconds=number)
        runs = number * CHAINS < running
        state = {"state": RUNNING if runs else QUEUED, "created_at": created}
        id_ = f"mdl_{number:07d}"
        models.append({"id": id_, "owner": owner, "target": "y", "settings": {}, "warnings": [], **state})
        held = {"token": 1, "lease_until": time.time() + 3000, "worker_id": f"wk_{number}"} if runs else {}
        units += [
            {"id": f"un_{number:07d}_{chain}", "kind": CHAIN, "owner": owner, "model_id": id_}
            | {"ordinal": chain, "updated_at": now, **state}
            | held
            for chain in range(CHAINS)
        ]
    with session_scope(engine) as session:
        session.execute(insert(Model), models)
        for which in (units[: running // CHAINS * CHAINS], units[running // CHAINS * CHAINS :]):
            for first in range(0, len(which), 5000):
                session.execute(insert(Unit), which[first : first + 5000])
        worker = {"host": "here", "pid": 1, "slots": SLOTS, "fit_memory": 10**9, "beat_at": 0.0}
        store.register(session, Worker(id=ME, phase="ready", **worker))
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("VACUUM ANALYZE"))


def acts(engine):
    """Return the service's actions by name; each is a transaction."""
    held = []

    def claim():
        with session_scope(engine) as session:
            held.append(claims.claim(session, ME, 60.0))

    def poll():
        with session_scope(engine, read_only=True) as session:
            claims.count_claimable(session, SLOTS + 2, slots=SLOTS)

    def sweep():
        with session_scope(engine) as session:
            lifecycle.sweep(session)

    def yields():
        with session_scope(engine, read_only=True) as session:
            claims.somebody_waits(session, held[0])

    def slice_(data=(), state=units.commit_slice):
        progress = units.Progress("sampling", 50, 100, 5, rate=10.0)
        made = units.Slice(progress, os.urandom(CHECKPOINT), {"moves": {}}, data)
        with session_scope(engine) as session:
            state(session, held[-1], made)

    def end():
        block = StoredBlock(0, 0, 5, os.urandom(BLOCK))
        slice_([block], units.finish_chain)
        held.pop()

    return {"poll": poll, "beat": sweep, "claim": claim, "yield": yields, "slice": slice_, "end": end}


def seconds_of(pid):
    """Return the processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(queued, running, owners, explain):
    """Return milliseconds of the server's processor by action."""
    with contextlib.ExitStack() as stack:
        more = LOGGED if explain else {}
        server = stack.enter_context(crashing_postgres({"shared_buffers": "256MB"} | more))
        schema.migrate(server.url)
        engine = make_engine(server.url, pool_size=1, max_overflow=0)
        stack.callback(engine.dispose)
        fill(engine, queued, running, owners)
        skipped = len(server.log.read_text())
        with engine.connect() as connection:
            pid = connection.scalar(text("SELECT pg_backend_pid()"))
        costs = {}
        for name, act in acts(engine).items():
            began = seconds_of(pid)
            for _ in range(CALLS):
                act()
            costs[name] = 1000 * (seconds_of(pid) - began) / CALLS
        if explain:
            print(server.log.read_text()[skipped:])
        return costs


def replayed(workers, costs, chain_seconds, slice_seconds, cores, seed=1):
    """Return figures of a database that serves so many workers: a simulation by events."""
    draw = random.Random(seed)
    free = [0.0] * cores  # when each core has done what it has
    events = [(draw.uniform(0, 2), number, "poll", 0) for number in range(workers)]
    first = [(draw.uniform(0, chain_seconds), "claim") for _ in range(workers * SLOTS)]
    events += [(at, workers + number, what, 0) for number, (at, what) in enumerate(first)]
    heapq.heapify(events)
    counts, busy, waits = Counter(), 0.0, []
    slices = round(chain_seconds / slice_seconds)
    while events:
        now, number, what, done = heapq.heappop(events)
        if now > REPLAYED:
            break
        cost = sum(costs[part] for part in {"poll": ("poll", "beat")}.get(what, (what,))) / 1000
        began = max(now, heapq.heappop(free))
        heapq.heappush(free, began + cost)
        answered = began + cost + NETWORK
        if now > REPLAYED / 3:
            counts[what] += 1
            busy += cost
            waits += [answered - now] if what == "slice" else []
        after = (answered + slice_seconds, "slice", done)
        if what == "poll":
            after = (answered + 2.0, what, 0)
        elif what == "end":
            after = (answered, "claim", 0)
        elif what == "slice" and done + 2 >= slices:
            after = (answered + slice_seconds, "end", 0)
        elif what == "slice":  # every third time a chain asks whether it should yield
            asks = done % 3 == 2
            after = (answered + (0 if asks else slice_seconds), "yield" if asks else what, done + 1)
        heapq.heappush(events, (after[0], number, *after[1:]))
    seconds = REPLAYED - REPLAYED / 3
    waits.sort()
    return {
        "chains/min": 60 * counts["end"] / seconds,
        "share": counts["end"] * chain_seconds / seconds / (workers * SLOTS),
        "transactions/s": (counts.total() + counts["poll"]) / seconds,
        "cores": busy / seconds,
        "p50 ms": 1000 * waits[len(waits) // 2],
        "p99 ms": 1000 * waits[len(waits) * 99 // 100],
        "MB/s": (counts["slice"] * CHECKPOINT + counts["end"] * BLOCK) / seconds / 1e6,
        "connections": workers * (SLOTS + 3),
    }


def cost(words):
    """Read name=milliseconds."""
    name, _, value = words.partition("=")
    return name, float(value)


def main():
    parser = command(__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--queued", type=int, default=100_000)
    parser.add_argument("--owners", type=int, default=3)
    parser.add_argument("--chain-seconds", type=float, default=30)
    parser.add_argument("--slice-seconds", type=float, default=1)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--costs", type=cost, nargs="+", default=[])
    parser.add_argument("--explain", action="store_true", help="print plans of statements above 2 ms")
    arguments = parser.parse_args()
    print(f"{arguments.queued} chains queued, {arguments.owners} owners; ms of the database's processor")
    times = arguments.chain_seconds, arguments.slice_seconds
    for number in arguments.workers:
        costs = measured(arguments.queued, number * SLOTS, arguments.owners, arguments.explain)
        print(f"{number} workers: " + ", ".join(f"{name} {ms:.2f}" for name, ms in costs.items()))
        figures = replayed(number, costs | dict(arguments.costs), *times, arguments.cores)
        print("    " + ", ".join(f"{name} {value:,.4g}" for name, value in figures.items()), flush=True)
