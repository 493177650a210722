"""Units of a forecaster: a member each, and at the end the rehearsals of all.

A member is fitted to all rows and, for the rehearsals, to those before them; both depend on nothing else, so
a killed unit continues after the last of these fits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from app.store import datasets, draws, models
from app.store.column_codec import checksum
from app.store.draws import StoredBlock
from app.store.engine import session_scope
from app.store.errors import StoreError
from app.store.queue import units
from app.store.queue.claims import Claim
from app.store.queue.units import Directive, Progress, Slice
from app.store.tables import Json, Model, Unit
from sampler import AnyChain, DataError, PackedError, Settings
from sampler.host.data import counted, read, read_column
from sampler.host.forecasts import (
    FORECAST_SETTINGS,
    Fitted,
    Forecaster,
    History,
    compare_forecasts,
    extend_member,
    fit_member,
    history_of_fit,
    learnt,
    parts_of,
    plan_forecaster,
    planned_members,
    read_forecaster,
    rehearse,
    settings_of_member,
    stored_member,
    with_models,
    write_forecaster,
)
from sampler.host.settings import FORECAST
from worker.context import Context
from worker.errors import Stopped
from worker.fits.fit_spec import Spec, read_spec
from worker.fits.promotion import FEWEST_UNITS, RefitComparison, decided, stands
from worker.heartbeat import Watch
from worker.kernels import PREDICTION, load_kernels


@dataclass(frozen=True)
class _Loaded:
    model_id: str
    history: History  # of the fit
    settings: dict[str, Any]
    former: Forecaster | None = None  # of an extension: what answers until its end


_last_loaded: list[_Loaded] = []  # a process often runs several members of a model in a row


def run_member(context: Context, claim: Claim, watch: Watch, spec: Spec) -> None:
    """Fit the claimed member; raises as `worker.fits.chain.run_chain`."""
    with session_scope(context.engine, read_only=True) as session:
        unit = session.get_one(Unit, claim.unit_id)
        statistics, checkpoint = unit.statistics or {}, units.checkpoint(session, claim) or b""
    loaded = _load(context, spec)
    settings, former = loaded.settings, loaded.former
    begun = statistics.get("extended_to", 0) == (0 if former is None else settings["num_draws"])
    common: list[float | None] = list(statistics.get("common", [])) if begun else []
    kept = read_forecaster(checkpoint)[2] if former and begun and checkpoint else []
    parts = parts_of(loaded.history)
    each = int(spec.settings["num_chains"]) * _iterations(spec.settings)
    total = len(parts) * each
    watch.check()
    done: dict[int, int] = {}

    def report(index: int, chain: AnyChain) -> None:
        done[index] = chain.iteration
        watch.tell(Progress("sampling", len(common) * each + sum(done.values()), total))
        watch.check()

    draws_of_chain = int(spec.settings["num_draws"])
    while len(common) < len(parts):
        is_whole, blocks, checkpoint = not common, [], b""
        running = {"num_threads": context.settings.worker_chain_threads, "report": report}
        fitted = _run(watch, loaded, claim.ordinal, parts[len(common)], running, is_whole=is_whole)
        watch.check()
        common.append(None if fitted is None else fitted.common)
        done.clear()
        statistics = {"common": common}
        if former is not None:  # whose draws and rehearsals change at once, at the end
            kept = [*kept, b"" if fitted is None else fitted.posterior.to_bytes()]
            checkpoint = write_forecaster({}, {}, kept)
            statistics |= {"extended_to": settings["num_draws"]}
        elif fitted is not None and is_whole:
            blocks = [StoredBlock(0, 0, draws_of_chain, fitted.posterior.to_bytes())]
        elif fitted is not None:
            checkpoint = fitted.posterior.to_bytes()
        drawn = 0 if common[0] is None else draws_of_chain
        slice_ = Slice(Progress("sampling", len(common) * each, total, drawn), checkpoint, statistics, blocks)
        with session_scope(context.engine) as session:
            if len(common) == len(parts):
                units.finish_chain(session, claim, slice_)
                return
            directive = units.commit_slice(session, claim, slice_, gives_way=True)
        watch.note_progress()
        if directive is not Directive.CONTINUE:
            raise Stopped(directive)


def _run(
    watch: Watch,
    loaded: _Loaded,
    ordinal: int,
    part: History,
    running: Mapping[str, Any],
    *,
    is_whole: bool,
) -> Fitted | None:
    """Fit a member to a part of the history, or continue the one that was fitted to all; None without it."""
    settings, former, members = loaded.settings, loaded.former, planned_members(part, loaded.settings)
    if ordinal >= len(members):
        return None
    own = settings_of_member(settings, members[ordinal])
    load_kernels(watch, Settings.resolve(**_given(settings) | own), PREDICTION)
    if former is None or not is_whole:
        return fit_member(part, settings, ordinal, **running)
    for each in former.fitted:
        if each.member == members[ordinal]:
            more = int(settings["num_draws"]) - each.posterior.num_draws
            return extend_member(part, former.settings, each, more, **running)
    return None


def finish_forecaster(context: Context, claim: Claim, watch: Watch) -> None:
    """Rehearse with the members that were fitted, and end the model; raises as `run_member`."""
    with session_scope(context.engine, read_only=True) as session:
        spec = read_spec(session, claim.model_id)
        ended = models.ended_chains(session, claim.model_id)
        told = session.get_one(Model, claim.model_id).diagnostics or {}
        blocks = iter(draws.read(session, claim.model_id))
    watch.beat()
    loaded = _load(context, spec)
    history, settings = loaded.history, loaded.settings
    fitted: list[Fitted | None] = []
    before: list[Fitted | None] = []
    parts, extended = parts_of(history), dict[int, bytes]()
    for ordinal, (num_draws, statistics, checkpoint) in enumerate(ended):
        common, rehearsed = statistics.get("common", []), checkpoint
        if loaded.former is not None:
            whole, *rest = read_forecaster(checkpoint or b"")[2]
            extended |= {ordinal: whole} if whole else {}
            rehearsed = rest[0] if rest else None
        if num_draws:
            model_bytes = extended[ordinal] if loaded.former else next(blocks)[0]
            fitted.append(stored_member(history, settings, ordinal, model_bytes, common[0]))
        if rehearsed:
            before.append(stored_member(parts[1], settings, ordinal, rehearsed, common[1]))
    threads = context.settings.worker_chain_threads
    calibration = rehearse(history, lambda _: learnt(before), int(settings["seed"]), threads)
    forecaster = Forecaster(history, learnt(fitted), calibration, settings)
    if loaded.former is not None:
        now, adapted = loaded.former.history, loaded.former.adapted
        forecaster = Forecaster(now, forecaster.fitted, calibration, settings, adapted)
    watch.check()
    summary, header = forecaster.summary(), forecaster.header_bytes()
    verdict = summary.verdict
    told |= forecaster.described() | {"agreement": summary.text, "checksum": checksum(header)}
    compare = partial(_by_windows, context, watch, history, learnt(before) if before else [])
    while True:
        refit = decided(context, claim.model_id, verdict, compare)
        watch.check()
        with session_scope(context.engine) as session:
            if refit is not None and not stands(session, claim.model_id, refit):
                continue  # the name means another model now: compare with that
            models.forget_checkpoints(session, claim.model_id)
            for ordinal, model_bytes in extended.items():
                block = StoredBlock(0, 0, int(settings["num_draws"]), model_bytes)
                draws.write(session, claim.model_id, ordinal, [block])
            units.finish_model(
                session,
                claim,
                verdict=verdict,
                diagnostics=told,
                holdout=None,
                header=header,
                refit=refit,
            )
            return


def _by_windows(
    context: Context,
    watch: Watch,
    history: History,
    before: Sequence[Fitted],
    champion_id: str,
    settings: Json,
    header: bytes,
) -> RefitComparison:
    """Compare a forecaster with the model before by windows of outcomes that neither has learnt."""
    if not settings.get("time"):
        return RefitComparison(
            "loss", None, "their forecasts can't be compared: the model before predicts rows", ""
        )
    try:
        with session_scope(context.engine, read_only=True) as session:
            newest, members = draws.read_forecaster(session, champion_id)
        watch.check()
        champion = Forecaster.from_bytes(with_models(newest or header, members))
        threads = context.settings.worker_chain_threads
        found = compare_forecasts(history, before, champion, threads)
    except (DataError, PackedError, StoreError) as error:
        return RefitComparison("loss", None, f"their forecasts can't be compared: {error}", "")
    figures = asdict(found)
    if found.difference is None or found.lower is None:
        against = (
            f"the outcomes that neither has learnt are worth {found.windows:g} windows that don't overlap: "
            f"{FEWEST_UNITS} are needed"
        )
        return RefitComparison("loss", figures, against, "")
    against = f"its quantile loss is higher by {found.difference:.3g}" if found.lower > 0 else ""
    text = (
        f" On {counted(found.outcomes, 'forecast')} from {counted(found.origins, 'origin')}, worth "
        f"{found.windows:g} windows that don't overlap, its quantile loss is {found.challenger:.4g}, that of "
        f"the model before {found.champion:.4g} (difference {found.difference:.3g}, 95% interval "
        f"{found.lower:.3g} to {found.upper:.3g})."
    )
    return RefitComparison("loss", figures, against, text)


def _load(context: Context, spec: Spec) -> _Loaded:
    stored = spec.settings
    last = _last_loaded[0] if _last_loaded else None
    if last and (last.model_id, last.settings["num_draws"]) == (spec.model_id, stored["num_draws"]):
        return last
    _last_loaded.clear()
    with session_scope(context.engine, read_only=True) as session:
        header, members = draws.read_forecaster(session, spec.model_id)
    if header is not None:
        former = Forecaster.from_bytes(with_models(header, members))
        settings = former.settings | {"num_draws": int(stored["num_draws"])}
        history = history_of_fit(former.history, former.fitted, former.calibration)
        _last_loaded.append(_Loaded(spec.model_id, history, settings, former))
        return _last_loaded[0]
    asked = {name: stored[name] for name in FORECAST if name in stored}
    names = [asked["time"], *asked.get("series", ()), *stored["features"]]
    with session_scope(context.engine, read_only=True) as session:
        table = datasets.read(session, spec.dataset_id, [*names, spec.target])
    outcome = read_column(table.column(spec.target), spec.target)
    arguments = {name: stored[name] for name in FORECAST_SETTINGS if stored.get(name) is not None}
    arguments |= asked | {"features": stored["features"], "family": stored["family"]}
    history, settings = plan_forecaster(read(table.select(names)), outcome, arguments)
    _last_loaded.append(_Loaded(spec.model_id, history, settings))
    return _last_loaded[0]


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in settings.items() if name != "prior"}


def _iterations(settings: Mapping[str, Any]) -> int:
    return int(settings["num_burnin"]) + int(settings["num_draws"]) * int(settings["thin"])
