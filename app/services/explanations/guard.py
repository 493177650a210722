"""The one way to a posterior for explanations: check the model and the rows, bound the work, answer.

An explanation is a question about a model: its fields are those of the request, `answer` asks the posterior
and returns the response.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from pydantic import BaseModel, Field

from app.services.errors import NotFinishedError, TooLargeError, UnusableDataError
from app.services.predictions.predict_rows import Predictor, translating_sampler_errors
from app.services.predictions.row_reading import with_levels
from app.services.predictions.rows import Columns, columns_if_any, columns_of
from app.services.request_bodies import AskedOutcome
from app.services.views import facts_of, filled, schema_of
from app.store.models import ModelHead
from app.store.tables import SUCCEEDED, Model
from sampler import Posterior
from sampler.host.data import interrupt
from sampler.host.posteriors import MOST_WORK as MOST
from sampler.host.posteriors import Interval

FEWEST_DRAWS = 200  # of all chains: by fewer an answer isn't given unless they are asked for
T = TypeVar("T")
CurveInterval = schema_of(Interval, "CurveInterval", "level lower upper")
T_co = TypeVar("T_co", covariant=True)
WorkOf = Callable[[int], float]  # of so many rows, or draws


@dataclass(frozen=True)
class ExplainedModel:
    """A model with its posterior, and the rows of a question about it.

    Attributes
    ----------
    predictor
        The predictor that has the posterior.
    head
        The model.
    posterior
        Its posterior.
    present
        Draws per chain that are stored so far.
    rows
        Columns of the question's rows by name; None for the reference rows.

    """

    predictor: Predictor
    head: ModelHead
    posterior: Posterior
    present: int
    rows: Columns | None = None

    @cached_property
    def classes(self) -> list[str] | None:
        """Names of the classes, None for a numeric target; of two, figures are P(second)."""
        return classes_of(self.posterior)

    @property
    def num_rows(self) -> int:
        """Number of the rows."""
        rows = self.rows
        return self.posterior.reference.num_rows if rows is None else len(next(iter(rows.values()), ()))

    @property
    def all_draws(self) -> int:
        """Number of draws of all chains."""
        return self.posterior.num_chains * self.posterior.num_draws

    def draws(self, most: int | None) -> int:
        """Return the number of draws per chain where at most so many are wanted; None: all."""
        return min(most or self.posterior.num_draws, self.posterior.num_draws)

    def check_work(self, of_rows: WorkOf, noun: str) -> None:
        """Raise TooLargeError where an answer about the rows is more work than one request may take."""
        rows, most = self.num_rows, affordable(of_rows, self.num_rows)
        if most < rows:
            advice = (
                f"send at most {most} of these rows at once, or ask for fewer draws"
                if most
                else "ask for fewer draws"
            )
            raise TooLargeError(f"{noun} of {rows} rows are more work than one request may take: {advice}.")


class Question(BaseModel):
    """A question about a model, which has succeeded unless the question is of fits too.

    `view` is the schema of its answer over HTTP.
    """

    view: ClassVar[type[Any]]
    of_fits: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = False  # else, without any, it is about rows that the service keeps

    @property
    def is_of_kept_rows(self) -> bool:
        """Whether the answer has figures of rows that the service keeps, or averages over them."""
        sent = (getattr(self, name, None) for name in ("rows", "columns"))
        return not self.needs_rows and all(each is None for each in sent)

    def sent_rows(self, max_rows: int) -> Columns | None:
        """Return the columns of the rows that were sent, None for none; raises as `columns_of`."""
        read = columns_of if self.needs_rows else columns_if_any
        return read(getattr(self, "rows", None), getattr(self, "columns", None), max_rows)

    def answer(self, model: ExplainedModel) -> Any:
        """Answer the question; raises the sampler's errors, and service errors."""
        raise NotImplementedError

    def facts(self, model: ExplainedModel, _answer: Any) -> Mapping[str, Any]:
        """Return what the view has besides the answer, by name; others of its names are left out."""
        own = {"classes": model.classes, "draws": model.draws(getattr(self, "draws", None))}
        return {"model_id": model.head.id, "outcome": model.posterior.schema.target.name} | own


