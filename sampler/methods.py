"""The methods: what each is made of, which families and moves it knows, and its settings unless given.

A method is an entry of `METHODS`; whoever needs something that depends on the method asks the entry. Code is
named rather than imported: each engine loads its own kernels, and only when one of its fits begins.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from sampler.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from sampler.data.schema import Schema
    from sampler.posterior.posterior import Posterior
    from sampler.prior import Constants
    from sampler.settings import Settings
    from sampler.training import Training

    Sets = Mapping[str, Mapping[str, float]]

MOVES = ("grow", "prune", "change_nog", "change", "swap", "restructure")
RULE_DRAW = "rule"
PARTICLE_GIBBS = "pg"
MOVE_NAMES = (*MOVES, RULE_DRAW, PARTICLE_GIBBS)  # of bart, by their numbers in the kernels
CGM = {"grow": 0.25, "prune": 0.25, "change": 0.40, "swap": 0.10}
GROW_PRUNE = {"grow": 0.5, "prune": 0.5}
WU = {"grow": 0.22, "prune": 0.22, "change": 0.36, "swap": 0.10, "restructure": 0.10}
MOVE_SETS: dict[str, dict[str, float]] = {  # of bart
    "default": {"grow": 0.5, "prune": 0.5, "rule": 0.1},
    "growprune": GROW_PRUNE,
    "cgm": CGM,
    "growprunechange": {"grow": 0.28, "prune": 0.28, "change_nog": 0.44},
    "pg": {"pg": 1.0},
}
TREE_MOVES = ("grow", "prune", "change", "swap", "restructure")
SOFT_MOVES = ("grow", "prune", "stay")


@dataclass(frozen=True)
class Engine:
    """The code behind a method, each part as "module:name" below `sampler`.

    Attributes
    ----------
    chain, posterior
        Classes: see `sampler.chains.AnyChain` and `sampler.posterior.posterior.Posterior`.
    constants
        Class of the prior's absolute constants, see `sampler.prior.Constants`.
    calibrate
        (y, design, weights, settings, prior, codes) -> constants, scaled from the data.
    check_prior
        (prior, settings) -> every entry of the prior, each checked.
    kernels
        Groups of `sampler.kernels.groups.GROUPS` that every fit needs.
    kernels_of
        The groups that a move or start needs besides, by its name.
    training_kernels
        (training) -> groups that its prior and weights need besides.
    warnings
        (training, schema) -> what to know about data that the engine takes in its own way.
    check_size
        (draws, rows): raises SettingsError for more than it can hold.
    at_once
        Whether draws, weighted ones, come together at the end: such a fit can't go on.
    particles
        Whether the draws of a run are particles, held together in memory.
    update_seconds
        Of a tree's update per row, guessed until measured; None where no guess holds.

    """

    chain: str
    posterior: str
    constants: str
    calibrate: str
    check_prior: str
    kernels: tuple[str, ...]
    kernels_of: Mapping[str, str] = field(default_factory=dict)
    training_kernels: str | None = None
    warnings: str | None = None
    check_size: str | None = None
    at_once: bool = False
    particles: bool = False
    update_seconds: float | None = None


@dataclass(frozen=True)
class Method:
    """What a method is made of and can do, and its defaults.

    Attributes
    ----------
    engine
        Its code.
    families
        Those it knows, the first for numbers.
    move_sets
        Probabilities of moves, by name.
    num_trees, num_chains, num_draws, thin, most_burnin, search
        Its defaults; burn-in is as long as sampling, up to `most_burnin`. An iteration of a single tree takes
        microseconds, so its draws are thinned more. `search` is empty where there is no search over
        topologies.
    moves
        Those that may have probabilities of one's own; none where only the sets can be chosen.
    absent
        Settings that it has no use for, and why: they stay at their defaults.
    split_prior
        alpha and beta of the prior of splits, where they are the method's rather than its engine's.
    variant
        What its chains do otherwise than others of the engine: "leaf-noise" (each leaf has a noise of its
        own), "one-column" (a soft split looks at one column).

    """

    engine: Engine
    families: tuple[str, ...]
    move_sets: Sets
    num_trees: int = 1
    num_chains: int = 4
    num_draws: int = 250
    thin: int = 8
    most_burnin: int = 1000
    search: Mapping[str, float] = field(default_factory=dict)
    moves: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    split_prior: Mapping[str, float] = field(default_factory=dict)
    variant: str = ""

    @property
    def chain(self) -> Any:
        """Class of its chains: `start(training, chain)` and `resume(training, checkpoint)` make one."""
        return _named(self.engine.chain)

    @property
    def posterior(self) -> type[Posterior]:
        """Class of the posteriors of its fits."""
        found: type[Posterior] = _named(self.engine.posterior)
        return found

    @property
    def constants(self) -> type[Constants]:
        """Class of its prior's constants."""
        found: type[Constants] = _named(self.engine.constants)
        return found

    def calibrate(
        self,
        y: NDArray[np.float64],
        design: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        settings: Settings,
        prior: Mapping[str, Any] | None,
        codes: NDArray[np.uint8],
    ) -> Constants:
        """The prior's constants for data y [n], design and codes [p, n]; raises SettingsError, DataError."""
        found: Constants = _named(self.engine.calibrate)(y, design, weights, settings, prior, codes)
        return found

    def check_prior(self, prior: Mapping[str, Any] | None, settings: Settings) -> dict[str, Any]:
        """The prior's entries, those given checked, and the defaults of the others; raises SettingsError."""
        found: dict[str, Any] = _named(self.engine.check_prior)(prior, settings)
        return found

    def check_size(self, draws: int, rows: int) -> None:
        """Raise SettingsError for more draws of more rows than a run can hold."""
        if self.engine.check_size is not None:
            _named(self.engine.check_size)(draws, rows)

    def kernel_groups(self, settings: Settings) -> tuple[str, ...]:
        """The groups of kernels that a fit with those settings and its predictions need."""
        named = (*settings.moves, settings.start)
        besides = (self.engine.kernels_of[name] for name in named if name in self.engine.kernels_of)
        return (*self.engine.kernels, *besides, "prediction")

    def training_kernels(self, training: Training) -> tuple[str, ...]:
        """The groups that the prior and the weights of a training need besides."""
        if self.engine.training_kernels is None:
            return ()
        found: tuple[str, ...] = _named(self.engine.training_kernels)(training)
        return found

    def warnings(self, training: Training, schema: Schema) -> list[str]:
        """What to know about data that it takes in its own way."""
        if self.engine.warnings is None:
            return []
        found: list[str] = _named(self.engine.warnings)(training, schema)
        return found


