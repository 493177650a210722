"""Predictions with honest intervals, from Bayesian additive regression trees (BART).

>>> from bartserve import fit, load                        # in a notebook, without a service
>>> from bartserve import BARTClassifier, BARTRegressor    # scikit-learn estimators
>>> from bartserve import Client                           # client of a running service

Each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.client import Client
    from sampler import (
        Forecaster,
        Sampler,
        SeveralPosterior,
        fit,
        fit_many,
        holdout_rows,
        inclusion_by_trees,
        load,
        load_many,
        make_long,
        select_features,
        tune,
    )
    from sampler.sklearn import BARTClassifier, BARTRegressor, BARTSurvival

_HOMES = {
    "BARTClassifier": "sampler.sklearn",
    "BARTRegressor": "sampler.sklearn",
    "BARTSurvival": "sampler.sklearn",
    "Client": "app.client",
    "Forecaster": "sampler",
    "Sampler": "sampler",
    "SeveralPosterior": "sampler",
    "fit": "sampler",
    "fit_many": "sampler",
    "holdout_rows": "sampler",
    "inclusion_by_trees": "sampler",
    "load": "sampler",
    "load_many": "sampler",
    "make_long": "sampler",
    "select_features": "sampler",
    "tune": "sampler",
}

__all__ = [
    "BARTClassifier",
    "BARTRegressor",
    "BARTSurvival",
    "Client",
    "Forecaster",
    "Sampler",
    "SeveralPosterior",
    "fit",
    "fit_many",
    "holdout_rows",
    "inclusion_by_trees",
    "load",
    "load_many",
    "make_long",
    "select_features",
    "tune",
]

try:
    __version__ = version("bartserve")
except PackageNotFoundError:  # the source is used without installation
    __version__ = "unknown"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bartserve' has no attribute {name!r}")
    _refuse_shadow(_HOMES[name].partition(".")[0])
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _refuse_shadow(package: str) -> None:
    """Raise ImportError where another package or module hides one of bartserve's own."""
    try:
        spec = find_spec(package)
    except ValueError:  # the module was made by hand, without a spec
        spec = None
    origin = None if spec is None else spec.origin or next(iter(spec.submodule_search_locations or ()), None)
    if origin is None:
        return  # missing: the import itself reports it
    ours = Path(__file__).resolve().parents[1] / package
    shadow = Path(origin).resolve()
    if ours not in {shadow, shadow.parent}:
        raise ImportError(
            f"bartserve needs its own package {package!r}, but Python finds {shadow} first: rename that one, "
            "or start Python in another folder or with -P.",
            name=package,
            path=str(shadow),
        )
