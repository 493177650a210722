"""Measure a background prediction of a million rows: seconds, and the peak memory of every process.

    python -m lab batch_prediction [--rows 1000000] [--interval predictive]

Starts the embedded service (an API process and a worker) on a temporary folder, fits a model of 4 x 250 draws
of 200 trees on Friedman's function, stores a dataset of that many rows, requests its predictions over HTTP,
and downloads them in every format. Peak memory is the kernel's count (VmHWM) for each process.
"""

import json
import threading
import time
from pathlib import Path

import httpx

from lab import command
from lab.service import embedded, fit, friedman, store, until


def family(pid):
    """List a process and all its descendants."""
    pids = [pid]
    for one in pids:
        for file in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                pids += [int(word) for word in file.read_text().split() if int(word) not in pids]
            except OSError:
                continue
    return pids


class Watch(threading.Thread):
    """Recorder of the peak memory of every process of a family."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peaks, self.names, self.done = pid, {}, {}, threading.Event()

    def run(self):
        while not self.done.wait(0.1):
            for pid in family(self.pid):
                try:
                    text = Path(f"/proc/{pid}/status").read_text()
                    command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                except OSError:
                    continue
                for line in text.splitlines():
                    if line.startswith("VmHWM"):
                        self.peaks[pid] = int(line.split()[1]) / 1024
                        self.names[pid] = " ".join(word for word in command[1:] if word)[:40]


def download(client, path, kind):
    began, size = time.perf_counter(), 0
    with client.stream("GET", f"{path}/result", headers={"Accept": kind}) as response:
        response.raise_for_status()
        for part in response.iter_bytes():
            size += len(part)
    return {"seconds": round(time.perf_counter() - began, 2), "megabytes": round(size / 1e6, 1)}


def measure(client, model, rows, arguments):
    began = time.perf_counter()
    body = {"dataset_id": rows, "interval": arguments.interval}
    response = client.post(f"/models/{model}/predictions", json=body)
    response.raise_for_status()
    path = response.headers["location"]
    until(client, path)
    seconds = time.perf_counter() - began
    kinds = ("application/vnd.apache.arrow.stream", "text/csv", "application/json")
    return {
        "rows": arguments.rows,
        "interval": arguments.interval,
        "seconds": round(seconds, 1),
        "rows_per_second": round(arguments.rows / seconds),
        "downloads": {kind: download(client, path, kind) for kind in kinds},
    }


def main():
    parser = command(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--interval", default="credible", choices=["credible", "predictive"])
    arguments = parser.parse_args()
    with embedded() as (address, url, pid), httpx.Client(base_url=address, timeout=120) as client:
        model = fit(client, url)
        rows = store(url, friedman(arguments.rows, 1).drop(["y"]), "rows")
        watch = Watch(pid)
        watch.start()
        report = measure(client, model, rows, arguments)
        watch.done.set()
        watch.join()
    peaks = sorted(((round(mb), watch.names[pid]) for pid, mb in watch.peaks.items()), reverse=True)
    print(json.dumps(report | {"peak_megabytes": peaks}, indent=1))
