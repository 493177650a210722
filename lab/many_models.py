"""Small models per processor second: the service's workers beside `fit_many`, with equal settings.

    python -m lab many_models [--models 12] [--databases sqlite postgres]
    python -m lab many_models --listed 10000

Models of 500 rows and ten columns with default settings (eight chains). The service has two workers of one
slot with settings as they come. Processor seconds are those of the workers' processes, with SQLite in them,
but not those of Postgres; starting them and loading kernels is not counted.

With `--listed` nothing is fitted: so many finished models of a set, and as many alone, are stored with
headers as large as those of fits, and lists of them are asked for over HTTP: the time of 95% of requests.
"""

import contextlib
import os
import tempfile
import time
from pathlib import Path

from lab import command

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import pyarrow as pa  # noqa: E402
from sqlalchemy import insert, text  # noqa: E402

from app.settings import Settings  # noqa: E402
from app.store import schema  # noqa: E402
from app.store.engine import make_engine, session_scope  # noqa: E402
from app.store.tables import Model, ModelSet, Unit  # noqa: E402
from lab.team_stack import tree  # noqa: E402
from sampler import fit, prepare  # noqa: E402
from tests.support.databases import Database  # noqa: E402
from tests.support.processes import plain_http  # noqa: E402
from tests.support.processes.api_server import serving  # noqa: E402
from tests.support.processes.servers import folder, postgres, valkey_in  # noqa: E402
from tests.support.processes.worker_service import make_service  # noqa: E402
from tests.support.store_factories import save_dataset  # noqa: E402

COLUMNS = [f"x{j + 1}" for j in range(10)]
SETTINGS = ("BARTSERVE_LEASE_SECONDS", "BARTSERVE_SLICE_SECONDS", "BARTSERVE_DISPATCH_SECONDS")
TICKS = os.sysconf("SC_CLK_TCK")
WANTED = 0.7
SET, HEADER_BYTES = "set_0123456789abcdef0123", 12_000


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


def default_settings(rows):
    """Return what `fit` takes for rows unless told otherwise, as a request of the service has it."""
    usual = prepare(rows[COLUMNS], rows.y).training.settings
    settings = {
        name: getattr(usual, name) for name in ("num_trees", "num_chains", "num_burnin", "num_draws", "thin")
    }
    chosen = {"moves": "default", "noise": "auto", "linear": "auto", "transform": "auto", "seed": 0}
    return settings | chosen


def in_service(service, count):
    """Fit the same models by two workers; return their processor seconds, and seconds by the clock."""
    settings = default_settings(make_rows(0))
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


def store_models(engine, count):
    """Store a set of so many finished models, and as many alone."""
    owner, settings = (
        "local",
        {"num_trees": 200, "num_chains": 8, "num_burnin": 500, "num_draws": 125, "thin": 8},
    )
    dataset_id, header = save_dataset(engine, owner=owner).id, os.urandom(HEADER_BYTES)
    done = {"owner": owner, "dataset_id": dataset_id, "target": "y", "settings": settings, "header": header}
    done |= {"state": "succeeded", "verdict": "converged", "warnings": [], "cancel_requested": False}
    with session_scope(engine) as session:
        request = {"name": "shops", "dataset_id": dataset_id, "target": "y", "by": ["shop"], "request": {}}
        counts = {"settings": settings, "num_groups": count, "made": count}
        session.add(ModelSet(id=SET, owner=owner, **request, **counts))
        for first in range(0, 2 * count, 500):
            numbers = range(first, first + 500)
            of_set = [
                {"set_id": SET, "set_group": f"shop {n}"}
                if n < count
                else {"set_id": None, "set_group": None}
                for n in numbers
            ]
            models = [{"id": f"mdl_{n:020}", **done, **of_set[n - first]} for n in numbers]
            session.execute(insert(Model), models)
            units = [
                {
                    "model_id": f"mdl_{n:020}",
                    "id": f"un_{n}_{k}",
                    "kind": "chain",
                    "ordinal": k,
                    "owner": owner,
                }
                for n in numbers
                for k in range(8)
            ]
            session.execute(insert(Unit), [each | {"state": "done", "num_draws": 125} for each in units])


def listed(url, count):
    """Ask for lists of so many models; print the milliseconds of 95% of requests."""
    engine = make_engine(url)
    store_models(engine, count)
    engine.dispose()
    of_set = f"/model-sets/{SET}"
    with serving(Settings(database_url=url)) as address, plain_http.Client(base_url=address) as client:

        def ask(path):
            begun = time.perf_counter()
            answer = client.get(path)
            assert answer.status_code == 200, answer.text
            return 1000 * (time.perf_counter() - begun), answer.json()

        deep = {}
        for path in (f"{of_set}/models", "/models"):
            cursor = ""
            for _ in range(count // 400):  # to the middle
                cursor = f"&cursor={ask(f'{path}?limit=200{cursor}')[1]['next_cursor']}"
            deep[path] = f"{path}?limit=50{cursor}"
        found = f"{of_set}/models?search=shop%20{count - 1}"
        paths = [of_set, f"{of_set}/models", deep[f"{of_set}/models"], found, "/models", deep["/models"]]
        for path in paths:
            times = sorted(ask(path)[0] for _ in range(100))
            print(f"    {path.replace(SET, '..')[:50]:<52} {times[94]:6.1f} ms")


def main():
    parser = command(__doc__)
    parser.add_argument("--models", type=int, default=12)
    parser.add_argument(
        "--databases", nargs="+", choices=["sqlite", "postgres"], default=["sqlite", "postgres"]
    )
    parser.add_argument("--listed", type=int, default=0, help="models to list instead")
    options = parser.parse_args()
    if options.listed:
        for name in options.databases:
            with contextlib.ExitStack() as stack:
                place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                url = f"sqlite:///{place / 'models.db'}"
                if name == "postgres":
                    url = stack.enter_context(postgres()).create()
                schema.migrate(url)
                print(f"{name}: {options.listed} models of a set, and as many alone; p95 of 100 requests")
                listed(url, options.listed)
        return
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
