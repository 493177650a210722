"""Parts of stored models: header, draws, calibration, files."""

from sampler.data.treatment.support import SUPPORT
from sampler.storage.calibration_size import MAX_ROWS as MAX_CALIBRATION_ROWS
from sampler.storage.calibration_size import USUAL_LEVEL, kept_rows, kept_rows_of, rows_needed
from sampler.storage.conformal_table import SUMMARY_LEVELS, CalibratedLevel, ConformalTable
from sampler.storage.draws import concatenate
from sampler.storage.model_file import MEDIA_TYPE, write_model
from sampler.storage.model_header import RECALIBRATION, Header, with_calibration, with_counts, with_part
from sampler.storage.weekly_tables import NEWEST as NEWEST_SCORES
from sampler.storage.weekly_tables import (
    counts_groups,
    ends_in_force,
    first_tails,
    most_outside,
    most_pending,
    moved_tails,
    statement_of,
    table_of_newest,
    weights_of,
)
from sampler.subgroups.declaration import Subgroup
from sampler.subgroups.membership import Membership, columns_of
from sampler.subgroups.table import MAX_ROWS as MAX_ROWS_OF_SUBGROUPS
