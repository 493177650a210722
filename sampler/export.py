"""The draws as other tools want them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sampler.posterior import Posterior


def draws_of(posterior: Posterior) -> dict[str, NDArray[np.float64]]:
    """`sigma` [chain, draw] (not of two classes) and `f` [chain, draw, row] at the reference rows."""
    found = {} if posterior.sigma is None else {"sigma": posterior.sigma}
    return found | {"f": posterior.sample(posterior.reference)}


def to_arviz(posterior: Posterior) -> Any:
    """The same as ArviZ's tree of data; needs the package arviz-base, raises ImportError without it."""
    try:
        from arviz_base import from_dict  # noqa: PLC0415  # who asks pays
    except ImportError:
        raise ImportError("to_arviz needs ArviZ: pip install arviz-base") from None
    return from_dict({"posterior": draws_of(posterior)})
