"""Stored datasets: exact values, reads of requested columns only, damage detected."""

import pyarrow as pa
import pytest
from sqlalchemy import delete, select, update

from app.store import datasets
from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.errors import CorruptBlockError, DatasetGoneError, StillNeededError
from app.store.tables import DatasetBlock
from tests.support.store_factories import OWNER, create_model, remove_all, save_dataset, small_table


def test_a_table_comes_back_as_it_was(database):
    """Columns of every kind, missing values included, are read back equal."""
    dataset = save_dataset(database.engine)
    with session_scope(database.engine, read_only=True) as session:
        table = datasets.read(session, dataset.id)

    assert small_table().equals(table.combine_chunks())
    assert dataset.num_rows == 20


def test_many_blocks_are_read_in_order(database):
    """A column of several blocks is read back whole and in order."""
    rows = 2 * datasets.BLOCK_ROWS + 17
    table = pa.table(
        {"x": pa.array(range(rows), pa.float64()), "s": [f"level {row % 60}" for row in range(rows)]}
    )
    dataset = save_dataset(database.engine, table)
    with session_scope(database.engine, read_only=True) as session:
        stored = datasets.read(session, dataset.id)

    assert table.equals(stored.combine_chunks())


def test_only_asked_columns_are_read(database):
    """Blocks of unrequested columns are not fetched: damage to them goes unnoticed."""
    dataset = save_dataset(database.engine)
    _damage(database.engine, dataset.id, column=0)
    with session_scope(database.engine, read_only=True) as session:
        table = datasets.read(session, dataset.id, ["y", "town"])

    assert table.column_names == ["y", "town"]
    assert small_table().select(["y", "town"]).equals(table.combine_chunks())


def test_a_dataset_deleted_while_it_is_read_is_gone(database):
    """Blocks deleted between two queries are an error, never fewer rows."""
    dataset = save_dataset(database.engine)
    with session_scope(database.engine) as session:
        session.execute(delete(DatasetBlock).where(DatasetBlock.dataset_id == dataset.id))

    with (
        session_scope(database.engine, read_only=True) as session,
        pytest.raises(DatasetGoneError, match="was deleted while it was being read"),
    ):
        datasets.read(session, dataset.id)


def test_a_damaged_block_is_noticed(database):
    """A flipped byte in a stored block is an error."""
    dataset = save_dataset(database.engine)
    _damage(database.engine, dataset.id, column=0)

    with (
        session_scope(database.engine, read_only=True) as session,
        pytest.raises(CorruptBlockError, match="damaged"),
    ):
        datasets.read(session, dataset.id)


def test_equal_tables_have_equal_digests():
    """Digests are equal for equal tables and differ for a changed value or name."""
    table = small_table()
    renamed = table.rename_columns(["z", *table.column_names[1:]])

    assert datasets.encode(table).sha256 == datasets.encode(small_table()).sha256
    assert datasets.encode(table).sha256 != datasets.encode(small_table(21)).sha256
    assert datasets.encode(table).sha256 != datasets.encode(renamed).sha256


def test_the_head_is_the_first_rows(database):
    """A preview is the first rows of every column."""
    dataset = save_dataset(database.engine)
    with session_scope(database.engine, read_only=True) as session:
        assert small_table().slice(0, 3).equals(datasets.head(session, dataset.id, 3).combine_chunks())


def test_types_that_cannot_be_held_are_refused():
    """A nested column is refused by name."""
    with pytest.raises(TypeError, match="'nested'"):
        datasets.encode(pa.table({"nested": [[1, 2], [3]]}))


def test_owners_see_only_their_own(database):
    """Another owner's id is unknown to read, list and delete."""
    dataset = save_dataset(database.engine, owner="ann")
    with session_scope(database.engine) as session:
        assert datasets.get(session, "bob", dataset.id) is None
        assert datasets.list_page(session, "bob", 10) == []
        assert not datasets.delete(session, "bob", dataset.id)
        assert dataset.id == datasets.get(session, "ann", dataset.id).id


def test_pages_are_stable_under_inserts(database):
    """Paging gives each dataset once, newest first, also when others are inserted meanwhile."""
    ids = [save_dataset(database.engine).id for _ in range(5)]
    listed, after = [], None
    while True:
        with session_scope(database.engine, read_only=True) as session:
            page = datasets.list_page(session, OWNER, 2, after)
        if not page:
            break
        listed += [dataset.id for dataset in page]
        after = (page[-1].created_at, page[-1].id)
        save_dataset(database.engine)

    assert ids[::-1] == listed


def test_a_dataset_in_use_stays(database):
    """Deleting a dataset in use is refused with the model's name; unused, it is deleted whole."""
    from app.store import models

    dataset = save_dataset(database.engine)
    model = create_model(database.engine, dataset.id)
    with session_scope(database.engine) as session, pytest.raises(StillNeededError, match=model.id):
        datasets.delete(session, OWNER, dataset.id)
    with session_scope(database.engine) as session:
        assert models.delete(session, OWNER, model.id)
    with session_scope(database.engine) as session:
        assert datasets.delete(session, OWNER, dataset.id)
    remove_all(database.engine)
    with session_scope(database.engine, read_only=True) as session:
        assert session.scalar(select(DatasetBlock.seq).limit(1)) is None


def test_times_come_back_aware(database):
    """A stored time is the same instant, in UTC, on both databases."""
    before = utc_now()
    dataset_id = save_dataset(database.engine).id
    with session_scope(database.engine, read_only=True) as session:
        created_at = datasets.get(session, OWNER, dataset_id).created_at

    assert before <= created_at <= utc_now()
    assert created_at.utcoffset().total_seconds() == 0


def _damage(engine, dataset_id, column):
    where = (DatasetBlock.dataset_id == dataset_id, DatasetBlock.column_index == column)
    with session_scope(engine) as session:
        data = bytearray(session.scalar(select(DatasetBlock.data).where(*where)))
        data[len(data) // 2] ^= 1
        session.execute(update(DatasetBlock).where(*where).values(data=bytes(data)))
