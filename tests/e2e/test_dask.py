"""Dask with two worker processes: chains, groups and predictions there, and a worker that is killed."""

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest

from bartserve import fit, fit_many
from bartserve.scoring import Scorer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

SETTINGS = {"num_trees": 50, "num_chains": 4, "num_burnin": 200, "thin": 8, "progress": False}


@pytest.fixture(scope="module")
def client():
    """Start a scheduler with two worker processes of one thread each."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as connected:
        yield connected


def make_rows(count=300):
    """Return rows of two shops."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(size=count), "shop": rng.choice(["u", "v"], size=count)})
    return table.assign(y=table.age + rng.normal(size=count))


def test_a_worker_that_is_killed_changes_nothing(client):
    """The scheduler runs its chains again elsewhere, and the model is the same to the last bit."""
    rows = make_rows()
    settings = SETTINGS | {"num_draws": 200}
    victim = next(iter(client.run(os.getpid).values()))
    done = threading.Event()

    def kill():
        while not any(client.processing().values()):
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)
        done.set()

    killer = threading.Thread(target=kill)
    killer.start()
    model = fit(rows[["age"]], rows.y, executor=client.get_executor(), **settings)
    killer.join()
    assert done.is_set()
    assert model.to_bytes() == fit(rows[["age"]], rows.y, **settings).to_bytes()


def test_groups_and_predictions_there(client):
    """Groups are its tasks, and parts of a table are scored as the whole is here."""
    dask = pytest.importorskip("dask.dataframe")
    rows = make_rows()
    settings = SETTINGS | {"num_draws": 10}
    models = fit_many(rows, by="shop", target="y", executor=client.get_executor(), **settings)
    alone = rows[rows.shop == "u"].drop(columns="shop")
    assert models["u"].to_bytes() == fit(alone, alone.y, **settings).to_bytes()
    scorer = Scorer(models["u"], keep=["shop"])
    parts = dask.from_pandas(rows, npartitions=5)
    answer = parts.map_partitions(scorer, meta=scorer(rows.head(0))).compute()
    np.testing.assert_array_equal(answer["mean"], models["u"].predict(rows[["age"]]).mean)
    assert answer.index.equals(rows.index)
