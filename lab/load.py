"""Put the team stack under load: two API processes, Postgres, Valkey, a worker that fits continuously.

    python -m lab load [--seconds 600] [--rate 20] [--overload 300]

An open loop: every request has a scheduled time, whether or not others have been answered, and its latency
counts from then. First there is a steady rate for the whole time, a mixture of predictions, reads, uploads
and deletions, with keys and quotas of a team, while fits follow each other; then an excessive rate for a
tenth of the time; then the steady rate again. The printed verdict and the exit code state whether:

- steady: there is no error and no refusal; memory, threads and open files of each part don't grow
- overload: every request is answered, by its result, 429 or 503, and afterwards latencies are as before
- nothing lost: every accepted fit succeeds, every stored dataset is there
"""

import asyncio
import contextlib
import json
import resource
import sys
import time
from collections import Counter, defaultdict

import httpx
import numpy as np

from lab import command
from lab.service import friedman
from lab.team_stack import stack, watch

PATIENCE = 40.0  # seconds after which a request counts as unanswered
FITS_OPEN, FITS_KEPT = 2, 4
DATASETS_KEPT = 10
GROWTH, GROWTH_MIB = 1.15, 40  # growth of memory from the first quarter to the last; more is a leak
KINDS = {"one row": 60, "100 rows": 15, "a model": 12, "a list": 8, "upload, delete": 5}  # percent


def csv_of(rows, seed):
    table = friedman(rows, seed)
    lines = [",".join(table.column_names)]
    lines += [",".join(f"{cell:.6g}" for cell in row.values()) for row in table.to_pylist()]
    return "\n".join(lines).encode()


