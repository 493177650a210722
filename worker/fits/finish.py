"""A `finish` unit: the verdict on a model's chains, and the scores on its held-out rows."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from app.store import draws, drift, models, studies
from app.store.engine import session_scope
from app.store.queue import units
from app.store.queue.claims import Claim
from app.store.queue.units import Directive, Progress
from app.store.tables import SUCCEEDED, Json, Model
from sampler import Posterior, SettingsError
from sampler.host.assessment import LabelledRows
from sampler.host.data import FOLDS
from sampler.host.fits import StopCheck, check_part, check_rules, next_look
from sampler.host.posteriors import facts_of_rows, least_settled, posterior_of
from sampler.host.settings import VALUES_OF_OLD_MODELS
from sampler.host.storage import (
    RECALIBRATION,
    SUPPORT,
    ConformalTable,
    with_calibration,
    with_counts,
    with_part,
)
from worker.context import Context
from worker.errors import OutOfTimeError, Stopped
from worker.fits import stop_rules
from worker.fits.draw_blocks import BlockWriter
from worker.fits.fit_spec import SplitRows, plan_of, read_rows, read_spec, split
from worker.fits.forecasts import finish_forecaster
from worker.fits.promotion import by_rows, decided, stands
from worker.fits.resemblance import drift_parts
from worker.fits.scoring import (
    calibrate,
    importance_of,
    joint_scores,
    look_at,
    recalibrated,
    score,
    without_evidence,
)
from worker.heartbeat import Watch
from worker.kernels import PREDICTION, load_kernels


def run_finish(context: Context, claim: Claim, watch: Watch) -> None:
    """Judge the model and end it, or let its chains continue; raises as `worker.fits.chain.run_chain`."""
    load_kernels(watch, PREDICTION)
    with session_scope(context.engine, read_only=True) as session:
        model = session.get_one(Model, claim.model_id)
    if model.settings.get("time"):
        finish_forecaster(context, claim, watch)
        return
    with session_scope(context.engine, read_only=True) as session:
        blocks = draws.read(session, claim.model_id)
        header = models.header(session, claim.model_id)
        chains = models.chains(session, [claim.model_id])[claim.model_id]
    time_up = _beat(watch, "judging")
    if header is None or not blocks:
        raise OutOfTimeError("The time was over before any chain had a kept draw: retry, or allow more time.")
    rules = model.settings.get("stop") if model.stopped is None else None
    drawn = [chain.statistics or {} for chain in chains if chain.num_draws]
    posterior = posterior_of(header, blocks, drawn)
    seen, stopped, cut = None, None, None
    short = min(chain.num_draws for chain in chains) < model.settings["num_draws"]
    if rules is not None:
        if posterior.several is None:
            posterior, seen = _look(model, posterior, rules, whole=short)
        else:
            seen = check_rules(least_settled(posterior), rules)
    summary = least_settled(posterior).summary()
    watch.check()
    if seen is not None:
        ended_by = stop_rules.reason_to_stop(seen, model.settings, time_up=time_up, cut=short)
        if ended_by is None:
            _continue_sampling(context, claim, model.settings, header, seen)
            return
        stopped = {"by": ended_by, **seen.to_json()}
        cut = _cut(model, posterior) if short or posterior.num_draws < model.settings["num_draws"] else None
    _beat(watch)
    scores = _score(context, claim, watch, posterior)
    table = scores.table
    header = with_part(cut.header if cut else header, RECALIBRATION, scores.recalibration)
    header = _with_rows(header, context, claim, posterior)
    weeks = (scores.holdout or {}).get("weeks_once")
    watched = _watched(context, model, posterior)
    while True:
        refit = _decide(context, claim, watch, summary.verdict, posterior, weeks)
        watch.check()
        with session_scope(context.engine) as session:
            if refit is not None and not stands(session, claim.model_id, refit):
                continue  # the name means another model now: compare with that
            units.finish_model(
                session,
                claim,
                verdict=summary.verdict,
                diagnostics=json_safe(summary.to_json() | _chosen(posterior, model.settings)),
                holdout=json_safe(scores.holdout),
                held_out=json_safe(scores.by_row),
                stopped=json_safe(stopped),
                cut=cut,
                header=header,
                warnings=None if scores.warning is None else [*(cut or model).warnings, scores.warning],
                calibrated=None
                if table is None
                else units.Calibrated(with_calibration(header, table), table.summary()),
                refit=json_safe(refit),
            )
            drift.begin(session, claim.model_id, watched, "too_few")
            if model.settings.get("calibrate") == "folds":
                _calibrate_by_folds(session, claim.model_id)
            return


def _chosen(posterior: Posterior, settings: Json) -> Json:
    """Return what the data chose for settings that left it to them, of the noise with its evidence."""
    left = [name for name in VALUES_OF_OLD_MODELS if settings.get(name) == "auto"]
    chosen = {name: posterior.settings.get(name, VALUES_OF_OLD_MODELS[name]) for name in left}
    if (choice := posterior.header.noise_choice) is None:
        return {"chosen": chosen}
    noise = posterior.settings.get("noise", VALUES_OF_OLD_MODELS["noise"])
    return {"chosen": chosen, "noise_choice": choice.to_json() | {"text": choice.in_words(noise)}}


def _look(model: Model, posterior: Posterior, rules: Json, *, whole: bool) -> tuple[Posterior, StopCheck]:
    """Check the stop rules, for a part of the draws too where a fit has gone on; return what they hold for.

    A model that has a verdict has been served, so that all draws stay which its answers are of.
    """
    if whole or model.verdict is not None or posterior.num_draws <= rules["first_look"]:
        return posterior, check_rules(posterior, rules)
    return check_part(posterior, rules)


def _continue_sampling(
    context: Context, claim: Claim, settings: Json, header: bytes, stop_check: StopCheck
) -> None:
    more = next_look(settings["num_draws"], settings["stop"]["max_draws"])
    header = with_counts(header, num_draws=more, num_chains=settings["num_chains"])
    with session_scope(context.engine) as session:
        units.continue_sampling(session, claim, more, header, json_safe(stop_check.to_json()))


def _cut(model: Model, posterior: Posterior) -> units.Cut:
    """Reduce the model to the posterior's draws: the later ones, or those that every chain has."""
    num_chains = model.settings["num_chains"]
    lengths = {"num_draws": posterior.num_draws, "num_chains": posterior.num_chains}
    discarded, blocks = posterior.settings.get("discarded", 0), None
    if discarded > model.settings.get("discarded", 0):
        lengths["discarded"] = discarded
        num_trees = int(model.settings["num_trees"])
        blocks = [BlockWriter(num_trees).add(chain) for chain in posterior.chains()]
    whole = posterior if posterior.several is None else posterior.several
    header = replace(whole.header, settings=posterior.settings | lengths, calibration=None)
    warnings = [*model.warnings]
    if posterior.num_chains < num_chains:
        left = f"{posterior.num_chains} of {num_chains}"
        warnings.append(f"when the time was over, only {left} chains had draws: the model consists of these")
    return units.Cut(model.settings | lengths, header.to_bytes(), warnings, blocks)


