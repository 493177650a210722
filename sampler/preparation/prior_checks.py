"""Check of a fit's prior, and its constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sampler.engines import load_code
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
        For invalid entries.

    """
    estimates = {name: value for name, value in (("line", line), ("noise", noise)) if value is not None}
    calibrate = load_code(METHODS[settings.method].engine.calibrate)
    constants: Constants = calibrate(y, design, weights, settings, prior, codes, **estimates)
    return constants


def checked_prior(prior: Mapping[str, Any] | None, settings: Settings) -> dict[str, Any]:
    """Check the prior entries except `cuts` and add defaults; raise SettingsError."""
    entries: dict[str, Any] = load_code(METHODS[settings.method].engine.check_prior)(prior, settings)
    return entries
