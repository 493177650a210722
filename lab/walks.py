"""Count the source files that one request enters, by a profiler in the process of the application.

    python -m lab walks [--files REQUEST]

A reader follows a request from file to file: their number is what a change costs to understand. Each request
is sent twice, and the second counts, so that neither imports nor caches do. Work of other processes (chains,
readers of files) isn't in it.
"""

import tempfile
import threading
from pathlib import Path

import numpy as np
from fastapi.testclient import TestClient

from app.application import create_app
from app.settings import Settings
from app.store import schema
from lab import command
from worker.context import Context
from worker.units import run_one

ROOT = Path(__file__).parents[1]
SOURCES = tuple(f"{ROOT / name}/" for name in ("app", "bartserve", "sampler", "worker"))
GOALS = {"predict a row": 45, "POST /models": 60, "report 40 outcomes": 60, "effect of a feature": 55}
FIT = {"num_trees": 10, "num_chains": 2, "num_draws": 40, "num_burnin": 60, "thin": 1, "linear": False}
entered: set[str] = set()


def follow(frame, event, _):
    """Note the file of a function of ours that is called (a profiler)."""
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(SOURCES) and code.co_name != "<module>":
        entered.add(code.co_filename.removeprefix(f"{ROOT}/"))


def rows_of(count, rng):
    """Simulate rows with their outcome."""
    x = rng.uniform(size=(count, 2)).round(6)
    return [{"a": a, "b": b, "y": 3 * a + b + 0.1 * rng.normal()} for a, b in x.tolist()]


def requests(dataset, model, rng):
    """Return path and body of each request, with rows of its own."""
    [row], reported = rows_of(1, rng), rows_of(40, rng)
    return {
        "predict a row": (f"/models/{model}/predict", {"rows": [{"a": row["a"], "b": row["b"]}]}),
        "POST /models": ("/models", {"dataset_id": dataset, "target": "y", **FIT}),
        "report 40 outcomes": (f"/models/{model}/outcomes", {"rows": reported}),
        "effect of a feature": (f"/models/{model}/partial-dependence", {"features": ["a"]}),
    }


def walks():
    """Return the files that the second of each request enters."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database_url=f"sqlite:///{folder}/walks.db", data_dir=folder, redis_url=None)
        schema.migrate(settings.database_url)
        threading.setprofile(follow)  # of the threads that the application starts
        with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
            table = "a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in map(dict.values, rows_of(60, rng)))
            sent = client.post("/datasets", content=table, headers={"Content-Type": "text/csv"})
            dataset = sent.raise_for_status().json()["id"]
            path, body = requests(dataset, "", rng)["POST /models"]
            model = client.post(path, json=body).raise_for_status().json()["id"]
            context = Context(settings, "walks")
            while run_one(context):
                pass
            context.close()
            found = {}
            for _ in range(2):
                for name, (path, body) in requests(dataset, model, rng).items():
                    entered.clear()
                    answer = client.post(path, json=body)
                    assert answer.is_success, answer.text
                    found[name] = sorted(entered)
        threading.setprofile(None)
    return found


def main():
    parser = command(__doc__)
    parser.add_argument("--files", choices=GOALS, help="print the files of this request")
    options = parser.parse_args()
    found = walks()
    for name, goal in GOALS.items():
        print(f"{name:20} {len(found[name]):3d} files (goal {goal})")
    if options.files:
        print(*found[options.files], sep="\n")
