"""The draws as other tools want them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sampler.posterior.posterior import Posterior


def draws_of(posterior: Posterior) -> dict[str, NDArray[np.float64]]:
    """`sigma` [chain, draw] (not of two classes) and `f` [chain, draw, row] at the reference rows."""
    found = {} if posterior.sigma is None else {"sigma": posterior.sigma}
    return found | {"f": posterior.sample(posterior.reference)}


def to_arviz(posterior: Posterior) -> Any:
    """The same in the type of the ArviZ that is installed; raises ImportError without any.

    A DataTree, which ArviZ takes from its version 1 on; InferenceData for one before that, which the newer
    packages (arviz-plots, arviz-stats) take as well.
    """
    groups = {"posterior": draws_of(posterior)}
    if _version_of("arviz").startswith("0."):
        from arviz import from_dict as inference_data  # noqa: PLC0415  # who asks pays

        return inference_data(posterior=groups["posterior"])
    try:
        from arviz_base import from_dict  # noqa: PLC0415
    except ImportError:
        raise ImportError("to_arviz needs ArviZ: pip install arviz-base") from None
    return from_dict(groups)


def _version_of(package: str) -> str:
    """The version of an installed package, without importing it; empty where there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
