"""Posteriors of stored models: found by id or name, loaded from the store, cached decoded."""

import logging
import threading
from copy import copy
from datetime import datetime
from typing import Self

from sqlalchemy import Engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from app.services.errors import Fault, InvalidRequestError, NotFinishedError, NotFoundError, ServiceError
from app.services.fits import models
from app.services.fits.forecasts import refuse_forecaster
from app.services.predictions.posterior_cache import Cache
from app.store import draws as draw_store
from app.store import models as store
from app.store.engine import Commits, read_only, session_scope
from app.store.errors import CorruptBlockError, ModelGoneError, is_id
from app.store.models import ModelHead
from app.store.tables import OPEN_STATES, SUCCEEDED, Model
from sampler import PackedError, Posterior, is_warm, warm
from sampler.host.assessment import row_diagnostics
from sampler.host.posteriors import posterior_of

log = logging.getLogger(__name__)
LOADS = 3  # attempts to load a posterior that grows during the read
KERNELS = "prediction"  # what every prediction runs; rarer kernels are loaded where they are called
MAX_VERDICTS = 1000  # cached verdicts, and cached numbers of draws

LoadedModel = tuple[ModelHead, Posterior, int]  # a model, its posterior, and the present draws per chain


class DamagedError(ServiceError):
    """The stored model can't be read back."""

    slug, title = "damaged", "The stored model is damaged"


class _ClosingError(Exception):
    """Interrupts the loading of kernels at shutdown."""


