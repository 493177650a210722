"""Export of draws to ArviZ."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sampler.posterior.posterior import Posterior


def draws_of(posterior: Posterior) -> dict[str, NDArray[np.float64]]:
    """Return `sigma` [chain, draw] (not for two classes) and `f` [chain, draw, row] at the reference rows."""
    variables = {} if posterior.sigma is None else {"sigma": posterior.sigma}
    return variables | {"f": posterior.sample(posterior.reference)}


def to_arviz(posterior: Posterior) -> Any:
    """Convert the draws to the data type of the installed ArviZ; raise ImportError without ArviZ.

    ArviZ 1 and newer take a DataTree. Older versions get InferenceData, which the newer packages
    (arviz-plots, arviz-stats) accept too.
    """
    groups = {"posterior": draws_of(posterior)}
    if _version_of("arviz").startswith("0."):
        from arviz import from_dict as inference_data  # noqa: PLC0415  # slow to import

        return inference_data(posterior=groups["posterior"])
    try:
        from arviz_base import from_dict  # noqa: PLC0415
    except ImportError:
        raise ImportError("to_arviz needs ArviZ: pip install arviz-base") from None
    return from_dict(groups)


def _version_of(package: str) -> str:
    """Return the version of an installed package without importing it; "" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
