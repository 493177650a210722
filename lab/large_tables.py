"""Measure the service on a large table: seconds and peak memory of every process, phase by phase.

    python -m lab large_tables [--rows 1000000] [--columns 20] [--format csv] [--trees 200]

Writes a file of that many rows by blocks, uploads it to an embedded service (SQLite), fits two short chains
to nine tenths of its rows, scores them on the others, and predicts all rows in the background. The peak of a
phase is the kernel's count (VmHWM), which is reset when the phase begins. A fit is right where no process
takes more than `rows x (columns + 160)` bytes and a GB.
"""

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from lab import command
from lab.batch_prediction import Watch, download, family
from lab.service import embedded, until

BLOCK = 1 << 17  # rows simulated at once
DIGITS = 3  # of the cells, as of measurements
ROW, MORE = 160, 10**9  # bytes that a fit may take
GIB, OPEN = 1 << 30, ("queued", "running")
TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}


def blocks(rows, columns):
    """Simulate Friedman's function of five of the columns, in blocks of rows."""
    random = np.random.default_rng(0)
    for start in range(0, rows, BLOCK):
        x = random.uniform(size=(columns, min(BLOCK, rows - start)))
        f = 10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]
        cells = {f"x{j + 1}": np.round(each, DIGITS) for j, each in enumerate(x)}
        yield pa.record_batch(cells | {"y": np.round(f + random.normal(size=f.size), DIGITS)})


def write(file, arguments):
    """Write the table to a file by blocks."""
    batches = blocks(arguments.rows, arguments.columns)
    first = next(batches)
    writer = pq.ParquetWriter if arguments.format == "parquet" else pacsv.CSVWriter
    with writer(str(file), first.schema) as out:
        out.write(pa.Table.from_batches([first]))
        for batch in batches:
            out.write(pa.Table.from_batches([batch]))


class Phases:
    """Seconds and peaks of the phases of a service's work."""

    def __init__(self, pid):
        self.pid, self.peaks = pid, {}

    @contextlib.contextmanager
    def __call__(self, name):
        for pid in family(self.pid):
            with contextlib.suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # resets the peak
        watch = Watch(self.pid)
        watch.start()
        began = time.perf_counter()
        yield
        print(f"{name:32} {time.perf_counter() - began:8.1f} s")
        watch.done.set()
        watch.join()
        for pid, mib in sorted(watch.peaks.items()):
            print(f"    peak {mib:7.0f} MiB  process {pid} {watch.names[pid]}")
        self.peaks[name] = max(watch.peaks.values()) * (1 << 20)
        sys.stdout.flush()


def created(response):
    response.raise_for_status()
    return response.headers["location"]


def measure(client, file, arguments, phase):
    with phase("upload"), file.open("rb") as body:
        kind = {"Content-Type": TYPES[arguments.format]}
        response = client.post("/datasets", content=body, headers=kind)
        response.raise_for_status()
    dataset = response.json()
    print(f"    {dataset['read_as']['summary']}; stored {dataset['num_bytes'] / 1e6:.0f} MB")
    body = {
        "dataset_id": dataset["id"],
        "target": "y",
        "num_trees": arguments.trees,
        "holdout": 0.1,
        "seed": 0,
    }
    body |= {"num_chains": 2, "num_burnin": 8, "num_draws": 4, "thin": 1}
    with phase("preparation and two chains"):
        model = created(client.post("/models", json=body))
        while any(each["state"] in OPEN for each in client.get(model).json()["progress"]["chains"]):
            time.sleep(0.2)
    with phase("verdict and held-out scores"):
        holdout = until(client, model, 7200)["holdout"]
    print(
        f"    RMSE of {holdout['rows']} rows: {holdout['rmse']:.3f}, of a line {holdout['linear_rmse']:.3f}"
    )
    with phase("prediction in the background"):
        path = created(client.post(f"{model}/predictions", json={"dataset_id": dataset["id"]}))
        until(client, path, 7200)
    with phase("download as Arrow"):
        got = download(client, path, "application/vnd.apache.arrow.stream")
    print(f"    {got['megabytes']} MB")


def main():
    parser = command(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--format", default="csv", choices=list(TYPES))
    parser.add_argument("--trees", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"table.{arguments.format}"
        write(file, arguments)
        size = file.stat().st_size
        print(
            f"{arguments.rows} rows x {arguments.columns} columns, {size / 1e6:.0f} MB of {arguments.format}"
        )
        os.environ |= {"BARTSERVE_MAX_BODY_BYTES": str(4 * GIB), "BARTSERVE_FIT_SECONDS": "1e6"}
        with embedded() as (address, _, pid), httpx.Client(base_url=address, timeout=3600) as client:
            phase = Phases(pid)
            measure(client, file, arguments, phase)
    limit = arguments.rows * (arguments.columns + ROW) + MORE
    most = max(size for name, size in phase.peaks.items() if "chains" in name or "scores" in name)
    right = "RIGHT" if most <= limit else "WRONG"
    print(f"\n{right}: a process of the fit takes {most / 1e6:.0f} MB; allowed are {limit / 1e6:.0f}")