class OutcomeQuestion(Question):
    """A question about one outcome of a model."""

    outcome: AskedOutcome = None


@dataclass(frozen=True)
class Explained(Generic[T]):
    """An answer about a model, with facts about the model and the question."""

    answer: T
    facts: Mapping[str, Any]
    view: type[Any]

    @classmethod
    def of(cls, question: "Answering[T]", model: ExplainedModel) -> "Explained[T]":
        """Answer a question about a model; raises as it does."""
        answer = question.answer(model)
        if isinstance(answer, OutcomeView):
            answer = replace(answer, outcome=model.posterior.schema.target.name)
        facts, view = question.facts(model, answer), question.view
        return cls(answer, {name: facts[name] for name in facts_of(view) if name in facts}, view)

    def shown(self) -> Any:
        """Return the answer as its view, with plain lists."""
        answer = self.answer
        return answer if isinstance(answer, self.view) else filled(self.view, answer, **self.facts)


@dataclass(frozen=True, kw_only=True)
class OutcomeView:
    """Answer about one outcome of a model, which is its view."""

    outcome: Annotated[str | None, Field(description="The outcome that the answer is about.")] = None


class Answering(Protocol[T_co]):
    """Interface of a question whose answer has a known type."""

    @property
    def of_fits(self) -> bool: ...
    @property
    def view(self) -> type[Any]: ...
    def sent_rows(self, max_rows: int) -> Columns | None: ...
    def answer(self, model: ExplainedModel) -> T_co: ...
    def facts(self, model: ExplainedModel, answer: Any) -> Mapping[str, Any]: ...


def explain(predictor: Predictor, owner: str, model: str, question: Answering[T]) -> Explained[T]:
    """Answer a question about the model with this id, or the one that this name means.

    Raises
    ------
    NotFoundError, NotFinishedError
        The model doesn't exist, or has not finished.
    InvalidRequestError, UnusableDataError, TooLargeError
        The question or its rows are invalid; names the field, or the column and row.
    """
    interrupt.look()  # a page asks several questions, one after the other
    rows = question.sent_rows(predictor.max_rows)
    predictor = predictor.of_outcome(getattr(question, "outcome", None))
    head, posterior, present = predictor.lookup(owner, model)
    if not question.of_fits:
        check_succeeded(head)
    with translating_sampler_errors():
        rows = with_levels(posterior, rows)
        return Explained.of(question, ExplainedModel(predictor, head, posterior, present, rows))


def finished(predictor: Predictor, owner: str, model: str) -> tuple[ModelHead, Posterior]:
    """Return the succeeded model with this id, or the one that this name means, and its posterior.

    Raises
    ------
    NotFoundError, NotFinishedError
        The model doesn't exist, or has not finished.
    """
    head, posterior, _ = predictor.lookup(owner, model)
    check_succeeded(head)
    return head, posterior


def check_succeeded(model: Model | ModelHead) -> None:
    """Raise NotFinishedError for a model that is being fitted or extended, even if it has draws."""
    if model.state != SUCCEEDED:
        raise NotFinishedError(f"Model {model.id} is {model.state}: ask again when it has succeeded.")


def classes_of(posterior: Posterior) -> list[str] | None:
    """Return the classes of a model, or None for a numeric target; of two, figures are P(second)."""
    return None if posterior.classes is None else list(posterior.classes)


def affordable(work_of: WorkOf, most: int) -> int:
    """Return the largest number up to `most` of which the work is within the bound, 0 for none."""
    return bisect_right(range(1, most + 1), MOST, key=work_of)


def check_finite(*figures: Any) -> None:
    """Raise UnusableDataError for figures beyond the largest float."""
    if not all(np.isfinite(part).all() for part in figures):
        raise UnusableDataError("The result exceeds the largest float: rescale the target.")
