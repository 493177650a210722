"""Requests and answers in the shapes of MLflow's scoring server, for a model of the service."""

from collections import Counter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from app.services.errors import Fault, InvalidRequestError
from app.services.predictions.options import PredictBody
from app.services.predictions.rows import Columns, check_count
from app.services.request_bodies import CELL, AskedInterval, ColumnsInBody, RowsInBody, Share, StrictBody

SHAPES = ("dataframe_split", "dataframe_records", "inputs", "instances")


class InvocationParams(StrictBody):
    """Parameters of the MLflow model: what `predict` has for them."""

    model_config = ConfigDict(strict=False)

    level: Share = 0.9
    interval: AskedInterval = None
    quantiles: Annotated[list[Share], Field(max_length=100)] = Field(default=[])


class InvocationQuery(BaseModel):
    """Parameters for rows in a CSV file, which has no place for `params`."""

    model_config = ConfigDict(extra="forbid")

    level: Share = Field(0.9, description="The level of the intervals of a file's rows.")
    interval: AskedInterval = None


class SplitFrame(StrictBody):
    """Rows as pandas splits a data frame; the index is ignored."""

    columns: Annotated[list[str], Field(fail_fast=True)]
    data: Annotated[
        list[Any], WithJsonSchema({"type": "array", "items": {"type": "array", "items": CELL}, "minItems": 1})
    ]
    index: list[Any] | None = None

    def to_columns(self, max_rows: int) -> Columns:
        """Return the values by column; raises InvalidRequestError, and TooLargeError before it copies."""
        check_count(len(self.data), max_rows)
        width = len(self.columns)
        if twice := sorted({name for name, count in Counter(self.columns).items() if count > 1}):
            detail = "the column occurs twice: give each a name of its own"
            raise InvalidRequestError(errors=[Fault(name, None, detail) for name in twice])
        for number, row in enumerate(self.data, 1):
            if not isinstance(row, list) or len(row) != width:
                has = f"has {len(row)} values" if isinstance(row, list) else "is no list"
                detail = f"the row {has}, and there are {width} columns"
                raise InvalidRequestError(errors=[Fault("dataframe_split", number, detail)])
        return {name: [row[j] for row in self.data] for j, name in enumerate(self.columns)}


class InvocationBody(BaseModel):
    """Rows in one of MLflow's shapes."""

    model_config = ConfigDict(extra="forbid")

    dataframe_split: SplitFrame | None = None
    dataframe_records: RowsInBody | None = None
    inputs: RowsInBody | ColumnsInBody | None = Field(
        None, description="Rows as objects, or lists of values by column name."
    )
    instances: RowsInBody | None = None
    params: InvocationParams = InvocationParams()

    def to_body(self, max_rows: int) -> PredictBody:
        """Return the request that `POST /models/{id}/predict` takes.

        Raises
        ------
        InvalidRequestError, TooLargeError
            There isn't one shape, it is uneven, or has more than `max_rows`.
        """
        given = [name for name in SHAPES if getattr(self, name) is not None]
        if len(given) != 1:
            detail = f"send rows in one of these: {', '.join(SHAPES)}"
            raise InvalidRequestError(errors=[Fault(given[0] if given else None, None, detail)])
        rows = getattr(self, given[0])
        rows = rows.to_columns(max_rows) if isinstance(rows, SplitFrame) else rows
        asked = self.params.model_dump() | {"columns" if isinstance(rows, dict) else "rows": rows}
        try:
            return PredictBody.model_validate(asked | {"quantiles": self.params.quantiles or None})
        except ValidationError as error:
            detail = str(error.errors()[0]["msg"])
            raise InvalidRequestError(errors=[Fault(given[0], None, detail)]) from None


class InvocationView(BaseModel):
    """Predictions as MLflow returns a data frame: an object for each row."""

    predictions: Annotated[
        list[dict[str, Any]],
        Field(description="mean, sd, lower_90, upper_90, ..., flags and interval of each row."),
    ]
