"""Names of other packages for settings, which a refusal answers with the names here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from typing import ParamSpec, TypeVar

from sampler.definitions.data import COLUMN_ROLES
from sampler.errors import suggestion

P = ParamSpec("P")
R = TypeVar("R")

# Of BART, dbarts, bartMachine and stochtree (R), PyMC-BART, bartz, scikit-learn and boosting.
SETTINGS = {
    "ntree": "num_trees",
    "ntrees": "num_trees",
    "n_trees": "num_trees",
    "m": "num_trees",
    "n_estimators": "num_trees",
    "num_iterations": "num_trees",
    "nskip": "num_burnin",
    "nburn": "num_burnin",
    "n_burn": "num_burnin",
    "burnin": "num_burnin",
    "burn_in": "num_burnin",
    "tune": "num_burnin",
    "ndpost": "num_draws",
    "nsamp": "num_draws",
    "n_samples": "num_draws",
    "draws": "num_draws",
    "num_mcmc": "num_draws",
    "keepevery": "thin",
    "keep_every": "thin",
    "nthin": "thin",
    "n_chains": "num_chains",
    "nchain": "num_chains",
    "chains": "num_chains",
    "power": "prior.beta",
    "base": "prior.alpha",
    "sigdf": "prior.nu",
    "sigquant": "prior.q",
    "sigest": "prior.sigma",
    "numcut": "prior.cuts",
    "n_jobs": "num_threads",
    "nthread": "num_threads",
    "num_threads": "n_jobs",  # of the estimators
    "random_state": "seed",
    "random_seed": "seed",
    "seed": "random_state",  # of the estimators
    "verbose": "progress",
    "sample_weight": "weights",
    "missing_outcome": "missing_target",
    "objective": "family",
    "likelihood": "family",
    "loss": "family",
    "monotone_constraints": "monotone",
    "monotonic_cst": "monotone",
    "monotonicity": "monotone",
    # Of statsforecast, mlforecast, AutoGluon, skforecast, sktime, darts and prophet.
    **dict.fromkeys(("ds", "timestamp", "date_column", "time_col", "timestamp_column"), "time"),
    **dict.fromkeys(("unique_id", "item_id", "id_column", "id_col", "group_ids"), "series"),
    **dict.fromkeys(("h", "fh", "steps", "prediction_length", "forecast_horizon"), "horizon"),
    **dict.fromkeys(("exog", "futr_exog_list", "known_covariates_names", "future_covariates"), "known"),
    **dict.fromkeys(("season_length", "seasonality", "seasonal_period", "seasonal_periods"), "season"),
    **dict.fromkeys(("freq", "frequency"), "step"),
    **dict.fromkeys(("differences", "target_transforms"), "difference"),
    **{other: name for name, role in COLUMN_ROLES.items() for other in role.other_names},
}


def meant_setting(name: str, known: Collection[str]) -> str:
    """Return "; did you mean k?" for a setting's name in another package, or a misspelt one; else "".

    Entries of the prior are known by their names, or by that of the prior alone, and then follow a dot.
    """
    meant = SETTINGS.get(name.casefold(), "")
    outer, _, inner = meant.rpartition(".")
    if not meant or not {outer, inner} & {*known}:
        return suggestion(name, known)
    return f"; did you mean {meant if outer in known else inner}?"


def suggest_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that an unknown argument is answered with the one that was probably meant."""
    known = inspect.signature(function).parameters

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                called = function.__name__ if function.__name__ != "__init__" else type(args[0]).__name__
                raise TypeError(f"{called}() has no argument {name!r}{meant_setting(name, known)}")
        return function(*args, **kwargs)

    return call
