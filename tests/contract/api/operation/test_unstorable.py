"""Values that Postgres doesn't store are refused at the edge, and alike by both engines."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import StatementError

from app.store.engine import session_scope
from app.store.errors import UnstorableTextError
from app.store.tables import Model
from tests.support.api_calls import places, problem
from tests.support.models.fitted_models import fitted
from tests.support.routes import address, every_route
from tests.support.store_factories import create_model

both_databases = pytest.mark.both_databases


@both_databases
def test_no_query_with_a_nul_reaches_a_route(client):
    """On every route, a parameter of any name with a NUL is refused by its name; one in a path is unknown."""
    for method, path in every_route():
        target = address(path)
        response = client.request(method, f"{target}?limit=1&model_id=a%00b&%00=1")
        if method != "HEAD":
            body = problem(response, 422, "invalid-request")
            assert places(body) == [("model_id", None), ("\0", None)], (method, path)
        assert client.request(method, f"{target}%00").status_code == 404


@both_databases
@pytest.mark.parametrize("text", ["a\0b", "\ud800", "b\udfff"])
def test_both_engines_refuse_the_same_text(database, text):
    """Text with a NUL or half a surrogate pair is neither stored nor looked for."""
    with session_scope(database.engine) as session:
        for statement in (select(Model.id).where(Model.name == text), update(Model).values(name=text)):
            with pytest.raises(UnstorableTextError):
                session.execute(statement)


@both_databases
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -np.inf])
def test_both_engines_refuse_numbers_that_are_no_json(database, number):
    """JSON with NaN or infinity, which Postgres refuses, isn't stored in SQLite either."""
    model = create_model(database.engine)
    with session_scope(database.engine) as session, pytest.raises((StatementError, ValueError), match="JSON"):
        session.execute(update(Model).where(Model.id == model.id).values(diagnostics={"a": [number]}))


@both_databases
def test_an_outcome_too_large_to_be_squared_is_refused_by_row(client, settings):
    """Outcomes beyond 1e100 are refused as a fit refuses them; the largest accepted ones are summed."""
    fitted(client, settings, name="mine")
    rows = [{"size": 3, "colour": "red", "y": y} for y in (4.0, 1e160, -1.7e308)]
    refused = problem(client.post("/models/mine/outcomes", json={"rows": rows}), 422)
    assert places(refused) == [("y", 2), ("y", 3)]
    largest = [{"size": 3, "colour": "red", "y": y} for y in (1e100, -1e100)]
    accepted = client.post("/models/mine/outcomes", json={"rows": largest * 50})
    assert accepted.status_code == 201, accepted.text
    assert client.get("/models/mine/outcomes").json()["total"]["rmse"] == pytest.approx(1e100)


@both_databases
def test_keys_with_a_nul_are_refused_by_row(client, settings):
    """Keys of outcomes in a Parquet file, which may have any characters, are refused with their rows."""
    fitted(client, settings, name="mine")
    rows = [{"size": 3, "colour": "red", "y": 4.0, "id": key} for key in ("a", "b\0", "\0")]
    pq.write_table(pa.Table.from_pylist(rows), file := io.BytesIO())
    kind = {"Content-Type": "application/vnd.apache.parquet"}
    response = client.post("/models/mine/outcomes?key=id", content=file.getvalue(), headers=kind)
    assert places(problem(response, 422)) == [("id", 2), ("id", 3)]
