"""SHAP values of rows: how much each feature moves their predictions."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from app.services.errors import TooLargeError
from app.services.explanations.guard import (
    FEWEST_DRAWS,
    Explained,
    ExplainedModel,
    OutcomeQuestion,
    affordable,
    check_finite,
)
from app.services.request_bodies import ColumnsInBody, RowsInBody, Share, StrictBody
from app.services.views import schema_of
from sampler.host.posteriors import (
    SHAP_CELLS,
    GameKind,
    OutcomeReasons,
    ShapValues,
    moving_most,
    num_figures,
    shap_work,
    spaced,
)

MAX_CELLS = 300_000  # rows times features (times classes) of one answer
MAX_DRAWN = SHAP_CELLS  # draws times features of one row, which are in memory at once
Cells = Annotated[
    list[list[float | str | bool | None]] | None,
    Field(
        description="Cells of the training rows that were explained, [row][feature], where the request "
        "has no rows: each number is the middle of those that the model doesn't tell from it."
    ),
]

ExplainedRows = Explained[ShapValues]


schema_of(OutcomeReasons, "OutcomeReasonsView", "kind values lower upper base outcome")


class ShapBody(StrictBody, OutcomeQuestion):
    """A request for SHAP values."""

    view: ClassVar = schema_of(
        ShapValues,
        "ShapView",
        "outcome model_id draws=draws level game scale classes=classes features=names base=base_values "
        "base_lower base_upper f values lower upper of_outcome data warnings",
        data=Cells,
    )
    reference_rows: ClassVar[int] = 200  # explained at most where the request has no rows

    rows: RowsInBody | None = Field(
        default=None,
        description="Rows to explain, as in predict, without weights; defaults to up to 200 training rows, "
        "evenly spaced.",
    )
    columns: ColumnsInBody | None = Field(
        default=None, description="The rows as lists of values by column name."
    )
    level: Share = Field(default=0.9, description="The probability an interval holds.")
    game: GameKind = Field(
        default="interventional",
        description="interventional: a feature left out takes its values from up to 100 training rows; "
        "path-dependent: it goes both ways at its splits, by the shares of those rows.",
    )
    draws: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None,
        description="Most draws used, evenly spaced over all chains; default: all, or for many rows as "
        "many as two seconds of a core allow.",
    )

    def answer(self, model: ExplainedModel) -> ShapValues:
        """Return the SHAP values of rows, exact on every draw used, with intervals.

        Unless a number is asked for it takes all draws, or as many as are affordable; without rows in the
        request it takes reference rows, as many as are affordable then. Raises TooLargeError for more.
        """
        posterior, rows = model.posterior, model.rows
        law, columns = posterior.law, len(posterior.schema.columns)
        most = MAX_CELLS // (columns * num_figures(law))
        count = model.num_rows if rows is not None else min(model.num_rows, self.reference_rows, most)
        draws = self.draws
        if draws is None:
            within = min(model.all_draws, MAX_DRAWN // columns)
            draws = affordable(lambda draws: shap_work(law, draws, count), within)
            draws = max(draws, min(model.all_draws, FEWEST_DRAWS))
        work = partial(shap_work, law, min(draws, model.all_draws))
        explained: Any = rows
        if rows is None:
            reference = posterior.reference
            explained = reference.part(spaced(reference.num_rows, max(1, affordable(work, count))))
        elif count > most:
            raise TooLargeError(
                f"SHAP values of {count} rows are too many for one answer: send at most {most} rows at once."
            )
        else:
            model.check_work(work, "SHAP values")
        if min(draws, model.all_draws) * columns > MAX_DRAWN:
            raise TooLargeError(
                f"SHAP values of {columns} features by {draws} draws take too much memory: ask for fewer "
                f"draws, at most {MAX_DRAWN // columns}."
            )
        answer = posterior.shap(explained, level=self.level, game=self.game, max_draws=draws)
        check_finite(answer.values, answer.lower, answer.upper)
        return answer

    def facts(self, model: ExplainedModel, answer: ShapValues) -> Mapping[str, Any]:
        """Return the cells too, of rows that the request doesn't have."""
        cells = [list(row) for row in zip(*answer.data, strict=True)]
        return {**super().facts(model, answer), "data": cells if model.rows is None else None}


class SwarmOfRows(ShapBody):
    """A question about fewer reference rows, which a chart of all of them shows."""

    reference_rows: ClassVar[int] = 100


@dataclass(frozen=True)
class FeatureReasons:
    """Size of a feature's SHAP values: their mean size, and rows whose interval is on one side of zero."""

    name: str
    position: int
    size: float
    rows_beyond_zero: int


@dataclass(frozen=True)
class ReasonsOfRows:
    """SHAP values of rows, float64 [row, feature], of numbers or of one class; features by their size.

    `kind` says what they are of: "differences" of the outcome, "percent" of it, or of the `scale` alone (""),
    that of several classes.
    """

    scale: str
    kind: str
    label: str | None  # the class
    values: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    features: list[FeatureReasons]
    warnings: list[str]


def left_out_of(scale: str) -> str:
    """Return what the scale of SHAP values leaves out, in words; "" for nothing."""
    last = scale.rpartition(", ")[2]
    return last if last.endswith("left out") else ""


def reasons_of(explained: ShapValues) -> ReasonsOfRows:
    """Rank features by the mean size of their values; of several classes take the one that moves most."""
    values, lower, upper = explained.values, explained.lower, explained.upper
    label, of, scale = None, explained.of_outcome, explained.scale
    kind = "differences" if values.ndim == 2 else ""
    if of is not None:
        values, lower, upper = of.values, of.lower, of.upper
        scale = "in the unit of the prediction"
    if of is not None and of.kind == "factors":
        kind, scale = "percent", "change of the outcome in percent"
        values, lower, upper = (100 * (each - 1) for each in (values, lower, upper))
    if values.ndim == 3:
        k = moving_most(values)
        values, lower, upper = values[..., k], lower[..., k], upper[..., k]
        label = (explained.classes or [])[k]
    size = np.abs(values).mean(axis=0)
    beyond = ((lower > 0) | (upper < 0)).sum(axis=0)
    features = [
        FeatureReasons(explained.names[j], int(j), float(size[j]), int(beyond[j]))
        for j in np.argsort(-size, kind="stable")
    ]
    return ReasonsOfRows(scale, kind, label, values, lower, upper, features, explained.warnings)
