"""Predictions in SQL, where DuckDB has the rows: ``SELECT *, bart_predict('cars', t) FROM t``.

Needs ``pip install 'bartserve[duckdb]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bartserve.scoring import Scorer
from sampler import DataError, SettingsError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import duckdb

    from sampler import Posterior

__all__ = ["register"]

TYPES = {"float64": "DOUBLE", "bool": "BOOLEAN", "object": "VARCHAR"}


def register(
    connection: duckdb.DuckDBPyConnection,
    models: Mapping[str, Scorer | Posterior | str | os.PathLike[str]],
    function: str = "bart_predict",
) -> None:
    """Register a function of SQL that predicts rows by models of these names.

    ``bart_predict('cars', t)`` of a row of a table ``t``, or of a struct of columns, is a struct of ``mean``,
    ``sd``, ``lower_90``, ``upper_90``, .. and ``flags``, as `Scorer` names them.

    Parameters
    ----------
    connection
        Connection of DuckDB that gets the function.
    models
        By the name that SQL has for it: a `Scorer` with the options of predictions, or what one is made of.
    function
        Name of the function. Models whose answers have other columns need a function of their own.

    Raises
    ------
    SettingsError
        For no models, models whose answers have different columns, and what `Scorer` refuses.

    """
    scorers = {name: each if isinstance(each, Scorer) else Scorer(each) for name, each in models.items()}
    if not scorers:
        raise SettingsError("name a model at least: {'cars': posterior}", field="models", code="not_accepted")
    first, schema = next((name, scorer.schema) for name, scorer in scorers.items())
    if other := next((name for name, scorer in scorers.items() if scorer.schema != schema), None):
        raise SettingsError(
            f"a function of SQL has one type, and answers of {first!r} and {other!r} have other columns: "
            "register each with a function of its own",
            field="models",
            code="contradiction",
        )

    def figures(name: str | None, rows: pa.Table) -> pa.ChunkedArray:
        if name not in scorers:
            raise DataError(f"{function} knows no model {name!r}: it has {', '.join(scorers)}")
        return scorers[name](rows).to_struct_array()

    def predict(names: pa.ChunkedArray, rows: pa.ChunkedArray) -> pa.Array:
        if not pa.types.is_struct(rows.type):
            raise DataError(f"give {function} rows, as a table's name or a struct of columns")
        table = pa.Table.from_struct_array(rows)
        named, place = np.unique(np.asarray(names.to_pylist(), dtype=str), return_inverse=True)
        places = [np.flatnonzero(place == k) for k in range(len(named))]
        found = [figures(str(name), table.take(at)) for name, at in zip(named, places, strict=True)]
        in_order = pa.chunked_array([chunk for each in found for chunk in each.chunks])
        return in_order.take(np.argsort(np.concatenate(places))).combine_chunks()

    fields = ", ".join(
        '"{}" {}'.format(name.replace('"', '""'), TYPES[kind]) for name, kind in schema.items()
    )
    of_struct = f"STRUCT({fields})"
    connection.create_function(function, predict, None, of_struct, type="arrow")
