"""Rows predicted per second inside Dask, DuckDB, Ray and Spark, beside a bare loop over the same file.

    make engines        # or: python -m lab engines --rows 200000 --engines dask

A model of 1,000 rows and ten columns with default settings (1,000 draws of 200 trees) predicts a Parquet
file. Each engine has one process with one thread, and so has the loop; starting the engine is not timed. Sums
of all figures have to be the same.
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

from lab import command

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[threads] = "1"
os.environ["PYSPARK_PYTHON"] = sys.executable

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from bartserve import fit  # noqa: E402
from bartserve.scoring import Scorer  # noqa: E402

COLUMNS = [f"x{j + 1}" for j in range(10)]
FIGURES = ["mean", "lower_90", "upper_90"]
ENOUGH = 0.8  # of the bare loop


def make_rows(count: int, seed: int) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(seed).uniform(size=(count, 10)), columns=COLUMNS)


def bare(scorer: Scorer, path: str, batch: int) -> np.ndarray:
    parts = [scorer(each.to_pandas())[FIGURES].sum() for each in pq.ParquetFile(path).iter_batches(batch)]
    return np.sum(parts, axis=0)


@contextmanager
def in_dask(scorer: Scorer, path: str, _batch: int):
    import dask.dataframe as dd
    from dask.distributed import Client, LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        rows = dd.read_parquet(path, split_row_groups=True)
        empty = scorer(make_rows(0, 0))
        yield lambda: rows.map_partitions(scorer, meta=empty)[FIGURES].sum().compute().to_numpy()


@contextmanager
def in_ray(scorer: Scorer, path: str, batch: int):
    import ray

    ray.init(num_cpus=1, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def score(table):
        scored = scorer(table)
        return {name: np.array([scored[name].sum()]) for name in FIGURES}

    def ask() -> np.ndarray:
        rows = ray.data.read_parquet(path)
        sums = rows.map_batches(score, batch_size=batch).to_pandas()
        return sums[FIGURES].sum().to_numpy()

    yield ask
    ray.shutdown()


@contextmanager
def in_spark(scorer: Scorer, path: str, batch: int):
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", batch)
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    rows = spark.read.parquet(path)
    sums = rows.mapInPandas(scorer.batches, scorer.spark_schema()).agg(dict.fromkeys(FIGURES, "sum"))
    yield lambda: np.array([*sums.select(*[f"sum({name})" for name in FIGURES]).first()])
    spark.stop()


@contextmanager
def in_duckdb(scorer: Scorer, path: str, _batch: int):
    import duckdb

    from bartserve.duckdb import register

    with duckdb.connect(config={"threads": 1}) as connection:
        register(connection, {"model": scorer})
        sums = ", ".join(f"sum(p.{name})" for name in FIGURES)
        asked = f"SELECT {sums} FROM (SELECT bart_predict('model', t) AS p FROM '{path}' t)"
        yield lambda: np.array(connection.sql(asked).fetchall()[0])


ENGINES = {"dask": in_dask, "duckdb": in_duckdb, "ray": in_ray, "spark": in_spark}


def timed(ask) -> tuple[np.ndarray, float]:
    begun = time.perf_counter()
    return ask(), time.perf_counter() - begun


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=2_500)
    parser.add_argument("--noise", default="auto")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=[*ENGINES])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    train = make_rows(1000, 0)
    y = 10 * np.sin(np.pi * train.x1 * train.x2) + 20 * (train.x3 - 0.5) ** 2 + 10 * train.x4 + 5 * train.x5
    y = y + np.random.default_rng(1).normal(size=1000)
    scorer = Scorer(fit(train, y, target_name="y", noise=options.noise, progress=False))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.parquet")
        make_rows(options.rows, 2).to_parquet(path, row_group_size=options.batch)
        print(f"{options.rows} rows in batches of {options.batch}; medians of {options.repeats} runs")
        print(f"{'':8}{'rows/s':>10}{'loop':>10}{'share':>8}   wanted: {ENOUGH}")
        for name in options.engines:
            with ENGINES[name](scorer, path, options.batch) as ask:
                ask()  # starts its processes, where kernels are loaded
                speeds, loops = [], []
                for _ in range(options.repeats):  # by turns, since other work on the machine comes and goes
                    expected, alone = timed(lambda: bare(scorer, path, options.batch))
                    found, seconds = timed(ask)
                    np.testing.assert_allclose(found, expected, rtol=1e-9)
                    speeds.append(options.rows / seconds)
                    loops.append(options.rows / alone)
            share = statistics.median(own / loop for own, loop in zip(speeds, loops, strict=True))
            print(
                f"{name:8}{statistics.median(speeds):10.0f}{statistics.median(loops):10.0f}{share:8.2f}",
                flush=True,
            )
