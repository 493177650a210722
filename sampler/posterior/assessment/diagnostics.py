"""Report on the agreement of the chains, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.posterior.kernels.depths import tree_depths
from sampler.posterior.laws.law import Law
from sampler.posterior.results.diagnosis import (
    ChainMoves,
    Diagnosis,
    GroupFigures,
    OneFigures,
    Proposals,
    RowFigures,
    Spread,
    Traces,
    TreeSizes,
)
from sampler.posterior.verdict import rhat_ess
from sampler.posterior.verdict.agreement import FEWEST_DRAWS, SCALARS
from sampler.posterior.verdict.reasons import reasons_to_json
from sampler.posterior.weighting.importance_weights import mean_error
from sampler.storage.draws import Draws

D = TypeVar("D", bound=OneFigures)
MAX_POINTS = 500  # points of a trace; a screen shows fewer
FIGURES = {
    "rhat": rhat_ess.rhat,
    "ess_bulk": rhat_ess.ess_bulk,
    "ess_tail": rhat_ess.ess_tail,
    "mcse_mean": rhat_ess.mcse_mean,
    "reproducibility": rhat_ess.reproducibility,
}


def diagnose(
    law: Law, max_points: int = MAX_POINTS, statistics: Sequence[Mapping[str, Any]] | None = None
) -> Diagnosis:
    """Report the verdict, figures, traces, moves and tree sizes of a posterior.

    Parameters
    ----------
    law
        Law of the draws.
    max_points
        Points of a trace per chain; longer traces are thinned evenly, with first and last draw kept.

    statistics
        Counters of the moves, by chain; None takes those stored with the draws.

    Returns
    -------
    Diagnosis
        The report; undefined figures (too few draws, chains that don't move) are None.

    """
    counted_moves = law.draws.statistics if statistics is None else statistics
    summary, weights = law.summary, law.weights.unequal(law.draws.num_draws)
    f = law.draws_by_figure(law.draws.reference)
    scalars = law.scalars()
    places = evenly_spaced(law.draws.num_draws, max_points)
    shown: dict[str, Any] = {
        name: scalars[name][:, places].tolist() if name in scalars else None for name in SCALARS
    }
    reasons: dict[str, Any] = reasons_to_json(summary.reasons)
    of_scalars = {
        name: _one(OneFigures, scalars[name], weights) if name in scalars else None for name in SCALARS
    }
    groups = [
        _one(GroupFigures, sd, weights, column=column.name, groups=len(column.levels))
        for column, sd in zip(law.schema.groups, law.group_sds(), strict=True)
    ]
    numbers, leaves = law.draws.tree_numbers, law.leaf_counts.reshape(-1)
    deep = np.concatenate([depths(d[: law.draws.num_draws]) for d in law.draws.chains()])
    if numbers is not None and numbers.any():
        deep, leaves = deep[leaves > 0], leaves[leaves > 0]
    return Diagnosis(
        verdict=summary.verdict,
        **reasons,
        advice=summary.advice,
        precision=summary.precision,
        chains=law.draws.num_chains,
        draws=law.draws.num_draws,
        sigma=of_scalars["sigma"],
        log_likelihood=of_scalars["log_likelihood"],
        f=RowFigures(rows=len(f), **_figures(f, weights)),
        traces=Traces(draws=places.tolist(), **shown),
        moves=[ChainMoves(chain, _moves(counted)) for chain, counted in enumerate(counted_moves)],
        trees=TreeSizes(_spread(leaves, weights), _spread(deep, weights)),
        topologies=summary.topologies,
        groups=groups or None,
        effects=summary.effects,
        num_trees=None if numbers is None else _one(OneFigures, numbers, weights),
    )


def evenly_spaced(count: int, most: int) -> NDArray[np.int64]:
    """Choose at most `most` of the positions 0 to count - 1, evenly spaced, first and last included."""
    return np.unique(np.rint(np.linspace(0, count - 1, min(count, most))).astype(np.int64))


def depths(draws: Draws) -> NDArray[np.int32]:
    """Compute the depth of every tree, int32 [draw * tree]; a lone leaf has depth 0."""
    depth = np.empty(len(draws.tree_start) - 1, np.int32)
    waiting = np.empty(int(np.diff(draws.tree_start).max(initial=0)), np.int32)
    start = np.require(draws.tree_start, np.int64, ["C", "W"])
    tree_depths(start, np.require(draws.feature, np.int32, ["C", "W"]), waiting, depth)
    return depth


def _figures(x: Floats, weights: Floats | None) -> dict[str, list[float | None]]:
    """Compute the figures of draws [quantity, chain, draw] as lists; None for undefined figures."""
    if weights is not None:
        mean = np.sum(x * weights, axis=(1, 2))
        sd = np.sqrt(np.sum((x - mean[:, None, None]) ** 2 * weights, axis=(1, 2)))
        unknown: list[float | None] = [None] * len(x)
        figures = {"mean": _plain(mean), "sd": _plain(sd)} | dict.fromkeys(FIGURES, unknown)
        return figures | {"mcse_mean": _plain(mean_error(x, weights))}
    figures = {"mean": _plain(x.mean(axis=(1, 2))), "sd": _plain(x.std(axis=(1, 2), ddof=1))}
    known = x.shape[2] >= FEWEST_DRAWS
    nothing: list[float | None] = [None] * len(x)
    return figures | {name: _plain(of(x)) if known else nothing for name, of in FIGURES.items()}


def _plain(values: Floats) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]


def _one(kind: type[D], x: Floats, weights: Floats | None, **others: Any) -> D:
    """Compute the figures of draws [chain, draw] of one quantity."""
    return kind(**{name: values[0] for name, values in _figures(x[None], weights).items()}, **others)


def _moves(counted: Mapping[str, Any]) -> dict[str, Proposals]:
    return {
        name: Proposals(
            proposed=int(counts["proposed"]),
            accepted=int(counts["accepted"]),
            acceptance=counts["accepted"] / counts["proposed"] if counts["proposed"] else 0.0,
        )
        for name, counts in counted.get("moves", {}).items()
    }


def _spread(counts: NDArray[Any], weights: Floats | None) -> Spread:
    """Compute the mean, maximum, and share of trees at each count that occurs."""
    values, at = np.unique(counts, return_inverse=True)
    trees = np.bincount(at, weights=None if weights is None else weights.reshape(-1))
    seen = zip(map(str, values.tolist()), (trees / trees.sum()).tolist(), strict=True)
    mean = float(np.average(counts, weights=None if weights is None else weights.reshape(-1)))
    return Spread(mean, int(counts.max()), {name: share for name, share in seen if share})
