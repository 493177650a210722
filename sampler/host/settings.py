"""Definitions of settings, roles and families."""

from sampler.definitions.data import (
    CALIBRATE,
    CENSORING,
    CHOSEN,
    COLUMN_ROLES,
    COLUMNS,
    HOLDOUT,
    MISSING_TARGET,
    ROLES,
)
from sampler.definitions.forecast import FORECAST
from sampler.definitions.forecast import SECTION as FORECAST_SECTION
from sampler.definitions.new_rows import ABOUT as ABOUT_NEW_ROWS
from sampler.definitions.new_rows import NewRows
from sampler.definitions.other_names import meant_setting
from sampler.definitions.prior import PRIOR
from sampler.definitions.recipes import NO_RECIPE
from sampler.definitions.setting import Setting
from sampler.definitions.several import MAX_OUTCOMES, every_feature
from sampler.definitions.stop import BY_DEFAULT as STOP_BY_DEFAULT
from sampler.definitions.stop import (
    DEFAULT_CORES,
    DEFAULT_ROWS,
    DEFAULT_SECONDS,
    DEFAULT_VERDICT,
    MORE_TREES,
    MORE_TREES_ROWS,
    STOP,
    TIMES_DRAWS,
)
from sampler.errors import suggestion
from sampler.families import FAMILIES
from sampler.methods import METHODS, check_extends
from sampler.noise import AUTO as AUTO_NOISE
from sampler.noise import CONSTANT
from sampler.settings import ALL_SETTINGS, LIMITS, SETTINGS, VALUES_OF_OLD_MODELS, Settings
from sampler.settings import LABELS as FIELD_LABELS
from sampler.settings import labelled as labelled_text
from sampler.subgroups.declaration import ABOUT as ABOUT_SUBGROUPS
from sampler.subgroups.declaration import MOST_ENTRIES as MOST_SUBGROUPS
from sampler.subgroups.declaration import Subgroups
from sampler.subgroups.declaration import read_text as read_subgroup
