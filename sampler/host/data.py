"""Tables, columns, cells and rows."""

from sampler import interrupt
from sampler.array_types import Axes, Bools, Longs
from sampler.data import scalars
from sampler.data.censoring.outcomes import read_censored, refuse_censoring
from sampler.data.columns import (
    MAX_LEVELS,
    ColumnKind,
    ColumnSummary,
    is_beyond,
    is_number,
    note_on_rounding,
    repeated_rows,
    sort_levels,
)
from sampler.data.convert import PLAIN, level_meant, to_floats, to_labels
from sampler.data.cut_points import check_cuts
from sampler.data.encode import Coded
from sampler.data.periods import read_periods
from sampler.data.repeated_columns import find_copies
from sampler.data.row_flags import NAMES as FLAG_NAMES
from sampler.data.row_flags import UNSEEN_LEVEL, Flag, unseen_in_words
from sampler.data.row_flags import as_text as flags_as_text
from sampler.data.row_flags import count as count_flags
from sampler.data.rows import Rows, censoring_roles
from sampler.data.scalars import (
    ABSENT,
    BEYOND,
    MICROSECONDS_A_DAY,
    counted,
    days_to_text,
    is_missing,
    named_with,
    number_to_text,
    range_to_text,
    shortened,
    text_to_days,
)
from sampler.data.scalars import as_text as value_as_text
from sampler.data.schema import (
    KINDS,
    LONGEST_NAME,
    OF_LEVELS,
    ROW_LABELS,
    Choice,
    Column,
    FeatureKind,
    name_fault,
    why_it_identifies,
)
from sampler.data.splits.copies import are_among, copied_rows
from sampler.data.splits.resemblance import MOST_CELLS, Resemblance, undeclared
from sampler.data.splits.split_plan import FOLDS, Split, SplitPlan, folds_of, without_new_groups
from sampler.data.table import BlockReader, RawColumn, Table, read, read_column
from sampler.data.target import FEWEST_OF_CLASSES, finite_numbers, read_outcomes, read_weights
from sampler.many.grouping import GroupKey, group_named, read_by, rows_by_group
from sampler.storage.file_dialect import DateOrder, Decimal, FileDialect, Separator
