"""Export of draws to ArviZ."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.array_types import Floats
from sampler.errors import SettingsError
from sampler.posterior.assessment.labelled_rows import LabelledRows

if TYPE_CHECKING:
    from sampler.posterior.posterior import Posterior


def draws_of(posterior: Posterior, X: Any = None, y: Any = None, weights: Any = None) -> dict[str, Any]:
    """Arrange draws by ArviZ's groups and names, at rows X with outcomes y, or at the reference rows.

    Returns
    -------
    dict
        ``posterior``: `f` [chain, draw, row] (of more than two classes [chain, draw, row, class]), and where
        the model has them `sigma`, `degrees`, `dispersion` and `num_trees` [chain, draw]. With rows also
        ``posterior_predictive`` and ``log_likelihood`` [chain, draw, row] and ``observed_data`` [row], by the
        outcome's name. Draws with weights are repeated in proportion to these.

    """
    chains, draws = posterior.num_chains, posterior.num_draws
    chosen = posterior.law.weights.spaced(draws, chains * draws)

    def equal(values: Floats) -> Floats:
        if posterior.weights is None:
            return values
        return values.reshape(chains * draws, *values.shape[2:])[chosen].reshape(values.shape)

    rows = None if X is None else LabelledRows.read(posterior.law, X, y, weights)
    scalars = {
        "sigma": posterior.sigma,
        "degrees": posterior.degrees(),
        "dispersion": posterior.dispersion,
        "num_trees": posterior.tree_numbers(),
    }
    of_draws = {name: values for name, values in scalars.items() if values is not None}
    of_draws["f"] = posterior.sample(posterior.reference if rows is None else rows.coded)
    groups = {"posterior": {name: equal(values) for name, values in of_draws.items()}}
    if rows is None:
        return groups
    name = posterior.schema.target.name
    outcomes = posterior.sample_predictive(rows.coded, rows.weights)
    return groups | {
        "posterior_predictive": {name: equal(outcomes)},
        "log_likelihood": {name: equal(posterior.log_likelihood(X, y, weights))},
        "observed_data": {name: rows.y},
    }


def to_arviz(posterior: Posterior, X: Any = None, y: Any = None, weights: Any = None) -> Any:
    """Convert the draws to the data type of the installed ArviZ; see `Posterior.to_arviz`.

    ArviZ 1 and newer take a DataTree. Older versions get InferenceData, which the newer packages
    (arviz-plots, arviz-stats) accept too. Raises SettingsError for rows without outcomes.
    """
    if (X is None) != (y is None):
        raise SettingsError(
            "to_arviz takes rows with their outcomes: give X and y, or neither",
            field="X" if X is None else "y",
            code="contradiction",
        )
    from_dict = _reader()
    groups = draws_of(posterior, X, y, weights)
    target, classes = posterior.schema.target.name, posterior.classes
    by_row = ["row", "class"] if len(classes or ()) > 2 else ["row"]
    exported = from_dict(
        groups,
        coords={"row": np.arange(groups["posterior"]["f"].shape[2]), "class": list(classes or ())},
        dims={"f": by_row, target: ["row"]},
    )
    unit = "probability" if classes else f"{target}, in its own unit"
    units = {
        "f": unit,
        "sigma": posterior.law.learnt_unit(),
        target: "number of the class" if classes else unit,
    }
    for group in groups:
        for name, variable in exported[group].data_vars.items():
            if name in units and group != "log_likelihood":
                variable.attrs["units"] = units[name]
    return exported


def _reader() -> Callable[..., Any]:
    """Return the function of the installed ArviZ that makes its data type; raise ImportError without one."""
    if _version_of("arviz").startswith("0."):
        from arviz import from_dict as inference_data  # noqa: PLC0415  # slow to import

        return lambda groups, **named: inference_data(**groups, **named)
    try:
        from arviz_base import from_dict  # noqa: PLC0415
    except ImportError:
        raise ImportError("to_arviz needs ArviZ: pip install arviz-base") from None
    reader: Callable[..., Any] = from_dict
    return reader


def _version_of(package: str) -> str:
    """Return the version of an installed package without importing it; "" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
