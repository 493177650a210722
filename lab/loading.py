"""Measure the loading of a model of 200,000 trees from the database for prediction, and its stored bytes.

    python -m lab loading [--database-url postgresql://...]

Default settings on Friedman's function, n = 1,000: 4 chains x 250 draws x 200 trees. SQLite in a temporary
folder unless the URL of an empty database is given. Medians of 15 loads.
"""

import statistics
import tempfile
import time
from pathlib import Path

from app.services import model_files
from app.settings import Settings
from app.store import draws, models, schema
from app.store.engine import make_engine, session_scope
from lab import command
from lab.prediction_speed import friedman
from sampler import Posterior, fit

LOADS = 15


def load(engine, model_id):
    with session_scope(engine, read_only=True) as session:
        header, blocks = models.header(session, model_id), draws.read(session, model_id)
    return Posterior.from_blocks(header, blocks), blocks


def main():
    parser = command(__doc__)
    parser.add_argument("--database-url")
    address = parser.parse_args().database_url
    X, y = friedman(1000, 0)
    data = fit(X, y, progress=False).to_bytes()
    with tempfile.TemporaryDirectory() as folder:
        url = Settings(database_url=address or f"sqlite:///{Path(folder) / 'loading.db'}").database_url
        schema.migrate(url)
        engine = make_engine(url)
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            imported = model_files.read(file)
        with session_scope(engine) as session:
            model = model_files.add(session, "local", imported)
        times = []
        for _ in range(LOADS):
            start = time.perf_counter()
            posterior, blocks = load(engine, model.id)
            times.append(time.perf_counter() - start)
        trees = posterior.leaf_counts.size
        stored = sum(len(block) for chain in blocks for block in chain)
        print(f"{trees} trees, {stored / trees:.2f} bytes a tree in the database ({stored / 1e6:.2f} MB)")
        median, worst = 1e3 * statistics.median(times), 1e3 * max(times)
        print(f"database to a predictable posterior: {median:.1f} ms (worst {worst:.1f})")
        engine.dispose()
