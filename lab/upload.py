"""Measure the upload of a large CSV file: time, memory of every process, and stored bytes.

    python -m lab upload [--rows 1000000]

Twenty columns of many kinds are sent over HTTP to an embedded service (SQLite). The stored bytes are compared
with Parquet's for the same table and its own compressors, and with those read by a model of two columns.
"""

import contextlib
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from sqlalchemy import func, select

from app.store.engine import make_engine, session_scope
from app.store.tables import Dataset, DatasetBlock
from lab import command
from lab.service import embedded


def table(rows):
    """Simulate measurements, counts, levels, dates, words and booleans; a twentieth is missing."""
    random = np.random.default_rng(1)
    gaps = random.random(rows) < 0.05
    cells = {f"x{j}": np.round(random.normal(50, 10, rows), j % 5) for j in range(10)}
    cells |= {f"n{j}": random.integers(0, 10 ** (j + 1), rows).astype(float) for j in range(4)}
    columns = {name: pa.array(values, mask=gaps) for name, values in cells.items()}
    columns["full"] = pa.array(random.normal(size=rows))
    columns["town"] = pa.array([f"town {k}" for k in range(40)]).take(pa.array(random.integers(0, 40, rows)))
    columns["id"] = pa.array(np.char.add("id-", np.arange(rows).astype(str)).tolist())
    columns["day"] = pa.array(random.integers(0, 20_000, rows) * 86_400_000_000, pa.timestamp("us"))
    columns["ok"] = pa.array(random.random(rows) < 0.3)
    columns["y"] = pa.array(np.round(random.normal(size=rows), 3))
    return pa.table(columns)


class Peaks:
    """Largest resident memory of each descendant process, sampled continuously."""

    def __init__(self, root):
        self.root, self.found, self._ended = root, {}, threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _look(self):
        while not self._ended.wait(0.02):
            below = {self.root}
            for entry in sorted(int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()):
                with contextlib.suppress(OSError, IndexError):
                    status = Path(f"/proc/{entry}/status").read_text()
                    facts = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
                    if int(facts["PPid"]) in below or entry in below:
                        below.add(entry)
                        words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                        name = b" ".join(words[-4:]).decode()[-40:]
                        peak = int(facts.get("VmHWM", "0").split()[0]) / 1024
                        self.found[entry] = (name, max(peak, self.found.get(entry, ("", 0))[1]))


def main():
    arguments = command(__doc__)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    rows = arguments.parse_args().rows
    data = table(rows)
    with tempfile.TemporaryDirectory() as folder, embedded() as (address, url, pid):
        file = Path(folder) / "table.csv"
        pacsv.write_csv(data, file)
        print(f"{rows} rows x {data.num_columns} columns, {file.stat().st_size / 1e6:.0f} MB of CSV")
        slowest = 0.0
        with Peaks(pid) as peaks, httpx.Client(base_url=address, timeout=600) as client:
            answer = []

            def upload():
                with file.open("rb") as body:
                    answer.append(
                        client.post("/datasets", content=body, headers={"Content-Type": "text/csv"})
                    )

            thread = threading.Thread(target=upload)
            began = time.perf_counter()
            thread.start()
            while thread.is_alive():
                asked_at = time.perf_counter()
                httpx.get(f"{address}/health/live", timeout=60).raise_for_status()
                slowest = max(slowest, time.perf_counter() - asked_at)
                thread.join(0.05)
            seconds = time.perf_counter() - began
        dataset = answer[0].json()
        assert answer[0].status_code == 201, dataset
        print(
            f"uploaded, stored and profiled in {seconds:.1f} s; the slowest other answer took {slowest:.2f} s"
        )
        print(dataset["read_as"]["summary"])
        for entry, (name, peak) in sorted(peaks.found.items()):
            print(f"  peak {peak:6.0f} MiB  process {entry} {name}")
        report(data, dataset, url, folder)


def report(data, dataset, url, folder):
    for compression in ("snappy", "zstd"):
        file = Path(folder) / f"{compression}.parquet"
        pq.write_table(data, file, compression=compression)
        print(f"Parquet, {compression}: {file.stat().st_size / 1e6:.1f} MB")
    print(f"stored:          {dataset['num_bytes'] / 1e6:.1f} MB")
    engine = make_engine(url)
    with session_scope(engine, read_only=True) as session:
        stored = session.get(Dataset, dataset["id"])
        numbers = {column["name"]: place for place, column in enumerate(stored.columns)}
        size = select(func.sum(func.length(DatasetBlock.data))).where(
            DatasetBlock.dataset_id == stored.id,
            DatasetBlock.column_index.in_([numbers["x1"], numbers["y"]]),
        )
        print(f"read by a model of y on x1: {session.scalar(size) / 1e6:.1f} MB")
    engine.dispose()
