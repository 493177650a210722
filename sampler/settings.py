"""Settings of a fit: definitions, checks, resolution of defaults."""

from __future__ import annotations

import math
import numbers
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from sampler.errors import SettingsError
from sampler.methods import METHODS, PARTICLE_GIBBS, RULE_DRAW, check_family, find_method

if TYPE_CHECKING:
    from collections.abc import Mapping

FAMILIES = ("gaussian", "probit", "categorical")
STARTS = ("stumps", "smc", "annealed")
PARTICLES = 10  # default of particle Gibbs
SEARCH_LIMITS: dict[str, tuple[float, float]] = {
    "iterations": (1, 100_000),
    "first": (1, 100_000),
    "proposals": (1, 10_000),
    "most": (1, 10_000),
    "chains": (1, 256),
    "draws": (20, 10_000),
    "samples": (1, 1000),
    "delta": (0, 1),
    "kappa": (0, 1e6),
    "optimism": (0, 1e6),
    "spatial": (0, 1),
}
SEARCH_SHARES = ("delta", "kappa", "optimism")

Kind = Literal["word", "whole", "yes", "moves", "entries"]
Group = Literal["model", "chains"]


@dataclass(frozen=True)
class Setting:
    """Definition of a setting, from which HTTP fields, the worker's specification and checks follow.

    Attributes
    ----------
    kind
        "word" (one of `choices`, if there are any), "whole" (an integer within `limits`), "yes" (true or
        false), "moves" (name of a set, or probabilities) or "entries" (numbers by name).
    group
        Part of the fit that it belongs to: the model, or its chains.
    about
        Description for users, in sentences.
    default
        Default value; None where it depends on the method.
    choices
        Accepted words; empty for any.
    limits
        Smallest and largest accepted number.
    requested
        Whether requests over HTTP may set it.
    sparing
        Whether it is omitted from stored settings while at its default, so that newer settings don't change
        stored documents and the fingerprints of checkpoints.

    """

    kind: Kind
    group: Group
    about: str
    default: Any = None
    choices: tuple[str, ...] = ()
    limits: tuple[int, int] | None = None
    requested: bool = True
    sparing: bool = False

    def check(self, name: str, value: Any) -> Any:
        """Check a value given under that name and return it; mappings are checked elsewhere.

        Raises
        ------
        SettingsError
            For a value that is not accepted.

        """
        if self.choices:
            return _one_of(name, value, self.choices)
        if self.kind == "whole":
            return checked_count(name, value)
        if self.kind == "yes" and not isinstance(value, bool):
            raise SettingsError(
                f"{name} must be true or false, not {value!r}", field=name, code="not_accepted"
            )
        return value


def _setting(kind: Kind, group: Group, about: str, **more: Any) -> Any:
    return field(metadata={"setting": Setting(kind, group, about, **more)})


