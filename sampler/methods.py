"""The methods: their code, families, moves, and default settings.

A method is an entry of `METHODS`, and all code that depends on the method reads that entry. Code is named
rather than imported, so that an engine's kernels load only when one of its fits begins.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

from sampler.errors import SettingsError
from sampler.families import FAMILIES
from sampler.noise import NOISES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
MOVE_NAMES = (*MOVES, RULE_DRAW, PARTICLE_GIBBS)  # of bart, in the order of the kernels' indices
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
    """Code of a method, each part as "module:name" below `sampler`.

    Attributes
    ----------
    chain, posterior
        Classes: see `sampler.chains.AnyChain` and `sampler.posterior.posterior.Posterior`.
    constants
        Class of the prior's absolute constants, see `sampler.prior.Constants`.
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
    noise_posteriors
        Classes of posteriors of fits whose noise is not constant, by the setting `noise`.
    forests
        Whether its chains are of sums of trees, with the code that `sampler.families` names.
    update_seconds
        Seconds of a tree update per row, a guess used until measured; None where no guess is reliable.

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
    noise_posteriors: Mapping[str, str] = field(default_factory=dict)
    forests: bool = False
    update_seconds: float | None = None


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
    num_trees, num_chains, num_draws, thin, most_burnin, search
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
        """Class of its chains, see `sampler.chains.AnyChain`; `start` and `resume` make one."""
        return _named(self.engine.chain)

    def posterior_of(self, settings: Mapping[str, Any]) -> type[Posterior]:
        """Class of the posteriors of its fits with such settings."""
        family = FAMILIES.get(str(settings.get("family", "gaussian")), FAMILIES["gaussian"])
        of_noise = self.engine.noise_posteriors.get(str(settings.get("noise", "constant")))
        of_family = family.posterior if self.engine.forests else ""
        found: type[Posterior] = _named(of_noise or of_family or self.engine.posterior)
        return found

    def constants_of(self, family: str) -> type[Constants]:
        """Class of its prior's constants for a family."""
        of_family = FAMILIES[family].constants if self.engine.forests else ""
        found: type[Constants] = _named(of_family or self.engine.constants)
        return found

    def num_trees_of(self, family: str) -> int:
        """Give the default number of trees for a family."""
        found = FAMILIES[family].num_trees if self.engine.forests and family in FAMILIES else None
        return found or self.num_trees

    def knows(self, family: str, moves: Iterable[str]) -> bool:
        """Tell whether trees of a family have such moves."""
        known = FAMILIES[family].moves if self.engine.forests else ()
        return not known or set(moves) <= {*known}

    def forests_of(self, family: str, classes: int) -> int:
        """Count the sums of trees of `num_trees` trees each, for a target of so many classes (0: numbers)."""
        own = self.engine.forests and FAMILIES[family].target == "classes"
        return classes if own else 1

    def cuts_of(self, family: str) -> Literal["quantile", "mixed"]:
        """Give the default cut points for a family."""
        return FAMILIES[family].cuts if self.engine.forests else "quantile"

    def calibrate(
        self,
        y: NDArray[np.float64],
        design: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        settings: Settings,
        prior: Mapping[str, Any] | None,
        codes: NDArray[np.uint8],
        line: NDArray[np.float64] | None = None,
    ) -> Constants:
        """Compute the prior's constants.

        Parameters
        ----------
        y
            Outcomes, float64 [n].
        design
            Numeric coded columns before binning, float64 [p, n].
        weights
            float64 [n] or None.
        settings
            Settings of the fit.
        prior
            Prior entries, or None.
        codes
            Codes, uint8 [p, n].
        line
            Rough estimate of a linear part beside the trees, float64 [n]; None where there is none.

        Raises
        ------
        SettingsError, DataError
            For invalid entries, and for data that the method can't use.

        """
        beside = {} if line is None else {"line": line}
        found: Constants = _named(self.engine.calibrate)(y, design, weights, settings, prior, codes, **beside)
        return found

    def check_prior(self, prior: Mapping[str, Any] | None, settings: Settings) -> dict[str, Any]:
        """Check the given prior entries and add the defaults of the others; raise SettingsError."""
        found: dict[str, Any] = _named(self.engine.check_prior)(prior, settings)
        return found

    def check_size(self, draws: int, rows: int) -> None:
        """Raise SettingsError where a run can't hold that many draws of that many rows."""
        if self.engine.check_size is not None:
            _named(self.engine.check_size)(draws, rows)

    def kernel_groups(self, settings: Settings) -> tuple[str, ...]:
        """List the kernel groups that a fit with those settings and its predictions need."""
        named = (*settings.moves, settings.start)
        besides = [self.engine.kernels_of[name] for name in named if name in self.engine.kernels_of]
        if self.engine.forests:
            family = FAMILIES[settings.family]
            besides += [*family.kernels, *(family.rule_kernels if settings.moves.get(RULE_DRAW) else ())]
        return (*self.engine.kernels, *besides, "prediction")

    def training_kernels(self, training: Training) -> tuple[str, ...]:
        """List the additional kernel groups that the fit's prior and weights need."""
        if self.engine.training_kernels is None:
            return ()
        found: tuple[str, ...] = _named(self.engine.training_kernels)(training)
        return found

    def warnings(self, training: Training, schema: Schema) -> list[str]:
        """Return warnings about data that the method treats specially."""
        if self.engine.warnings is None:
            return []
        found: list[str] = _named(self.engine.warnings)(training, schema)
        return found


def _named(place: str) -> Any:
    return resolve_name(f"sampler.{place}")


FOREST = Engine(
    chain="bart.chain:Chain",
    posterior="posterior.posterior:Posterior",
    noise_posteriors=dict.fromkeys(
        (name for name, noise in NOISES.items() if noise.forest),
        "posterior.kinds.noise_by_row:NoiseByRowPosterior",
    ),
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
    forests=True,
    update_seconds=2e-9,
)
TREE = Engine(
    chain="cart.chain:TreeChain",
    posterior="posterior.kinds.single_tree:TreePosterior",
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


def find_method(name: object) -> Method:
    """Return the method of that name; raise SettingsError for an unknown one."""
    if not isinstance(name, str) or name not in METHODS:
        raise SettingsError(
            f"method must be one of {', '.join(METHODS)}, not {name!r}", field="method", code="unknown"
        )
    return METHODS[name]


def check_family(method: str, family: str) -> None:
    """Raise SettingsError for a family that the method doesn't take."""
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
    """Raise SettingsError for a method whose draws all come at the end."""
    if METHODS[method].engine.at_once:
        raise SettingsError(
            f"method {method} returns all its draws at once: fit again with more, rather than extend",
            field="method",
            code="not_applicable",
        )
