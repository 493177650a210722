"""Predictions of rows by the models of a set, each row by that of its group."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from app.services.errors import TooLargeError, UnusableDataError
from app.services.group_names import to_text
from app.services.metrics import predicted_rows
from app.services.model_sets import stored
from app.services.predictions.answers import PredictionAnswer, finite
from app.services.predictions.options import PredictionOptions
from app.services.predictions.predict_rows import Predictor, translating_sampler_errors, work_of_row
from app.services.predictions.row_reading import with_levels
from app.services.predictions.rows import columns_of
from app.services.request_bodies import (
    MAX_QUANTILES,
    AskedInterval,
    ColumnsInBody,
    FirstDraws,
    Levels,
    RowsInBody,
    Share,
    StrictBody,
)
from app.store.engine import session_scope
from app.store.sets import model_sets as store
from sampler import Prediction
from sampler.host.data import GroupKey, Table
from sampler.host.posteriors import RoutedRows, are_finite

MOST_GROUPS = 1000  # models that one request loads
# Of an answer about one model.
SHOWN = ("draws", "interval", "classes", "intervals", "quantiles", "sets", "flags", "warnings")


class SetPredictBody(StrictBody):
    """Rows to predict by the models of their groups, and the requested figures."""

    rows: RowsInBody | None = Field(
        None,
        description="Objects of values by column name, those that tell the group too; alternatively use "
        "columns.",
    )
    columns: ColumnsInBody | None = Field(
        None, description="Lists of values by column name; alternatively use rows."
    )
    level: Levels = 0.9
    interval: AskedInterval = None
    quantiles: Annotated[list[Share], Field(max_length=MAX_QUANTILES)] | None = Field(
        None, description="Further quantiles of the same distribution as the intervals."
    )
    draws: FirstDraws = None
    unknown: Literal["refuse", "flag"] = Field(
        "refuse",
        description="Rows of groups without a model that has succeeded: refuse them, naming them, or flag "
        "them: their figures are null.",
    )


@dataclass(frozen=True)
class RoutedAnswer:
    """Predictions of rows of several groups."""

    set_id: str
    model_ids: list[str | None]  # by row
    answer: PredictionAnswer

    def to_json(self) -> dict[str, Any]:
        """Return the response document as JSON values."""
        figures = {name: value for name, value in self.answer.to_json().items() if name in SHOWN}
        prediction = self.answer.prediction
        figures |= {"mean": finite(prediction.mean), "sd": finite(prediction.sd)}
        return {"set_id": self.set_id, "model_ids": self.model_ids, **figures}


def predict(predictor: Predictor, owner: str, set_id: str, body: SetPredictBody) -> RoutedAnswer:
    """Predict each row by the model of its group.

    Raises
    ------
    NotFoundError
        There is no such set, or a model was deleted meanwhile.
    InvalidRequestError, UnusableDataError
        The request or the rows are invalid, or there is no model for a row's group; names column and row.
    TooLargeError
        There are too many rows or groups, or it is too much work.
    """
    columns = columns_of(body.rows, body.columns, predictor.max_rows)
    with session_scope(predictor.engine, read_only=True) as session:
        of = stored.get(session, owner, set_id)
        with translating_sampler_errors():
            routed = RoutedRows.read(columns, of.by)
        if len(routed.groups) > MOST_GROUPS:
            raise TooLargeError(
                f"The rows are of {len(routed.groups)} groups: send rows of at most {MOST_GROUPS} at once."
            )
        texts = {to_text(group): group for group in routed.groups}
        ids = store.answering(session, of.id, list(texts))
    known = {texts[text]: model_id for text, model_id in ids.items()}
    options = PredictionOptions(
        level=body.level, interval=body.interval, quantiles=body.quantiles, draws=body.draws
    )
    work = 0.0

    def predict_part(group: GroupKey, _part: Table) -> Prediction:
        nonlocal work
        rows = routed.groups[group].tolist()
        cells = {name: [columns[name][row] for row in rows] for name in columns if name not in routed.by}
        _, posterior, draws = predictor.lookup(owner, known[group])
        coded = posterior.encode(with_levels(posterior, cells))
        work += coded.num_rows * work_of_row(posterior, options, coded)
        if work > predictor.max_work:
            raise TooLargeError("This is too much work at once: send fewer rows, or ask for fewer draws.")
        predictor.check_work(posterior, coded, options)
        prediction = posterior.predict(
            coded, body.level, body.interval, body.quantiles, num_draws=body.draws or draws
        )
        if not are_finite(prediction):
            raise UnusableDataError("The result exceeds the largest float: rescale the target.")
        return prediction

    with translating_sampler_errors():
        whole = routed.predict(known, predict_part, body.unknown)
    predicted_rows.inc(routed.table.num_rows)
    model_ids: list[str | None] = [None] * routed.table.num_rows
    for group, model_id in known.items():
        for row in routed.groups[group].tolist():
            model_ids[row] = model_id
    answer = PredictionAnswer(of.id, None, whole, classes=whole.classes)
    return RoutedAnswer(of.id, model_ids, answer)
