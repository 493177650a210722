"""Checks of a fit's prior, weights and exposures, and the constants of its prior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sampler.engines import load_code
from sampler.errors import SettingsError
from sampler.families import FAMILIES
from sampler.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from sampler.prior import Constants
    from sampler.settings import Settings


def calibrated(
    y: NDArray[np.float64],
    design: NDArray[np.float64],
    codes: NDArray[np.uint8],
    weights: NDArray[np.float64] | None,
    settings: Settings,
    prior: Mapping[str, Any] | None = None,
    line: NDArray[np.float64] | None = None,
    noise: float | None = None,
) -> Constants:
    """Compute the constants of the method's prior.

    Parameters
    ----------
    y
        Outcomes, float64 [n].
    design
        Numeric coded columns before binning, float64 [p, n].
    codes
        Codes, uint8 [p, n].
    weights
        float64 [n] or None.
    settings
        Settings of the fit.
    prior
        Prior entries without `cuts`, or None.
    line
        Rough estimate of a linear part beside the trees, float64 [n], or None.
    noise
        Estimate of the noise's sd where outcomes are censored, in place of that of y; None elsewhere.

    Returns
    -------
    Constants
        The constants of the class that the method and the family name.

    Raises
    ------
    SettingsError
        For invalid entries, and for weights with classes.

    """
    check_weights(settings, weighted=weights is not None)
    estimates = {name: value for name, value in (("line", line), ("noise", noise)) if value is not None}
    calibrate = load_code(METHODS[settings.method].engine.calibrate)
    constants: Constants = calibrate(y, design, weights, settings, prior, codes, **estimates)
    return constants


def check_weights(settings: Settings, *, weighted: bool) -> None:
    """Raise SettingsError where the fit has weights and its family takes none."""
    if weighted and not FAMILIES[settings.family].weights:
        raise SettingsError(
            f"{settings.family} takes no weights: leave them out", field="weights", code="not_applicable"
        )


def check_exposure(settings: Settings) -> None:
    """Raise SettingsError where the fit has exposures and its family has no counts."""
    if FAMILIES[settings.family].target != "counts":
        counts = " or ".join(name for name, family in FAMILIES.items() if family.target == "counts")
        raise SettingsError(
            f"exposure is for counts: set family={counts}, or leave it out",
            field="exposure",
            code="not_applicable",
        )


def checked_prior(prior: Mapping[str, Any] | None, settings: Settings) -> dict[str, Any]:
    """Check the prior entries except `cuts` and add defaults; raise SettingsError."""
    entries: dict[str, Any] = load_code(METHODS[settings.method].engine.check_prior)(prior, settings)
    return entries
