"""Datasets as tables whose columns are read when they are asked for."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from app.store.datasets import BLOCK_ROWS
from app.store.engine import session_scope
from sampler import describe
from sampler.host.data import read
from sampler.host.storage import Header
from tests.support.store_factories import save_dataset
from worker.fits import fit_spec
from worker.fits.fit_spec import Spec, prepare_problem, read_rows, split
from worker.fits.stored_table import stored_table

ROWS = 2 * BLOCK_ROWS + 5_000
NAMES = ["x", "gap", "town", "day", "flag"]


def large_table():
    """Make a table of three blocks, with missing values."""
    random = np.random.default_rng(0)
    gaps = random.random(ROWS) < 0.1
    return pa.table(
        {
            "x": random.normal(size=ROWS),
            "gap": pa.array(random.integers(0, 1000, ROWS), mask=gaps),
            "town": pa.array([f"town {k}" for k in range(3)]).take(pa.array(random.integers(0, 3, ROWS))),
            "day": pa.array(random.integers(0, 1000, ROWS) * 86_400_000_000, pa.timestamp("us")),
            "flag": random.random(ROWS) < 0.5,
            "y": random.normal(size=ROWS),
        }
    )


def test_columns_are_read_in_whole_and_in_parts(database):
    """A stored column is that of the table; successive rows of it may be of one block, or of several."""
    table = large_table()
    stored = stored_table(database.engine, save_dataset(database.engine, table).id, NAMES, ROWS)
    parts = [slice(None), slice(0, 10), slice(BLOCK_ROWS - 5, BLOCK_ROWS + 5), slice(100, ROWS)]
    for name in NAMES:
        whole = read(table).column(name)
        for rows in (*parts, slice(ROWS - 5, ROWS + 5)):
            mine, theirs = stored.column(name, rows), whole.part(rows)
            assert mine.cells == theirs.cells, (name, rows)
            if theirs.numbers is not None:
                assert np.array_equal(mine.numbers, theirs.numbers, equal_nan=True), (name, rows)
    assert [*describe(stored)] == describe(table.select(NAMES))


def test_what_the_data_chose_is_taken_from_the_stored_header(database):
    """A chain that prepares once another's header is stored has its settings and evidence."""
    x = np.random.default_rng(0).uniform(size=400)
    table = pa.table({"x": x, "y": np.exp(x + 0.3 * np.random.default_rng(1).normal(size=400))})
    dataset = save_dataset(database.engine, table)
    left = dict.fromkeys(("noise", "transform", "linear"), "auto")
    settings = left | {"num_trees": 5, "num_chains": 1, "num_burnin": 1, "num_draws": 1, "thin": 1, "seed": 1}
    spec = Spec("m", dataset.id, 400, ["x", "y"], "y", settings, [])
    with session_scope(database.engine, read_only=True) as session:
        rows = read_rows(session, spec)
    first = prepare_problem(spec, rows)
    assert (first.training.settings.noise, first.noise_choice.rows) == ("forest", 400)
    again = prepare_problem(spec, rows, first.header())
    assert (again.header(), again.training.fingerprint) == (first.header(), first.training.fingerprint)
    other = Header.from_bytes(first.header())
    chosen = other.settings | {"noise": "constant", "transform": "log"}
    taken = prepare_problem(spec, rows, replace(other, settings=chosen).to_bytes())
    assert (taken.training.settings.noise, taken.transform.kind) == ("constant", "log")
    assert taken.noise_choice == first.noise_choice


def test_fits_of_large_tables_have_the_bits_of_small_ones(database, monkeypatch):
    """A fit is prepared the same, to the bit, whether or not its table is read at once."""
    dataset = save_dataset(database.engine, large_table())
    settings = {"num_trees": 5, "num_chains": 1, "num_burnin": 1, "num_draws": 1, "thin": 1, "seed": 1}
    spec = Spec("m", dataset.id, ROWS, [*NAMES, "y"], "y", settings | {"holdout": 0.5}, [])
    found = []
    for most in (fit_spec.MOST_CELLS, 0):
        monkeypatch.setattr(fit_spec, "MOST_CELLS", most)
        with session_scope(database.engine, read_only=True) as session:
            rows = read_rows(session, spec)
        found.append(prepare_problem(spec, split(spec, rows).training))
    assert found[0].header() == found[1].header()
    assert found[0].training.fingerprint == found[1].training.fingerprint