class Client:
    """Client of kept connections with little overhead, since it shares the machine with the service."""

    def __init__(self, ports, key):
        self.ports, self.key = ports, key
        self.idle = defaultdict(list)

    async def ask(self, number, method, path, body=b"", kind="application/json"):
        """Return status and body."""
        port = self.ports[number % len(self.ports)]
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.key}\r\n"
        head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n" if body else "\r\n"
        idle = self.idle[port]
        now = time.monotonic()
        while idle and idle[0][2] < now - 3:  # the server closes connections that are idle for five seconds
            idle.pop(0)[1].close()
        if idle:
            reader, writer, _ = idle.pop()
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(head.encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            lines = answer.split("\r\n")
            length = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
            content = await reader.readexactly(length)
        except BaseException:
            writer.close()
            raise
        if "connection: close" in lines:
            writer.close()
        else:
            idle.append((reader, writer, time.monotonic()))
        return int(lines[0].split()[1]), content

    def close(self):
        for connections in self.idle.values():
            for _, writer, _ in connections:
                writer.close()


class Load:
    """Requests of the load and their results."""

    def __init__(self, client, model, upload):
        self.client, self.upload = client, upload
        self.model = f"/models/{model}"
        rows = friedman(300, 1).drop(["y"]).to_pylist()
        self.one = [json.dumps({"rows": [row]}).encode() for row in rows]
        self.many = json.dumps({"rows": rows[:100]}).encode()
        self.kinds = np.random.default_rng(0).choice(
            list(KINDS), p=np.array(list(KINDS.values())) / sum(KINDS.values()), size=10_000
        )
        self.datasets, self.deleted = [], set()

    async def run(self, rate, seconds):
        """Return latencies in ms by kind, and statuses."""
        latencies, statuses = defaultdict(list), Counter()

        async def one(number, due):
            kind = self.kinds[number % len(self.kinds)]
            try:
                status = await asyncio.wait_for(self._ask(kind, number), PATIENCE)
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                status = type(error).__name__
            statuses[status] += 1
            if isinstance(status, int) and status < 400:
                latencies[kind].append(1000 * (time.perf_counter() - due))

        began, sent = time.perf_counter(), set()
        for number in range(int(rate * seconds)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            task = asyncio.create_task(one(number, due))
            sent.add(task)
            task.add_done_callback(sent.discard)
        while sent:
            await asyncio.wait(sent)
        return latencies, statuses, time.perf_counter() - began

    async def _ask(self, kind, number):
        ask = self.client.ask
        if kind == "one row":
            return (await ask(number, "POST", f"{self.model}/predict", self.one[number % 300]))[0]
        if kind == "100 rows":
            return (await ask(number, "POST", f"{self.model}/predict", self.many))[0]
        if kind == "a model":
            return (await ask(number, "GET", self.model))[0]
        if kind == "a list":
            return (await ask(number, "GET", "/datasets?limit=20"))[0]
        if len(self.datasets) >= DATASETS_KEPT:
            gone = self.datasets.pop(0)
            self.deleted.add(gone)
            return (await ask(number, "DELETE", f"/datasets/{gone}"))[0]
        status, content = await ask(number, "POST", "/datasets", self.upload, "text/csv")
        if status == 201:
            self.datasets.append(json.loads(content)["id"])
        return status


class Fits:
    """Sequence of fits, started one after the other, that records all accepted ones."""

    def __init__(self, client, dataset):
        self.client, self.dataset = client, dataset
        self.accepted, self.done, self.refused = [], [], Counter()
        self.stop = False

    async def run(self):
        body = {"dataset_id": self.dataset, "target": "y", "num_chains": 2}
        number = 0
        while not self.stop:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self.look()
                number += 1
                if len(self.accepted) < FITS_OPEN:
                    status, content = await self.client.ask(
                        number, "POST", "/models", json.dumps(body | {"seed": number}).encode()
                    )
                    if status == 202:
                        self.accepted.append(json.loads(content)["id"])
                    else:
                        self.refused[status] += 1
            await asyncio.sleep(1)

    async def look(self):
        for model in list(self.accepted):
            status, content = await self.client.ask(0, "GET", f"/models/{model}")
            state = json.loads(content)["state"] if status == 200 else status
            if state not in {"queued", "running", 429, 503}:
                self.accepted.remove(model)
                self.done.append((model, state))
        kept = [model for model, _ in self.done if model is not None]
        for model in kept[:-FITS_KEPT]:
            await self.client.ask(0, "DELETE", f"/models/{model}")
            at = next(i for i, (name, _) in enumerate(self.done) if name == model)
            self.done[at] = (None, self.done[at][1])

    async def finish(self):
        deadline = time.monotonic() + 600
        while self.accepted and time.monotonic() < deadline:
            await self.look()
            await asyncio.sleep(1)


def first_model(client, content):
    """Create a dataset and a finished model."""
    response = client.post(
        "/datasets", content=content, headers={"Content-Type": "text/csv"}
    ).raise_for_status()
    dataset = response.json()["id"]
    body = {"dataset_id": dataset, "target": "y", "num_burnin": 200, "num_draws": 100}
    model = client.post("/models", json=body).raise_for_status().json()["id"]
    deadline = time.monotonic() + 600
    while (state := client.get(f"/models/{model}").json()["state"]) != "succeeded":
        assert state in {"queued", "running"}, state
        assert time.monotonic() < deadline, "the first fit doesn't end"
        time.sleep(0.5)
    return dataset, model


def table(title, latencies, statuses, seconds):
    answered = sum(len(latency) for latency in latencies.values())
    print(
        f"\n{title}: {sum(statuses.values()) / seconds:.1f} requests a second, {answered / seconds:.1f} done"
    )
    counts = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items(), key=str))
    print(f"  {counts}")
    print("  kind                 count      p50 ms      p99 ms      max ms")
    everything = [value for latency in latencies.values() for value in latency]
    for kind, latency in [*latencies.items(), ("all", everything)]:
        if latency:
            p50, p99 = np.percentile(latency, [50, 99])
            print(f"  {kind:16s} {len(latency):9d} {p50:11.1f} {p99:11.1f} {max(latency):11.1f}")
    return float(np.median(everything)) if everything else float("inf")