FEWEST_PERIODS = 8  # of later rows, whose differences tell a standard error


@dataclass(frozen=True)
class _HeldOut:
    """Scores on the held-out rows, figures by row, and the calibration by them."""

    holdout: Json | None = None
    by_row: Json | None = None
    table: ConformalTable | None = None
    warning: str | None = None  # why there is no calibration
    recalibration: Any = None  # what the header keeps of it


def _score(context: Context, claim: Claim, watch: Watch, posterior: Posterior) -> _HeldOut:
    with session_scope(context.engine, read_only=True) as session:
        spec = read_spec(session, claim.model_id)
        if not spec.settings.get("holdout"):
            return _HeldOut()
        rows = read_rows(session, spec)
    training, held, scored, plan, judged_by = split(spec, rows)
    if len(scored) == 0:
        return _HeldOut()

    def beat(step: str | None = None) -> None:
        _beat(watch, step)

    parts = SplitRows(training, held, scored, plan, judged_by)
    asked = str(spec.settings.get("recalibrate", "auto"))
    served, judging, done = recalibrated(posterior, parts, asked, beat)
    beat("scoring")
    made = done is not None and bool(done["rows"]) and judging is parts  # these rows are no evidence
    scores, by_row = _of_outcome(served, judging, beat, judged=not made)
    if done is not None:
        scores["recalibration"] = done
    if made:
        without_evidence(served, parts, scores, by_row)
    if posterior.several is not None:
        scores["outcomes"], by_row["outcomes"] = {}, {}
        for name in spec.others:
            own, by_row["outcomes"][name] = _of_outcome(posterior.several[name], parts.of_outcome(name), beat)
            scores["outcomes"][name] = own | ({} if done is None else {"recalibration": done})
        scores["joint"] = joint_scores(posterior.several, held, beat)
    table = warning = None
    if plan is not None and spec.settings.get("calibrate") == "holdout":
        beat("calibrating")
        try:
            table = calibrate(posterior, training, held, plan, spec.subgroups, beat)
        except SettingsError as error:  # rows were counted before the fit, exact copies among them
            warning = f"intervals are not calibrated: {error}"
    return _HeldOut(scores, by_row, table, warning, served.header.parts.get(RECALIBRATION))


