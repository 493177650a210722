"""What a fit is asked to do, every knob resolved, and the sentences that say what is wrong with one."""

from __future__ import annotations

import math
import numbers
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from sampler.errors import SettingsError
from sampler.methods import PARTICLE_GIBBS, RULE_DRAW, check_family, find_method

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

LIMITS: dict[str, tuple[int, int]] = {
    "num_trees": (1, 10_000),
    "num_chains": (1, 256),
    "num_burnin": (0, 1_000_000),
    "num_draws": (1, 1_000_000),
    "thin": (1, 100_000),
    "particles": (2, 10_000),
    "seed": (0, 2**63 - 1),
}


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

    family: str
    method: str
    num_trees: int
    num_chains: int
    num_burnin: int
    num_draws: int
    thin: int
    seed: int
    moves: dict[str, float]
    prior_only: bool
    particles: int
    start: str
    search: dict[str, float] = field(default_factory=dict)

    @classmethod
    def resolve(
        cls,
        *,
        family: str = "gaussian",
        method: str = "bart",
        num_trees: int | None = None,
        num_chains: int | None = None,
        num_burnin: int | None = None,
        num_draws: int | None = None,
        thin: int | None = None,
        seed: int = 0,
        moves: str | Mapping[str, float] = "default",
        prior_only: bool = False,
        particles: int = PARTICLES,
        start: str = "stumps",
        search: Mapping[str, float] | None = None,
    ) -> Settings:
        """Settings from what a user gave; None is the method's own default (`sampler.methods`).

        `num_burnin` None: as many iterations as sampling, from 100 to the most of the method (1000 of bart).

        Raises
        ------
        SettingsError
            Saying which values are accepted.

        """
        kind = find_method(method)
        family = _one_of("family", family, FAMILIES)
        check_family(method, family)
        given = {"num_trees": num_trees, "num_chains": num_chains, "num_draws": num_draws, "thin": thin}
        counts = {
            name: checked_count(name, getattr(kind, name) if value is None else value)
            for name, value in given.items()
        }
        others = {"num_burnin": num_burnin or 0, "particles": particles, "start": start}
        _check_absent(method, {**counts, **others, "search": dict(search or {})})
        if num_burnin is None:
            burnin = min(kind.most_burnin, max(100, counts["num_draws"] * counts["thin"]))
        else:
            burnin = checked_count("num_burnin", num_burnin)
        if not isinstance(prior_only, bool):
            raise SettingsError(
                f"prior_only must be true or false, not {prior_only!r}",
                field="prior_only",
                code="not_accepted",
            )
        return cls(
            family=family,
            method=method,
            num_burnin=burnin,
            seed=checked_count("seed", seed),
            particles=checked_count("particles", particles),
            moves=resolve_moves(moves, method),
            prior_only=prior_only,
            start=_one_of("start", start, STARTS),
            search=_search(search, method, counts["num_draws"]),
            **counts,
        )

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
        values = asdict(self)
        if not self.search:  # as before there were searches
            del values["search"]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Settings from `to_json`'s dict, checked again."""
        unknown = sorted(set(values) - {each.name for each in fields(cls)})
        if unknown:
            raise SettingsError(f"unknown setting {unknown[0]!r}", field=unknown[0], code="unknown")
        return cls.resolve(**values)


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
