"""R-hat and effective sample sizes for growing numbers of draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampler import interrupt
from sampler.array_types import Floats
from sampler.posterior.assessment.diagnostics import evenly_spaced
from sampler.posterior.laws.law import Law
from sampler.posterior.results.diagnosis import Limits, ScalarGrowth
from sampler.posterior.results.scores import Convergence, RowsGrowth
from sampler.posterior.verdict import rhat_ess
from sampler.posterior.verdict.agreement import FEWEST_DRAWS, LIMITS, SCALARS, VerdictLimits

POINTS = 12
ROWS = 50  # evenly spaced reference rows: each figure and point takes half a millisecond
FEWEST_RANKED = 20  # draws of each chain that are kept however strongly they are correlated


def growth(law: Law, num_draws: int) -> Convergence:
    """Compute R-hat and effective sample sizes for growing parts of each chain's first `num_draws` draws.

    Weights of draws (smc, dcc-tree) are ignored here: the figures describe the particles, not the law,
    whose verdict uses the weights. Such draws come all at once and have no growth.
    """
    counts = _counts(num_draws)
    rows = evenly_spaced(law.draws.reference.num_rows, ROWS)
    f = law.draws_by_figure(law.draws.reference.part(rows), num_draws)
    scalars = law.scalars(num_draws)
    of_scalars = {
        name: ScalarGrowth(
            **_turned([_figures(scalars[name][None, :, :count], np.median) for count in counts])
        )
        if name in scalars and counts
        else None
        for name in SCALARS
    }
    return Convergence(
        chains=law.draws.num_chains,
        draws=counts,
        **of_scalars,
        f=RowsGrowth(len(rows), **_turned([_of_rows(f[:, :, :count]) for count in counts])),
        limits={name: _limits(each.of(law.draws.num_chains)) for name, each in LIMITS.items()},
    )


def independent_every(draws: Floats) -> int:
    """Find the smallest step between draws [chain, draw] at which a chain's draws are about independent.

    The band of a rank plot holds for independent draws: correlated ones leave it even in chains that agree
    (Säilynoja, Buerkner and Vehtari 2022, section 4). The step is estimated within chains, so that chains
    that disagree still show.
    """
    count = draws.shape[1]
    if count < 2 * FEWEST_RANKED:
        return 1
    worth = rhat_ess.ess_bulk(np.ascontiguousarray(draws[:, None, :]))
    return int(np.clip(np.ceil(count / np.median(worth)), 1, count // FEWEST_RANKED))


def rank_curves(sigma: Floats) -> list[tuple[Floats, Floats]]:
    """Return for each chain (x, y): the share of its draws below share x of all draws, minus x.

    `sigma` may be any draws, float64 [chain, draw]. Curves fall evenly between a chain's draws and rise at
    each by one over their number. Equal draws, such as those of a known sigma, are ranked alternately by
    chain.
    """
    by_draw = np.argsort(np.argsort(sigma.T, axis=None, kind="stable"), kind="stable")
    order = by_draw.reshape(sigma.T.shape).T
    at = np.repeat((np.sort(order, axis=1) + 1) / sigma.size, 2, axis=1)
    share = np.pad(at, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1)))
    level = np.repeat(np.arange(sigma.shape[1] + 1) / sigma.shape[1], 2)
    return [(of_chain, level - of_chain) for of_chain in share]


def _limits(limits: VerdictLimits) -> Limits:
    return Limits(limits.rhat, limits.sigma_rhat)


def _counts(draws: int) -> list[int]:
    evenly = np.ceil(np.arange(1, POINTS + 1) * draws / POINTS).astype(int)
    return sorted({int(count) for count in evenly if count >= FEWEST_DRAWS})


def _of_rows(f: Floats) -> dict[str, float | None]:
    rhat = rhat_ess.rhat(np.ascontiguousarray(f))
    return _figures(f, np.median) | {"rhat_p95": _plain(float(np.quantile(rhat, 0.95)))}


def _figures(x: Floats, middle: Any) -> dict[str, float | None]:
    x = np.ascontiguousarray(x)
    of = {"rhat": rhat_ess.rhat, "ess_bulk": rhat_ess.ess_bulk, "ess_tail": rhat_ess.ess_tail}
    found = {}
    for name, figure in of.items():
        interrupt.look()
        found[name] = _plain(float(middle(figure(x))))
    return found


def _turned(rows: list[dict[str, float | None]]) -> dict[str, list[float | None]]:
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _plain(value: float) -> float | None:
    return value if np.isfinite(value) else None
