"""The engines: the code of the methods.

Code is named rather than imported, so that an engine's kernels load only when one of its fits begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from typing import Any

from sampler.moves import PARTICLE_GIBBS, RULE_DRAW
from sampler.noise import NOISES


@dataclass(frozen=True)
class Engine:
    """Code of a method, each part as "module:name".

    Attributes
    ----------
    chain, law
        Classes: see `sampler.chains.AnyChain` and `sampler.posterior.laws.law.Law`.
    constants
        Class of the prior's absolute constants, see `sampler.prior.Constants`.
    extend
        Function (posterior, origin, num_draws, rows) that continues the chains, see `sampler.running.extend`.
    calibrate
        Function (y, design, weights, settings, prior, codes) -> constants, scaled from the data.
    check_prior
        Function (prior, settings) -> all entries of the prior, checked.
    kernels
        Groups of `sampler.kernels.groups.GROUPS` that every fit needs.
    kernels_of
        Additional groups by the name of the move or start that needs them.
    training_kernels
        Function (training) -> additional groups that its prior and weights need.
    warnings
        Function (training, schema) -> warnings about data that the engine treats specially.
    check_size
        Function (draws, rows) that raises SettingsError for more than fits memory.
    at_once
        Whether all draws, weighted ones, come at the end; such a fit can't be extended.
    particles
        Whether the draws of a run are particles, held in memory together.
    noise_laws
        Laws of fits whose noise is not constant, by the setting `noise`.
    forests
        Whether its chains are of sums of trees, with the code that `sampler.families` names.
    update_seconds
        Seconds of a tree update per row, a guess used until measured; None where no guess is reliable.
    soft
        Whether its splits are soft: a row goes both ways, by shares.
    several
        Class of the chains of several outcomes; None where a fit takes one.

    """

    chain: str
    law: str
    constants: str
    calibrate: str
    check_prior: str
    kernels: tuple[str, ...]
    kernels_of: Mapping[str, str] = field(default_factory=dict)
    training_kernels: str | None = None
    warnings: str | None = None
    check_size: str | None = None
    extend: str = "sampler.running:extend"
    at_once: bool = False
    particles: bool = False
    noise_laws: Mapping[str, str] = field(default_factory=dict)
    forests: bool = False
    update_seconds: float | None = None
    soft: bool = False
    several: str | None = None


def load_code(place: str) -> Any:
    """Import what an engine or a family names as "module:name"."""
    return resolve_name(place)


FOREST = Engine(
    chain="sampler.bart.chain:Chain",
    law="sampler.posterior.laws.normal:NormalLaw",
    noise_laws=dict.fromkeys(
        (name for name, noise in NOISES.items() if noise.forest),
        "sampler.posterior.laws.noise_by_row:NoiseByRowLaw",
    ),
    constants="sampler.prior:Constants",
    calibrate="sampler.bart.prior:calibrate",
    check_prior="sampler.bart.prior:check_prior",
    kernels=("bart",),
    kernels_of={
        RULE_DRAW: "rule",
        "change_nog": "change",
        "change": "reshape",
        "swap": "reshape",
        "restructure": "restructure",
        PARTICLE_GIBBS: "particles",
        "smc": "particles",  # the start
    },
    training_kernels="sampler.bart.part:kernels_of",
    warnings="sampler.bart.prior:weight_warnings",
    forests=True,
    update_seconds=2e-9,
    several="sampler.bart.several.chain:SeveralChain",
)
TREE = Engine(
    chain="sampler.trees.cart.chain:TreeChain",
    law="sampler.trees.cart.law:TreeLaw",
    constants="sampler.trees.cart.prior:TreeConstants",
    calibrate="sampler.trees.cart.prior:calibrate_tree",
    check_prior="sampler.trees.cart.prior:check_tree_prior",
    kernels=("tree",),
)
FILTER = replace(
    TREE,
    chain="sampler.trees.cart.particle_filter:FilterRun",
    kernels=("tree", "filter"),
    check_size="sampler.trees.cart.particle_filter:check_size",
    at_once=True,
    particles=True,
)
SOFT = Engine(
    chain="sampler.trees.soft.chain:SoftChain",
    law="sampler.trees.soft.law:SoftLaw",
    constants="sampler.trees.soft.prior:SoftConstants",
    calibrate="sampler.trees.soft.prior:calibrate_soft",
    check_prior="sampler.trees.soft.prior:check_soft_prior",
    kernels=("soft", "soft-prediction"),
    warnings="sampler.trees.soft.prior:missing_warnings",
    soft=True,
)
SEARCH = replace(SOFT, chain="sampler.trees.soft.search:DivideRun", at_once=True)
