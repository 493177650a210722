"""Predictions of new rows from a stored posterior."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

from sqlalchemy import Engine

from app.services.drift.traffic import Traffic
from app.services.errors import (
    ConflictError,
    Fault,
    InvalidRequestError,
    TooLargeError,
    UnusableDataError,
)
from app.services.metrics import predict_seconds, predicted_rows
from app.services.predictions import kept_columns
from app.services.predictions.answers import PredictionAnswer
from app.services.predictions.earlier_tables import calibrated_as
from app.services.predictions.file_rows import FileRows, read_rows
from app.services.predictions.options import MAX_SAMPLES, PredictionOptions
from app.services.predictions.posteriors import LoadedModel, Posteriors
from app.services.predictions.row_reading import RowReading, with_levels
from app.services.predictions.rows import SentRows, columns_of
from app.services.request_bodies import levels_of
from app.store.models import ModelHead
from sampler import DataError, Posterior, SettingsError
from sampler.host.assessment import row_diagnostics
from sampler.host.data import Coded
from sampler.host.posteriors import VERDICTS, are_finite
from sampler.host.settings import FAMILIES

MAX_EXAMINED = 10_000  # rows with R-hat or Monte Carlo errors: half a millisecond each
# Cost per row and draw besides the trees, in units of one tree (a tenth of a nanosecond): quantiles of draws,
# Monte Carlo errors and R-hat.
QUANTILES, EXAMINED = 100, 5000
SEARCH = 15  # draws as whose work that of a bound counts, however few they are
PROGRAMME = 40_000  # cost per calibration row of an end in subgroups that is not stored
# A row alone takes several times its share of many: a million of these units takes about a millisecond.
QUICK_ROWS, QUICK_WORK = 4, 1_000_000
OF_OUTCOMES = ("predictive", "calibrated")  # kinds of intervals
NAMES = {"num_draws": "draws"}  # names in requests of the sampler's settings
LOADING, COMPUTING = (predict_seconds.labels(phase) for phase in ("load", "compute"))


class NotConvergedError(ConflictError):
    """The verdict is worse than the request requires."""

    slug, title = "not-converged", "Model not converged as required"


class Predictor(Posteriors):
    """Predictions from cached posteriors; its methods are thread-safe."""

    def __init__(
        self,
        engine: Engine,
        cache_bytes: int,
        max_rows: int,
        max_work: float = math.inf,
        traffic: Traffic | None = None,
    ) -> None:
        super().__init__(engine, cache_bytes)
        self.traffic = traffic or Traffic(engine, counts=False)
        self.max_rows = max_rows
        self.max_work = max_work

    def cached_model(
        self, owner: str, model: str, options: PredictionOptions, sent: SentRows
    ) -> LoadedModel | None:
        """Return the model if its answer takes about a millisecond and waits for nothing, else None.

        Handing such work to a thread, and its answer back, takes as long as the work. The rows are few, the
        posterior is in memory, and the database is SQLite, whose readers wait for nobody.
        """
        rows = sent.rows
        if not isinstance(rows, list) or not 0 < len(rows) <= QUICK_ROWS or not self.reads_at_once():
            return None
        posterior = self.cache.peek(model)
        # the verdict for another number of draws may have to be computed first
        if posterior is None or not FAMILIES[posterior.family].quick or options.draws is not None:
            return None
        if options.calibration is not None:  # perhaps an earlier one, to be read
            return None
        if options.interval == "calibrated" and posterior.header.subgroups:  # a new kind of row takes longer
            return None
        if len(rows) * work_of_row(posterior, options) > QUICK_WORK:
            return None
        return self.of_outcome(options.outcome).finished_in_memory(owner, model, posterior)

    def predict(
        self,
        owner: str,
        model: str,
        options: PredictionOptions,
        sent: SentRows,
        loaded: LoadedModel | None = None,
    ) -> PredictionAnswer:
        """Predict new rows.

        Parameters
        ----------
        owner
            The owner of the model.
        model
            The id of a model, or a name, which means its newest that has succeeded.
        options
            The requested figures.
        sent
            The rows.
        loaded
            The model, if `cached_model` has just returned it.

        Raises
        ------
        NotFoundError, NotFinishedError, NotConvergedError
            The model doesn't exist, can't answer yet or at all, or has a worse verdict than required.
        InvalidRequestError, UnusableDataError, TooLargeError
            The request or the rows are invalid; names column and row.
        """
        rows: Any = None
        of_file: FileRows | None = None
        kept: Any = None
        notes: list[str] = []
        read_as: Mapping[str, Any] | None = None
        if sent.file is None:
            rows = columns_of(sent.rows, sent.columns, self.max_rows)
        with LOADING.time():
            stored, posterior, draws = loaded or self.of_outcome(options.outcome).lookup(owner, model)
        if options.draws is None:
            options = options.model_copy(update={"draws": draws})
        posterior = self.pinned(posterior, stored.id, options.interval, options.calibration)
        if sent.file is not None:
            file, reading = sent.file
            of_file = read_rows(file, RowReading.of(posterior, reading), self.max_rows, sent.keep)
            notes, read_as = of_file.notes, of_file.read_as
            names = kept_columns.names_of(sent.keep, of_file.as_sent.column_names)
            kept = kept_columns.with_dates(of_file.as_sent.select(names)) if names else None
            known = {*posterior.schema.kinds, *posterior.schema.ignored, *posterior.header.subgroup_kinds}
            rows = of_file.rows.drop_columns([name for name in names if name not in known])
        else:
            rows = with_levels(posterior, rows)
        with translating_sampler_errors(), COMPUTING.time():
            coded = posterior.encode(rows)
            answer = self._answer(stored, posterior, coded, options)
        predicted_rows.inc(coded.num_rows)
        self.traffic.note(stored.id, posterior, coded, answer.prediction.mean)
        answer = replace(answer, notes=notes, kept=kept, read_as=read_as)
        return answer if of_file is None else replace(answer, texts=of_file.texts, written=of_file.written)

    def _answer(
        self, model: ModelHead, posterior: Posterior, coded: Coded, options: PredictionOptions
    ) -> PredictionAnswer:
        only_mean = options.target == "mean"
        _check_sizes(coded.num_rows, options)
        self.check_work(posterior, coded, options)
        prediction = posterior.predict(
            coded,
            level=None if only_mean else options.level,
            interval=options.interval,
            quantiles=None if only_mean else options.quantiles,
            num_draws=options.draws,
        )
        if not are_finite(prediction):
            raise UnusableDataError("The result exceeds the largest float: rescale the target.")
        agreement = judged = None
        if options.rhat or options.require is not None:
            if options.rhat or row_diagnostics.is_known(prediction.draws):
                agreement = row_diagnostics.agreement(posterior.law, coded, prediction.draws)
            judged = row_diagnostics.verdict(posterior.law, agreement, prediction.draws)
            _check_verdict(judged, options.require, coded.num_rows)
        return PredictionAnswer(
            model_id=model.id,
            verdict=self.verdict(model, posterior, prediction.draws),
            prediction=prediction,
            only_mean=only_mean,
            errors=row_diagnostics.errors(posterior.law, coded, prediction) if options.mcse else None,
            rhat=row_diagnostics.rhat_by_row(posterior.law, agreement)
            if agreement is not None and options.rhat
            else None,
            rows_verdict=judged,
            samples=None
            if options.samples is None
            else row_diagnostics.thinned(
                posterior.law,
                coded,
                prediction.draws,
                options.samples,
                options.seed if options.samples_of == "outcome" else None,
            ),
            classes=posterior.classes,
            outcome=posterior.schema.target.name,
            calibration=table.checksum
            if prediction.claims and (table := posterior.conformal_table)
            else None,
            dialect=posterior.header.dialect,
        )

    def pinned(
        self, posterior: Posterior, model_id: str, interval: str | None, checksum: str | None
    ) -> Posterior:
        """Return the posterior with a calibration that an answer named, if any; raise InvalidRequestError."""
        if checksum is None:
            return posterior
        if interval != "calibrated":
            message = 'only calibrated intervals have a calibration: ask for interval="calibrated"'
            raise InvalidRequestError(errors=[Fault("calibration", None, message)])
        return calibrated_as(self.engine, posterior, model_id, checksum)

    def check_work(self, posterior: Posterior, coded: Coded, options: PredictionOptions) -> None:
        """Refuse a request with too much work: rows times draws times trees, and the extra figures."""
        num_rows, work = coded.num_rows, work_of_row(posterior, options, coded)
        if num_rows * work > self.max_work:
            trees = int(posterior.leaf_counts.shape[2])
            draws = posterior.num_chains * min(options.draws or 0, posterior.num_draws)
            most = max(1, int(self.max_work / work))
            raise TooLargeError(
                f"{num_rows} rows x {draws} draws x {trees} trees are too much work at once: send at most "
                f"{most} of these rows (BARTSERVE_MAX_PREDICT_WORK), or ask for fewer draws. "
                "POST /models/{id}/predictions predicts a stored dataset of any length in the background."
            )
        if options.interval == "calibrated" and options.target != "mean":
            self.check_programmes(posterior, levels_of(options.level), coded)

    def check_programmes(self, posterior: Posterior, levels: Sequence[float], coded: Coded) -> None:
        """Refuse levels and combinations of subgroups whose ends would take too long to find at once."""
        if (table := posterior.conformal_table) is None:
            return
        count = table.num_programmes(levels, coded.subgroups)
        if count * table.rows * PROGRAMME > self.max_work:
            raise TooLargeError(
                f"{count} ends of calibrated intervals in subgroups have to be found for these levels and "
                "rows, which is too much work at once: ask for fewer levels (0.5, 0.8, 0.9, 0.95 and 0.99 "
                "are there), or send fewer rows."
            )


def work_of_row(posterior: Posterior, options: PredictionOptions, coded: Coded | None = None) -> int:
    """Estimate the work of one row: draws times trees, and what comes besides, see `Law.own_work`.

    `coded` are the rows, if they are known.
    """
    # Requests for more draws than exist are no extra work: the posterior refuses them.
    draws = posterior.num_draws if options.draws is None else min(options.draws, posterior.num_draws)
    law = posterior.law
    each, once = law.tree_work + law.own_work, law.reading_work + law.row_work
    if options.target != "mean":
        levels = len(options.level) if isinstance(options.level, list) else 1
        bounds = 2 * levels + len(options.quantiles or ())
        kind = options.interval or posterior.usual_interval
        each += QUANTILES
        if kind in OF_OUTCOMES:
            of_bounds = law.bound_work(coded) * bounds
            each += law.noise_work + of_bounds
            once += SEARCH * of_bounds + law.outcome_row_work
    if options.mcse or options.rhat or options.require is not None:
        each += EXAMINED
    return int(once + posterior.num_chains * draws * each)


def _check_verdict(judged: row_diagnostics.RowsVerdict, require: str | None, num_rows: int) -> None:
    rank = list[str](VERDICTS).index  # the best comes first
    if require is None or rank(judged.verdict) <= rank(require):
        return
    rows = "row" if num_rows == 1 else f"{num_rows} rows"
    raise NotConvergedError(
        f"The verdict on the {rows} asked is {judged.verdict}, and {require} is required. More draws or more "
        "chains help.",
        [Fault(None, None, str(reason), reason.code) for reason in judged.reasons],
    )


def _check_sizes(num_rows: int, options: PredictionOptions) -> None:
    examined = options.mcse or options.rhat or options.require is not None
    if examined and num_rows > MAX_EXAMINED:
        raise TooLargeError(
            f"mcse, rhat and require need every draw of every row: send at most {MAX_EXAMINED} rows."
        )
    if options.samples is not None and num_rows * options.samples > MAX_SAMPLES:
        raise TooLargeError(
            f"{options.samples} draws of {num_rows} rows are too many at once: rows times samples may "
            f"be at most {MAX_SAMPLES}."
        )


@contextmanager
def translating_sampler_errors(names: Mapping[str, str] = NAMES) -> Iterator[None]:
    """Convert the sampler's errors to service errors with the field names of requests."""
    try:
        yield
    except DataError as error:
        raise UnusableDataError(errors=[Fault.of(problem) for problem in error.problems]) from None
    except SettingsError as error:
        raise InvalidRequestError(errors=[Fault.of_setting(error, names)]) from None


def usual_interval(settings: Mapping[str, Any]) -> Literal["predictive", "credible"]:
    """Name the kind of interval that a model with such settings gives unless told otherwise."""
    return FAMILIES[str(settings.get("family", "gaussian"))].usual_interval


def has_row_diagnostics(draws: int) -> bool:
    """Tell whether R-hat and Monte Carlo errors of rows are known by so many draws per chain."""
    return row_diagnostics.is_known(draws)