class Posteriors:
    """The posteriors of a database; its methods are thread-safe."""

    def __init__(self, engine: Engine, cache_bytes: int) -> None:
        self.engine = engine
        self.cache: Cache[Posterior] = Cache(cache_bytes)
        self._verdicts: dict[tuple[str, str, int], str] = {}
        self._draws: dict[tuple[str, datetime | None], int | None] = {}
        self._commits = Commits(engine)
        self._version: int | None = None  # of the database when the models were read
        self._finished_models: dict[tuple[str, str], tuple[ModelHead, int | None]] = {}
        self._warming: threading.Thread | None = None
        self._closing = threading.Event()
        self.outcome: str | None = None  # that is asked for, of models of several

    def of_outcome(self, outcome: str | None) -> Self:
        """Return these posteriors, of models of several outcomes those of this one; None: as here."""
        if outcome is None:
            return self
        asked = copy(self)
        asked.outcome = outcome
        return asked

    def _asked(self, posterior: Posterior) -> Posterior:
        """Return the posterior of the outcome asked for; raises InvalidRequestError where there is none."""
        target, several = posterior.schema.target.name, posterior.several
        if self.outcome in (None, target):
            return posterior
        names = [target] if several is None else several.outcomes
        if self.outcome not in names:
            message = f"the model's outcome is {' or '.join(names)}, not {self.outcome!r}"
            raise InvalidRequestError(errors=[Fault("outcome", None, message, "unknown")])
        of_outcome: Posterior = several[self.outcome]
        return of_outcome

    def start(self, *, compile_kernels: bool) -> None:
        """Load the compiled kernels in the background, so that the first prediction doesn't wait for them.

        Parameters
        ----------
        compile_kernels
            Whether to compile them if necessary. Leave it to a worker on this machine if there is one, since
            compiling makes a process slow to respond.
        """
        if is_warm(KERNELS) or compile_kernels:
            self._warming = threading.Thread(target=self._warm, name="warm", daemon=True)
            self._warming.start()

    def close(self) -> None:
        """Stop the background loading."""
        self._closing.set()
        if self._warming is not None:
            self._warming.join()
        self._commits.close()

    def _warm(self) -> None:
        def go_on(_done: int, _total: int) -> None:
            if self._closing.is_set():
                raise _ClosingError

        try:
            warm(KERNELS, go_on)
        except _ClosingError:
            pass
        except Exception:
            log.exception("The kernels could not be loaded; the first prediction will try again")

    def reads_at_once(self) -> bool:
        """Tell whether a query would wait for nobody: of SQLite, with a connection to spare."""
        pool = self.engine.pool
        if self.engine.dialect.name != "sqlite" or not isinstance(pool, QueuePool):
            return False
        return pool.checkedout() < pool.size()  # as many again may be opened, should others be faster

    def finished_in_memory(self, owner: str, model: str, posterior: Posterior) -> LoadedModel | None:
        """Return a finished model, with its posterior that is cached; None if that is stale.

        By one query; by none where nothing was committed since the last.
        """
        finished = self._finished_now(owner, model)
        if finished is None:
            return None
        stored, draws = finished
        if (draws or 0) > posterior.num_draws or not _is_calibrated_as(posterior, stored):
            return None
        self.cache.count_hit()
        return stored, self._asked(posterior), min(posterior.num_draws, draws or posterior.num_draws)

    def lookup(self, owner: str, model: str) -> LoadedModel:
        """Return the model with this id or name, its posterior, and the present draws per chain.

        The posterior has at least that many draws: it grows while the model is being fitted.

        Raises
        ------
        NotFoundError, NotFinishedError
            The model doesn't exist, or can't answer yet or at all.
        DamagedError
            The stored model can't be read back.
        InvalidRequestError
            The model hasn't the outcome asked for.
        """
        stored, draws = self._finished(owner, model) or self._present(owner, model)
        posterior = self.cache.get(stored.id, lambda: self._load(stored.id))
        for _ in range(LOADS):
            if (draws is None or posterior.num_draws >= draws) and _is_calibrated_as(posterior, stored):
                break
            # The cached posterior, or one being loaded for another caller, is older than this query.
            self.cache.drop(stored.id)
            posterior = self.cache.get(stored.id, lambda: self._load(stored.id))
        return stored, self._asked(posterior), min(posterior.num_draws, draws or posterior.num_draws)

    def _finished_now(self, owner: str, model: str) -> tuple[ModelHead, int | None] | None:
        """Find a finished model as `_finished`, or as it was found before unless there was a commit since."""
        version = self._commits.version()  # before the query: a later commit makes another one
        if version is None:
            return self._finished(owner, model)
        if version != self._version or len(self._finished_models) >= MAX_VERDICTS:
            self._version, self._finished_models = version, {}
        known, key = self._finished_models, (owner, model)
        if key not in known:
            finished = self._finished(owner, model)
            if finished is None:
                return None
            known[key] = finished
        return known[key]

    def _finished(self, owner: str, model: str) -> tuple[ModelHead, int | None] | None:
        """Find a finished model, whose draws were counted before, by its id and one query; else None."""
        if not (model.startswith("mdl_") and is_id(model)):
            return None
        with read_only(self.engine) as connection:
            head = store.head(connection, owner, model)
        counted, key = self._draws, head and (head.id, head.finished_at)
        return (head, counted[key]) if head and head.state == SUCCEEDED and key in counted else None

    def _present(self, owner: str, model: str) -> tuple[ModelHead, int | None]:
        with session_scope(self.engine, read_only=True) as session:
            stored = models.get(session, owner, model)
            refuse_forecaster(stored.settings)
            draws = self._common_draws(session, stored)
            if stored.state != SUCCEEDED and not draws:
                raise _not_finished(stored, partly=True)
            return store.head_of(stored), draws

    def _common_draws(self, session: Session, model: Model) -> int | None:
        """Return the number of draws that every chain has; it is constant once a model has succeeded."""
        key = model.id, model.finished_at
        if model.state != SUCCEEDED or model.finished_at is None:
            return store.common_draws(session, model.id)
        counted = self._draws
        if key not in counted:
            if len(counted) >= MAX_VERDICTS:
                counted = self._draws = {}  # another thread may be looking into the old one
            counted[key] = store.common_draws(session, model.id)
        return counted[key]

    def verdict(self, model: ModelHead, posterior: Posterior, draws: int) -> str | None:
        """Return the model's verdict at this number of draws: a pinned answer never changes."""
        if model.state == SUCCEEDED and draws == model.settings.get("num_draws", posterior.num_draws):
            return model.verdict
        key = model.id, posterior.schema.target.name, draws
        if key not in self._verdicts:
            if len(self._verdicts) >= MAX_VERDICTS:
                self._verdicts.clear()
            self._verdicts[key] = row_diagnostics.model_verdict(posterior.law, draws)
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
            return posterior_of(header, blocks)
        except PackedError as error:
            raise DamagedError(f"Model {model_id}: {error}.") from error


def _is_calibrated_as(posterior: Posterior, model: ModelHead) -> bool:
    """Tell whether a posterior has the calibration that the model's row shows."""
    table, summary = posterior.conformal_table, model.calibration
    return (None if table is None else table.checksum) == (None if summary is None else summary["checksum"])


def find(
    session: Session, owner: str, model: str, *, partly: bool = False, forecasters: bool = False
) -> Model:
    """Return the model with this id, or the one that this name means; it must have succeeded.

    `partly`: draws in all of its chains suffice; `forecasters`: it may be one. Raises NotFoundError,
    AskForecastError and NotFinishedError.
    """
    stored = models.get(session, owner, model)
    if not forecasters:
        refuse_forecaster(stored.settings)
    if stored.settings.get("time") and stored.verdict is not None:
        return stored  # an extension changes nothing until its end
    if stored.state != SUCCEEDED and not (partly and store.common_draws(session, stored.id)):
        raise _not_finished(stored, partly=partly)
    return stored


def _not_finished(model: Model, *, partly: bool) -> NotFinishedError:
    lacking = ", and not all of its chains have draws" if partly else ""
    later = f": retry when it has succeeded (GET /models/{model.id})" if model.state in OPEN_STATES else ""
    return NotFinishedError(f"Model {model.id} is {model.state}{lacking}{later}.")