def _named(place: str) -> Any:
    return resolve_name(f"sampler.{place}")


FOREST = Engine(
    chain="bart.chain:Chain",
    posterior="posterior.posterior:Posterior",
    constants="prior:Constants",
    calibrate="bart.prior:calibrate",
    check_prior="bart.prior:check_prior",
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
    training_kernels="bart.hyperpriors:groups_of",
    warnings="bart.prior:weight_warnings",
    update_seconds=2e-9,
)
TREE = Engine(
    chain="cart.chain:TreeChain",
    posterior="posterior.single_tree:TreePosterior",
    constants="cart.prior:TreeConstants",
    calibrate="cart.prior:calibrate_tree",
    check_prior="cart.prior:check_tree_prior",
    kernels=("tree",),
)
FILTER = replace(
    TREE,
    chain="cart.particle_filter:FilterRun",
    kernels=("tree", "filter"),
    check_size="cart.particle_filter:check_size",
    at_once=True,
    particles=True,
)
SOFT = Engine(
    chain="soft.chain:SoftChain",
    posterior="soft.posterior:SoftPosterior",
    constants="soft.prior:SoftConstants",
    calibrate="soft.prior:calibrate_soft",
    check_prior="soft.prior:check_soft_prior",
    kernels=("soft",),
    warnings="soft.prior:missing_warnings",
)
SEARCH = replace(SOFT, chain="soft.search:DivideRun", at_once=True)

NO_SEARCH = {"search": "doesn't search over topologies"}
ONE_TREE = {
    "num_trees": "fits one tree",
    "particles": "has no particle Gibbs",
    "start": "starts in its own way",
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
        FOREST, ("gaussian", "probit"), MOVE_SETS, num_trees=200, moves=MOVE_NAMES, absent=NO_SEARCH
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
    if METHODS[method].engine.at_once:
        raise SettingsError(
            f"method {method} gives all its draws together: fit again with more, rather than extend",
            field="method",
            code="not_applicable",
        )
