"""Preparation of a fit: training data and the model's header, from a table or from a stored header."""

from sampler.preparation.encode import resemblance_warnings
from sampler.preparation.fit_plan import FitPlan
from sampler.preparation.plan import plan, resolve_settings
from sampler.preparation.prepared_rows import prepare, prepare_again, prepare_rows
from sampler.prepared_fit import PreparedFit

__all__ = [
    "FitPlan",
    "PreparedFit",
    "plan",
    "prepare",
    "prepare_again",
    "prepare_rows",
    "resemblance_warnings",
    "resolve_settings",
]