@dataclass(frozen=True)
class Settings:
    """All settings of a fit, resolved.

    `moves` holds the probabilities of grow, prune, change_nog (a new rule for a split above two leaves),
    change (a new rule for any split), swap, restructure (another tree with the same leaves) and pg, which sum
    to one, and of rule: the chance that a tree update is followed by an exact draw of one split rule. pg is
    the chance that an iteration updates every tree by particle Gibbs (PG) with `particles` particles; the
    other moves share the other iterations. `start` is the first state of every chain: stumps; trees drawn in
    turn by sequential Monte Carlo with 100 particles; or stumps with a likelihood that counts little at first
    and fully from the middle of burn-in. `search` holds the entries of a search over topologies
    (`sampler.soft.search`), and is empty for methods without one.
    """

    family: str = _setting(
        "word",
        "model",
        "gaussian (the default) for numbers; probit (method bart) for two classes; categorical (single-tree "
        "methods) for two or more classes; auto chooses by the target's values.",
        default="gaussian",
        choices=FAMILIES,
    )
    method: str = _setting(
        "word",
        "model",
        f"bart (the default), a sum of trees; or a single-tree method: {', '.join(list(METHODS)[1:])}.",
        default="bart",
    )
    num_trees: int = _setting(
        "whole", "model", "Number of trees: 200 by default for bart, 1 for single trees.", limits=(1, 10_000)
    )
    num_chains: int = _setting(
        "whole",
        "chains",
        "Number of chains (runs for smc, dcc-tree): 4 by default, 8 for bcart methods, 2 for dcc-tree.",
        limits=(1, 256),
    )
    num_burnin: int = _setting(
        "whole",
        "chains",
        "Iterations before the first kept draw; by default as many as sampling takes, within limits.",
        limits=(0, 1_000_000),
    )
    num_draws: int = _setting(
        "whole",
        "chains",
        "Kept draws per chain: 250 by default, 1000 for smc (its particles) and dcc-tree.",
        limits=(1, 1_000_000),
    )
    thin: int = _setting(
        "whole",
        "chains",
        "Iterations per kept draw: by default 8 for bart, 80 for the bcart methods, 4 for the rjhmc methods.",
        limits=(1, 100_000),
    )
    seed: int = _setting(
        "whole",
        "chains",
        "Seed of all random numbers; equal data, settings and seed give equal models.",
        default=0,
        limits=(0, 2**63 - 1),
    )
    moves: dict[str, float] = _setting(  # noqa: RUF009  # a dataclass field
        "moves",
        "chains",
        "A move set (default, growprune, growprunechange, cgm, or pg for particle Gibbs), or probabilities "
        "of moves: those of grow, prune, change_nog, change, swap, restructure and pg sum to one; that of "
        "rule is separate.",
        default="default",
    )
    prior_only: bool = _setting(
        "yes", "model", "Ignore the data: draw from the prior.", default=False, requested=False
    )
    particles: int = _setting(
        "whole",
        "chains",
        "Number of particles of particle Gibbs; 10 by default.",
        default=PARTICLES,
        limits=(2, 10_000),
    )
    start: str = _setting(
        "word",
        "chains",
        "First state of every chain: stumps (the default); smc, trees drawn in turn by sequential Monte "
        "Carlo; annealed, stumps with data that count little at first, fully from the middle of burn-in.",
        default=STARTS[0],
        choices=STARTS,
    )
    search: dict[str, float] = _setting(  # noqa: RUF009
        "entries",
        "chains",
        "Entries for dcc-tree: iterations, first, proposals, most, chains, draws, samples, delta, kappa, "
        "optimism, spatial; those not given have defaults.",
        sparing=True,
    )

    @classmethod
    def resolve(cls, **given: Any) -> Settings:
        """Resolve given settings; None stands for the method's default (`sampler.methods`).

        The default of `num_burnin` is the number of sampling iterations, at least 100 and at most the
        method's `most_burnin` (1000 for bart).

        Raises
        ------
        SettingsError
            For a value that is not accepted; the message lists what is.
        TypeError
            For a keyword that is not a setting.

        """
        unknown = sorted(given.keys() - SETTINGS.keys())
        if unknown:
            raise TypeError(f"unexpected keyword argument {unknown[0]!r}: settings are {', '.join(SETTINGS)}")
        method = given.get("method", SETTINGS["method"].default)
        kind = find_method(method)
        values = {name: given.get(name, setting.default) for name, setting in SETTINGS.items()}
        values |= {
            name: getattr(kind, name)
            for name, value in values.items()
            if value is None and SETTINGS[name].default is None and name not in ("num_burnin", "search")
        }
        for name in ("family", "num_trees", "num_chains", "num_draws", "thin"):
            values[name] = SETTINGS[name].check(name, values[name])
        check_family(method, values["family"])
        of_burnin = {"num_burnin": values["num_burnin"] or 0, "search": dict(values["search"] or {})}
        _check_absent(method, values | of_burnin)
        if values["num_burnin"] is None:
            values["num_burnin"] = min(kind.most_burnin, max(100, values["num_draws"] * values["thin"]))
        values["search"] = _search(values["search"], method, values["num_draws"])
        values["moves"] = resolve_moves(values["moves"], method)
        return cls(**{name: setting.check(name, values[name]) for name, setting in SETTINGS.items()})

    @property
    def iterations(self) -> int:
        """Number of iterations of one chain, burn-in and sampling, or of a search over topologies."""
        if self.search:
            return int(self.search["iterations"])
        return self.num_burnin + self.num_draws * self.thin

    @property
    def kernel_groups(self) -> tuple[str, ...]:
        """Groups of `sampler.kernels.groups.GROUPS` that this fit and its predictions need."""
        return find_method(self.method).kernel_groups(self)

    @property
    def of_a_chain(self) -> list[tuple[str, Any]]:
        """Settings that determine a chain's draws: all but the numbers of chains and draws."""
        values = self.to_json() | {"moves": sorted(self.moves.items())}
        return sorted(
            (name, value) for name, value in values.items() if name not in ("num_chains", "num_draws")
        )

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads."""
        return {
            name: value
            for name, value in asdict(self).items()
            if not SETTINGS[name].sparing or value != (SETTINGS[name].default or {})
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Read and check settings from the dict that `to_json` returned."""
        unknown = sorted(set(values) - {each.name for each in fields(cls)})
        if unknown:
            raise SettingsError(f"unknown setting {unknown[0]!r}", field=unknown[0], code="unknown")
        return cls.resolve(**values)


SETTINGS: dict[str, Setting] = {each.name: each.metadata["setting"] for each in fields(Settings)}
LIMITS = {name: setting.limits for name, setting in SETTINGS.items() if setting.limits is not None}


