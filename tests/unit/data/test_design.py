"""Coded columns of training rows that are read again instead of kept."""

import gc
import tracemalloc
import weakref

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sampler import prepare
from sampler.data.table import read
from sampler.preparation import encode as preparation
from sampler.preparation.design import TableDesign
from tests.support.prepared_fits import mixed_columns, outcomes

RNG = np.random.default_rng(3)
N = 240


def parquet(columns):
    """Write the columns to a Parquet file with groups of 50 rows, and open it."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, row_group_size=50)
    return pq.ParquetFile(pa.BufferReader(sink.getvalue()))


TABLES = {
    "numpy": dict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "parquet": parquet,
}
MORE = {
    "gap": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)),
    "whole": RNG.integers(0, 9, N),
    "large": RNG.integers(2**60, 2**60 + 50, N),
    "text": [str(k / 2) for k in range(N)],
    "when": pd.date_range("2020-01-01", periods=N).to_numpy(),
    "town": RNG.choice(["a", "b", "c"], N),
    "treated": RNG.integers(0, 2, N),
}
Y = MORE["whole"] + np.exp(RNG.normal(size=N))
FITS = {
    "all choices": {},
    "line": {"linear": True, "weights": RNG.uniform(1, 2, N)},
    "tails": {"noise": "t"},
    "slopes": {"groups": "town", "slopes": "gap", "linear": True},
    "effect": {"treatment": "treated"},
    "limits": {"lower": np.where(RNG.random(N) < 0.2, 1.0, np.nan)},
    "classes": {"family": "categorical"},
    "soft": {"method": "rjhmc-df", "num_trees": 1},
    "point": {"family": "hurdle", "linear": True},
}


def both(monkeypatch, make):
    """Prepare a fit with columns that are kept, and with columns that are read again."""
    fits = []
    for most in (preparation.KEPT_CELLS, -1):
        monkeypatch.setattr(preparation, "KEPT_CELLS", most)
        fits.append(make())
    return fits


@pytest.mark.parametrize("library", TABLES)
def test_parts_of_columns_are_those_of_the_whole(library):
    """A column's numbers, read in parts, are those read in whole, from tables and from rows of them."""
    table = read(TABLES[library](MORE))
    rows = np.flatnonzero(RNG.random(N) < 0.7)
    for each in (table, table.part(rows), table.part(rows[::-1]), table.reading_once(["gap"])):
        for name in set(MORE) - {"text", "town"}:
            whole = each.column(name).numbers
            parts = [each.column(name, slice(k, k + 7)).numbers for k in range(0, each.num_rows, 7)]
            assert np.array_equal(np.concatenate(parts), whole, equal_nan=True), name


def test_indices_are_those_of_an_array():
    """Columns and rows are chosen as from an array, and lie in memory as NumPy puts them."""
    design, problems = TableDesign(read(MORE)), []
    for name, kind in (("gap", "number"), ("town", "category"), ("text", "number"), ("when", "date")):
        design.add(read(MORE).column(name), kind, problems)
    whole = np.stack([*design])
    assert (design.shape, design.size, problems) == (whole.shape, whole.size, [])
    few, mask, some = np.array([5, 3, 40]), np.arange(N) % 3 == 0, np.array([0, 2, 2])
    for key in (
        1,
        np.int64(4),
        (0, few),
        (2, mask),
        (3, slice(3, 9)),
        (slice(None), few),
        (slice(None), mask),
    ):
        mine, theirs = design[key], whole[key]
        assert np.array_equal(mine, theirs, equal_nan=True), key
        assert mine.flags.c_contiguous == theirs.flags.c_contiguous, key
    assert np.array_equal(design[some, 4:11], whole[some, 4:11], equal_nan=True)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.sampled(quick=4)
def test_fits_have_the_same_bits_without_a_copy_of_the_table(name, monkeypatch):
    """Training data, constants and all choices are the same where columns are read again."""
    fit = {"num_trees": 5, "num_chains": 1, "seed": 1, "family": "gaussian", "method": "bart"} | FITS[name]
    classes = fit["family"] == "categorical"
    y = np.where(fit["lower"] == 1, np.nan, Y + 2) if "lower" in fit else Y
    y = np.array(["low", "high", "top"])[np.digitize(Y, [3, 6])] if classes else y
    y = np.where(MORE["whole"] < 3, 0.0, Y) if fit["family"] == "hurdle" else y
    given = {role: MORE[fit[role]] for role in ("treatment",) if role in fit}
    X = pd.DataFrame(
        {key: values for key, values in MORE.items() if not ("treatment" in fit and key == "treated")}
    )
    kinds = {"text": "number"}
    kept, streamed = both(monkeypatch, lambda: prepare(X, y, columns=kinds, **(fit | given)))
    assert kept.header() == streamed.header()
    assert kept.training.fingerprint == streamed.training.fingerprint
    assert kept.warnings == streamed.warnings


@pytest.mark.parametrize("library", TABLES)
@pytest.mark.sampled(quick=2)
def test_every_kind_of_column_has_the_same_bits(library, monkeypatch):
    """Columns of every kind, from every library, are encoded the same where they are read again."""
    X = TABLES[library](MORE)
    kept, streamed = both(monkeypatch, lambda: prepare(X, Y, family="gaussian", method="bart", seed=1))
    assert kept.header() == streamed.header()
    assert kept.training.fingerprint == streamed.training.fingerprint
    X, y = mixed_columns(), outcomes()
    kept, streamed = both(monkeypatch, lambda: prepare(X, y, family="gaussian", method="bart", seed=1))
    assert kept.header() == streamed.header()


@pytest.mark.parametrize("family", ["gaussian", "hurdle"])
@pytest.mark.sampled(quick=1, slow=1)
def test_preparation_takes_a_few_columns_of_memory(family):
    """Beside the table, preparation takes at most 160 bytes a row and one a cell (two for a hurdle)."""
    rows, columns = 200_000, 30
    X = {f"x{j}": RNG.normal(size=rows) for j in range(columns)}
    y = np.where(X["x1"] > 1, -50.0, X["x0"] + RNG.normal(size=rows))
    prepare({"x": y[:100]}, X["x0"][:100], family="gaussian", method="bart", seed=1)  # loads modules
    tracemalloc.start()
    prepare(X, y, family=family, method="bart", seed=1, noise="constant")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows * columns > preparation.KEPT_CELLS
    assert peak < rows * (columns * (1 + (family == "hurdle")) + 160)


def test_prepared_fits_let_their_table_go():
    """Nothing holds the columns of a fit once it is prepared, before any collection of cycles."""
    table = read({name: MORE[name] for name in ("gap", "whole", "town")})
    design, problems = TableDesign(table), []
    for name, kind in (("gap", "number"), ("town", "category")):
        design.add(table.column(name), kind, problems)
    held = weakref.ref(design)
    gc.disable()
    try:
        del design
        assert held() is None
    finally:
        gc.enable()