def _with_rows(header: bytes, context: Context, claim: Claim, posterior: Posterior) -> bytes:
    """Return the header with what the training rows of a treatment say of others."""
    if posterior.several is not None or "treatment" not in posterior.header.parts:
        return with_part(header, SUPPORT, None)
    with session_scope(context.engine, read_only=True) as session:
        spec = read_spec(session, claim.model_id)
        rows = read_rows(session, spec)
    training = split(spec, rows).training
    known = LabelledRows.of(posterior.law, training)
    for name, facts in facts_of_rows(posterior.law, known.coded, known.y).items():
        header = with_part(header, name, facts)
    return header


def _watched(context: Context, model: Model, posterior: Posterior) -> list[Json]:
    """Count the training rows for the watch on drift; not of models that have one, and of sets."""
    with session_scope(context.engine, read_only=True) as session:
        if model.set_id is not None or drift.get(session, model.id) is not None:
            return []
        spec = read_spec(session, model.id)
        training = split(spec, read_rows(session, spec)).training
    return drift_parts(posterior, spec, training)


def _of_outcome(
    posterior: Posterior, parts: SplitRows, beat: Callable[[], None], *, judged: bool = True
) -> tuple[Json, Json]:
    """Score an outcome on held-out rows; return the scores, and figures by row with the importance."""
    training, held, places, plan, judged_by = parts
    scores = score(posterior, training, held, plan, beat) | {"judged_by": judged_by}
    by_row = look_at(posterior, held, places, beat, judged=judged)
    return scores, by_row | {"importance": importance_of(posterior, held, plan, beat)}


def _decide(
    context: Context, claim: Claim, watch: Watch, verdict: str, posterior: Posterior, weeks: int | None
) -> Json | None:
    """Decide whether the name moves to a refit; None for other fits."""
    with session_scope(context.engine, read_only=True) as session:
        if not session.get_one(Model, claim.model_id).refit:
            return None
        spec = read_spec(session, claim.model_id)
        rows = split(spec, read_rows(session, spec))

    def beat() -> None:
        _beat(watch)

    compare = by_rows(context, spec, posterior, rows.held, _counted_once(rows, weeks), beat)
    return decided(context, claim.model_id, verdict, compare)


def _counted_once(rows: SplitRows, weeks: int | None) -> NDArray[np.int64] | None:
    """Return which held-out rows count once: groups, or as many `weeks` as outcomes count by; None: each.

    Few weeks are halved until there are `FEWEST_PERIODS` of them, or they are days.
    """
    plan = rows.plan
    if plan is None:
        return None
    if plan.new_rows.groups is not None:
        return plan.unit.astype(np.int64)
    if not weeks or plan.time is None or not plan.is_date:
        return None
    days = 7 * weeks
    while True:
        period = np.floor((plan.time - 4) / days).astype(np.int64)  # weeks from Monday on
        if days <= 1 or len(np.unique(period)) >= FEWEST_PERIODS:
            return period
        days = max(1, days // 2)


def _calibrate_by_folds(session: Session, model_id: str) -> None:
    """Queue the study that calibrates a model which has succeeded."""
    model = session.get_one(Model, model_id, populate_existing=True)
    if model.state != SUCCEEDED:
        return
    folds = FOLDS
    if model.settings.get("new_rows"):  # as many as it has groups or periods
        spec = read_spec(session, model_id)
        training = split(spec, read_rows(session, spec)).training
        folds = len(plan_of(spec, training).folds(FOLDS))
    fits = [int(model.settings["num_chains"])] * folds
    request = {"draws": int(model.settings["num_draws"])}
    studies.create(
        session, owner=model.owner, model_id=model_id, kind="calibration", request=request, fits=fits
    )


def _beat(watch: Watch, step: str | None = None) -> bool:
    """Send a heartbeat, with the step that begins; return whether the model's time is over.

    The finish continues anyway.
    """
    directive = watch.beat(None if step is None else Progress(step, 0, 0))
    if directive in {Directive.CANCEL, Directive.DRAIN}:
        raise Stopped(directive)
    return directive is Directive.TIME_UP


def json_safe(value: Any) -> Any:
    """Return the value with plain numbers, and null for NaN and infinities, which JSON lacks."""
    if isinstance(value, dict):
        return {str(name): json_safe(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(item) for item in value]
    if isinstance(value, np.ndarray):
        return json_safe(value.tolist())
    if isinstance(value, np.generic):
        return json_safe(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
