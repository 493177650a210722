"""R-hat and effective draws as the draws of a posterior grew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.posterior import rhat_ess
from sampler.posterior.report import thinned
from sampler.posterior.verdict import FEWEST_DRAWS, LIMITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.posterior.posterior import Posterior

    Floats = NDArray[np.float64]

POINTS = 12
ROWS = 50  # of the reference rows, evenly spaced: half a millisecond each, figure and point
FEWEST_RANKED = 20  # of each chain, however slow it is


def growth(posterior: Posterior, num_draws: int) -> dict[str, Any]:
    """Compute R-hat and effective draws after growing parts of the first `num_draws` draws of each chain.

    Draws with weights (smc, dcc-tree) count alike here, as they come: a look at the particles, not at the
    posterior, whose verdict weighs them. They come all at once and have no growth to follow.

    Returns
    -------
    dict
        ``draws``, up to 12 counts; the number of ``chains``; and lists as long as ``draws``: of ``sigma``
        (None for two classes) ``rhat, ess_bulk, ess_tail``; of ``f``, at up to 50 reference rows, their
        medians, and ``rhat_p95``, which 95% of the rows don't exceed. ``limits``: the most that the verdicts
        allow R-hat.

    """
    counts = _counts(num_draws)
    rows = thinned(posterior.reference.num_rows, ROWS)
    codes = np.ascontiguousarray(posterior.reference.codes[:, rows])
    f = posterior.draws_by_figure(codes, num_draws)  # of more than two classes each is a figure
    sigma = sigma_of(posterior, num_draws)
    of_f = [_of_rows(f[:, :, :count]) for count in counts]
    return {
        "draws": counts,
        "chains": posterior.num_chains,
        "sigma": None
        if sigma is None
        else _turned([_figures(sigma[None, :, :count], np.median) for count in counts]),
        "f": {"rows": len(rows), **_turned(of_f)},
        "limits": {
            name: {"rhat": limits.rhat, "sigma_rhat": limits.sigma_rhat} for name, limits in LIMITS.items()
        },
    }


def sigma_of(posterior: Posterior, num_draws: int) -> Floats | None:
    """The first `num_draws` draws of sigma of each chain, float64 [chain, draw]; None for two classes."""
    sigma = posterior.sigma
    return None if sigma is None else np.ascontiguousarray(sigma[:, :num_draws])


def independent_every(draws: Floats) -> int:
    """The least step between draws [chain, draw] at which those of a chain are about independent.

    The band of a rank plot is that of independent draws: neighbours left together leave it in chains that
    agree (Säilynoja, Buerkner, Vehtari 2022, section 4). Within chains, so that those apart are still seen.
    """
    count = draws.shape[1]
    if count < 2 * FEWEST_RANKED:
        return 1
    worth = rhat_ess.ess_bulk(np.ascontiguousarray(draws[:, None, :]))
    return int(np.clip(np.ceil(count / np.median(worth)), 1, count // FEWEST_RANKED))


def _counts(draws: int) -> list[int]:
    evenly = np.ceil(np.arange(1, POINTS + 1) * draws / POINTS).astype(int)
    return sorted({int(count) for count in evenly if count >= FEWEST_DRAWS})


def _of_rows(f: Floats) -> dict[str, float | None]:
    rhat = rhat_ess.rhat(np.ascontiguousarray(f))
    return _figures(f, np.median) | {"rhat_p95": _plain(float(np.quantile(rhat, 0.95)))}


def _figures(x: Floats, middle: Any) -> dict[str, float | None]:
    x = np.ascontiguousarray(x)
    of = {"rhat": rhat_ess.rhat, "ess_bulk": rhat_ess.ess_bulk, "ess_tail": rhat_ess.ess_tail}
    return {name: _plain(float(middle(figure(x)))) for name, figure in of.items()}


def _turned(rows: list[dict[str, float | None]]) -> dict[str, list[float | None]]:
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _plain(value: float) -> float | None:
    return value if np.isfinite(value) else None
