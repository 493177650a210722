"""Preparation of a fit: training data and the model's header, from a table or from a stored header."""

from sampler.preparation.encode import prepare, prepare_rows, resemblance_warnings
from sampler.preparation.from_header import prepare_again
from sampler.preparation.plan import FitPlan, plan, resolve_settings
from sampler.preparation.several import prepare_several, prepare_several_again
from sampler.prepared_fit import PreparedFit

__all__ = [
    "FitPlan",
    "PreparedFit",
    "plan",
    "prepare",
    "prepare_again",
    "prepare_rows",
    "prepare_several",
    "prepare_several_again",
    "resemblance_warnings",
    "resolve_settings",
]
