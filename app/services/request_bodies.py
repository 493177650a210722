"""Parts that the bodies of requests share: strictness, shares, levels, and rows in JSON.

A body is a pydantic model that a service takes as it was parsed: its schema is the one that OpenAPI shows.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator

from app.services.errors import Fault, InvalidRequestError

MAX_LEVELS, MAX_QUANTILES = 20, 100
MAX_FIELDS = 100  # of an object with known ones: each other is an entry of the error
MAX_NAME = 1000  # letters of a column's name
B = TypeVar("B", bound=BaseModel)
CELL: dict[str, Any] = {
    "anyOf": [{"type": kind} for kind in ("number", "string", "boolean", "null")],
}
Share = Annotated[float, Field(gt=0, lt=1)]
Levels = Annotated[
    Share | Annotated[list[Share], Field(max_length=MAX_LEVELS)],
    Field(description="The level of the intervals; one or several."),
]
FirstDraws = Annotated[
    Annotated[int, Field(ge=1)] | None,
    Field(description="Use only this many kept draws of each chain, the first."),
]
AskedOutcome = Annotated[
    str | None,
    Field(
        max_length=MAX_NAME,
        description="Of a model of several outcomes: the one that the answer is about. Default: the first.",
    ),
]
AskedInterval = Annotated[
    Literal["predictive", "credible", "calibrated"] | None,
    Field(
        description="Of a new outcome (predictive) or of its expectation (credible). Unless given, "
        "predictive for numbers and, for classes, credible: of their probabilities. calibrated: of a new "
        "outcome, with a stated coverage; for classes, prediction sets. For models fitted with calibrate."
    ),
]
# Checked cell by cell in the service, in a thread; here they are only documented.
RowsInBody = Annotated[
    list[Any],
    WithJsonSchema(
        {"type": "array", "items": {"type": "object", "additionalProperties": CELL}, "minItems": 1}
    ),
]
ColumnsInBody = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "array", "items": CELL}}),
]


class StrictBody(BaseModel):
    """A JSON body, or a part of one, without other fields, whose values have the very types.

    To describe an error takes microseconds in which no other thread runs: a list or an object of any length
    is declared with `fail_fast`.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _check_few_fields(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > MAX_FIELDS:
            raise ValueError(f"there are {len(value)} fields; at most {MAX_FIELDS} are accepted")
        return value


def filled_in(body: type[B], values: Mapping[str, Any]) -> B:
    """Make a body of values that a page has; raises InvalidRequestError for those that are refused."""
    try:
        return body(**values)
    except ValidationError as error:
        faults = [Fault(str(each["loc"][0]), None, each["msg"]) for each in error.errors() if each["loc"]]
        raise InvalidRequestError(errors=faults) from None


def levels_of(level: float | list[float]) -> list[float]:
    """List one level or several."""
    return level if isinstance(level, list) else [level]
