"""Effects of a treatment: on average, in groups and for each row, for whom, and how far to trust them."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from app.services.explanations.guard import (
    Explained,
    ExplainedModel,
    Question,
    WorkOf,
    affordable,
    check_finite,
)
from app.services.predictions.rows import Columns
from app.services.request_bodies import ColumnsInBody, FirstDraws, RowsInBody, Share, StrictBody
from app.services.views import schema_of
from app.store import datasets as dataset_store
from app.store.datasets import BLOCK_ROWS
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError
from sampler import Posterior
from sampler.host.posteriors import BY_PANEL, MOST_GROUPS, TreatmentEffects, effects_work, spaced

ColumnsOfSets = Annotated[list[str], Field(max_length=2, fail_fast=True)]
CutPoints = Annotated[
    dict[str, Annotated[list[float], Field(max_length=MOST_GROUPS, fail_fast=True)] | None],
    Field(max_length=2, fail_fast=True),
]
ExplainedEffects = Explained[TreatmentEffects]


class EffectsBody(StrictBody, Question):
    """A request for effects of a model's treatment."""

    view: ClassVar = schema_of(
        TreatmentEffects,
        "EffectsView",
        "model_id draws level difference arm against arms dose of_dose holds hidden of average treated "
        "untreated groups larger ratio spread tree overlap balance sensitivity mean lower upper positive "
        "is_treated unsupported propensity warnings use measure until neutral of_times followed curves",
    )

    of: Literal["all", "treated", "untreated"] = Field(default="all", description="Which of the rows count.")
    by: str | ColumnsOfSets | CutPoints | None = Field(
        default=None,
        description="A column by whose levels, or quarters, averages are given too; two of them; or the cut "
        'points of numbers, {"age": [40, 60]}, with null for one without: features, columns of groups, or '
        "others that the rows have.",
    )
    arm: str | float | None = Field(
        default=None,
        description="Of several arms, by name, the one whose effect is asked; default the second. Of a "
        "dose, a number; by default effects are those of a unit.",
    )
    against: str | float | None = Field(
        default=None, description="The one it is compared with; default the first. Of a dose, another."
    )
    measure: Literal["restricted_mean", "survival", "ratio"] | None = Field(
        default=None,
        description="Of times with events, what is compared: the mean of the time or of `until` where that "
        "is less (the default), the probability of more than `until`, or quantiles, as a ratio.",
    )
    until: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="That time; by default a tenth of the rows of each arm were followed until then.",
    )
    level: Share = Field(default=0.9, description="The probability an interval holds.")
    draws: FirstDraws = None
    rows: RowsInBody | None = Field(
        default=None,
        description="Rows with the treatment's column; defaults to those of the model's dataset, or as many "
        "of them, evenly spaced, as one request may take.",
    )
    columns: ColumnsInBody | None = Field(
        default=None, description="The rows as lists of values by column name."
    )

    def answer(self, model: ExplainedModel) -> TreatmentEffects:
        """Return the effects, with what must hold for them."""
        posterior, draws = model.posterior, model.draws(self.draws)
        work = partial(effects_work, posterior.law, draws * posterior.num_chains, by=self.by)
        rows, few = model.rows, ""
        if rows is None and posterior.law.effects is not None:
            by = [self.by] if isinstance(self.by, str) else [*(self.by or ())]
            rows, few = _rows_of_dataset(model, work, by)
        else:
            model.check_work(work, "Effects")
        answer = posterior.effects(
            rows, of=self.of, by=self.by, level=self.level, num_draws=self.draws, arm=self.arm,
            against=self.against, measure=self.measure, until=self.until,
        )  # fmt: skip
        check_finite(answer.mean, answer.lower, answer.upper)
        if few:
            answer.warnings.append(few)
        return answer


def names_for_groups(posterior: Posterior) -> tuple[list[str], list[str]]:
    """Name the features, and the columns of groups, that `by` takes."""
    features, beside = (
        [each.name for each in columns if len(each.levels) <= MOST_GROUPS]
        for columns in (posterior.schema.columns, posterior.schema.groups)
    )
    return [*(BY_PANEL if posterior.header.panel else ()), *features], beside


def _rows_of_dataset(model: ExplainedModel, work: WorkOf, by: Sequence[str]) -> tuple[Columns | None, str]:
    """Read rows of the model's dataset, as many as may be asked about, and say so where these are not all.

    They have the columns of the model and those of `by`.

    None where the dataset is gone: the model keeps some rows.
    """
    header, dataset = model.posterior.header, model.head.dataset_id
    own, panel = [column.name for column in header.schema.inputs], header.panel
    told = header.roles["treatment"] if panel is None else panel.period
    own += [] if panel else header.beside.values()  # a panel's is made of two others
    names = [*dict.fromkeys([*own, *(name for name in by if not (panel and name in BY_PANEL))])]
    if dataset is None:
        return None, ""
    try:
        with session_scope(model.predictor.engine, read_only=True) as session:
            treated = dataset_store.read(session, dataset, [told]).column(0)
            known = np.flatnonzero(treated.is_valid())
            chosen = known[spaced(len(known), max(1, affordable(work, len(known))))]
            seqs = np.unique(chosen // BLOCK_ROWS).tolist() or [0]
            parts = [  # of one block of the dataset after another, which may have many more rows
                dataset_store.read_block(session, dataset, names, seq).take(
                    chosen[chosen // BLOCK_ROWS == seq] - seq * BLOCK_ROWS
                )
                for seq in seqs
            ]
    except (KeyError, DatasetGoneError):
        return None, ""
    few = ""
    if len(chosen) < len(known):
        few = f"Averages are over {len(chosen):,} of {len(known):,} rows, evenly spaced."
    table = pa.concat_tables(parts)
    return {name: table.column(name) for name in names}, few
