"""Make the stored databases of released revisions, in a checkout.

    python -m tests.data.released [REVISION ...]

For each revision its last commit is checked out beside this one, and its `bartserve up` fits a small model
over HTTP. The resulting database is written as SQL text (NNNN.sql), requests and responses as JSON
(NNNN.json). Each takes a minute, mostly for compiling. Default: the revisions that have no database yet.

With `--from NNNN` nothing is run: the database of that revision is migrated to the others. The result has the
tables of its revision, with data written by the code of revision NNNN; its JSON says so.
"""

import contextlib
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from alembic import command
from sqlalchemy import create_engine

from app.store import schema
from tests.support.processes.embedded_service import clean_environment, running_up
from tests.support.waiting import eventually

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
MINUTES = 10 * 60.0
FIT = {
    "target": "y",
    "name": "released",
    "num_trees": 10,
    "num_chains": 2,
    "num_burnin": 30,
    "num_draws": 20,
    "thin": 1,
    "moves": "growprune",
    "holdout": 0.2,
    "seed": 3,
}
ROWS = [{"x": 0.5, "colour": "red"}, {"x": 7.25, "colour": "green"}, {"x": None, "colour": "blue"}]
ASKED = {"rows": ROWS, "level": [0.5, 0.9], "interval": "predictive"}
BATCHES = "0003"  # the first revision with predictions in the background
# The fields that all revisions return; later ones return more.
TOLD = ("draws", "mean", "sd", "intervals")


def main(revisions: list[str]) -> None:
    """Make the requested databases."""
    if revisions[:1] == ["--from"]:
        for revision in revisions[2:]:
            take(revisions[1], revision)
        return
    commits = last_commits()
    for revision in revisions or [name for name in commits if not (HERE / f"{name}.sql").exists()]:
        print(revision, commits[revision], flush=True)
        with checked_out(commits[revision]) as tree, tempfile.TemporaryDirectory() as folder:
            answers = live(tree, Path(folder))
            (HERE / f"{revision}.sql").write_text(dumped(Path(folder) / "data" / "bartserve.db"))
        document = json.dumps({"commit": commits[revision], **answers}, indent=1)
        (HERE / f"{revision}.json").write_text(document + "\n")


def take(source: str, revision: str) -> None:
    """Copy the rows that one revision left into the tables of another."""
    document = json.loads((HERE / f"{source}.json").read_text()) | {"taken_from": source}
    if revision < BATCHES:
        document["prediction"] = None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bartserve.db"
        connection = sqlite3.connect(file)
        connection.executescript((HERE / f"{source}.sql").read_text())
        connection.close()
        engine = create_engine(f"sqlite:///{file}")
        with engine.connect() as opened:
            move = command.downgrade if revision < source else command.upgrade
            move(schema.config(opened), revision)
            opened.commit()
        engine.dispose()
        (HERE / f"{revision}.sql").write_text(dumped(file))
    (HERE / f"{revision}.json").write_text(json.dumps(document, indent=1) + "\n")


def last_commits() -> dict[str, str]:
    """Return the last commit of each revision."""
    databases = {}
    for commit in git("rev-list", "--first-parent", "--reverse", "HEAD").split():
        files = git("ls-tree", "--name-only", commit, "migrations/versions/").split()
        revisions = [Path(file).name[:4] for file in files if re.match(r"\d{4}_", Path(file).name)]
        if revisions == [f"{number:04}" for number in range(1, len(revisions) + 1)] != []:
            databases[revisions[-1]] = commit
    return databases


def git(*arguments: str) -> str:
    """Return the output of git."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check that commit out into a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git("worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def live(tree: Path, folder: Path) -> dict[str, Any]:
    """Run that checkout's service for the length of a fit; return requests and responses."""
    kernels = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(folder / "cache"))}
    environment = clean_environment() | kernels | {"PYTHONPATH": str(tree)}
    with running_up(folder / "data", environment=environment, cwd=tree) as up:
        eventually(up.ready, MINUTES, "ready")
        with httpx.Client(base_url=up.address, timeout=MINUTES) as client:
            return exchange(client)


def exchange(client: httpx.Client) -> dict[str, Any]:
    """Upload, fit and predict; in the background too if the revision can."""
    upload = client.post("/datasets", content=table(), headers={"Content-Type": "text/csv"})
    upload.raise_for_status()
    dataset_id = upload.json()["id"]
    response = client.post("/models", json=FIT | {"dataset_id": dataset_id})
    response.raise_for_status()
    path = response.headers["location"]
    ended = until(lambda: client.get(path).json(), "finished_at")
    assert ended["state"] == "succeeded", ended["error"]
    answer = client.post(f"{path}/predict", json=ASKED)
    answer.raise_for_status()
    answers = {
        "dataset_id": dataset_id,
        "model": {name: ended[name] for name in ("id", "name", "state", "verdict")},
        "asked": ASKED,
        "answer": {name: answer.json()[name] for name in TOLD},
        "prediction": None,
    }
    batch = client.post(f"{path}/predictions", json={"dataset_id": dataset_id, "level": 0.9})
    if batch.status_code == 202:
        done = until(lambda: client.get(f"/predictions/{batch.json()['id']}").json(), "finished_at")
        result = client.get(f"/predictions/{done['id']}/result").json()
        answers["prediction"] = {"id": done["id"], "mean": result["mean"]}
    return answers


def until(look: Any, field: str) -> dict[str, Any]:
    """Poll the response until the field has a value, and return it."""
    deadline = time.monotonic() + MINUTES
    while not (value := look())[field]:
        assert time.monotonic() < deadline, value
        time.sleep(0.2)
    return dict(value)


def table() -> bytes:
    """Return forty rows: a number with missing values, a category, a noisy target."""
    generator = np.random.default_rng(11)
    lines = ["x,colour,y"]
    for row in range(40):
        x, colour = round(float(generator.uniform(0, 10)), 2), ("red", "green", "blue")[row % 3]
        y = 2.0 * x + 5.0 * (colour == "red") + float(generator.normal())
        lines.append(f"{'' if row % 9 == 4 else x},{colour},{y:.2f}")
    return "\n".join([*lines, ""]).encode()


def dumped(file: Path) -> str:
    """Return a SQLite file as SQL text."""
    text = io.StringIO()
    connection = sqlite3.connect(file)
    for line in connection.iterdump():
        text.write(f"{line}\n")
    connection.close()
    return text.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
