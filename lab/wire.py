"""Statements and bytes on the wire of a chain, and of an idle worker, to Postgres and to the broker.

    python -m lab wire [--workers 2] [--idle 30] [--chain-seconds 30]

Each worker (one slot, settings as they come) runs in a network namespace of its own, joined to that of the
servers by a pair of interfaces for Postgres and one for the broker. Bytes are those of the interfaces' own
counters, headers of packets included. That needs Linux and root; none of it can be reached from outside.

A model of 500 rows and ten columns is fitted by eight chains with default settings, in slices of a second and
again in slices of a twentieth, which tells what a slice costs from what a chain costs once. What many workers
of eight slots need, with chains of `--chain-seconds`, is arithmetic with these figures.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from sqlalchemy import make_url, text

from app.store import schema
from app.store.engine import make_engine
from lab import command
from lab.many_models import SETTINGS, default_settings, make_rows
from lab.scaling import LOADED, STATEMENTS, kind_of, scalar, until_ended
from sampler import warm
from tests.support.databases import Database
from tests.support.processes.servers import crashing_postgres, folder, valkey_in
from tests.support.processes.worker_service import make_service

SLOTS, CHAINS = 8, 8
NEW_NET = 0x40000000  # CLONE_NEWNET
LINKS = {"postgres": ("bsd", "10.231"), "broker": ("bsm", "10.232")}  # names and addresses of interfaces
SHORT_SLICE = 0.05
SERVERS = "bartserve-servers"


def ip(*words):
    """Run a command of iproute2."""
    subprocess.run(["ip", *map(str, words)], check=True)


@contextlib.contextmanager
def namespace(name):
    """Make a network namespace."""
    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        ip("netns", "delete", name)  # and its interfaces


@contextlib.contextmanager
def inside(name):
    """Be in a network namespace: processes started in this block stay there."""
    set_namespace = ctypes.CDLL(None, use_errno=True).setns
    with Path("/proc/thread-self/ns/net").open() as home, Path(f"/run/netns/{name}").open() as there:
        assert set_namespace(there.fileno(), NEW_NET) == 0
        try:
            yield
        finally:
            assert set_namespace(home.fileno(), NEW_NET) == 0


def join(worker, number):
    """Join the namespace of a worker to that of the servers, once for each of them."""
    for letter, network in LINKS.values():
        ends = [(worker, 2), (SERVERS, 1)]
        name = f"{letter}{number}"
        ip("link", "add", name, "netns", worker, "type", "veth", "peer", "name", name, "netns", SERVERS)
        for place, host in ends:
            ip("-n", place, "address", "add", f"{network}.{number}.{host}/30", "dev", name)
            ip("-n", place, "link", "set", name, "up")


def transferred():
    """Return bytes from and to the workers by server, as its interfaces have counted them."""
    with inside(SERVERS):
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
    counts = {}
    for server, (letter, _) in LINKS.items():
        fields = [line.split(":")[1].split() for line in lines if line.strip().startswith(letter)]
        counts[server] = [sum(int(each[place]) for each in fields) for place in (0, 8)]
    return counts


def observed(engine, act):
    """Do something; return seconds, slices stored, statements, and bytes by server, from and to workers."""
    scalar(engine, text("SELECT pg_stat_statements_reset()"))
    before, began = transferred(), time.monotonic()
    act()
    seconds, after = time.monotonic() - began, transferred()
    with engine.connect() as connection:
        listed = [(query, calls) for query, calls in connection.execute(STATEMENTS) if kind_of(query)]
    stored = sum(
        calls for query, calls in listed if query.startswith("UPDATE units") and "checkpoint" in query
    )
    flows = [b - a for server in LINKS for a, b in zip(before[server], after[server], strict=True)]
    return np.array([seconds, stored, sum(calls for _, calls in listed), *flows])


def shown(what, figures):
    """Print a line of statements, and of kilobytes in each direction."""
    statements, *flows = figures
    print(f"{what:<28}{statements:11.1f}" + "".join(f"{each / 1000:14.2f}" for each in flows), flush=True)


def measured(service, admin, workers, url, idle, slice_seconds):
    """Start workers in their namespaces; return what one does in an idle second, and what each chain does."""
    running = []
    for number in range(workers):
        place = make_url(url).set(host=f"{LINKS['postgres'][1]}.{number}.1", port=5432, query={})
        addresses = {
            "BARTSERVE_DATABASE_URL": place.render_as_string(hide_password=False),
            "BARTSERVE_REDIS_URL": f"redis://{LINKS['broker'][1]}.{number}.1:6379/0",
            "BARTSERVE_SLICE_SECONDS": str(slice_seconds),
        }
        with inside(worker_name(number)):
            running.append(service.start_worker(slots=1, **addresses))
    ready = text("SELECT count(*) FROM workers")
    service.eventually(lambda: scalar(admin, ready) == workers, 300)
    settings, table = default_settings(make_rows(0)), pa.Table.from_pandas(make_rows(0))
    until_ended(service, service.create_model(table=table, **settings))  # each has loaded its kernels
    time.sleep(5.0)
    rest = observed(admin, lambda: time.sleep(idle))
    fit = observed(admin, lambda: until_ended(service, service.create_model(table=table, **settings)))
    for worker in running:
        worker.terminate()
    for worker in running:
        worker.wait()
    each_second = rest[2:] / rest[0]
    return each_second / workers, np.concatenate([fit[1:2], fit[2:] - fit[0] * each_second]) / CHAINS


def worker_name(number):
    """Name the namespace of a worker."""
    return f"bartserve-worker-{number}"


def main():
    parser = command(__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--idle", type=float, default=30, help="seconds without work")
    parser.add_argument("--chain-seconds", type=float, default=30)
    parser.add_argument("--slice-seconds", type=float, default=1)
    options = parser.parse_args()
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        sys.exit("network namespaces need Linux and root: nothing was measured")
    warm()
    with contextlib.ExitStack() as stack:
        names = [SERVERS, *map(worker_name, range(options.workers))]
        for name in names:
            stack.enter_context(namespace(name))
        for number, name in enumerate(names[1:]):
            join(name, number)
        sockets = stack.enter_context(folder("bartserve-valkey-"))
        with inside(SERVERS):
            server = stack.enter_context(crashing_postgres(LOADED | {"listen_addresses": "*"}))
            reached = ("--port", "6379", "--bind", "0.0.0.0", "--protected-mode", "no")
            broker = stack.enter_context(valkey_in(sockets, signal.SIGINT, *reached))
        with (server.log.parent / "data" / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {LINKS['postgres'][1]}.0.0/16 trust\n")
        schema.migrate(server.url)
        engine = make_engine(server.url)
        stack.callback(engine.dispose)
        with engine.begin() as connection:
            connection.execute(text("CREATE EXTENSION pg_stat_statements"))
            connection.execute(text("SELECT pg_reload_conf()"))
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        service = stack.enter_context(make_service(Database("postgres", server.url, engine), broker, place))
        for each in SETTINGS:
            del service.environment[each]  # as they come
        known = service, engine, options.workers, server.url, options.idle
        idle, usual = measured(*known, options.slice_seconds)
        _, often = measured(*known, SHORT_SLICE)
    of_slice = (often[1:] - usual[1:]) / (often[0] - usual[0])
    of_chain = usual[1:] - usual[0] * of_slice
    print(f"slices of a chain: {usual[0]:.1f}, and {often[0]:.1f} where short\n")
    heads = [f"{server} {way}" for server in LINKS for way in ("in", "out")]
    print(f"{'kilobytes of the wire':<28}{'statements':>11}" + "".join(f"{head:>14}" for head in heads))
    shown("a worker, each second", idle)
    shown("a slice", of_slice)
    shown("a chain besides", of_chain)
    chain = of_chain + of_slice * options.chain_seconds / options.slice_seconds
    shown(f"a chain of {options.chain_seconds:g} s", chain)
    for workers in (10, 100, 1000):
        shown(f"{workers} workers, each second", workers * (idle + SLOTS * chain / options.chain_seconds))
