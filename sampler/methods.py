"""The methods: their engines, families, moves, and default settings.

A method is an entry of `METHODS`, and all code that depends on the method reads that entry. An installed
package adds a method by an entry point of the group `bartserve.methods` that names its `Method`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Literal

from sampler.engines import FILTER, FOREST, SEARCH, SOFT, TREE, Engine, load_code
from sampler.errors import PackedError, SettingsError, suggestion
from sampler.families import FAMILIES, Family
from sampler.moves import CGM, GROW_PRUNE, MOVE_NAMES, MOVE_SETS, SOFT_MOVES, TREE_MOVES, WU, MoveSets


@dataclass(frozen=True)
class Method:
    """A method: its engine, abilities and defaults.

    Attributes
    ----------
    engine
        Code of the method.
    families
        Families that it takes, the one for numbers first.
    move_sets
        Probabilities of moves, by name of the set.
    num_trees, num_chains, num_draws, thin, most_burnin, noise, transform, linear, search
        Defaults; burn-in is as long as sampling, up to `most_burnin`. An iteration of a single tree takes
        microseconds, so its draws are thinned more. `search` is empty where the method does not search over
        topologies.
    moves
        Moves that may be given probabilities; empty where only the sets can be chosen.
    absent
        Settings without meaning for the method, which must stay at their defaults, with reasons.
    split_prior
        alpha and beta of the prior of splits, where they differ from the engine's.
    variant
        Deviation of its chains from others of the engine: "leaf-noise" (each leaf has its own noise),
        "one-column" (a soft split uses one column), or "".

    """

    engine: Engine
    families: tuple[str, ...]
    move_sets: MoveSets
    num_trees: int = 1
    num_chains: int = 4
    num_draws: int = 250
    thin: int = 8
    most_burnin: int = 1000
    noise: str = "constant"
    transform: str = "none"
    linear: bool | str = False
    search: Mapping[str, float] = field(default_factory=dict)
    moves: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    split_prior: Mapping[str, float] = field(default_factory=dict)
    variant: str = ""

    @property
    def chain(self) -> Any:
        """Class of its chains, see `sampler.chains.AnyChain`; `start` and `resume` make one."""
        return load_code(self.engine.chain)

    @property
    def extend(self) -> Any:
        """Function that continues the chains of a posterior, see `sampler.running.extend`."""
        return load_code(self.engine.extend)

    def law_of(self, settings: Mapping[str, Any]) -> Any:
        """Class of the law of its fits with such settings, see `sampler.posterior.laws.law.Law`."""
        family = known_family(settings)
        of_noise = self.engine.noise_laws.get(str(settings.get("noise", "constant")))
        of_family = family.law if self.engine.forests else ""
        return load_code(of_family or of_noise or self.engine.law)

    def constants_of(self, family: str) -> Any:
        """Class of its prior's constants for a family, see `sampler.prior.Constants`."""
        of_family = FAMILIES[family].constants if self.engine.forests else ""
        return load_code(of_family or self.engine.constants)

    def num_trees_of(self, family: str) -> int:
        """Give the default number of trees for a family."""
        of_family = FAMILIES[family].num_trees if self.engine.forests and family in FAMILIES else None
        return of_family or self.num_trees

    def knows(self, family: str, moves: Iterable[str]) -> bool:
        """Tell whether trees of a family have such moves."""
        known = FAMILIES[family].moves if self.engine.forests else ()
        return not known or set(moves) <= {*known}

    def forests_of(self, family: str, classes: int) -> int:
        """Count the forests of `num_trees` trees each, for a target with `classes` classes (0: numbers)."""
        own = self.engine.forests and FAMILIES[family].target == "classes"
        return classes if own else 1

    def cuts_of(self, family: str) -> Literal["quantile", "mixed"]:
        """Give the default cut points for a family."""
        return FAMILIES[family].cuts if self.engine.forests else "quantile"

    def check_size(self, draws: int, rows: int) -> None:
        """Raise SettingsError where a run can't hold that many draws of that many rows."""
        if self.engine.check_size is not None:
            load_code(self.engine.check_size)(draws, rows)


