"""Requests and answers in the shapes of MLflow's scoring server, for a model of the service."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.services.errors import Fault, InvalidRequestError
from app.services.predictions.options import PredictBody
from app.services.request_bodies import AskedInterval, Share

SHAPES = ("dataframe_split", "dataframe_records", "inputs", "instances")


class InvocationParams(BaseModel):
    """Parameters of the MLflow model: what `predict` has for them."""

    model_config = ConfigDict(extra="forbid")

    level: Share = 0.9
    interval: AskedInterval = None
    quantiles: Annotated[list[Share], Field(max_length=100)] = []


class InvocationQuery(BaseModel):
    """Parameters for rows in a CSV file, which has no place for `params`."""

    model_config = ConfigDict(extra="forbid")

    level: Share = Field(0.9, description="The level of the intervals of a file's rows.")
    interval: AskedInterval = None


class SplitFrame(BaseModel):
    """Rows as pandas splits a data frame; the index is ignored."""

    model_config = ConfigDict(extra="forbid")

    columns: list[str]
    data: list[list[Any]]
    index: list[Any] | None = None


class InvocationBody(BaseModel):
    """Rows in one of MLflow's shapes."""

    model_config = ConfigDict(extra="forbid")

    dataframe_split: SplitFrame | None = None
    dataframe_records: list[dict[str, Any]] | None = None
    inputs: list[dict[str, Any]] | dict[str, list[Any]] | None = Field(
        None, description="Rows as objects, or lists of values by column name."
    )
    instances: list[dict[str, Any]] | None = None
    params: InvocationParams = InvocationParams()

    def to_body(self) -> PredictBody:
        """Return the request that `POST /models/{id}/predict` takes; raises InvalidRequestError."""
        given = [name for name in SHAPES if getattr(self, name) is not None]
        if len(given) != 1:
            detail = f"send rows in one of these: {', '.join(SHAPES)}"
            raise InvalidRequestError(errors=[Fault(given[0] if given else None, None, detail)])
        rows = getattr(self, given[0])
        if isinstance(rows, SplitFrame):
            names = rows.columns
            if short := next((i for i, row in enumerate(rows.data) if len(row) != len(names)), None):
                detail = f"the row has {len(rows.data[short])} values and there are {len(names)} columns"
                raise InvalidRequestError(errors=[Fault("dataframe_split", short + 1, detail)])
            rows = {name: [row[j] for row in rows.data] for j, name in enumerate(names)}
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
