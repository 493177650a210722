"""Summaries of the intercepts and slopes of groups over the draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler import interrupt
from sampler.array_types import Floats
from sampler.posterior.results.groups import Correlation, GroupDeviation, GroupEffects, GroupSlopes
from sampler.posterior.verdict import rhat_ess
from sampler.posterior.verdict.agreement import FEWEST_DRAWS
from sampler.posterior.verdict.reasons import defined

if TYPE_CHECKING:
    from sampler.posterior.laws.law import Law


def summarise_groups(law: Law, level: float) -> list[GroupEffects]:
    """Summarise the intercepts of groups over all draws, for each column of groups; empty without any."""
    intercepts = law.intercepts
    if intercepts is None:
        return []
    chosen, used = law.draws.choose(None)
    noise = law.typical_sigma if law.typical_sigma is not None else law.sigma
    sigma = np.ones(len(chosen)) if noise is None else noise[:, :used].reshape(-1)
    schema, scale, num_chains = law.schema, law.learnt_unit(), law.draws.num_chains
    tails = (1 - level) / 2, (1 + level) / 2
    between = np.sum(intercepts.all_sds[:, :, chosen] ** 2, axis=1)  # at rows like those of training
    shares = (between / (between.sum(axis=0) + sigma**2)).mean(axis=1)
    summaries = []
    for k, column in enumerate(intercepts.columns):
        size = len(column.levels)

        def figures(term: int, unit: float, k: int = k, size: int = size) -> dict[str, Any]:
            interrupt.look()
            drawn = intercepts.drawn(k, term, chosen, unit)
            lower, upper = np.quantile(drawn, tails, axis=0)
            spread = drawn.std(axis=0, ddof=1) if len(chosen) > 1 else np.zeros(size)
            sd = intercepts.all_sds[k, term, chosen] / unit
            of_all = GroupDeviation(**figures_of(sd.reshape(num_chains, -1)), **_ends(sd, tails))
            return {
                "mean": drawn.mean(axis=0),
                "sd": spread,
                "lower": lower,
                "upper": upper,
                "standard_deviation": of_all,
            }

        slopes = []
        for term in range(1, intercepts.terms):
            terms = intercepts.groupings.slopes
            position, unit = terms.column[term - 1], terms.scale[term - 1]
            factor = intercepts.factor[k, chosen]
            with_intercept = factor[:, term, 0] / intercepts.all_sds[k, term, chosen]
            correlation = Correlation(float(with_intercept.mean()), **_ends(with_intercept, tails))
            name = schema.columns[schema.coded[position][0]].name
            slopes.append(GroupSlopes(name, column.levels, **figures(term, unit), correlation=correlation))
        summaries.append(
            GroupEffects(
                column=column.name,
                scale=scale,
                groups=column.levels,
                rows=np.array(intercepts.groupings.rows[k], np.int64),
                level=level,
                share=float(shares[k]),
                slopes=tuple(slopes),
                **figures(0, 1.0),
            )
        )
    return summaries


def figures_of(sd: Floats) -> dict[str, Any]:
    """Compute mean, sd and convergence of draws of one scalar [chain, draw]; undefined figures are None."""
    figures = {"mean": float(sd.mean()), "sd": float(sd.std(ddof=1)) if sd.size > 1 else 0.0}
    known = sd.shape[1] >= FEWEST_DRAWS
    named = {"rhat": rhat_ess.rhat, "ess_bulk": rhat_ess.ess_bulk, "ess_tail": rhat_ess.ess_tail}
    return figures | {name: defined(of(sd[None])[0]) if known else None for name, of in named.items()}


def _ends(drawn: Floats, tails: tuple[float, float]) -> dict[str, float]:
    lower, upper = np.quantile(drawn, tails).tolist()
    return {"lower": lower, "upper": upper}
