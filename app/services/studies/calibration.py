"""Studies "calibration": intervals calibrated by fits to the other folds, which then belong to the model."""

from typing import Literal

from pydantic import Field

from app.services.errors import Fault, InvalidRequestError
from app.services.fits.costs import check_memory, check_seconds
from app.services.request_bodies import StrictBody
from app.services.studies.plan import StudyPlan, TrainingData
from sampler import SettingsError
from sampler.host.data import FOLDS, folds_of
from sampler.host.fits import chain_seconds, prepare_seconds

SCORE_BYTES = 22  # upper bound of the stored bytes per row
MOST_ROWS = 10_000  # rows that are scored at most


class CalibrationBody(StrictBody):
    """A calibration of a model's intervals by its training rows, each scored by a fit to other folds."""

    kind: Literal["calibration"] = Field(
        description="calibration: five more fits, each to four fifths of the rows. Then the model answers "
        "interval=calibrated, and its `calibration` says what that promises."
    )


def plan(_request: CalibrationBody, data: TrainingData, slots: int) -> StudyPlan:
    """Check a request and plan its fits; raises InvalidRequestError and those of a fit too large."""
    try:
        folds_of(data.num_rows, FOLDS, 0)
    except SettingsError as error:
        raise InvalidRequestError(errors=[Fault("kind", None, str(error), error.code)]) from None
    rows, columns, chains = data.num_rows, data.coded_columns, int(data.settings["num_chains"])
    check_memory(data.settings, rows, columns)
    each = prepare_seconds(data.settings, rows, columns) + chains * chain_seconds(
        data.settings, rows, columns
    )
    seconds = max(each, FOLDS * each / max(slots, 1))
    check_seconds(seconds, "study", "Calibrate a model of fewer rows, draws or trees.")
    request = {"draws": int(data.settings["num_draws"])}
    return StudyPlan("calibration", request, [chains] * FOLDS, seconds, min(rows, MOST_ROWS) * SCORE_BYTES)
