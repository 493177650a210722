"""Predictions from a stored posterior."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Literal

from sqlalchemy import Engine

from app.services.errors import (
    ConflictError,
    Fault,
    InvalidRequestError,
    TooLargeError,
    UnusableDataError,
)
from app.services.metrics import predict_seconds, predicted_rows
from app.services.predictions.answers import PredictionAnswer
from app.services.predictions.posteriors import Posteriors
from app.services.predictions.rows import columns_of
from app.services.predictions.tabular import read_rows
from app.services.readers.options import Options
from app.store.tables import Model
from sampler import DataError, Posterior, SettingsError
from sampler.data.encode import Coded
from sampler.posterior import row_diagnostics
from sampler.posterior.answer_columns import are_finite

VERDICTS = ("not_converged", "approximate", "converged")  # each better than the one before
MAX_EXAMINED = 10_000  # rows of whose draws R-hat or Monte Carlo errors are computed: half a millisecond each
MAX_SAMPLES = 1_000_000  # draws in one answer, rows times draws of each
# What a row and a draw take besides the trees, in trees (a tenth of a nanosecond each): the quantiles of
# draws, each bound of a predictive mixture, Monte Carlo errors and R-hat.
QUANTILES, BOUND, EXAMINED = 100, 70, 5000
NAMES = {"num_draws": "draws"}  # of the sampler's settings in requests


@dataclass(frozen=True)
class PredictRequest:
    """What `POST /models/{id}/predict` asks for."""

    rows: Any = None  # a list of objects
    columns: Any = None  # or an object of lists
    file: tuple[BinaryIO, Options] | None = None  # or a file, and what is known of it
    levels: Sequence[float] = (0.9,)
    interval: str | None = None  # None: that of a new outcome, of classes that of their probabilities
    quantiles: Sequence[float] | None = None
    draws: int | None = None  # per chain; None: all
    require: str | None = None  # the verdict on these rows to answer with at least
    mcse: bool = False
    rhat: bool = False
    samples: int | None = None  # so many draws of f themselves, evenly spaced among all
    target: Literal["all", "mean"] = "all"  # "mean": nothing else


class NotConvergedError(ConflictError):
    """The model's verdict is not what the request requires."""

    slug, title = "not-converged", "The model's chains don't agree as well as required"


