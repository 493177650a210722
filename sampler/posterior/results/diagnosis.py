"""Reports on the agreement of chains, as documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from sampler.posterior.core.topology import TreeShape
from sampler.posterior.protocol import Document
from sampler.posterior.verdict.effects import EffectsUse
from sampler.posterior.verdict.reasons import Verdict
from sampler.posterior.verdict.summary import Precision

Defined = list[float | None]
REPRODUCIBILITY = (
    "Standard error of the pooled mean by the chains' own means: their standard deviation over the root of "
    "their number; null for one chain."
)


@dataclass(frozen=True, eq=False, repr=False)
class OneFigures(Document):
    """Diagnostics of one quantity over all draws; null where there are too few draws."""

    mean: float | None
    sd: float | None
    rhat: Annotated[float | None, "Rank-normalised split R-hat."]
    ess_bulk: Annotated[float | None, "Effective sample size for the centre."]
    ess_tail: Annotated[float | None, "Effective sample size for the 5% and 95% quantiles, the smaller one."]
    mcse_mean: Annotated[float | None, "Monte Carlo standard error of the mean."]
    reproducibility: Annotated[float | None, REPRODUCIBILITY]


@dataclass(frozen=True, eq=False, repr=False)
class RowFigures(Document):
    """Diagnostics of f, one value per reference row (up to 200 training rows)."""

    rows: int
    mean: Defined
    sd: Defined
    rhat: Defined
    ess_bulk: Defined
    ess_tail: Defined
    mcse_mean: Defined
    reproducibility: Annotated[Defined, REPRODUCIBILITY]


@dataclass(frozen=True, eq=False, repr=False)
class GroupFigures(OneFigures):
    """Diagnostics of the standard deviation of the intercepts of a column of groups."""

    column: str
    groups: Annotated[int, "Number of groups."]


@dataclass(frozen=True, eq=False, repr=False)
class Traces(Document):
    """Traces of draws, thinned evenly."""

    draws: Annotated[list[int], "Indices of the shown draws of each chain, from 0."]
    sigma: Annotated[list[list[float]] | None, "By chain; null for classes."]
    log_likelihood: Annotated[list[list[float]] | None, "By chain; null as below."]


@dataclass(frozen=True, eq=False, repr=False)
class Proposals(Document):
    """Proposals and acceptances of a move."""

    proposed: int
    accepted: int
    acceptance: float


@dataclass(frozen=True, eq=False, repr=False)
class ChainMoves(Document):
    """The moves of a chain over all its iterations."""

    chain: int
    moves: dict[str, Proposals]


@dataclass(frozen=True, eq=False, repr=False)
class Spread(Document):
    """Distribution over all trees of all draws."""

    mean: float
    max: int
    share: Annotated[dict[str, float], "The share of trees, by the number."]


@dataclass(frozen=True, eq=False, repr=False)
class TreeSizes(Document):
    """Sizes of the trees."""

    leaves: Spread
    depth: Annotated[Spread, "Number of splits above the deepest leaf."]


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Document):
    """The convergence verdict with all diagnostics behind it."""

    verdict: Verdict
    reasons: list[str]
    reason_codes: Annotated[list[dict[str, Any]], "The reasons as codes with their figures."]
    advice: str
    precision: Annotated[Precision | None, "Null for weighted or too few draws."]
    chains: int
    draws: int
    sigma: Annotated[OneFigures | None, "Null for classes."]
    log_likelihood: Annotated[
        OneFigures | None,
        "Of the reference rows' outcomes; null for models made before these were kept.",
    ]
    f: RowFigures
    traces: Traces
    moves: list[ChainMoves]
    trees: TreeSizes
    topologies: Annotated[
        list[TreeShape] | None,
        "For single-tree methods up to 50 topologies, the most probable first; else null.",
    ]
    groups: Annotated[list[GroupFigures] | None, "By column of groups; null without any."]
    effects: Annotated[EffectsUse | None, "Of a treatment, by draws of its effects; null without one."] = None
    num_trees: Annotated[OneFigures | None, "Of the number of trees; null where it isn't drawn."] = None


@dataclass(frozen=True, eq=False, repr=False)
class ScalarGrowth(Document):
    """Diagnostics of one figure, one value per number of draws."""

    rhat: Defined
    ess_bulk: Defined
    ess_tail: Defined


@dataclass(frozen=True, eq=False, repr=False)
class Limits(Document):
    """The largest R-hat that a verdict allows."""

    rhat: float
    sigma_rhat: float
