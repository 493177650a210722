"""A `study` unit: some fits to a model's training rows, whose result is stored at the end.

The result depends only on the rows and the number of the unit, so a killed unit starts again and gives the
same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy.orm import Session

from app.store import models, studies
from app.store.engine import session_scope
from app.store.errors import LeaseLostError
from app.store.queue import units
from app.store.queue.claims import Claim
from app.store.queue.units import Progress
from app.store.tables import SUCCEEDED, Json, Study
from sampler import Settings
from sampler.host.data import Rows
from sampler.host.storage import ConformalTable
from worker.context import Context
from worker.fits.fit_spec import Spec, read_rows, read_spec, split
from worker.heartbeat import Watch
from worker.kernels import load_kernels
from worker.studies import calibration, inclusion_by_trees, placebo, selection, tuning


class _Kind(NamedTuple):
    """Settings of a kind's fits, and the functions that run a part, and that end a study of all parts."""

    settings_of: Callable[[Json, Spec, int], Json]
    run: Callable[[Json, Spec, Rows, int, Callable[[int], None]], Json]
    table_of: Callable[[Json, Spec, bytes, list[Json], Callable[[], None]], ConformalTable] | None = None
    conclude: Callable[[Session, Study, ConformalTable], None] | None = None


_KINDS = {
    "selection": _Kind(selection.settings_of, selection.run),
    "tuning": _Kind(tuning.settings_of, tuning.run),
    "placebo": _Kind(calibration.settings_of, placebo.run),
    "inclusion_by_trees": _Kind(inclusion_by_trees.settings_of, inclusion_by_trees.run),
    "calibration": _Kind(
        calibration.settings_of, calibration.run, calibration.table_of, calibration.conclude
    ),
}


@dataclass(frozen=True)
class _Loaded:
    model_id: str
    training: Rows


_last_loaded: list[_Loaded] = []  # a process often runs several units of a study in a row


def run_study(context: Context, claim: Claim, watch: Watch) -> None:
    """Run the claimed part of a study; raises as `worker.fits.chain.run_chain`."""
    with session_scope(context.engine, read_only=True) as session:
        study = session.get(Study, claim.study_id)
        if study is None:
            raise LeaseLostError(f"Study {claim.study_id} was deleted.")
        spec = read_spec(session, claim.model_id)
        fits = units.num_iterations(session, claim)
    kind = _KINDS[study.kind]
    load_kernels(watch, Settings.resolve(**kind.settings_of(study.request, spec, claim.ordinal)))

    def tell(done: int) -> None:
        watch.tell(Progress("studying", done, fits))
        watch.check()

    tell(0)
    training = _training(context, spec)
    request = study.request
    statistics = kind.run(request, spec, training, claim.ordinal, tell)
    watch.check()
    if kind.conclude is None or kind.table_of is None:
        with session_scope(context.engine) as session:
            units.finish_part(session, claim, fits, statistics)
        return
    with session_scope(context.engine, read_only=True) as session:
        header, parts = _parts(session, claim, statistics)
    table = None
    if header is not None and all(parts):  # seconds, so that no lock is held
        table = kind.table_of(request, spec, header, parts, lambda: tell(fits))
    with session_scope(context.engine) as session:
        units.finish_part(session, claim, fits, statistics)
        study = session.get(Study, claim.study_id, populate_existing=True)
        header, parts = _parts(session, claim, statistics)
        if study is not None and study.state == SUCCEEDED and header is not None:
            if table is None:  # another part ended meanwhile
                table = kind.table_of(request, spec, header, parts, lambda: None)
            kind.conclude(session, study, table)


def _parts(session: Session, claim: Claim, statistics: Json) -> tuple[bytes | None, list[Json]]:
    """Read the model's header and the statistics of all parts, {} for one that hasn't ended."""
    parts = studies.statistics(session, str(claim.study_id))
    return models.header(session, claim.model_id), [
        statistics if k == claim.ordinal else part for k, part in enumerate(parts)
    ]


def _training(context: Context, spec: Spec) -> Rows:
    if _last_loaded and _last_loaded[0].model_id == spec.model_id:
        return _last_loaded[0].training
    _last_loaded.clear()  # frees the memory before the next rows
    with session_scope(context.engine, read_only=True) as session:
        rows = read_rows(session, spec)
    _last_loaded.append(_Loaded(spec.model_id, split(spec, rows)[0]))
    return _last_loaded[0].training
