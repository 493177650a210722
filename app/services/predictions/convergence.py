"""How a model's chains came to agree: R-hat and effective draws as the draws grew, even during the fit."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.services.predictions.predict_rows import Predictor
from app.store.tables import Model
from sampler import Posterior
from sampler.posterior import rhat_ess
from sampler.posterior.report import thinned
from sampler.posterior.verdict import FEWEST_DRAWS, LIMITS

POINTS = 12
ROWS = 50  # of the reference rows, evenly spaced: half a millisecond each, figure and point
MAX_TRACE = 500
FEWEST_RANKED = 20  # of each chain, however slow it is
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SoFar:
    """A model, the draws that each of its chains has by now, and its posterior, which has at least those."""

    model: Model
    posterior: Posterior
    draws: int

    @property
    def sigma(self) -> Floats | None:
        """Draws of sigma, float64 [chain, draw]; None for two classes."""
        sigma = self.posterior.sigma
        return None if sigma is None else np.ascontiguousarray(sigma[:, : self.draws])


def so_far(predictor: Predictor, owner: str, model: str) -> SoFar:
    """A model of which every chain has draws; raises NotFoundError and NotFinishedError."""
    found, posterior, draws = predictor.lookup(owner, model)
    return SoFar(found, posterior, draws)


def growth(predictor: Predictor, owner: str, model: str) -> dict[str, Any]:
    """R-hat and effective draws after the first so many draws of each chain; raises as `so_far`.

    Draws with weights (smc, dcc-tree) count alike here, as they come: a look at the particles, not at the
    posterior, whose verdict weighs them. They come all at once and have no growth to follow.

    Returns
    -------
    dict
        ``draws``, up to 12 counts, and lists as long: of ``sigma`` (None for two classes) ``rhat, ess_bulk,
        ess_tail``; of ``f``, at up to 50 reference rows, their medians, and ``rhat_p95``, which 95% of the
        rows don't exceed. ``limits``: the most that the verdicts allow R-hat.
    """
    now = so_far(predictor, owner, model)
    counts = _counts(now.draws)
    reference = now.posterior.reference
    rows = thinned(reference.num_rows, ROWS)
    coded = type(reference)(np.ascontiguousarray(reference.codes[:, rows]), [])
    f = now.posterior.draws_by_figure(coded.codes, now.draws)  # of more than two classes each is a figure
    sigma = now.sigma
    of_f = [_of_rows(f[:, :, :count]) for count in counts]
    return {
        "model_id": now.model.id,
        "draws": counts,
        "chains": now.posterior.num_chains,
        "sigma": None
        if sigma is None
        else _turned([_figures(sigma[None, :, :count], np.median) for count in counts]),
        "f": {"rows": len(rows), **_turned(of_f)},
        "limits": {
            name: {"rhat": limits.rhat, "sigma_rhat": limits.sigma_rhat} for name, limits in LIMITS.items()
        },
    }


def traces(predictor: Predictor, owner: str, model: str) -> dict[str, Any]:
    """Draws of sigma by chain, thinned to be shown, and one in `every` to be ranked; raises as `so_far`."""
    now = so_far(predictor, owner, model)
    shown = thinned(now.draws, MAX_TRACE)
    sigma = now.sigma
    every = 1 if sigma is None else independent_every(sigma)
    return {
        "model_id": now.model.id,
        "draws": now.draws,
        "shown": shown,
        "every": every,
        "ranked": None if sigma is None else sigma[:, ::every],
        "trace": None if sigma is None else sigma[:, shown],
    }


def independent_every(draws: Floats) -> int:
    """Every how many-th draw of a chain resembles the one before no more; float64 [chain, draw].

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
