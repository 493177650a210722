"""Forecasters: their plans, members, rehearsals and files."""

from sampler.definitions.pairs import Combination
from sampler.forecasts.answers import Forecast, ForecastTotals, Rehearsals
from sampler.forecasts.calibration import parts_of, rehearse
from sampler.forecasts.comparing import compare_forecasts
from sampler.forecasts.fitting import DEFAULTS as FORECAST_DEFAULTS
from sampler.forecasts.fitting import PASSED as FORECAST_SETTINGS
from sampler.forecasts.fitting import (
    extend_member,
    fit_member,
    history_of_fit,
    learns,
    learnt,
    plan_forecaster,
    planned_members,
    settings_of_member,
    stored_member,
)
from sampler.forecasts.forecaster import Forecaster, ReadPlan
from sampler.forecasts.history import History
from sampler.forecasts.in_parts import totals_in_parts
from sampler.forecasts.outcomes import ScoredSteps, score_newer
from sampler.forecasts.paths import Fitted
from sampler.forecasts.stored import history_of, intervals_of, with_adapted
from sampler.forecasts.untrusted import read_untrusted
from sampler.forecasts.wide import read_asked
from sampler.pairs import check as check_combination
from sampler.storage.forecast_file import is_forecaster, read_forecaster, with_models, write_forecaster
