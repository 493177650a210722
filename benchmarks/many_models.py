"""Small models per processor second: the service's workers beside `fit_many`, with equal settings.

    python benchmarks/many_models.py [--models 12] [--databases sqlite postgres]

Models of 500 rows and ten columns with default settings (eight chains). The service has two workers of one
slot with settings as they come. Processor seconds are those of the workers' processes, with SQLite in them,
but not those of Postgres; starting them and loading kernels is not counted.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[threads] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import pyarrow as pa  # noqa: E402
from sqlalchemy import text  # noqa: E402

from app.store import schema  # noqa: E402
from app.store.engine import make_engine  # noqa: E402
from benchmarks.team_stack import tree  # noqa: E402
from sampler import fit, prepare  # noqa: E402
from tests.support.databases import Database  # noqa: E402
from tests.support.processes.servers import folder, postgres, valkey_in  # noqa: E402
from tests.support.processes.worker_service import make_service  # noqa: E402

COLUMNS = [f"x{j + 1}" for j in range(10)]
SETTINGS = ("BARTSERVE_LEASE_SECONDS", "BARTSERVE_SLICE_SECONDS", "BARTSERVE_DISPATCH_SECONDS")
TICKS = os.sysconf("SC_CLK_TCK")
WANTED = 0.7


def make_rows(seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.uniform(size=(500, 10)), columns=COLUMNS)
    f = 10 * np.sin(np.pi * table.x1 * table.x2) + 20 * (table.x3 - 0.5) ** 2 + 10 * table.x4 + 5 * table.x5
    return table.assign(y=f + rng.normal(size=500))


def processor_seconds(pids):
    """Sum the processor time of processes and of their ended children."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += sum(map(int, fields[11:15]))
    return total / TICKS


def bare(count):
    """Fit one model after another in this process, which has its kernels; return processor seconds."""
    fit(make_rows(0)[COLUMNS], make_rows(0).y, progress=False, num_threads=1)
    begun = time.process_time()
    for seed in range(count):
        rows = make_rows(seed)
        fit(rows[COLUMNS], rows.y, progress=False, num_threads=1).to_bytes()
    return time.process_time() - begun


def in_service(service, count):
    """Fit the same models by two workers; return their processor seconds, and seconds by the clock."""
    rows = make_rows(0)
    usual = prepare(rows[COLUMNS], rows.y).training.settings
    settings = {
        name: getattr(usual, name) for name in ("num_trees", "num_chains", "num_burnin", "num_draws", "thin")
    }
    settings |= {"moves": "default", "noise": "auto", "linear": "auto", "transform": "auto", "seed": 0}
    ended = text("SELECT count(*) FROM models WHERE finished_at IS NOT NULL")
    workers = [service.start_worker(slots=1) for _ in range(2)]

    def fitted(seeds, number):
        for seed in seeds:
            service.create_model(table=pa.Table.from_pandas(make_rows(seed)), **settings)
        while True:
            with service.engine.connect() as connection:
                if connection.execute(ended).scalar() == number:
                    return
            time.sleep(0.5)

    fitted(range(2), 2)  # kernels
    pids = [pid for worker in workers for pid in tree(worker.pid)]
    before, begun = processor_seconds(pids), time.monotonic()
    fitted(range(count), count + 2)
    return processor_seconds(pids) - before, time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=12)
    parser.add_argument(
        "--databases", nargs="+", choices=["sqlite", "postgres"], default=["sqlite", "postgres"]
    )
    options = parser.parse_args()
    alone = bare(options.models) / options.models
    print(f"bare loop: {alone:.2f} processor seconds a model")
    for name in options.databases:
        with contextlib.ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            url, broker = f"sqlite:///{place / 'models.db'}", None
            if name == "postgres":
                running = stack.enter_context(postgres())
                url = running.create()
                broker = stack.enter_context(valkey_in(stack.enter_context(folder("bartserve-valkey-"))))
            schema.migrate(url)
            engine = make_engine(url)
            stack.callback(engine.dispose)
            service = stack.enter_context(make_service(Database(name, url, engine), broker, place))
            for each in SETTINGS:
                del service.environment[each]  # as they come
            used, seconds = in_service(service, options.models)
            share = alone * options.models / used
            each = used / options.models
            print(
                f"{name}: {each:.2f} processor seconds a model, {share:.2f} of the models (wanted: {WANTED})"
            )
            print(f"    {60 * options.models / seconds:.1f} models a minute", flush=True)


if __name__ == "__main__":
    main()
