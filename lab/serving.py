"""Measure predictions over HTTP on loopback with cached models of 1,000 draws of 200 trees.

    python -m lab serving [--seconds 20] [--models trees line log]

The models are of trees alone, with a line beside them, and of the logarithm of an outcome, also with a line.
One row at 50 and at 200 requests a second, open loop (each request has a scheduled time, whether or not
others are answered; its latency counts from then): p50 and p99, and those of an empty answer (/health/live)
of the same server; and the API's processor time per request (on a busy machine the steadier figure). 10,000
rows as an Arrow stream: the mean alone, and with 90% intervals, as multiples of the prediction kernel's own
time, measured in turn with the requests.
"""

import asyncio
import io
import json
import os
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pyarrow as pa

from app.store import draws, models
from app.store.engine import make_engine, session_scope
from lab import command
from lab.service import embedded, fit, friedman
from sampler import Posterior
from sampler.posterior.kernels.tree_sums import BLOCK

MODELS = {
    "trees": {"linear": False, "transform": "none"},
    "line": {"linear": True, "transform": "none"},
    "log": {"linear": True, "transform": "log"},
}
ARROW = "application/vnd.apache.arrow.stream"
RATE, HIGH_RATE, ROWS, REPEATS = 50, 200, 10_000, 15
EARLY = 0.002  # seconds before a request is due from which on the client doesn't sleep: its timers are late


async def exchange(reader, writer, message):
    writer.write(message)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    status = head.split()[1]
    assert status in {"200", "503"}, head
    length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length"))
    await reader.readexactly(length)
    return status == "200"


async def open_loop(address, messages, rate, seconds):
    """Return latencies in ms from the time each request was due, infinite where the service was too busy."""
    host, port = urlsplit(address).hostname, urlsplit(address).port
    idle = [await asyncio.open_connection(host, port) for _ in range(8)]
    latencies, sent = [], []

    async def one(due, message):
        # The one idle for longest: the server closes connections that are idle for five seconds.
        connection = idle.pop(0) if idle else await asyncio.open_connection(host, port)
        answered = await exchange(*connection, message)
        latencies.append(1000 * (time.perf_counter() - due) if answered else float("inf"))
        idle.append(connection)

    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter() - EARLY))
        while time.perf_counter() < due:  # noqa: ASYNC110  a moment is awaited, no event
            await asyncio.sleep(0)
        sent.append(asyncio.create_task(one(due, messages[number % len(messages)])))
    await asyncio.gather(*sent)
    for _, writer in idle:
        writer.close()
    return latencies


def message(method, path, body=b""):
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def shares(latencies):
    p50, p99, most = np.quantile(latencies, [0.5, 0.99, 1], method="higher").round(2).tolist()
    return {"p50_ms": p50, "p99_ms": p99, "max_ms": most, "refused": int(np.isinf(latencies).sum())}


def processor_seconds(service):
    """Return the processor time of the API, a child of the process `service`; NaN where it isn't known."""
    try:
        children = Path(f"/proc/{service}/task/{service}/children").read_text().split()
        api = next(c for c in children if b"api" in Path(f"/proc/{c}/cmdline").read_bytes().split(b"\0"))
        tasks = Path(f"/proc/{api}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
    except (OSError, StopIteration):
        return float("nan")


def single_rows(address, path, rows, seconds, service):
    report = {}
    bodies = {
        "credible": [{"rows": [row]} for row in rows],
        "predictive": [{"rows": [row], "interval": "predictive"} for row in rows],
    }
    for name, sent in bodies.items():
        messages = [message("POST", path, json.dumps(body).encode()) for body in sent]
        asyncio.run(open_loop(address, messages, RATE, 2))
        for rate in (RATE, HIGH_RATE):
            before = processor_seconds(service)
            percentiles = shares(asyncio.run(open_loop(address, messages, rate, seconds)))
            percentiles["processor_ms"] = round(
                1000 * (processor_seconds(service) - before) / (rate * seconds), 2
            )
            report[f"{name}, {rate} a second"] = percentiles
    report["empty_answer"] = shares(
        asyncio.run(open_loop(address, [message("GET", "/health/live")], RATE, 5))
    )
    return report


def many_rows(client, path, posterior, table):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue()
    codes = posterior.encode(table).codes
    chosen = np.arange(posterior.num_chains * posterior.num_draws)

    def kernel():
        for start in range(0, ROWS, BLOCK):
            posterior.law.ensemble.sums(codes[:, start : start + BLOCK], chosen)

    def request(**query):
        headers = {"Content-Type": ARROW, "Accept": ARROW}
        client.post(path, content=content, headers=headers, params=query).raise_for_status()

    requests = {
        "kernel": kernel,
        "mean": lambda: request(target="mean"),
        "credible": lambda: request(interval="credible"),
        "predictive": lambda: request(interval="predictive"),
    }
    times = {name: [] for name in requests}
    for _ in range(REPEATS):
        for name, run in requests.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    ratios = {
        f"{name}_over_kernel": round(float(np.median(np.divide(times[name], times["kernel"]))), 2)
        for name in requests
    }
    return {name: f"{1000 * np.median(seconds):.1f} ms" for name, seconds in times.items()} | ratios


def main():
    parser = command(__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--models", nargs="+", default=[*MODELS], choices=[*MODELS])
    arguments = parser.parse_args()
    table = friedman(ROWS, 1).drop(["y"])
    rows = table.slice(0, 200).to_pylist()
    with embedded() as (address, url, service), httpx.Client(base_url=address, timeout=120) as client:
        engine = make_engine(url)
        for name in arguments.models:
            print(f"{name}, load {os.getloadavg()[0]:.1f}", flush=True)
            model = fit(client, url, positive=name == "log", **MODELS[name])
            path = f"/models/{model}/predict"
            report = {"one row": single_rows(address, path, rows, arguments.seconds, service)}
            with session_scope(engine, read_only=True) as session:
                posterior = Posterior.from_blocks(models.header(session, model), draws.read(session, model))
            report["10,000 rows as Arrow"] = many_rows(client, path, posterior, table)
            print(json.dumps(report, indent=1), flush=True)
        engine.dispose()
