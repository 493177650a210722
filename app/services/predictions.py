"""Predictions from a stored posterior."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services.cache import Cache
from app.services.errors import (
    ConflictError,
    Fault,
    InvalidRequestError,
    NotFinishedError,
    NotFoundError,
    ServiceError,
    UnusableDataError,
)
from app.services.fits import MAX_SAID
from app.services.pages import is_id
from app.services.rows import columns_of
from app.store import draws as draw_store
from app.store import models as store
from app.store.engine import session_scope
from app.store.errors import CorruptBlockError
from app.store.tables import OPEN_STATES, SUCCEEDED, Model
from sampler import DataError, PackedError, Posterior, Prediction, SettingsError, is_warm, warm

log = logging.getLogger(__name__)
VERDICTS = ("not_converged", "approximate", "converged")  # each better than the one before


@dataclass(frozen=True)
class PredictRequest:
    """What `POST /models/{id}/predict` asks for."""

    rows: Any = None  # a list of objects
    columns: Any = None  # or an object of lists
    levels: Sequence[float] = (0.9,)
    interval: str = "credible"
    quantiles: Sequence[float] | None = None
    draws: int | None = None  # per chain; None: all
    require: str | None = None  # the verdict to answer with at least


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

    def __init__(self, engine: Engine, cache_bytes: int, max_rows: int) -> None:
        self.engine = engine
        self.max_rows = max_rows
        self.cache: Cache[Posterior] = Cache(cache_bytes)
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
        if is_warm() or compile_kernels:
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
            warm(go_on)
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
        columns = columns_of(request.rows, request.columns, self.max_rows)
        with session_scope(self.engine, read_only=True) as session:
            found = find(session, owner, model)
        _check_verdict(found, request.require)
        posterior = self.cache.get(found.id, lambda: self._load(found.id))
        prediction = _ask(posterior, columns, request)
        return {"model_id": found.id, "verdict": found.verdict, **_figures(prediction, request)}

    def _load(self, model_id: str) -> Posterior:
        with session_scope(self.engine, read_only=True) as session:
            try:
                header = store.header(session, model_id)
                blocks = draw_store.read(session, model_id)
            except CorruptBlockError as error:
                raise DamagedError(str(error)) from error
        if header is None or not blocks:
            raise NotFoundError("The model was deleted.")
        warm()
        try:
            return Posterior.from_blocks(header, blocks)
        except PackedError as error:
            raise DamagedError(f"Model {model_id}: {error}.") from error


def find(session: Session, owner: str, model: str) -> Model:
    """The succeeded model of an id, or the newest of a name; raises NotFoundError and NotFinishedError."""
    found = None
    if model.startswith("mdl_"):
        found = store.get(session, owner, model) if is_id(model) else None
    elif model.isprintable() and len(model) <= 200:
        found = store.newest_succeeded(session, owner, model)
        found = found or next(iter(store.list_page(session, owner, 1, name=model)), None)
    if found is None:
        raise NotFoundError("There is no model of this id or name: GET /models lists yours.")
    if found.state != SUCCEEDED:
        later = (
            f": ask again when GET /models/{found.id} says succeeded" if found.state in OPEN_STATES else ""
        )
        raise NotFinishedError(f"Model {found.id} is {found.state}{later}.")
    return found


def _check_verdict(model: Model, require: str | None) -> None:
    if require is None or model.verdict is None:
        return
    if VERDICTS.index(model.verdict) < VERDICTS.index(require):
        diagnostics = model.diagnostics or {}
        reasons = [Fault(None, None, str(reason)) for reason in diagnostics.get("reasons", [])]
        told = f"The model's verdict is {model.verdict}, and {require} is required."
        advice = diagnostics.get("advice")
        raise NotConvergedError(f"{told} {advice}" if advice else told, reasons)


def _ask(posterior: Posterior, columns: dict[str, list[Any]], request: PredictRequest) -> Prediction:
    try:
        return posterior.predict(
            columns,
            level=list(request.levels),
            interval=request.interval,
            quantiles=request.quantiles,
            num_draws=request.draws,
        )
    except DataError as error:
        faults = [Fault(p.column, p.row, p.detail[:MAX_SAID]) for p in error.problems]
        raise UnusableDataError(errors=faults) from None
    except SettingsError as error:
        told = str(error)[:MAX_SAID].replace("num_draws", "draws")
        field = "draws" if told.startswith("draws") else None
        raise InvalidRequestError(errors=[Fault(field, None, told)]) from None


def _figures(prediction: Prediction, request: PredictRequest) -> dict[str, Any]:
    figures = [prediction.mean, prediction.sd]
    figures += [bound for interval in prediction.intervals for bound in (interval.lower, interval.upper)]
    figures += [quantile.values for quantile in prediction.quantiles]
    if not all(np.isfinite(values).all() for values in figures):
        raise UnusableDataError("The answer is beyond the largest number there is: rescale the target.")
    return {
        "draws": prediction.draws,
        "interval": request.interval,
        "mean": prediction.mean.tolist(),
        "sd": prediction.sd.tolist(),
        "intervals": [
            {"level": level, "lower": lower.tolist(), "upper": upper.tolist()}
            for level, lower, upper in prediction.intervals
        ],
        "quantiles": [{"q": q, "values": values.tolist()} for q, values in prediction.quantiles],
        "warnings": list(prediction.warnings),
    }
