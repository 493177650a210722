"""What a fit is asked to do, every knob resolved, and the sentences that say what is wrong with one."""

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
PARTICLES = 10  # of particle Gibbs, unless given
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
    """The definition of a setting, from which HTTP, the worker and its checks follow.

    Attributes
    ----------
    kind
        "word" (one of `choices`, if there are any), "whole" (a number within `limits`), "yes" (true or
        false), "moves" (a set's name, or probabilities) or "entries" (numbers by name).
    group
        What it is about: the model, or its chains.
    about
        For users, in sentences.
    default
        Unless given; None where it is the method's.
    requested
        Whether a request over HTTP may name it.
    sparing
        Whether it is left out of what is stored while it is at its default: so settings that came later leave
        stored ones, and the fingerprints of checkpoints, as they were.

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
        """The value, were it given under that name; raises SettingsError. Mappings are checked by others."""
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
    """Every knob of a fit, resolved.

    `moves` gives the probabilities of grow, prune, change_nog (a new rule for a split above two leaves),
    change (for any split), swap, restructure (another tree with the same leaves) and pg, which sum to one,
    and of `rule`: the chance that a tree update is followed by an exact draw of one split rule. pg is the
    chance that an iteration updates every tree by particle Gibbs, with so many `particles`; the others share
    the other iterations. `start` is every chain's first state: all trees stumps, or each drawn in turn by
    sequential Monte Carlo with 100 particles, or stumps whose likelihood counts little at first and fully
    from half the burn-in on.
    `search` has the knobs of a search over topologies (`sampler.soft.search`), of other methods none.
    """

    family: str = _setting(
        "word",
        "model",
        "gaussian (the default), probit for two classes (of bart), categorical for any classes (of a single "
        "tree), or auto: what the target's values are.",
        default="gaussian",
        choices=FAMILIES,
    )
    method: str = _setting(
        "word",
        "model",
        f"bart (the default), or one tree: {', '.join(list(METHODS)[1:])}.",
        default="bart",
    )
    num_trees: int = _setting(
        "whole", "model", "200 of bart unless given; 1 of a single tree.", limits=(1, 10_000)
    )
    num_chains: int = _setting(
        "whole",
        "chains",
        "Unless given, 4, and 8 of bcart; of smc and dcc-tree (2) its runs.",
        limits=(1, 256),
    )
    num_burnin: int = _setting(
        "whole", "chains", "Iterations before the first kept draw.", limits=(0, 1_000_000)
    )
    num_draws: int = _setting(
        "whole",
        "chains",
        "Kept draws per chain; 250 unless given; of smc its particles, 1000.",
        limits=(1, 1_000_000),
    )
    thin: int = _setting(
        "whole",
        "chains",
        "Iterations per kept draw; unless given, 8 of bart and 80 of bcart.",
        limits=(1, 100_000),
    )
    seed: int = _setting(
        "whole",
        "chains",
        "The same data, settings and seed give the same model.",
        default=0,
        limits=(0, 2**63 - 1),
    )
    moves: dict[str, float] = _setting(  # noqa: RUF009  # a dataclass field
        "moves",
        "chains",
        "A move set (default, growprune, growprunechange, cgm, or pg: particle Gibbs), or the moves' "
        "probabilities: grow, prune, change_nog, change, swap, restructure, pg sum to one; rule comes "
        "besides.",
        default="default",
    )
    prior_only: bool = _setting(
        "yes", "model", "Leave the data out: draws from the prior.", default=False, requested=False
    )
    particles: int = _setting(
        "whole", "chains", "Of particle Gibbs; 10 unless given.", default=PARTICLES, limits=(2, 10_000)
    )
    start: str = _setting(
        "word",
        "chains",
        "Every chain's first state: stumps (the default); smc: trees drawn in turn; annealed: stumps, and "
        "the data count little at first, fully from half the burn-in on.",
        default=STARTS[0],
        choices=STARTS,
    )
    search: dict[str, float] = _setting(  # noqa: RUF009
        "entries",
        "chains",
        "Of dcc-tree: iterations, first, proposals, most, chains, draws, samples, delta, kappa, optimism, "
        "spatial; what isn't given is as the method has it.",
        sparing=True,
    )

    @classmethod
    def resolve(cls, **given: Any) -> Settings:
        """Settings from what a user gave; None is the method's own default (`sampler.methods`).

        `num_burnin` None: as many iterations as sampling, from 100 to the most of the method (1000 of bart).

        Raises
        ------
        SettingsError
            Saying which values are accepted.
        TypeError
            For a keyword that is no setting.

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
        """Iterations of one chain, burn-in and sampling; of a search over topologies, its own."""
        if self.search:
            return int(self.search["iterations"])
        return self.num_burnin + self.num_draws * self.thin

    @property
    def kernel_groups(self) -> tuple[str, ...]:
        """The groups of `kernels.GROUPS` that this fit and its predictions need."""
        return find_method(self.method).kernel_groups(self)

    @property
    def of_a_chain(self) -> list[tuple[str, Any]]:
        """What a chain depends on: everything but how many there are and when they end."""
        values = self.to_json() | {"moves": sorted(self.moves.items())}
        return sorted(
            (name, value) for name, value in values.items() if name not in ("num_chains", "num_draws")
        )

    def to_json(self) -> dict[str, Any]:
        """A dict that `from_json` reads back."""
        return {
            name: value
            for name, value in asdict(self).items()
            if not SETTINGS[name].sparing or value != (SETTINGS[name].default or {})
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Settings from `to_json`'s dict, checked again."""
        unknown = sorted(set(values) - {each.name for each in fields(cls)})
        if unknown:
            raise SettingsError(f"unknown setting {unknown[0]!r}", field=unknown[0], code="unknown")
        return cls.resolve(**values)


SETTINGS: dict[str, Setting] = {each.name: each.metadata["setting"] for each in fields(Settings)}
LIMITS = {name: setting.limits for name, setting in SETTINGS.items() if setting.limits is not None}


def resolve_moves(moves: str | Mapping[str, float], method: str = "bart") -> dict[str, float]:
    """The probabilities behind a move set's name or a user's own dict.

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
            "moves need a positive probability of both grow and prune, or of pg: the chain can't go "
            "everywhere else",
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
    """Raise SettingsError for a setting that the method has no use for and that isn't at its default."""
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
    """The knobs of a search over topologies: those given, each checked, and the defaults of the others.

    Raises
    ------
    SettingsError
        For a method without a search, an unknown knob, or a value out of range.

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
    """A particle filter's one way to propose, as its name's dict."""
    for known in sets.values():
        if moves == known:
            return dict(known)
    raise SettingsError(
        f"moves must be one of {', '.join(sets)}, not {moves!r}", field="moves", code="not_accepted"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def checked_count(name: str, value: Any) -> int:
    """A whole number inside the limits of its knob; raises SettingsError."""
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
