"""Studies of models: creation, queries, cancellation, deletion and the statistics of their units.

Their state changes through `app.store.queue`.
"""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.store import models
from app.store.queue import lifecycle
from app.store.queue.jobs import STUDIES
from app.store.statements import page
from app.store.tables import QUEUED, STUDY, Json, Study, Unit, new_id

get, list_page, fits_done = STUDIES.get, STUDIES.list_page, STUDIES.done
cancel, delete = STUDIES.cancel, STUDIES.delete


def create(
    session: Session, *, owner: str, model_id: str, kind: str, request: Json, fits: Sequence[int]
) -> Study:
    """Store a new study: its row and its units of work, with the number of fits (chains) of each.

    Raises
    ------
    ModelGoneError
        The owner no longer has this model.
    """
    models.hold(session, owner, model_id)
    study = Study(
        id=new_id("std"),
        owner=owner,
        model_id=model_id,
        kind=kind,
        request=request,
        num_fits=sum(fits),
        state=QUEUED,
    )
    session.add(study)
    session.flush()  # the units refer to the row
    for number, of_unit in enumerate(fits):
        session.add(lifecycle.new_unit(owner, model_id, STUDY, number, of_unit, study_id=study.id))
    session.flush()  # fail here rather than at the commit
    return study


def newest(session: Session, owner: str, model_id: str, kind: str) -> Study | None:
    """Return the owner's newest study of a model of that kind, or None."""
    mine = select(Study).where(Study.owner == owner, Study.model_id == model_id, Study.kind == kind)
    return session.scalar(page(mine, Study, 1, None))


def statistics(session: Session, study_id: str) -> list[Json]:
    """Return the statistics of each unit of a succeeded study, in order."""
    mine = select(Unit.statistics).where(Unit.study_id == study_id).order_by(Unit.ordinal)
    return [one or {} for one in session.scalars(mine)]
