"""A `prediction` unit: rows of one block of a dataset, predicted in parts and stored at the end.

The parts depend only on the rows, and nothing is stored before the end, so a killed unit starts again and
gives the same bytes.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from app.services.drift.counting import record
from app.services.predictions.row_reading import RowReading
from app.store import datasets, draws, models, predictions
from app.store.engine import session_scope
from app.store.errors import LeaseLostError, StoreError
from app.store.queue import units
from app.store.queue.claims import Claim
from app.store.queue.units import Directive, Progress
from app.store.tables import BatchPrediction, Dataset, Json
from sampler import DataError, Posterior, SamplerError
from sampler.host.assessment import DriftRows, predict_calibrated, row_diagnostics
from sampler.host.data import Coded, Flag
from sampler.host.data import count_flags as count
from sampler.host.posteriors import are_finite, posterior_of, prediction_columns, without_infinity
from sampler.host.storage import CalibratedLevel, Subgroup, columns_of
from worker.context import Context
from worker.errors import Stopped
from worker.forecasting import run_forecast
from worker.heartbeat import Watch
from worker.kernels import PREDICTION, load_kernels

PART_ROWS = 2048  # rows between checks of the clock
EXAMINED_ROWS = 256  # rows at once when every draw of a row is examined
BEAT_SECONDS = 1.0
FLAGS = pa.list_(pa.struct([("column", pa.string()), ("flag", pa.string())]))


@dataclass(frozen=True)
class _Loaded:
    model_id: str
    posterior: Posterior


_last_loaded: list[_Loaded] = []  # a process often runs several units of a prediction in a row


def run_prediction(context: Context, claim: Claim, watch: Watch) -> None:
    """Predict the claimed unit's rows; raises as `worker.fits.chain.run_chain`."""
    load_kernels(watch, PREDICTION)
    assert claim.prediction_id is not None
    with session_scope(context.engine, read_only=True) as session:
        stored = session.get(BatchPrediction, claim.prediction_id)
    if stored is not None and predictions.FORECAST in stored.request:
        run_forecast(context, claim, watch, stored)
        return
    if stored is None or stored.dataset_id is None:
        raise LeaseLostError(f"Prediction {claim.prediction_id} was deleted.")
    request = stored.request
    with session_scope(context.engine, read_only=True) as session:
        posterior = _posterior(context, claim.model_id, request["draws"])
        if posterior.several is not None and request.get("outcome"):
            posterior = posterior.several[request["outcome"]]
    if predictions.AGGREGATE in request:
        _run_totals(context, claim, watch, posterior, stored)
        return
    with session_scope(context.engine, read_only=True) as session:
        dataset = session.get_one(Dataset, stored.dataset_id)
        known = {column["name"] for column in dataset.columns}
        levels = _levels(posterior, request)
        subgroups = next((each.cells.subgroups for each in levels if each.cells is not None), ())
        beside = [*posterior.beside.values(), *columns_of(subgroups)]
        names = list(dict.fromkeys([*posterior.schema.kinds, *(name for name in beside if name in known)]))
        as_text = request.get(predictions.AS_TEXT, ())
        table, before = predictions.read_rows(session, stored, names, claim.ordinal, as_text)
        reading = RowReading.of_dataset(posterior, dataset)
    _beat(watch, 0, table.num_rows)
    coded = _encoded(posterior, partial(reading.from_text, table, as_text), before, subgroups)
    del table
    parts = pa.concat_tables(list(_parts(watch, posterior, coded, request, levels)))
    data = predictions.encode(parts)
    watch.check()
    statistics = {"flags": count(coded.marks, posterior.schema.inputs), "unseen": coded.unseen}
    with session_scope(context.engine) as session:
        # The fencing check comes first: a worker without the lease stores nothing.
        units.finish_part(session, claim, coded.num_rows, statistics)
        predictions.write_block(session, claim.prediction_id, claim.ordinal, coded.num_rows, data)
    if context.settings.drift_watch:
        mean = parts.column("mean").combine_chunks()
        shape = (coded.num_rows, mean.type.list_size) if pa.types.is_fixed_size_list(mean.type) else -1
        flat = mean.flatten() if isinstance(shape, tuple) else mean
        of_rows = flat.to_numpy(zero_copy_only=False).reshape(shape)
        record(context.engine, claim.model_id, [DriftRows.of(posterior.schema, coded, of_rows)])


def _run_totals(
    context: Context, claim: Claim, watch: Watch, posterior: Posterior, stored: BatchPrediction
) -> None:
    """Compute figures of sets of all rows of the dataset."""
    request, as_text = stored.request, stored.request[predictions.AS_TEXT]
    asked = request[predictions.AGGREGATE]
    beside = [name for name in (asked["weights"], asked["observed"]) if name is not None]
    names = [*dict.fromkeys([*request[predictions.COLUMNS], *beside])]
    with session_scope(context.engine, read_only=True) as session:
        dataset = session.get_one(Dataset, stored.dataset_id)
        blocks = range(0, dataset.num_rows, datasets.BLOCK_ROWS)
        parts = [
            datasets.read_block(session, dataset.id, names, seq, as_text) for seq, _ in enumerate(blocks)
        ]
    _beat(watch, 0, dataset.num_rows)
    rows = RowReading.of_dataset(posterior, dataset).from_text(pa.concat_tables(parts), as_text)
    data = predictions.encode(_figures_of_sets(posterior, rows, request))
    watch.check()
    with session_scope(context.engine) as session:
        units.finish_part(session, claim, dataset.num_rows, {})
        predictions.write_block(session, stored.id, claim.ordinal, dataset.num_rows, data)