class Predictor(Posteriors):
    """Answers from posteriors that it keeps decoded; its methods may be called from many threads."""

    def __init__(self, engine: Engine, cache_bytes: int, max_rows: int, max_work: float = math.inf) -> None:
        super().__init__(engine, cache_bytes)
        self.max_rows = max_rows
        self.max_work = max_work

    def predict(self, owner: str, model: str, request: PredictRequest) -> dict[str, Any]:
        """Predict new rows.

        Parameters
        ----------
        owner
            Who asks.
        model
            The id of a model, or a name: then its newest succeeded one.
        request
            The rows, and what to say of each.

        Returns
        -------
        dict
            As the contract shows it, figures as lists of floats.

        Raises
        ------
        NotFoundError, NotFinishedError, NotConvergedError
            There is no such model; it has no answer yet, or never will; it is worse than required.
        InvalidRequestError, UnusableDataError, TooLargeError
            The request or the rows are to blame: with the column and the row.
        """
        return self.answer(owner, model, request).to_json()

    def answer(self, owner: str, model: str, request: PredictRequest) -> PredictionAnswer:
        """The same, not yet in a form to send; raises as `predict`."""
        given: Any = None
        notes: list[str] = []
        if request.file is None:
            given = columns_of(request.rows, request.columns, self.max_rows)
        with predict_seconds.labels("load").time():
            found, posterior, draws = self.lookup(owner, model)
        request = replace(request, draws=draws if request.draws is None else request.draws)
        if request.file is not None:
            given, notes = read_rows(*request.file, posterior.schema, self.max_rows)
        with understood(), predict_seconds.labels("compute").time():
            coded = posterior.encode(given)
            answer = self._answer(found, posterior, coded, request)
        predicted_rows.inc(coded.num_rows)
        return replace(answer, notes=notes)

    def _answer(
        self, model: Model, posterior: Posterior, coded: Coded, request: PredictRequest
    ) -> PredictionAnswer:
        only_mean = request.target == "mean"
        _check_sizes(coded.num_rows, request)
        self._check_work(posterior, coded.num_rows, request)
        prediction = posterior.predict(
            coded,
            level=None if only_mean else list(request.levels),
            interval=request.interval,
            quantiles=None if only_mean else request.quantiles,
            num_draws=request.draws,
        )
        if not are_finite(prediction):
            raise UnusableDataError("The answer is beyond the largest number there is: rescale the target.")
        agreement = judged = None
        if request.rhat or request.require is not None:
            if request.rhat or row_diagnostics.is_known(prediction.draws):
                agreement = row_diagnostics.agreement(posterior, coded, prediction.draws)
            judged = row_diagnostics.verdict(posterior, agreement, prediction.draws)
            _check_verdict(judged, request.require, coded.num_rows)
        return PredictionAnswer(
            model_id=model.id,
            verdict=self.verdict(model, posterior, prediction.draws),
            prediction=prediction,
            only_mean=only_mean,
            errors=row_diagnostics.errors(posterior, coded, prediction) if request.mcse else None,
            rhat=agreement.rhat if agreement is not None and request.rhat else None,
            rows_verdict=judged,
            samples=None
            if request.samples is None
            else row_diagnostics.thinned(posterior, coded, prediction.draws, request.samples),
            classes=posterior.classes,
        )

    def _check_work(self, posterior: Posterior, num_rows: int, request: PredictRequest) -> None:
        """Refuse what would take a core for long: rows times draws times trees, and what comes besides."""
        trees = int(posterior.leaf_counts.shape[2])
        # More draws than there are aren't much work: the posterior refuses them by name.
        draws = posterior.num_chains * min(request.draws or 0, posterior.num_draws)
        each = trees + posterior.own_work
        if request.target != "mean":
            bounds = 2 * len(request.levels) + len(request.quantiles or ())
            kind = request.interval or posterior.usual_interval
            each += QUANTILES + (BOUND * bounds if kind == "predictive" else 0)
        if request.mcse or request.rhat or request.require is not None:
            each += EXAMINED
        if num_rows * draws * each > self.max_work:
            most = max(1, int(self.max_work / (draws * each)))
            raise TooLargeError(
                f"{num_rows} rows x {draws} draws x {trees} trees are too much work for one answer: at most "
                f"{most} of these rows at once (BARTSERVE_MAX_PREDICT_WORK), or fewer draws. "
                "POST /models/{id}/predictions predicts a stored dataset of any length in the background."
            )


def _check_verdict(found: row_diagnostics.RowsVerdict, require: str | None, num_rows: int) -> None:
    if require is None or VERDICTS.index(found.verdict) >= VERDICTS.index(require):
        return
    rows = "row" if num_rows == 1 else f"{num_rows} rows"
    raise NotConvergedError(
        f"The verdict on the {rows} asked is {found.verdict}, and {require} is required. More draws or more "
        "chains help.",
        [Fault(None, None, str(reason), reason.code) for reason in found.reasons],
    )


def _check_sizes(num_rows: int, request: PredictRequest) -> None:
    examined = request.mcse or request.rhat or request.require is not None
    if examined and num_rows > MAX_EXAMINED:
        raise TooLargeError(
            f"mcse, rhat and require look at every draw of every row: at most {MAX_EXAMINED} rows at once."
        )
    if request.samples is not None and num_rows * request.samples > MAX_SAMPLES:
        raise TooLargeError(
            f"{request.samples} draws of {num_rows} rows are too many for one answer: rows times samples may "
            f"be {MAX_SAMPLES}."
        )


@contextmanager
def understood() -> Iterator[None]:
    """The sampler's refusals as ours, in the words of the request."""
    try:
        yield
    except DataError as error:
        raise UnusableDataError(errors=[Fault.of(problem) for problem in error.problems]) from None
    except SettingsError as error:
        raise InvalidRequestError(errors=[Fault.of_setting(error, NAMES)]) from None