def grown(samples, faults):
    """Print each part's resources in the first and last quarter, after a warm-up; list those that grew."""
    print("\n  part       MiB before   after   threads before  after   files before  after")
    for name, readings in samples.items():
        later = readings[len(readings) // 10 :]
        quarter = max(len(later) // 4, 1)
        before, after = (np.median(part, axis=0) for part in (later[:quarter], later[-quarter:]))
        print(
            f"  {name:10s} {before[0]:10.0f} {after[0]:7.0f} {before[1]:16.0f} {after[1]:6.0f} "
            f"{before[2]:14.0f} {after[2]:6.0f}"
        )
        if after[0] > GROWTH * before[0] + GROWTH_MIB:
            faults.append(f"the memory of {name} grew from {before[0]:.0f} to {after[0]:.0f} MiB")
        if after[1] > before[1] + 20 or after[2] > before[2] + 50:
            faults.append(f"{name} keeps threads or files")


async def drive(arguments, ports, key, parts, dataset, model):
    faults = []
    client = Client(ports, key)
    load, fits = Load(client, model, csv_of(100, 3)), Fits(client, dataset)
    samples = defaultdict(list)
    fitting = asyncio.create_task(fits.run())
    await load.run(arguments.rate, min(5, arguments.seconds))  # caches fill
    watching = asyncio.create_task(watch(parts, samples))
    latencies, statuses, seconds = await load.run(arguments.rate, arguments.seconds)
    watching.cancel()
    before = table(
        f"steady, {arguments.rate} a second for {arguments.seconds:.0f} s", latencies, statuses, seconds
    )
    bad = {s: n for s, n in statuses.items() if not (isinstance(s, int) and s < 400)}
    if bad:
        faults.append(f"steady: {bad}")
    grown(samples, faults)

    short = max(10.0, arguments.seconds / 10)
    latencies, statuses, seconds = await load.run(arguments.overload, short)
    table(f"overload, {arguments.overload} a second for {short:.0f} s", latencies, statuses, seconds)
    strange = {s: n for s, n in statuses.items() if not (isinstance(s, int) and (s < 400 or s in {429, 503}))}
    if strange:
        faults.append(f"overload: {strange}")
    if not {429, 503} & set(statuses):
        print("  (nothing was refused: a higher --overload shows more)")

    await asyncio.sleep(11)  # a window of the rate limit
    latencies, statuses, seconds = await load.run(arguments.rate, short)
    after = table(f"recovered, {arguments.rate} a second for {short:.0f} s", latencies, statuses, seconds)
    if set(statuses) - {200, 201, 204} or after > 3 * before + 20:
        faults.append(f"after the overload: {dict(statuses)}, p50 {after:.0f} ms, before it {before:.0f} ms")

    fits.stop = True
    await fitting
    await fits.finish()
    await lost(client, load, fits, faults)
    client.close()
    return faults


async def lost(client, load, fits, faults):
    """List accepted objects that are missing."""
    states = Counter(state for _, state in fits.done)
    _, content = await client.ask(0, "GET", "/datasets?limit=200")
    listed = {item["id"] for item in json.loads(content)["items"]}
    print(f"\nfits: {dict(states)}, refused {dict(fits.refused)}, not ended {len(fits.accepted)}")
    print(f"datasets: {len(load.datasets)} should be there, {len(set(load.datasets) & listed)} are")
    if set(states) - {"succeeded"} or fits.accepted or not fits.done:
        faults.append("not every fit that was accepted succeeded")
    if set(load.datasets) - listed:
        faults.append("a dataset is lost")
    missing = [model for model, _ in fits.done if model is not None]
    for model in missing:
        status, _ = await client.ask(0, "GET", f"/models/{model}")
        if status != 200:
            faults.append(f"model {model} is lost")


def main():
    parser = command(__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--overload", type=float, default=300)
    arguments = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with stack() as (ports, key, parts, log):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, limit[1]), limit[1]))  # of this process alone
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{ports[0]}", headers=headers, timeout=60) as client:
            dataset, model = first_model(client, csv_of(1000, 0))
        faults = asyncio.run(drive(arguments, ports, key, parts, dataset, model))
        errors = [line for line in log.read_text(errors="replace").splitlines() if "ERROR" in line]
    for line in errors[:10]:
        print(f"log: {line}")
    print(f"\n{'FAIL: ' + '; '.join(faults) if faults else 'PASS'}")
    sys.exit(bool(faults))