def resolve_moves(moves: str | Mapping[str, float], method: str = "bart") -> dict[str, float]:
    """Return the probabilities of a named move set, or check given ones.

    Parameters
    ----------
    moves
        Name of a set, or probabilities by move.
    method
        Name of the method.

    Raises
    ------
    SettingsError
        For an unknown name, a probability outside [0, 1], moves that don't sum to one, or no grow or prune.

    """
    kind = find_method(method)
    sets, known = kind.move_sets, kind.moves
    if isinstance(moves, str):
        return dict(sets[_one_of("moves", moves, tuple(sets))])
    if not known:
        return _proposal(moves, sets)
    accepted = ", ".join(known)
    if not hasattr(moves, "items"):
        raise SettingsError(
            f"moves must be one of {', '.join(sets)}, or a dict of probabilities of {accepted}",
            field="moves",
            code="not_accepted",
        )
    for name, value in moves.items():
        if name not in known:
            raise SettingsError(
                f"unknown move {name!r}; accepted are {accepted}", field="moves", code="unknown"
            )
        if not _is_number(value) or not 0 <= value <= 1:
            raise SettingsError(
                f"the probability of move {name!r} must be a number from 0 to 1, not {value!r}",
                field="moves",
                code="out_of_range",
            )
    chosen = {name: float(value) for name, value in moves.items() if value > 0}
    local = {"grow", "prune"} & chosen.keys()
    if len(local) == 1 or not (local or PARTICLE_GIBBS in chosen):
        raise SettingsError(
            "moves need a positive probability of both grow and prune, or of pg: without these the chain "
            "can't reach every tree",
            field="moves",
            code="contradiction",
        )
    total = math.fsum(value for name, value in chosen.items() if name != RULE_DRAW)
    if abs(total - 1) > 1e-9:
        summed = ", ".join(name for name in known if name != RULE_DRAW)
        raise SettingsError(
            f"the probabilities of {summed} must sum to 1, not {total:g}", field="moves", code="contradiction"
        )
    return chosen


def _check_absent(method: str, given: Mapping[str, Any]) -> None:
    """Raise SettingsError for a setting that has no meaning for the method and isn't at its default."""
    kind = find_method(method)
    defaults = {"particles": PARTICLES, "start": STARTS[0], "num_burnin": kind.most_burnin}
    for name, why in kind.absent.items():
        default = defaults[name] if name in defaults else getattr(kind, name)
        if given[name] != default:
            raise SettingsError(
                f"{name} must be {default}, or left out: method {method} {why}",
                field=name,
                code="not_applicable",
            )


def _search(given: Mapping[str, float] | None, method: str, num_draws: int) -> dict[str, float]:
    """Check the given entries of a search over topologies and add the defaults of the others.

    Raises
    ------
    SettingsError
        For an unknown entry, and for a value out of range.

    """
    defaults = find_method(method).search
    given = dict(given or {})
    if not defaults:
        return {}
    for name, value in given.items():
        if name not in defaults:
            raise SettingsError(
                f"unknown entry {name!r} of search; accepted are {', '.join(defaults)}",
                field=f"search.{name}",
                code="unknown",
            )
        low, high = SEARCH_LIMITS[name]
        whole = name not in SEARCH_SHARES
        if not _is_number(value) or not low <= value <= high or (whole and value != int(value)):
            kind = "whole number" if whole else "number"
            raise SettingsError(
                f"search {name} must be a {kind} from {low} to {high}, not {value!r}",
                field=f"search.{name}",
                code="out_of_range",
            )
        given[name] = int(value) if whole else float(value)
    found = {**defaults, **given}
    if found["chains"] * found["draws"] * found["samples"] < num_draws:
        raise SettingsError(
            "search: chains x draws x samples must be at least num_draws",
            field="num_draws",
            code="contradiction",
        )
    return found


def _proposal(moves: Any, sets: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the proposal of a particle filter that equals `moves`."""
    for known in sets.values():
        if moves == known:
            return dict(known)
    raise SettingsError(
        f"moves must be one of {', '.join(sets)}, not {moves!r}", field="moves", code="not_accepted"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def checked_count(name: str, value: Any) -> int:
    """Check that a value is an integer within the limits of that setting; raise SettingsError."""
    low, high = LIMITS[name]
    whole = isinstance(value, numbers.Integral) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or not low <= value <= high:
        raise SettingsError(
            f"{name} must be a whole number from {low} to {high}, not {value!r}",
            field=name,
            code="out_of_range",
        )
    return int(value)


def _one_of(name: str, value: Any, accepted: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in accepted:
        raise SettingsError(
            f"{name} must be one of {', '.join(accepted)}, not {value!r}", field=name, code="not_accepted"
        )
    return value
