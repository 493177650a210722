"""Totals, means and quantiles of the rows of a stored dataset, in the background: checks and result."""

from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from app.services.errors import Fault, InvalidRequestError, TooLargeError
from app.services.predictions.predict_rows import translating_sampler_errors
from app.services.request_bodies import Share, StrictBody
from app.store.tables import Dataset
from sampler import Posterior
from sampler.host.posteriors import (
    Aggregate,
    AggregateRequest,
    FigureOfSet,
    aggregate_work,
)

MOST_ROWS = 1_000_000
MOST_WORK = 1e13  # in tenths of a nanosecond of a core: a quarter of an hour, of one worker
SECONDS = 1e-10
COUNTS = ("rows", "observed_rows", "new_groups")

Value = float | str | bool


class FiguresOfSets(StrictBody):
    """Figures of sets of rows."""

    by: str | Annotated[list[str], Field(fail_fast=True)] | None = Field(
        default=None,
        description="Up to four columns whose equal values make a set; they need not be the model's. "
        "Null makes one set of all rows.",
    )
    of: FigureOfSet = Field(
        default="sum", description="The figure; of classes, the number of rows (sum) or their share (mean)."
    )
    q: Share | None = Field(default=None, description="Which quantile of a set's outcomes.")
    level: Share = Field(default=0.9, description="The probability an interval holds.")
    interval: Literal["predictive", "credible", "calibrated"] = Field(
        default="predictive",
        description="Of the total that will be observed (predictive), or of the expected one (credible). "
        "calibrated, of a model calibrated for other groups (new_rows): of all rows of a value of that "
        "column, with a stated coverage.",
    )
    compare: (
        Annotated[dict[str, Annotated[list[Value], Field(fail_fast=True)]], Field(fail_fast=True)] | None
    ) = Field(
        default=None,
        description="A column and two of its values: the figure of rows with the first less that of rows "
        "with the second, in each set.",
    )
    population: bool = Field(
        default=False,
        description="Of a credible mean: over the population that the rows of a set are a sample of, whose "
        "interval allows for their number too (Bayesian bootstrap).",
    )

    def checked(self) -> AggregateRequest:
        """Check what is asked of a posterior; raises SettingsError."""
        return AggregateRequest.check(
            self.by, self.of, self.q, self.level, self.interval, self.compare, self.population
        )

    def of_rows(self, posterior: Posterior, rows: Any, **beside: Any) -> Aggregate:
        """Return the figures of rows, with what `Posterior.aggregate` takes beside them; raises as that."""
        return posterior.aggregate(
            rows,
            by=self.by,
            of=self.of,
            q=self.q,
            level=self.level,
            interval=self.interval,
            compare=self.compare,
            population=self.population,
            **beside,
        )


class FiguresOfDataset(FiguresOfSets):
    """Figures of sets of a dataset's rows, in place of predictions of each row."""

    weights: str | None = Field(
        default=None, description="The column of positive factors by which the rows' outcomes count."
    )
    observed: str | None = Field(
        default=None,
        description="The column of known outcomes, empty where not known: known ones count as they are.",
    )


def columns_of(asked: FiguresOfDataset, posterior: Posterior) -> list[str]:
    """Return the columns of a dataset that rows take: the model's, and those that make sets."""
    by = [asked.by] if isinstance(asked.by, str) else asked.by or []
    return [
        *dict.fromkeys([*(column.name for column in posterior.schema.inputs), *by, *(asked.compare or ())])
    ]


def check(
    posterior: Posterior, dataset: Dataset, first: pa.Table, body: FiguresOfDataset, draws: int
) -> None:
    """Check a request for figures of a dataset's rows against the model, and the `first` of the rows.

    Raises
    ------
    InvalidRequestError, UnusableDataError
        The dataset lacks a column, or the model can't answer; names the field.
    TooLargeError
        There are too many rows, or too much work.
    """
    names = {column["name"] for column in dataset.columns}
    columns = columns_of(body, posterior)
    named = {"weights": body.weights, "observed": body.observed}
    beside = {name: column for name, column in named.items() if column is not None}
    if missing := [name for name in (*columns, *beside.values()) if name not in names]:
        raise InvalidRequestError(
            errors=[Fault("aggregate", None, f"the dataset has no column {name[:100]!r}") for name in missing]
        )
    by = [body.by] if isinstance(body.by, str) else body.by or []
    if taken := [name for name in by if name in {"mean", *COUNTS} or name.startswith(("lower_", "upper_"))]:
        message = f"{taken[0]!r} is the name of a figure of the result: rename that column of the dataset"
        raise InvalidRequestError(errors=[Fault("by", None, message)])
    if not 0 < dataset.num_rows <= MOST_ROWS:
        raise TooLargeError(
            f"Totals are made of 1 to {MOST_ROWS:,} rows, and the dataset has {dataset.num_rows:,}."
        )
    with translating_sampler_errors():
        request = body.checked()
        work = aggregate_work(
            posterior.law,
            draws * posterior.num_chains,
            request,
            dataset.num_rows,
            weighted=body.weights is not None,
        )
    if work > MOST_WORK:
        raise TooLargeError(
            f"Totals of {dataset.num_rows:,} rows would take some {work * SECONDS / 60:.0f} minutes: upload "
            f"at most {int(dataset.num_rows * MOST_WORK / work):,} of them at once, or ask for fewer draws."
        )
    # Calibrated figures have no comparisons, and else this one row has one value only.
    asked = body if body.interval == "calibrated" else body.model_copy(update={"compare": None})
    rows = {name: first.column(name) for name in columns_of(asked, posterior)}
    known = {name: first.column(column) for name, column in beside.items()}
    with translating_sampler_errors():
        asked.of_rows(posterior, rows, num_draws=draws, **known)
