"""The methods: which families each knows, and what its knobs are unless given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sampler.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

CGM = {"grow": 0.25, "prune": 0.25, "change": 0.40, "swap": 0.10}
GROW_PRUNE = {"grow": 0.5, "prune": 0.5}
WU = {"grow": 0.22, "prune": 0.22, "change": 0.36, "swap": 0.10, "restructure": 0.10}
TREE_MOVES = ("grow", "prune", "change", "swap", "restructure")


@dataclass(frozen=True)
class Method:
    """What a method can do, and its defaults.

    `move_sets` and `moves` are None where a method has the engine's own; an iteration of a single tree takes
    microseconds, so its draws are thinned more.
    """

    families: tuple[str, ...]
    num_trees: int = 1
    num_chains: int = 4
    num_draws: int = 250
    thin: int = 8
    most_burnin: int = 1000
    move_sets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    moves: tuple[str, ...] = ()
    single_tree: bool = True
    filters: bool = False  # particles that grow together, rather than a chain that goes on
    soft: bool = False  # splits that rows pass with a probability (docs/maths.md#soft-trees)
    search: Mapping[str, float] = field(default_factory=dict)  # the knobs of a search over topologies

    @property
    def posterior_class(self) -> str:
        """Module and class of the posteriors of its fits, which load late."""
        if self.soft:
            return "sampler.soft.posterior:SoftPosterior"
        if self.single_tree:
            return "sampler.posterior.single_tree:TreePosterior"
        return "sampler.posterior.posterior:Posterior"

    @property
    def at_once(self) -> bool:
        """Whether draws, weighted ones, come together at the end: such a fit can't go on."""
        return self.filters or bool(self.search)


def _cart(*families: str, default: Mapping[str, float] = CGM) -> Method:
    sets = {"default": default, "cgm": CGM, "growprune": GROW_PRUNE}
    return Method(families, num_chains=8, thin=80, most_burnin=20_000, move_sets=sets, moves=TREE_MOVES)


def _hmc() -> Method:
    moves = {"default": {"grow": 0.2, "prune": 0.2, "stay": 0.6}}
    return Method(
        ("gaussian", "categorical"),
        thin=4,
        move_sets=moves,
        moves=("grow", "prune", "stay"),
        soft=True,
    )


METHODS: dict[str, Method] = {
    "bart": Method(("gaussian", "probit"), num_trees=200, single_tree=False),
    "bcart": _cart("gaussian", "categorical"),
    "bcart-mean-variance": _cart("gaussian"),
    "bcart-wu": _cart("gaussian", "categorical", default=WU),
    "smc": Method(
        ("gaussian", "categorical"),
        num_draws=1000,
        thin=1,
        most_burnin=0,
        move_sets={"default": {"optimal": 1.0}, "optimal": {"optimal": 1.0}, "prior": {"prior": 1.0}},
        filters=True,
    ),
    "rjhmc-df": _hmc(),
    "rjhmc-dfi": _hmc(),
    "dcc-tree": Method(
        ("gaussian", "categorical"),
        num_chains=2,
        num_draws=1000,
        thin=1,
        move_sets={"default": {"grow": 0.54, "prune": 0.36, "stay": 0.1}},
        moves=("grow", "prune", "stay"),
        soft=True,
        search={
            "iterations": 100,
            "first": 100,
            "proposals": 2,
            "most": 100,
            "chains": 8,
            "draws": 100,
            "samples": 10,
            "delta": 0.0,
            "kappa": 0.0,
            "optimism": 1.0,
            "spatial": 1,
        },
    ),
}


def find_method(name: object) -> Method:
    """The method of that name; raises SettingsError."""
    if not isinstance(name, str) or name not in METHODS:
        raise SettingsError(
            f"method must be one of {', '.join(METHODS)}, not {name!r}", field="method", code="unknown"
        )
    return METHODS[name]


def check_family(method: str, family: str) -> None:
    """Raise SettingsError for a family that the method doesn't know."""
    families = METHODS[method].families
    if family not in families:
        others = [name for name, found in METHODS.items() if family in found.families]
        raise SettingsError(
            f"family {family} goes with method {' or '.join(others)}; method {method} takes family "
            f"{' or '.join(families)}",
            field="family",
            code="contradiction",
        )


def check_extends(method: str) -> None:
    """Raise SettingsError for a method whose draws come all at once."""
    if METHODS[method].at_once:
        raise SettingsError(
            f"method {method} gives all its draws together: fit again with more, rather than extend",
            field="method",
            code="not_applicable",
        )
