"""Options of predictions: the requested figures, and the form of a table of them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.services.predictions.csv_tables import CsvDialect, Digits
from app.services.request_bodies import (
    MAX_QUANTILES,
    AskedInterval,
    AskedOutcome,
    ColumnsInBody,
    Levels,
    RowsInBody,
    Share,
)

MAX_SAMPLES = 1_000_000  # rows times draws in one response

CalibrationName = Annotated[
    str | None,
    Field(
        max_length=64,
        description="Of calibrated intervals: the calibration that an earlier answer names, to repeat it "
        "after weekly recalibration has moved on. Default: the present one.",
    ),
]


FormName = Literal["json", "csv", "arrow", "parquet", "xlsx"]


class TableOptions(BaseModel):
    """Form of a table of predictions."""

    format: FormName | None = Field(
        default=None, description="The form of the answer, in place of Accept: JSON, or a table."
    )
    dialect: CsvDialect = Field(
        default="plain",
        description="Of CSV: plain has commas between values and decimal points; model has the separator and "
        "decimal sign of the file that the model was fitted to, for the same spreadsheet; file is written as "
        "the rows' own file was (separator, decimal sign, quotes, encoding, line ends), and its cells come "
        "back letter by letter, those that begin like a formula too.",
    )
    digits: Digits = Field(
        default="full",
        description="Of a table: rounded leaves figures as many decimal places as give the median standard "
        "deviation three digits.",
    )


class PredictionOptions(TableOptions):
    """Requested figures for each row."""

    level: Levels = 0.9
    interval: AskedInterval = None
    quantiles: Annotated[list[Share], Field(max_length=MAX_QUANTILES)] | None = Field(
        default=None, description="Further quantiles of the same distribution as the intervals."
    )
    draws: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Use only this many kept draws of each chain, the first: then the answer never changes.",
    )
    calibration: CalibrationName = None
    outcome: AskedOutcome = None
    mcse: bool = Field(
        default=False, description="Also return Monte Carlo standard errors of the mean and of each bound."
    )
    rhat: bool = Field(default=False, description="Also return R-hat of the draws at each row.")
    require: Literal["converged", "approximate"] | None = Field(
        default=None, description="Refuse with 409 if the verdict on these rows is worse."
    )
    samples: Annotated[int, Field(ge=1, le=MAX_SAMPLES)] | None = Field(
        default=None,
        description="Number of draws of the regression function per row, evenly spaced among all.",
    )
    samples_of: Literal["mean", "outcome"] = Field(
        default="mean",
        description="What samples are draws of: the regression function (mean), or new outcomes of weight 1, "
        "one from the distribution that each draw gives the row. Outcomes of rows of one new group go "
        "together, so that sums over rows are right too; of classes they are positions in `classes`.",
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=0,
        description="Seed of samples of outcomes. Take different ones where answers are added up.",
    )
    target: Literal["all", "mean"] = Field(
        default="all", description="mean: only the mean, as fast as possible."
    )


class PredictBody(PredictionOptions):
    """Rows to predict, and the requested figures."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rows: RowsInBody | None = Field(
        default=None,
        description="Objects of values by column name; alternatively use columns. For numbers, true and "
        "false count as 1 and 0; a time without a zone is in UTC.",
    )
    columns: ColumnsInBody | None = Field(
        default=None, description="Lists of values by column name; alternatively use rows."
    )
