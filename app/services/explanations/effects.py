"""Effects of a treatment: on average, in groups and for each row, for whom, and how far to trust them."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from app.services.explanations.guard import ExplainedModel, Question, WorkOf, affordable, check_finite
from app.services.predictions.rows import Columns
from app.services.request_bodies import ColumnsInBody, FirstDraws, RowsInBody, Share, StrictBody
from app.services.views import DrawsPerChain, filled
from app.store import datasets as dataset_store
from app.store.datasets import BLOCK_ROWS
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError
from sampler import Posterior
from sampler.host.posteriors import (
    MOST_GROUPS,
    Balance,
    EffectEstimate,
    EffectFigure,
    EffectOfDose,
    EffectTree,
    Overlap,
    Sensitivity,
    TreatmentEffects,
    averages_of,
    effects_work,
    spaced,
)

OfRows = list[float]


@dataclass(frozen=True, kw_only=True)
class EffectsView:
    """Effects of a treatment, with what must hold for them to be effects."""

    model_id: str
    draws: DrawsPerChain
    level: float
    difference: Annotated[str, Field(description="In words, what is subtracted from what.")]
    arm: Annotated[str, Field(description="The arm, or dose, whose effect this is; 1 where there are two.")]
    against: Annotated[str, Field(description="The arm or dose it is compared with; 0 where there are two.")]
    arms: Annotated[
        dict[str, EffectEstimate],
        Field(description="Of several arms, each beside `against`, over the rows that count."),
    ]
    dose: Annotated[
        EffectOfDose | None,
        Field(description="Of a dose, the effect of a standard deviation of it, and its range."),
    ]
    of_dose: Annotated[list[str], Field(description="Sentences on the effect of a dose.")]
    holds: Annotated[str, Field(description="What must be true for the figures to be effects.")]
    hidden: Annotated[str, Field(description="How strong a hidden common cause would have to be, in words.")]
    of: Literal["all", "treated", "untreated"]
    average: Annotated[EffectEstimate, Field(description="Over the rows that count.")]
    treated: Annotated[EffectEstimate | None, Field(description="Over those of them that were treated.")]
    untreated: Annotated[EffectEstimate | None, Field(description="Over those that were not.")]
    groups: Annotated[
        dict[str, EffectEstimate], Field(description="Over the rows of each level or quarter of `by`.")
    ]
    larger: Annotated[
        dict[str, dict[str, float]],
        Field(description="Probability that the average of a group is above that of another, by names."),
    ]
    ratio: Annotated[
        EffectFigure | None,
        Field(description="Of counts and two classes, the average in one arm divided by that in the other."),
    ]
    spread: Annotated[EffectFigure, Field(description="Standard deviation of the effect from row to row.")]
    tree: Annotated[EffectTree, Field(description="For whom effects are larger.")]
    overlap: Annotated[
        Overlap | None, Field(description="Whether rows have comparable rows in the other arm.")
    ]
    balance: Annotated[
        list[Balance],
        Field(
            description="How far apart features are in the arms, or how they correlate with the dose; the "
            "largest first."
        ),
    ]
    sensitivity: Sensitivity
    mean: Annotated[OfRows, Field(description="Effect on each row.")]
    lower: OfRows
    upper: OfRows
    positive: Annotated[OfRows, Field(description="Probability that a row's effect is above 0.")]
    is_treated: list[bool]
    unsupported: Annotated[
        list[bool], Field(description="Whether a row has no comparable rows in the other arm.")
    ]
    propensity: Annotated[
        OfRows | None,
        Field(
            description="Fitted probability of being treated, or expected dose; null where none was fitted."
        ),
    ]
    warnings: list[str]

    def averages(self) -> dict[str, EffectEstimate]:
        """Name the averages that there are."""
        return averages_of(self)


class EffectsBody(StrictBody, Question):
    """A request for effects of a model's treatment."""

    of: Literal["all", "treated", "untreated"] = Field(default="all", description="Which of the rows count.")
    by: str | None = Field(
        default=None, description="A feature by whose levels, or quarters, averages are given too."
    )
    arm: str | float | None = Field(
        default=None,
        description="Of several arms, by name, the one whose effect is asked; default the second. Of a "
        "dose, a number; by default effects are those of a unit.",
    )
    against: str | float | None = Field(
        default=None, description="The one it is compared with; default the first. Of a dose, another."
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

    def answer(self, model: ExplainedModel) -> EffectsView:
        """Return the effects, with what must hold for them."""
        answer = self.result(model)
        draws = model.draws(self.draws)
        return filled(EffectsView, answer, model_id=model.head.id, draws=draws)

    def result(self, model: ExplainedModel) -> TreatmentEffects:
        """Return the effects as the sampler has them; raises its errors, and TooLargeError."""
        posterior, draws = model.posterior, model.draws(self.draws)
        work = partial(effects_work, posterior.law, draws * posterior.num_chains, by=self.by)
        rows, few = model.rows, ""
        if rows is None and posterior.law.effects is not None:
            rows, few = _rows_of_dataset(model, work)
        else:
            model.check_work(work, "Effects")
        answer = posterior.effects(
            rows, of=self.of, by=self.by, level=self.level, num_draws=self.draws, arm=self.arm,
            against=self.against,
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
    return features, beside


def _rows_of_dataset(model: ExplainedModel, work: WorkOf) -> tuple[Columns | None, str]:
    """Read rows of the model's dataset, as many as may be asked about, and say so where these are not all.

    None where the dataset is gone: the model keeps some rows.
    """
    header, dataset = model.posterior.header, model.head.dataset_id
    names = [*(column.name for column in header.schema.inputs), *header.beside.values()]
    if dataset is None:
        return None, ""
    try:
        with session_scope(model.predictor.engine, read_only=True) as session:
            treated = dataset_store.read(session, dataset, [header.roles["treatment"]]).column(0)
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
