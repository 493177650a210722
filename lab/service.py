"""Common parts of the measurements of the running service: Friedman's data, and an embedded service."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa

from app.settings import Settings
from app.store import datasets, schema
from app.store.engine import make_engine, session_scope
from sampler import describe


def friedman(rows, seed):
    """Simulate ten columns, five of which matter, and y."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(size=(rows, 10))
    f = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return pa.table({f"x{j + 1}": x[:, j] for j in range(10)} | {"y": f + generator.normal(size=rows)})


def store(url, table, name):
    """Store a table directly in the database, because the upload is not measured."""
    columns = [summary.to_json() for summary in describe(table.slice(0, 1000))]
    engine = make_engine(url)
    with session_scope(engine) as session:
        dataset = datasets.save(
            session, datasets.encode(table), owner="local", name=name, columns=columns, warnings=[]
        )
    engine.dispose()
    return dataset.id


@contextlib.contextmanager
def embedded():
    """Run `bartserve up` on a temporary folder and a free port; yield address, database URL, process id."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        url = Settings(data_dir=folder, database_url="", redis_url=None).database_url
        schema.migrate(url)
        with Path(folder, "log").open("wb") as log:
            service = subprocess.Popen(
                [sys.executable, "-m", "app.cli", "up", "--port", str(port), "--data-dir", folder],
                stdout=log,
                stderr=log,
                env=os.environ | {"BARTSERVE_DATABASE_URL": url},
            )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_ready(address)
            yield address, url, service.pid
        finally:
            service.terminate()
            service.wait(30)


def _wait_ready(address):
    for _ in range(600):
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{address}/health/ready").status_code == 200:
                return
        time.sleep(0.1)
    raise TimeoutError("the service doesn't get ready")


def until(client, path, seconds=600):
    """Wait until the object at that address has succeeded, and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        state = client.get(path).json()
        if state["state"] not in {"queued", "running"}:
            assert state["state"] == "succeeded", state["error"]
            return state
        time.sleep(0.2)
    raise TimeoutError(path)


def fit(client, url, *, positive=False, **settings):
    """Fit a model of 1,000 draws of 200 trees on 1,000 rows, and return its id."""
    table = friedman(1000, 0)
    if positive:
        table = table.set_column(10, "y", pa.array(np.exp(table["y"].to_numpy() / 8)))
    body = {"dataset_id": store(url, table, "training"), "target": "y", **settings}
    response = client.post("/models", json=body)
    response.raise_for_status()
    until(client, response.headers["location"])
    return response.json()["id"]
