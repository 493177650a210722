"""Calibrations that were in force before the present one, by which an answer is given again."""

import numpy as np
from sqlalchemy import Engine

from app.services.errors import Fault, InvalidRequestError
from app.services.predictions.posteriors import DamagedError
from app.store.engine import session_scope
from app.store.outcomes import weekly as store
from app.store.tables import WeeklyTable
from sampler import Posterior
from sampler.host.storage import ConformalTable


def table_of(stored: WeeklyTable) -> ConformalTable:
    """Read a stored calibration, with its scores; raise DamagedError if it isn't the one that was stored."""
    unit = stored.made.get("unit")
    table = ConformalTable.from_json(
        stored.made,
        np.frombuffer(stored.scores, "<f8").astype(np.float64),
        None if unit is None else np.array(unit, np.int32),
        of_classes=False,
    )
    if table.checksum != stored.checksum:
        raise DamagedError(
            f"Model {stored.model_id}: calibration {stored.checksum} differs from its checksum."
        )
    return table


def calibrated_as(engine: Engine, posterior: Posterior, model_id: str, checksum: str) -> Posterior:
    """Return the posterior with the calibration of a checksum, the present one or an earlier one.

    Raises
    ------
    InvalidRequestError
        There is none that is stored: earlier ones are while weekly recalibration is, or was, on.
    DamagedError
        It can't be read back.
    """
    present = posterior.conformal_table
    if present is not None and present.checksum == checksum:
        return posterior
    with session_scope(engine, read_only=True) as session:
        found = store.with_scores(session, model_id, WeeklyTable.checksum == checksum)
        if found:
            return posterior.with_table(table_of(found[-1]))
    raise InvalidRequestError(
        errors=[
            Fault(
                "calibration",
                None,
                f"the model has no calibration {checksum[:40]!r}: it was replaced by another that didn't "
                "move week by week, or is another model's; leave this out for the present one",
            )
        ]
    )
