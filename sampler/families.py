"""The families: what outcomes are, which code they have in sums of trees, and what they don't go with.

Code is named rather than imported, as in `sampler.engines`. An installed package adds a family by an entry
point of the group `bartserve.families` that names its `Family`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Literal

from sampler.definitions.data import COLUMN_ROLES
from sampler.definitions.tree_laws import LAW_SETTINGS, OF_DEPTH
from sampler.moves import PARTICLE_GIBBS, RULE_DRAW

Target = Literal["numbers", "two", "classes", "ordered", "counts"]
HYPERPRIORS = (
    *("sparse", "k_df", "k_scale", "sparse_a", "sparse_b", "sparse_rho", "sparse_theta"),
    *("num_trees", "num_trees_mean"),
)
OF_TREES = (*OF_DEPTH, *LAW_SETTINGS)
ZERO_TREES = 50  # trees in the forest of structural zeros
CLASS_SLOPE_SD = 3.61  # prior scale of the log f of a class's linear part, that of the trees where k is 2
# Slopes of classes are drawn so rarely that they take a quarter of the trees' time, at most. An update of a
# tree takes as long as so many cells (rows times terms) of a draw of slopes, and as these for each row.
UPDATE_CELLS, UPDATE_ROW_CELLS, LINE_SHARE, LONGEST_PERIOD = 200.0, 0.1, 0.25, 8
LOG_LINEAR_MOVES = ("grow", "prune", RULE_DRAW, PARTICLE_GIBBS)
LOG_LINEAR_KERNELS = {  # by move or start
    RULE_DRAW: "log-linear-rule",
    PARTICLE_GIBBS: "log-linear-particles",
    "smc": "log-linear-particles",
}


@dataclass(frozen=True)
class Family:
    """A family: the kind of outcomes and its code, each part as "module:name".

    Attributes
    ----------
    target
        Outcomes: "numbers", "two" classes, two or more "classes", such classes that are "ordered", or
        "counts".
    label
        Name in forms.
    likelihood
        Class of `sampler.bart.families.likelihood.Likelihood`; "" where sums of trees don't have the family.
    calibrate
        Function (y, design, weights, settings, prior) -> constants of the prior; "" where the engine has it.
    constants
        Class of the constants of the prior; "" for the engine's.
    law
        Law of sums of trees, see `sampler.posterior.laws.law.Law`; "" for the engine's.
    kernels
        Groups of kernels that its sums of trees need besides the engine's.
    kernels_of
        Further ones by the name of the move or start that needs them.
    prior
        Entries of the prior that it takes; empty for all of the engine's.
    drawn_k
        Degrees of freedom and scale of k where the default prior draws it (docs/defaults.md); else empty.
    moves
        Moves that its sums of trees know; empty for all.
    num_trees
        Default number of trees (of each class); None for the method's.
    more_trees
        Trees of a further forest.
    cuts
        Default cut points of its sums of trees.
    line, groups
        Whether a linear part and intercepts of groups may stand beside its sums of trees.
    noise
        Whether its numbers have a kind of noise, and a transform.
    point
        Whether outcomes of one value, which many have exactly, have a forest of their own, of as many trees;
        rows then have no column with a role.
    dispersed, zeros
        Whether counts vary more than Poisson counts, and whether some zeros come about in another way.
    quick
        Whether a prediction of few rows needs no kernels that may not be loaded.

    """

    target: Target
    label: str
    likelihood: str = ""
    calibrate: str = ""
    constants: str = ""
    law: str = ""
    kernels: tuple[str, ...] = ()
    kernels_of: Mapping[str, str] = field(default_factory=dict)
    prior: tuple[str, ...] = ()
    drawn_k: tuple[()] | tuple[float, float] = ()
    moves: tuple[str, ...] = ()
    num_trees: int | None = None
    more_trees: int = 0
    cuts: Literal["quantile", "mixed"] = "quantile"
    line: bool = False
    groups: bool = False
    noise: bool = False
    point: bool = False
    dispersed: bool = False
    zeros: bool = False
    quick: bool = False

    @property
    def has_classes(self) -> bool:
        """Whether outcomes are classes."""
        return self.target in ("two", "classes", "ordered")

    @property
    def has_order(self) -> bool:
        """Whether the classes are in an order."""
        return self.target == "ordered"

    @property
    def has_latent_outcomes(self) -> bool:
        """Whether trees learn normal latent outcomes with noise 1, of which classes tell."""
        return self.target in ("two", "ordered")

    @property
    def usual_interval(self) -> Literal["predictive", "credible"]:
        """The kind of interval that predictions have unless told otherwise."""
        return "credible" if self.has_classes else "predictive"


def takes(family: str, role: str) -> bool:
    """Tell whether rows of a family may have a column with that role."""
    return FAMILIES[family].target in COLUMN_ROLES[role].targets and not FAMILIES[family].point


def threshold_names(count: int) -> tuple[str, ...]:
    """Name the scalars of a draw with the thresholds between ordered classes, from the lowest up."""
    return tuple(f"threshold {number}" for number in range(1, count + 1))


def class_line_period(rows: int, terms: int, num_trees: int) -> int:
    """Choose the number of iterations from one draw of the slopes of classes to the next."""
    trees = num_trees * (UPDATE_CELLS + UPDATE_ROW_CELLS * rows)
    return min(math.ceil(rows * terms / (LINE_SHARE * trees)), LONGEST_PERIOD)


def _counts(label: str, *, dispersed: bool = False, zeros: bool = False) -> Family:
    return Family(
        "counts",
        label,
        likelihood="sampler.bart.families.counts:CountLikelihood",
        calibrate="sampler.bart.families.counts:calibrate",
        constants="sampler.bart.families.counts:CountConstants",
        law="sampler.posterior.laws.counts:CountsLaw",
        kernels=(
            "log-linear-trees",
            "log-linear-scale",
            "counts",
            "count-quantiles",
            *(("latent-outcomes",) if zeros else ()),
        ),
        kernels_of=LOG_LINEAR_KERNELS,
        prior=("k", *OF_TREES, "leaf_sd", "k_df", "k_scale"),
        moves=LOG_LINEAR_MOVES,
        more_trees=ZERO_TREES if zeros else 0,
        dispersed=dispersed,
        zeros=zeros,
    )


FAMILIES: dict[str, Family] = {
    "gaussian": Family(
        "numbers",
        "a number (gaussian)",
        likelihood="sampler.bart.families.gaussian:Gaussian",
        groups=True,
        line=True,
        noise=True,
        quick=True,
        drawn_k=(3.0, 5.0),
    ),
    "hurdle": Family(
        "numbers",
        "a number, many of them one value (hurdle)",
        likelihood="sampler.bart.families.hurdle:Hurdle",
        constants="sampler.prior:HurdleConstants",
        law="sampler.posterior.laws.hurdle:hurdle_law",
        kernels=("latent-outcomes", "forest-call"),
        prior=(
            *("k", *OF_TREES, "nu", "q", "sigma_estimate", "k_df", "k_scale", "point"),
            *("offset", "leaf_sd", "lambda", "sigma", "sigma_start", "step"),
        ),
        drawn_k=(3.0, 5.0),
        line=True,
        noise=True,
        point=True,
    ),
    # Where one of the classes is rare, its probability changes in the tails of columns, where quantiles place
    # few cut points (`python -m lab rare_classes`).
    "probit": Family(
        "two",
        "two classes (probit)",
        likelihood="sampler.bart.families.probit:Probit",
        calibrate="sampler.bart.prior:calibrate_probit",
        groups=True,
        law="sampler.posterior.laws.probit:ProbitLaw",
        quick=True,
        kernels=("latent-outcomes",),
        prior=("k", *OF_TREES, "offset", "leaf_sd", "step", *HYPERPRIORS),
        cuts="mixed",
    ),
    "categorical": Family(
        "classes",
        "classes (categorical)",
        likelihood="sampler.bart.families.categorical:Categorical",
        line=True,
        calibrate="sampler.bart.families.categorical:calibrate",
        constants="sampler.bart.families.categorical:CategoricalConstants",
        law="sampler.posterior.laws.classes:ClassesLaw",
        kernels=("log-linear-trees", "log-linear-scale", "classes"),
        kernels_of=LOG_LINEAR_KERNELS,
        prior=("k", *OF_TREES, "leaf_sd", "k_df", "k_scale"),
        drawn_k=(1.0, 1.0),
        moves=LOG_LINEAR_MOVES,
        num_trees=50,
        cuts="mixed",
    ),
    "ordinal": Family(
        "ordered",
        "ordered classes (ordinal)",
        likelihood="sampler.bart.families.ordinal:Ordinal",
        calibrate="sampler.bart.families.ordinal:calibrate",
        constants="sampler.bart.families.ordinal:OrdinalConstants",
        groups=True,
        law="sampler.posterior.laws.ordinal:OrdinalLaw",
        kernels=("latent-outcomes", "forest-call", "ordered"),
        prior=("k", *OF_TREES, "leaf_sd", "step", *HYPERPRIORS),
        cuts="mixed",
    ),
    "poisson": _counts("a count (poisson)"),
    "negative-binomial": _counts("a count, overdispersed (negative-binomial)", dispersed=True),
    "zero-inflated-poisson": _counts("a count with more zeros (zero-inflated-poisson)", zeros=True),
    "zero-inflated-negative-binomial": _counts(
        "a count, overdispersed, with more zeros (zero-inflated-negative-binomial)",
        dispersed=True,
        zeros=True,
    ),
}
FAMILIES |= {entry.name: entry.load() for entry in entry_points(group="bartserve.families")}