NO_SEARCH = {"search": "doesn't search over topologies"}
ONE_TREE = {
    "num_trees": "fits one tree",
    "particles": "has no particle Gibbs",
    "start": "starts in its own way",
    "noise": "has no second forest",
    "linear": "has no linear part",
    "transform": "learns the outcome itself",
}
NO_ITERATIONS = dict.fromkeys(
    ("num_burnin", "thin"), "has particles (num_draws of each of num_chains runs) and no iterations"
)


def _cart(*families: str, default: Mapping[str, float] = CGM, variant: str = "") -> Method:
    sets = {"default": default, "cgm": CGM, "growprune": GROW_PRUNE}
    return Method(
        TREE,
        families,
        sets,
        num_chains=8,
        thin=80,
        most_burnin=20_000,
        moves=TREE_MOVES,
        absent=ONE_TREE | NO_SEARCH,
        variant=variant,
    )


def _hmc(variant: str = "") -> Method:
    return Method(
        SOFT,
        ("gaussian", "categorical"),
        {"default": {"grow": 0.2, "prune": 0.2, "stay": 0.6}},
        thin=4,
        moves=SOFT_MOVES,
        absent=ONE_TREE | NO_SEARCH,
        split_prior={"alpha": 0.45, "beta": 2.0},
        variant=variant,
    )


METHODS: dict[str, Method] = {
    "bart": Method(
        FOREST,
        tuple(name for name, family in FAMILIES.items() if family.likelihood),
        MOVE_SETS,
        num_trees=200,
        num_chains=8,
        num_draws=125,
        most_burnin=500,
        noise="auto",
        transform="auto",
        linear="auto",
        moves=MOVE_NAMES,
        absent=NO_SEARCH,
    ),
    "bcart": _cart("gaussian", "categorical"),
    "bcart-mean-variance": _cart("gaussian", variant="leaf-noise"),
    "bcart-wu": _cart("gaussian", "categorical", default=WU),
    "smc": Method(
        FILTER,
        ("gaussian", "categorical"),
        {"default": {"optimal": 1.0}, "optimal": {"optimal": 1.0}, "prior": {"prior": 1.0}},
        num_draws=1000,
        thin=1,
        most_burnin=0,
        absent=ONE_TREE | NO_ITERATIONS | NO_SEARCH,
    ),
    "rjhmc-df": _hmc("one-column"),
    "rjhmc-dfi": _hmc(),
    "dcc-tree": Method(
        SEARCH,
        ("gaussian", "categorical"),
        {"default": {"grow": 0.54, "prune": 0.36, "stay": 0.1}},
        num_chains=2,
        num_draws=1000,
        thin=1,
        moves=SOFT_MOVES,
        absent=ONE_TREE,
        split_prior={"alpha": 0.95, "beta": 1.0},
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
METHODS |= {entry.name: entry.load() for entry in entry_points(group="bartserve.methods")}


def find_method(name: object) -> Method:
    """Return the method of that name; raise SettingsError for an unknown one."""
    if not isinstance(name, str) or name not in METHODS:
        raise SettingsError(
            f"method must be one of {', '.join(METHODS)}, not {name!r}{suggestion(name, METHODS)}",
            field="method",
            code="unknown",
        )
    return METHODS[name]


def method_of(settings: Mapping[str, Any]) -> Method:
    """Return the method of a stored model's settings; raise PackedError for one that isn't installed."""
    name = str(settings.get("method", "bart"))
    if name not in METHODS:
        raise PackedError(f"the model was fitted by method {name!r}, which no installed package has")
    return METHODS[name]


def known_family(settings: Mapping[str, Any]) -> Family:
    """Return the family of a stored model's settings; raise PackedError for one that isn't installed."""
    name = str(settings.get("family", "gaussian"))
    if name not in FAMILIES:
        raise PackedError(f"the model is of family {name!r}, which no installed package has")
    return FAMILIES[name]


def check_extends(method: str) -> None:
    """Raise SettingsError for a method whose draws all come at the end."""
    if METHODS[method].engine.at_once:
        raise SettingsError(
            f"method {method} returns all its draws at once: fit again with more, rather than extend",
            field="method",
            code="not_applicable",
        )
