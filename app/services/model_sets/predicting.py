"""Predictions of rows by the models of a set, each row by that of its group."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from app.services.errors import NotFinishedError, TooLargeError, UnusableDataError
from app.services.fits.forecasts import refuse_forecaster
from app.services.group_names import to_text, values_of
from app.services.metrics import predicted_rows
from app.services.model_sets import stored
from app.services.predictions import kept_columns
from app.services.predictions.answers import PredictionAnswer, finite
from app.services.predictions.file_rows import read_rows
from app.services.predictions.options import PredictionOptions, TableOptions
from app.services.predictions.predict_rows import Predictor, translating_sampler_errors, work_of_row
from app.services.predictions.row_reading import RowReading, with_levels
from app.services.predictions.rows import Columns, SentRows, columns_of
from app.services.request_bodies import (
    MAX_QUANTILES,
    AskedInterval,
    ColumnsInBody,
    FirstDraws,
    Levels,
    RowsInBody,
    Share,
)
from app.store.engine import session_scope
from app.store.sets import model_sets as store
from sampler import Prediction
from sampler.host.data import GroupKey, Table, group_named
from sampler.host.posteriors import RoutedRows, are_finite

MOST_GROUPS = 1000  # models that one request loads
# Of an answer about one model.
SHOWN = ("draws", "interval", "classes", "intervals", "quantiles", "sets", "flags", "warnings", "read_as")


class SetOptions(TableOptions):
    """Requested figures of rows that are predicted by the models of their groups."""

    level: Levels = 0.9
    interval: AskedInterval = None
    quantiles: Annotated[list[Share], Field(max_length=MAX_QUANTILES)] | None = Field(
        default=None, description="Further quantiles of the same distribution as the intervals."
    )
    draws: FirstDraws = None
    unknown: Literal["refuse", "flag"] = Field(
        default="refuse",
        description="Rows of groups without a model that has succeeded: refuse them, naming them, or flag "
        "them: their figures are null.",
    )


class SetPredictBody(SetOptions):
    """Rows to predict by the models of their groups, and the requested figures."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rows: RowsInBody | None = Field(
        default=None,
        description="Objects of values by column name, those that tell the group too; alternatively use "
        "columns.",
    )
    columns: ColumnsInBody | None = Field(
        default=None, description="Lists of values by column name; alternatively use rows."
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


def predict(predictor: Predictor, owner: str, set_id: str, body: SetOptions, sent: SentRows) -> RoutedAnswer:
    """Predict each row by the model of its group.

    A file is read as those that the models were fitted to.

    Raises
    ------
    NotFoundError
        There is no such set, or a model was deleted meanwhile.
    InvalidRequestError, UnusableDataError
        The request or the rows are invalid, or there is no model for a row's group; names column and row.
    TooLargeError
        There are too many rows or groups, or it is too much work.
    """
    with session_scope(predictor.engine, read_only=True) as session:
        of = stored.get(session, owner, set_id)
        refuse_forecaster(of.settings, path="/model-sets/{set_id}/forecast")
        some = store.any_answering(session, of.id)
    columns, facts = _columns_of(predictor, owner, sent, of.by, some)
    with session_scope(predictor.engine, read_only=True) as session:
        with translating_sampler_errors():
            routed = RoutedRows.read(columns, of.by)
        if len(routed.groups) > MOST_GROUPS:
            raise TooLargeError(
                f"The rows are of {len(routed.groups)} groups: send rows of at most {MOST_GROUPS} at once."
            )
        texts = {to_text(group): group for group in routed.groups}
        ids = store.answering(session, of.id, list(texts))
        if len(ids) < len(texts):  # or spelled otherwise
            ids = store.answering(session, of.id)
            named = [group_named(tuple(values_of(text)), len(routed.by)) for text in ids]
            routed = routed.meaning(named)
            texts = {to_text(group): group for group in routed.groups}
            ids = {text: ids[text] for text in texts if text in ids}
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
    answer = PredictionAnswer(of.id, None, whole, classes=whole.classes, **facts)
    return RoutedAnswer(of.id, model_ids, answer)


def _columns_of(
    predictor: Predictor, owner: str, sent: SentRows, by: Sequence[str], some: str | None
) -> tuple[Columns, dict[str, Any]]:
    """Return the columns of the sent rows, and what an answer says of a file of them.

    A file is read by the kinds of one of the models, `some`: levels are those of each row's own model.
    """
    if sent.file is None:
        return columns_of(sent.rows, sent.columns, predictor.max_rows), {}
    if some is None:
        raise NotFinishedError("No model of the set has succeeded yet.")
    file, reading = sent.file
    _, posterior, _ = predictor.lookup(owner, some)
    of_file = read_rows(
        file, RowReading.of(posterior, reading, dict.fromkeys(by, "text")), predictor.max_rows, sent.keep
    )
    table = kept_columns.with_dates(of_file.as_sent)
    names = kept_columns.names_of(sent.keep, table.column_names)
    known = {*by, *posterior.schema.kinds, *posterior.schema.ignored, *posterior.header.subgroup_kinds}
    read = table.drop_columns([name for name in names if name not in known])
    facts: dict[str, Any] = {
        "notes": of_file.notes,
        "read_as": of_file.read_as,
        "dialect": posterior.header.dialect,
    }
    facts |= {"texts": of_file.texts, "written": of_file.written}
    return read.to_pydict(), facts | {"kept": table.select(names) if names else None}
