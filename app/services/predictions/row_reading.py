"""Reading of new rows for a model: by kinds and levels of its columns, and as its own file was read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from app.services.readers.options import Options
from app.services.readers.values.missing import MissingValues
from app.services.readers.values.numbers import PLAIN
from app.services.readers.values.typing_text import RAW
from sampler import Posterior
from sampler.data.scalars import as_text
from sampler.data.schema import Column


@dataclass(frozen=True)
class RowReading:
    """Columns of a model by name, and the options by which text becomes their values.

    CSV holds only text: each cell is read as the kind of the model's column with that name, so the text of a
    number becomes a number there. Other formats have types of their own.
    """

    columns: Mapping[str, Column]
    options: Options

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        options: Options | None = None,
        others: Mapping[str, str] | None = None,
        *,
        with_target: bool = False,
    ) -> "RowReading":
        """Make the reading of rows for a model.

        Parameters
        ----------
        options
            Options given by the caller, which come before those of the model's file.
        others
            Kinds of columns besides the features, such as weights; exposures are known.
        with_target
            Whether the rows have the target too.
        """
        schema = posterior.schema
        columns = {each.name: each for each in (*schema.inputs, *([schema.target] if with_target else []))}
        roles = {} if posterior.exposure is None else {posterior.exposure: "number"}
        kinds = {name: _kind_of(column) for name, column in columns.items()} | roles | dict(others or {})
        given = (options or Options()).for_rows_of(posterior.header.dialect)
        known = (*columns, *schema.ignored)
        return cls(columns, replace(given, kinds=kinds, otherwise=RAW, known=known))

    def as_trained(self, table: pa.Table) -> pa.Table:
        """Return the columns with null for values that mean missing, and text as levels of the categories.

        Texts that are neither stay unchanged.
        """
        return pa.table({name: self._read(name, table.column(name)) for name in table.column_names})

    def _read(self, name: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
        column = self.columns.get(name)
        if column is not None and column.kind == "category" and pa.types.is_string(values.type):
            return self._levels(values.combine_chunks(), column)
        is_used = self.options.kinds.get(name, RAW) != RAW
        return MissingValues.of(self.options, name).removed(values)[0] if is_used else values

    def _levels(self, text: pa.Array, column: Column) -> pa.Array:
        """Convert text to levels: literally, or as the number or boolean that it spells, as in training."""
        coded = self._without_missing(text, column).dictionary_encode()
        known = set(column.levels)
        spelled = [_spelled(level, known) for level in coded.dictionary.to_pylist()]
        return pa.array(spelled, pa.string()).take(coded.indices)

    def _without_missing(self, text: pa.Array, column: Column) -> pa.Array:
        missing = MissingValues.of(self.options, column.name).among(text)
        missing = pc.and_not(missing, pc.is_in(text, value_set=pa.array(column.levels, pa.string())))
        return pc.if_else(missing, pa.scalar(None, pa.string()), text)


def _kind_of(column: Column) -> str:
    return RAW if column.kind == "category" else column.kind


def _spelled(text: str, known: set[str]) -> str:
    if text in known:
        return text
    if PLAIN.fullmatch(text) and (number := as_text(Decimal(text))) in known:
        return number
    return text.lower() if text.lower() in known & {"true", "false"} else text
