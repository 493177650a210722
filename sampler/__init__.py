"""Bayesian additive regression trees (BART) and single-tree methods, compiled with numba.

>>> from sampler import fit, load
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sampler.errors import (
    DataError,
    DataProblem,
    DataWarning,
    NotFittedError,
    PackedError,
    SamplerError,
    SettingsError,
)

if TYPE_CHECKING:
    from sampler.bart.chain import Chain
    from sampler.chains import AnyChain, resume_chain, start_chain
    from sampler.data.columns import ColumnSummary, describe
    from sampler.data.schema import Schema, choose
    from sampler.data.splits.holdout import holdout_rows
    from sampler.fitting import fit, load
    from sampler.forecasts.forecaster import Forecaster
    from sampler.forecasts.wide import make_long
    from sampler.kernels.jit import is_warm, warm
    from sampler.many.fitting import fit_many, load_many
    from sampler.posterior.posterior import Posterior
    from sampler.posterior.results.prediction import Prediction
    from sampler.posterior.several.posterior import SeveralPosterior
    from sampler.preparation import prepare
    from sampler.prepared_fit import PreparedFit
    from sampler.settings import Settings
    from sampler.stepwise.sampler import Sampler
    from sampler.storage.draw_codec import pack, unpack
    from sampler.storage.draws import Draws
    from sampler.studies.inclusion_by_trees import inclusion_by_trees
    from sampler.studies.selection import select_features
    from sampler.studies.tuning import tune

# imported on first use, so that importing the package is cheap
_HOMES = {
    "AnyChain": "chains",
    "Chain": "bart.chain",
    "ColumnSummary": "data.columns",
    "Draws": "storage.draws",
    "Forecaster": "forecasts.forecaster",
    "Posterior": "posterior.posterior",
    "Prediction": "posterior.results.prediction",
    "PreparedFit": "prepared_fit",
    "Sampler": "stepwise.sampler",
    "SeveralPosterior": "posterior.several.posterior",
    "Schema": "data.schema",
    "Settings": "settings",
    "choose": "data.schema",
    "describe": "data.columns",
    "fit": "fitting",
    "fit_many": "many.fitting",
    "holdout_rows": "data.splits.holdout",
    "inclusion_by_trees": "studies.inclusion_by_trees",
    "is_warm": "kernels.jit",
    "load": "fitting",
    "load_many": "many.fitting",
    "make_long": "forecasts.wide",
    "pack": "storage.draw_codec",
    "prepare": "preparation",
    "resume_chain": "chains",
    "select_features": "studies.selection",
    "start_chain": "chains",
    "tune": "studies.tuning",
    "unpack": "storage.draw_codec",
    "warm": "kernels.jit",
}

__all__ = [
    "AnyChain",
    "Chain",
    "ColumnSummary",
    "DataError",
    "DataProblem",
    "DataWarning",
    "Draws",
    "Forecaster",
    "NotFittedError",
    "PackedError",
    "Posterior",
    "Prediction",
    "PreparedFit",
    "Sampler",
    "SamplerError",
    "Schema",
    "Settings",
    "SettingsError",
    "SeveralPosterior",
    "choose",
    "describe",
    "fit",
    "fit_many",
    "holdout_rows",
    "inclusion_by_trees",
    "is_warm",
    "load",
    "load_many",
    "make_long",
    "pack",
    "prepare",
    "resume_chain",
    "select_features",
    "start_chain",
    "tune",
    "unpack",
    "warm",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sampler' has no attribute {name!r}")
    value = getattr(import_module(f"sampler.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
