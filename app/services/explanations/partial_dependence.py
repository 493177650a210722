"""Partial dependence on one to three features, and the values that these have."""

from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from app.services.errors import TooLargeError
from app.services.explanations.guard import Explained, ExplainedModel, OutcomeQuestion, check_finite
from app.services.predictions.posteriors import find
from app.services.predictions.predict_rows import Predictor
from app.services.predictions.row_reading import with_levels
from app.services.predictions.rows import Columns, lists_of
from app.services.request_bodies import (
    ColumnsInBody,
    FirstDraws,
    Levels,
    RowsInBody,
    StrictBody,
    levels_of,
)
from app.services.views import schema_of
from app.store import datasets as dataset_store
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError
from sampler.host.data import MICROSECONDS_A_DAY, OF_LEVELS, days_to_text
from sampler.host.data import value_as_text as as_text
from sampler.host.posteriors import MOST_WORK as MOST
from sampler.host.posteriors import FeatureRows, Ice, PartialDependence

RUG = 200  # values of a feature shown below its effect
MAX_POINTS = 10_000  # grid points in one response
ICE_ROWS = 50  # rows with individual curves
ModelPart = Literal["mean", "noise"]
OF = "The mean of outcomes, or the noise where it differs by row (noise forest): what makes them uncertain."
schema_of(Ice, "IceView", "rows mean intervals")

ExplainedDependence = Explained[PartialDependence]


class DependenceBody(StrictBody, OutcomeQuestion):
    """A request for partial dependence."""

    view: ClassVar = schema_of(
        PartialDependence,
        "DependenceView",
        "outcome model_id draws classes features grid rows mean sd intervals ice",
    )

    features: list[str] = Field(min_length=1, max_length=3, description="One to three features.")
    grid: ColumnsInBody | None = Field(
        default=None,
        description="Grid values by feature; defaults to every level, or to up to 19 values of the training "
        "data that divide its rows evenly (a value of many rows counts once), 9 of each of three features. "
        "At most 10,000 points in all.",
    )
    level: Levels = 0.9
    of: Literal[ModelPart, "effect"] = Field(
        default="mean", description=f"{OF} Of a model with a treatment also its effect."
    )
    arm: str | float | None = Field(
        default=None, description="Of an effect with several arms, or of a dose, as in effects."
    )
    against: str | float | None = Field(default=None, description="The one that it is compared with.")
    ice: bool = Field(
        default=False,
        description="Also return curves of up to 50 single rows, evenly spaced; one feature only.",
    )
    draws: FirstDraws = None
    rows: RowsInBody | None = Field(
        default=None,
        description="Rows to average over, as in predict, without weights; defaults to up to 200 training "
        "rows, evenly spaced.",
    )
    columns: ColumnsInBody | None = Field(
        default=None, description="The rows as lists of values by column name."
    )

    def sent_rows(self, max_rows: int) -> Columns | None:
        """Check the grid, then the rows; raises TooLargeError too."""
        grid = lists_of(dict(self.grid or {}))
        if np.prod([float(len(points)) for points in grid.values()]) > MAX_POINTS:
            raise TooLargeError(f"A grid has at most {MAX_POINTS} points.")
        return super().sent_rows(max_rows)

    def answer(self, model: ExplainedModel) -> PartialDependence:
        """Return how predictions change with the features, averaged over the others in the rows."""
        posterior = model.posterior
        result = posterior.partial_dependence(
            self.features,
            model.rows,
            grid=with_levels(posterior, dict(self.grid or {})),
            level=levels_of(self.level),
            ice=ICE_ROWS if self.ice else 0,
            num_draws=self.draws,
            max_work=MOST,
            of=self.of,
            arm=self.arm,
            against=self.against,
        )
        check_finite(result.mean, result.sd, *(part for each in result.intervals for part in each))
        return result


def feature_rows(predictor: Predictor, owner: str, model: str, feature: str) -> FeatureRows:
    """Describe the values of a feature; raises as `Predictor.lookup`."""
    unit = predictor.lookup(owner, model)[1].header.units.get(feature)
    with session_scope(predictor.engine, read_only=True) as session:
        stored = find(session, owner, model)
        if stored.dataset_id is None:
            return FeatureRows(unit=unit)
        try:
            column = dataset_store.read(session, stored.dataset_id, [feature]).column(0)
        except (KeyError, DatasetGoneError):
            return FeatureRows(unit=unit)
    kind = (stored.settings.get("columns") or {}).get(feature)
    if kind in {*OF_LEVELS, "boolean"}:
        counted = zip(*column.value_counts().flatten(), strict=True)
        levels = [(value.as_py(), count.as_py()) for value, count in counted]
        return FeatureRows(counts={v if v is None else as_text(v): count for v, count in levels})
    dates = pa.types.is_timestamp(column.type)
    present = (
        column.drop_null().cast(pa.int64()) if dates else column.drop_null().cast(pa.float64(), safe=False)
    )
    values = np.sort(present.to_numpy())
    if len(values) == 0:
        return FeatureRows(unit=unit)
    rug = values[np.linspace(0, len(values) - 1, min(len(values), RUG)).round().astype(int)].tolist()
    rug = [days_to_text(value / MICROSECONDS_A_DAY) for value in rug] if dates else rug
    return FeatureRows(rug, unit=unit)
