"""Predictions from a stored posterior."""

import logging
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime  # noqa: TC003  beside other annotations
from typing import Any, BinaryIO, Literal

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services.errors import (
    ConflictError,
    Fault,
    InvalidRequestError,
    NotFinishedError,
    NotFoundError,
    ServiceError,
    TooLargeError,
    UnusableDataError,
)
from app.services.fits import models
from app.services.metrics import predict_seconds, predicted_rows
from app.services.predictions.answers import PredictionAnswer
from app.services.predictions.posterior_cache import Cache
from app.services.predictions.rows import columns_of
from app.services.predictions.tabular import read_rows
from app.services.readers.options import Options
from app.store import draws as draw_store
from app.store import models as store
from app.store.engine import session_scope
from app.store.errors import CorruptBlockError, ModelGoneError
from app.store.queue import restarts
from app.store.tables import OPEN_STATES, SUCCEEDED, Model
from sampler import DataError, PackedError, Posterior, SettingsError, is_warm, warm
from sampler.data.encode import Coded
from sampler.data.row_flags import by_row
from sampler.posterior import row_diagnostics
from sampler.posterior.answer_columns import are_finite

log = logging.getLogger(__name__)
VERDICTS = ("not_converged", "approximate", "converged")  # each better than the one before
MAX_EXAMINED = 10_000  # rows of whose draws R-hat or Monte Carlo errors are computed: half a millisecond each
MAX_SAMPLES = 1_000_000  # draws in one answer, rows times draws of each
# What a row and a draw take besides the trees, in trees (a tenth of a nanosecond each): the quantiles of
# draws, each bound of a predictive mixture, Monte Carlo errors and R-hat.
QUANTILES, BOUND, EXAMINED = 100, 70, 5000
LOADS = 3  # of a posterior that grows while it is read
NAMES = {"num_draws": "draws"}  # of the sampler's settings in requests
KERNELS = "prediction"  # all that the API runs of the sampler's compiled code
MAX_VERDICTS = 1000  # remembered, of models with some of their draws; and draws of models


@dataclass(frozen=True)
class PredictRequest:
    """What `POST /models/{id}/predict` asks for."""

    rows: Any = None  # a list of objects
    columns: Any = None  # or an object of lists
    file: tuple[BinaryIO, Options] | None = None  # or a file, and what is known of it
    levels: Sequence[float] = (0.9,)
    interval: str = "credible"
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


class DamagedError(ServiceError):
    """What was stored can't be read back."""

    slug, title = "damaged", "The stored model is damaged"


class _ClosingError(Exception):
    """Stops the loading of kernels when the process is to end."""


