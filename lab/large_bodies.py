"""Measure how long the API answers nobody while it is sent the largest bodies.

    python -m lab large_bodies [--only predict] [--bytes 16777216]

Every route with a JSON body gets bodies of its largest size: each field of its schema as a list of numbers,
of texts, of empty lists and objects, of rows, as lists in lists, as an object of many names, and as one long
text; and unfinished ones. Meanwhile another client asks for /health/live again and again. A line has the
status, the time of the answer, the median and worst time of those of /health/live, and the API's memory at
its most. The command fails where a median is beyond 50 ms or a worst time beyond 500 ms: on a quiet machine.
"""

import json
import threading
import time
from pathlib import Path

import httpx
import numpy as np

from lab import command
from lab.service import embedded, fit, friedman, until

MEDIAN, WORST = 0.05, 0.5  # seconds
ROW = json.dumps({f"x{j}": 0.25 for j in range(1, 11)}, separators=(",", ":"))
ENTRIES = {"numbers": "1", "decimals": "0.125", "texts": '"a"', "lists": "[]", "objects": "{}", "rows": ROW}
ENTRIES |= {"rows as lists": "[0.25,0.5,0.75,1]", "nulls": "null"}


def shapes(size):
    """Yield values of a field of about that many bytes, by name."""
    for name, entry in ENTRIES.items():
        listed = ",".join([entry] * (size // (len(entry) + 1)))
        yield name, f"[{listed}]"
        yield f"{name} in a list", f"[[{listed}]]"
        yield f"{name} in a column", f'{{"x1":[{listed}]}}'
    yield "90,000 rows", "[" + ",".join([ROW] * min(90_000, size // (len(ROW) + 1))) + "]"
    column = "[" + ",".join(["0.25"] * 90_000) + "]"
    columns = ",".join(f'"x{j}":{column}' for j in range(1, 11) if j * len(column) < size)
    yield "90,000 rows in columns", f"{{{columns}}}"
    split = ",".join(["[0.25,0.25,0.25,0.25,0.25,0.25,0.25,0.25,0.25,0.25]"] * min(90_000, size // 55))
    names = ",".join(f'"x{j}"' for j in range(1, 11))
    yield "90,000 rows split", f'{{"columns":[{names}],"data":[{split}]}}'
    yield "names", "{" + ",".join(f'"{j:x}":1' for j in range(size // 11)) + "}"
    yield "a text", '"' + "a" * size + '"'
    yield "escapes", '"' + r"\u0041" * (size // 6) + '"'
    yield "blanks", " " * size + "1"
    yield "unfinished", "[" + "[0]," * (size // 4)
    yield "deep", "[" * size


def bodies(schema, size):
    """Yield large JSON objects for a schema, by name: each field in each shape."""
    for field in schema.get("properties", {"": None}):
        for name, value in shapes(size - 2000):
            yield f"{field}: {name}", f'{{"{field}":{value}}}'


def routes(client, model):
    """Yield method, path and schema of each route that takes a JSON body."""
    document = client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            if "application/json" in content:
                schema = content["application/json"]["schema"]
                named = document["components"]["schemas"].get(
                    schema.get("$ref", "").rpartition("/")[2], schema
                )
                yield method.upper(), path.replace("{model_id}", model), named


class Watch:
    """Times of /health/live while a block runs."""

    def __init__(self, address):
        self._address, self._is_over, self.seconds = address, False, []

    def __enter__(self):
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over = True
        self._thread.join()

    def _ask(self):
        with httpx.Client(base_url=self._address, timeout=60) as client:
            while not self._is_over:
                began = time.perf_counter()
                client.get("/health/live").raise_for_status()
                self.seconds.append(time.perf_counter() - began)
                time.sleep(0.005)


def api_process(service):
    children = Path(f"/proc/{service}/task/{service}/children").read_text().split()
    return next(c for c in children if b"api" in Path(f"/proc/{c}/cmdline").read_bytes().split(b"\0"))


def most_memory(process):
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


def main():
    parser = command(__doc__)
    parser.add_argument("--only", default="", help="a part of the paths")
    parser.add_argument("--field", default="", help="a part of the names of bodies")
    parser.add_argument("--bytes", type=int, default=16 * 1024 * 1024)
    arguments = parser.parse_args()
    beyond = 0
    with embedded() as (address, url, service), httpx.Client(base_url=address, timeout=600) as client:
        model, api = fit(client, url), api_process(service)
        until(client, f"/models/{model}")
        rows = friedman(1, 1).drop(["y"]).to_pylist()
        client.post(f"/models/{model}/predict", json={"rows": rows}).raise_for_status()
        for method, path, schema in routes(client, model):
            if arguments.only not in path:
                continue
            for name, body in bodies(schema, arguments.bytes):
                if arguments.field not in name:
                    continue
                sent = body.encode()
                with Watch(address) as watch:
                    began = time.perf_counter()
                    answer = client.request(
                        method, path, content=sent, headers={"content-type": "application/json"}
                    )
                    took = time.perf_counter() - began
                    time.sleep(0.1)
                median, worst = float(np.median(watch.seconds)), max(watch.seconds)
                beyond += (is_beyond := median > MEDIAN or worst > WORST)
                print(
                    f"{method} {path.replace(model, 'M')} {name}: {answer.status_code} {took:.1f} s, live "
                    f"{1000 * median:.0f} ms, worst {1000 * worst:.0f} ms, {most_memory(api)} MiB"
                    f"{' BEYOND' if is_beyond else ''}",
                    flush=True,
                )
    if beyond:
        raise SystemExit(f"{beyond} beyond {1000 * MEDIAN:.0f} or {1000 * WORST:.0f} ms")