def _figures_of_sets(posterior: Posterior, rows: pa.Table, request: Json) -> pa.Table:
    asked = dict(request[predictions.AGGREGATE])
    named = {name: column for name in ("weights", "observed") if (column := asked.pop(name)) is not None}
    X = {name: rows.column(name) for name in request[predictions.COLUMNS]}
    beside = {name: rows.column(column) for name, column in named.items()}
    answer = posterior.aggregate(X, **asked, **beside, num_draws=request["draws"])
    ends = [] if answer.claim else [answer.lower, answer.upper]
    if not all(np.isfinite(each).all() for each in (answer.mean, *ends)):
        raise SamplerError("The figures exceed the largest float: rescale the target.")
    columns = {
        name: _array(values) if isinstance(values, np.ndarray) else pa.array(values, pa.string())
        for name, values in answer.columns().items()
    }
    facts = {name: value for name, value in answer.to_json().items() if name != "sets"}
    return pa.table(columns).replace_schema_metadata({"bartserve": json.dumps(facts)})


def _levels(posterior: Posterior, request: Json) -> list[CalibratedLevel]:
    """Return the calibrated levels as planned; with the model's table, if it is the same still.

    The table finds ends of combinations of subgroups that no calibration row has.
    """
    planned = [CalibratedLevel.from_json(each) for each in request.get("calibrated", ())]
    table = posterior.conformal_table
    if table is None or table.checksum != request.get("calibration"):
        return planned
    return [table.at(each.level) for each in planned]


def _posterior(context: Context, model_id: str, num_draws: int) -> Posterior:
    if _last_loaded:
        last = _last_loaded[0]
        if last.model_id == model_id and last.posterior.num_draws >= num_draws:
            return last.posterior
    _last_loaded.clear()  # frees the memory before the next posterior
    with session_scope(context.engine, read_only=True) as session:
        header = models.header(session, model_id)
        blocks = draws.read(session, model_id)
    if header is None:
        raise StoreError(f"Model {model_id} has no draws.")
    _last_loaded.append(_Loaded(model_id, posterior_of(header, blocks)))
    return _last_loaded[0].posterior


def _encoded(
    posterior: Posterior, read: Callable[[], pa.Table], first: int, subgroups: Sequence[Subgroup]
) -> Coded:
    """Read and encode the rows; errors name rows of the whole dataset, `first` of which come before."""
    try:
        return posterior.law.draws.encode(read(), subgroups=subgroups)
    except DataError as error:
        raise DataError(
            [replace(p, row=None if p.row is None else p.row + first) for p in error.problems]
        ) from None


def _parts(
    watch: Watch, posterior: Posterior, coded: Coded, request: Json, levels: Sequence[CalibratedLevel]
) -> Iterator[pa.Table]:
    size = EXAMINED_ROWS if request["mcse"] or request["rhat"] else PART_ROWS
    last_told, began = time.monotonic(), time.monotonic()
    for start in range(0, coded.num_rows, size):
        yield _predict(posterior, coded.part(slice(start, start + size)), request, levels)
        now = time.monotonic()
        if now - last_told > BEAT_SECONDS:
            last_told, done = now, min(start + size, coded.num_rows)
            _beat(watch, done, coded.num_rows, done / (now - began))


def _predict(
    posterior: Posterior, coded: Coded, request: Json, levels: Sequence[CalibratedLevel]
) -> pa.Table:
    num_draws = request["draws"]
    if levels:  # as planned, whatever the model's calibration is now
        prediction = predict_calibrated(posterior.law, coded, levels, num_draws)
    else:
        kind, quantiles = request["interval"], request["quantiles"]
        prediction = posterior.predict(coded, request["levels"], kind, quantiles, num_draws)
    if not are_finite(prediction):
        raise SamplerError("The predictions exceed the largest float: rescale the target.")
    agreement = row_diagnostics.agreement(posterior.law, coded, num_draws) if request["rhat"] else None
    named = prediction_columns(
        prediction,
        errors=row_diagnostics.errors(posterior.law, coded, prediction) if request["mcse"] else None,
        rhat=None if agreement is None else row_diagnostics.rhat_by_row(posterior.law, agreement),
    )
    table = pa.table({name: _array(values) for name, values in named.items()})
    return table.append_column("flags", _flags(prediction.flags))


def _array(values: Any) -> pa.Array:
    """Convert a column; for several classes, to a list per row."""
    flat = pa.array(without_infinity(values).reshape(-1), from_pandas=True)
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def _flags(rows: list[list[Flag]]) -> pa.Array:
    return pa.array([[flag._asdict() for flag in row] for row in rows], FLAGS)


def _beat(watch: Watch, done: int, rows: int, rate: float | None = None) -> None:
    directive = watch.beat(Progress("predicting", done, rows, rate=rate))
    if directive is not Directive.CONTINUE:
        raise Stopped(directive)