class Predictor:
    """Answers from posteriors that it keeps decoded; its methods may be called from many threads."""

    def __init__(self, engine: Engine, cache_bytes: int, max_rows: int, max_work: float = math.inf) -> None:
        self.engine = engine
        self.max_rows = max_rows
        self.max_work = max_work
        self.cache: Cache[Posterior] = Cache(cache_bytes)
        self._verdicts: dict[tuple[str, int], str] = {}
        self._draws: dict[tuple[str, datetime | None], int | None] = {}
        self._warming: threading.Thread | None = None
        self._closing = threading.Event()

    def start(self, *, compile_kernels: bool) -> None:
        """Load the compiled kernels in the background, so that the first prediction needn't wait for them.

        Parameters
        ----------
        compile_kernels
            Compile them too when nobody has. Not where a worker of this machine does it anyway: compiling
            makes a process slow to answer.
        """
        if is_warm(KERNELS) or compile_kernels:
            self._warming = threading.Thread(target=self._warm, name="warm", daemon=True)
            self._warming.start()

    def close(self) -> None:
        """End what `start` began."""
        self._closing.set()
        if self._warming is not None:
            self._warming.join()

    def _warm(self) -> None:
        def go_on(_done: int, _total: int) -> None:
            if self._closing.is_set():
                raise _ClosingError

        try:
            warm(KERNELS, go_on)
        except _ClosingError:
            pass
        except Exception:
            log.exception("The kernels could not be loaded; the first prediction tries again")

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
            interval=request.interval,
            prediction=prediction,
            flags=by_row(coded.marks, posterior.schema.columns),
            only_mean=only_mean,
            errors=row_diagnostics.errors(posterior, coded, prediction, request.interval)
            if request.mcse
            else None,
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
        draws = posterior.num_chains * min(request.draws or 0, posterior.num_draws)
        each = trees + posterior.own_work
        if request.target != "mean":
            bounds = 2 * len(request.levels) + len(request.quantiles or ())
            each += QUANTILES + (BOUND * bounds if request.interval == "predictive" else 0)
        if request.mcse or request.rhat or request.require is not None:
            each += EXAMINED
        if num_rows * draws * each > self.max_work:
            most = max(1, int(self.max_work / (draws * each)))
            raise TooLargeError(
                f"{num_rows} rows x {draws} draws x {trees} trees are too much work for one answer: at most "
                f"{most} of these rows at once (BARTSERVE_MAX_PREDICT_WORK), or fewer draws. "
                "POST /models/{id}/predictions predicts a stored dataset of any length in the background."
            )

    def lookup(self, owner: str, model: str) -> tuple[Model, Posterior, int]:
        """The model of an id or a name, its posterior, and the draws that each of its chains has by now.

        The posterior has at least so many: of a model that is being fitted it grows all the time. Raises as
        `predict`.
        """
        with session_scope(self.engine, read_only=True) as session:
            found = find(session, owner, model, partly=True)
            draws = self._common_draws(session, found)
        posterior = self.cache.get(found.id, lambda: self._load(found.id))
        for _ in range(LOADS):
            if draws is None or posterior.num_draws >= draws:
                break
            # What is kept, or was being read for somebody else, is older than our look.
            self.cache.drop(found.id)
            posterior = self.cache.get(found.id, lambda: self._load(found.id))
        return found, posterior, min(posterior.num_draws, draws or posterior.num_draws)

    def _common_draws(self, session: Session, model: Model) -> int | None:
        """The draws of every chain, which stay as they are once a model has succeeded."""
        key = model.id, model.finished_at
        if model.state != SUCCEEDED or model.finished_at is None:
            return restarts.common_draws(session, model.id)
        if key not in self._draws:
            if len(self._draws) >= MAX_VERDICTS:
                self._draws.clear()
            self._draws[key] = restarts.common_draws(session, model.id)
        return self._draws[key]

    def verdict(self, model: Model, posterior: Posterior, draws: int) -> str | None:
        """The model's verdict as it was when it had so many draws: a pinned answer never changes."""
        if model.state == SUCCEEDED and draws == model.settings.get("num_draws", posterior.num_draws):
            return model.verdict
        key = model.id, draws
        if key not in self._verdicts:
            if len(self._verdicts) >= MAX_VERDICTS:
                self._verdicts.clear()
            self._verdicts[key] = row_diagnostics.model_verdict(posterior, draws)
        return self._verdicts[key]

    def _load(self, model_id: str) -> Posterior:
        with session_scope(self.engine, read_only=True) as session:
            try:
                header = store.header(session, model_id)
                blocks = draw_store.read(session, model_id)
            except CorruptBlockError as error:
                raise DamagedError(str(error)) from error
            except ModelGoneError as error:
                raise NotFoundError(str(error)) from None
        if header is None or not blocks:
            raise NotFoundError("The model was deleted.")
        warm(KERNELS)
        try:
            return Posterior.from_blocks(header, blocks)
        except PackedError as error:
            raise DamagedError(f"Model {model_id}: {error}.") from error


def find(session: Session, owner: str, model: str, *, partly: bool = False) -> Model:
    """The model of an id, or the newest of a name that has succeeded: it has succeeded.

    `partly`: it need not have, when all of its chains have draws. Raises NotFoundError and NotFinishedError.
    """
    found = models.get(session, owner, model, succeeded=True)
    if found.state == SUCCEEDED or (partly and restarts.common_draws(session, found.id)):
        return found
    lacking = ", and not all of its chains have draws" if partly else ""
    later = f": ask again when GET /models/{found.id} says succeeded" if found.state in OPEN_STATES else ""
    raise NotFinishedError(f"Model {found.id} is {found.state}{lacking}{later}.")


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
