"""Factories of small stored objects."""

import pyarrow as pa

from app.store import datasets, deletion, models
from app.store.engine import session_scope
from app.store.queue import claims, units

OWNER = "local"


def small_table(num_rows=20):
    return pa.table(
        {
            "x": [None if row % 7 == 3 else row / 3 for row in range(num_rows)],
            "flag": [row % 2 == 0 for row in range(num_rows)],
            "town": [None if row == 5 else f"town {row % 3}" for row in range(num_rows)],
            "day": pa.array(range(num_rows), pa.timestamp("us", tz="UTC")),
            "y": [float(row) for row in range(num_rows)],
        }
    )


def save_dataset(engine, table=None, owner=OWNER):
    table = small_table() if table is None else table
    encoded = datasets.encode(table)
    columns = [{"name": name, "kind": "number"} for name in table.column_names]
    with session_scope(engine) as session:
        return datasets.save(session, encoded, owner=owner, name="cars", columns=columns, warnings=[])


def create_model(engine, dataset_id=None, num_chains=4, owner=OWNER, name="m"):
    dataset_id = dataset_id or save_dataset(engine, owner=owner).id
    with session_scope(engine) as session:
        return models.create(
            session,
            owner=owner,
            name=name,
            dataset_id=dataset_id,
            target="y",
            settings={"num_trees": 10},
            num_chains=num_chains,
            iterations=100,
        )


def claim(engine, worker="w1", lease=60.0):
    with session_scope(engine) as session:
        return claims.claim(session, worker, lease)


def remove_all(engine):
    """Remove deleted rows as dispatchers do, and return the number of batches."""
    batches = 0
    while True:
        with session_scope(engine) as session:
            if not deletion.delete_next_batch(session):
                return batches
        batches += 1


def expire(engine, claimed):
    """Expire the lease of a unit, as if its worker had sent no heartbeats."""
    from sqlalchemy import update

    from app.store.tables import Unit

    with session_scope(engine) as session:
        session.execute(update(Unit).where(Unit.id == claimed.unit_id).values(lease_until=0.0))


def a_slice(iteration=50, num_draws=5, blocks=(), checkpoint=b"checkpoint"):
    progress = units.Progress("sampling", iteration, 100, num_draws, rate=10.0)
    return units.Slice(progress, checkpoint, {"moves": {}}, blocks)


def state_of(engine, model_id):
    with session_scope(engine, read_only=True) as session:
        model = models.get(session, OWNER, model_id)
        return model.state, [unit.state for unit in models.chains(session, [model_id])[model_id]]
