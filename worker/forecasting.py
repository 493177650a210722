"""A `prediction` unit of a forecast: the next steps of some series, with the bits of a single answer."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from app.store import datasets, draws, predictions
from app.store.column_codec import checksum
from app.store.engine import session_scope
from app.store.errors import StoreError
from app.store.queue import units
from app.store.queue.claims import Claim
from app.store.queue.units import Directive, Progress
from app.store.tables import BatchPrediction, Json
from sampler import SamplerError
from sampler.host.data import read, rows_by_group
from sampler.host.forecasts import Forecaster, ReadPlan, totals_in_parts, with_models
from worker.context import Context
from worker.errors import Stopped
from worker.heartbeat import Watch


@dataclass(frozen=True)
class _Ahead:
    """The forecaster, plan and series that the units of a prediction have in common."""

    prediction_id: str
    forecaster: Forecaster
    plan: ReadPlan | None
    series: list[Any]
    types: dict[str, pa.DataType]  # of columns whose values tell them only together


_last_loaded: list[_Ahead] = []  # a process often runs several units of a prediction in a row


def run_forecast(context: Context, claim: Claim, watch: Watch, stored: BatchPrediction) -> None:
    """Forecast the claimed unit's series; raises as `worker.fits.chain.run_chain`."""
    ahead, request = _ahead(context, claim.model_id, stored), stored.request
    asked, rows = request[predictions.FORECAST], request[predictions.UNITS][0]
    if request.get(predictions.SUMS):
        _sum(context, claim, watch, stored, ahead)
        return
    each = rows // ahead.forecaster.horizon
    some = ahead.series[claim.ordinal * each : (claim.ordinal + 1) * each]
    directive = watch.beat(Progress("predicting", 0, len(some) * ahead.forecaster.horizon))
    if directive is not Directive.CONTINUE:
        raise Stopped(directive)
    answer = ahead.forecaster.forecast(
        ahead.plan,
        request["levels"][0],
        request["interval"],
        some,
        asked["at"],
        num_threads=1,  # beside other units
    )
    columns, types = answer.columns().items(), ahead.types
    table = pa.table({name: pa.array(each, types.get(name), from_pandas=True) for name, each in columns})
    for number, path in enumerate(answer.some_paths(asked.get("paths", 0)), 1):
        table = table.append_column(f"path_{number}", pa.array(path.reshape(-1)))
    data = predictions.encode(table)
    watch.check()
    with session_scope(context.engine) as session:
        units.finish_part(session, claim, table.num_rows, {})
        predictions.write_block(session, stored.id, claim.ordinal, table.num_rows, data)


def _sum(context: Context, claim: Claim, watch: Watch, stored: BatchPrediction, ahead: _Ahead) -> None:
    """Sum over steps and sets of series, in parts; nothing is stored before the end."""
    request, asked = stored.request, stored.request[predictions.FORECAST]

    def report() -> None:
        directive = watch.beat(Progress("predicting", 0, stored.num_rows))
        if directive is not Directive.CONTINUE:
            raise Stopped(directive)

    options = (request["levels"][0], request["interval"], asked["series"], asked["at"], report)
    totals = totals_in_parts(ahead.forecaster, request[predictions.SUMS], ahead.plan, *options)
    table = pa.concat_tables([pa.table(each.lines()) for each in totals], promote_options="default")
    data = predictions.encode(table)
    watch.check()
    with session_scope(context.engine) as session:
        units.finish_part(session, claim, table.num_rows, {})
        predictions.write_block(session, stored.id, claim.ordinal, table.num_rows, data)


def _ahead(context: Context, model_id: str, stored: BatchPrediction) -> _Ahead:
    if _last_loaded and _last_loaded[0].prediction_id == stored.id:
        return _last_loaded[0]
    _last_loaded.clear()  # frees the memory before the next
    request: Json = stored.request
    asked = request[predictions.FORECAST]
    with session_scope(context.engine, read_only=True) as session:
        header, blocks = draws.read_forecaster(session, model_id)
    if header is None:
        raise StoreError(f"Model {model_id} has no draws.")
    if checksum(header) != request["checksum"]:
        raise SamplerError("Outcomes were reported after this forecast was asked for: ask again.")
    forecaster = Forecaster.from_bytes(with_models(header, blocks))
    history, plan = forecaster.history, None
    group: dict[str, str] = request.get(predictions.GROUP, {})
    names = [history.asked.time, *history.asked.series, *history.asked.known, *group]
    if stored.dataset_id is not None:
        with session_scope(context.engine, read_only=True) as session:
            table = datasets.read(session, stored.dataset_id, names)
        rows = read(table)
        if group:
            found = rows_by_group(rows, [*group])
            own = [at for key, at in found.items() if [*group.values()] in ([key], [*key])]
            rows = rows.part(own[0] if own else np.zeros(0, np.int64))
        plan = forecaster.read_plan(rows, asked["series"], asked["at"])
    elif asked["known"] is not None:
        raise SamplerError("The dataset of the plan was deleted.")
    chosen, _, _ = forecaster.choose(asked["series"], asked["at"])
    ends = range(history.start, history.start + history.y.shape[1] + forecaster.horizon)
    every = pa.table(history.columns_of(range(len(history.keys))))
    of_series = {name: every.field(name).type for name in every.column_names}
    of_series[history.asked.time] = pa.array([history.step.text(each) for each in ends]).type
    series = [list(history.keys[number]) for number in chosen]
    _last_loaded.append(_Ahead(stored.id, forecaster, plan, series, of_series))
    return _last_loaded[0]
