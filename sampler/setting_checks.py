"""Checks of a fit's settings against each other, its method and its family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampler.definitions.parts import PART_SETTINGS
from sampler.definitions.search import SEARCH
from sampler.errors import SettingsError, suggestion
from sampler.families import FAMILIES
from sampler.methods import Method
from sampler.moves import PARTICLE_GIBBS
from sampler.noise import NOISES

NOT_NORMAL = [name for name, noise in NOISES.items() if not noise.is_normal]
DIRECTIONS = {"increasing": 1, "decreasing": -1}  # of monotone features
MONOTONE_TREES = 50  # each that splits on a monotone feature adds to the rise that the prior expects
BESIDE_TREES = {  # what may stand beside a sum of trees, and why classes have none
    "noise": "classes have no noise of their own",
    "linear": "only numbers and classes (categorical) have a linear part",
    "transform": "classes are no numbers",
}


def check_absent(values: Mapping[str, Any], method: Method, defaults: Mapping[str, Any]) -> None:
    """Raise SettingsError for a setting that has no meaning for the method and isn't at its default.

    Parameters
    ----------
    values
        Settings by name, those of `method` resolved.
    method
        Method of the fit.
    defaults
        Defaults that don't depend on the method; None for the others.

    """
    for name, why in method.absent.items():
        default = defaults[name]
        if default is None:
            default = method.most_burnin if name == "num_burnin" else getattr(method, name)
        if values[name] != default:
            raise SettingsError(
                f"{name} must be {_as_text(default)}, or left out: method {values['method']} {why}",
                field=name,
                code="not_applicable",
            )


def check_beside_trees(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise SettingsError where noise can't differ by row, or no linear part can stand beside the trees."""
    for name, why in BESIDE_TREES.items():
        if values[name] == defaults[name]:
            continue
        lined = name == "linear" and FAMILIES[values["family"]].line
        if not FAMILIES[values["family"]].noise and not lined:
            raise SettingsError(
                f"{name} must be {_as_text(defaults[name])}, or left out: {why}",
                field=name,
                code="contradiction",
            )
        if name == "transform":
            _check_mean(values)


def has_particles(values: Mapping[str, Any]) -> bool:
    """Tell whether particles draw trees: then data choose no line or noise; the moves are resolved."""
    return PARTICLE_GIBBS in values["moves"] or values["start"] == "smc"


def _as_text(default: Any) -> Any:
    return "false" if default is False else default


def _check_mean(values: Mapping[str, Any]) -> None:
    """Raise SettingsError where a transformed outcome has no mean."""
    if values["noise"] in NOT_NORMAL:  # any other value is checked later
        raise SettingsError(
            f"transform must be none, or left out, with noise={values['noise']}: a mean of transformed "
            "outcomes is known for normal noise alone",
            field="transform",
            code="contradiction",
        )


def check_moves_of_family(values: Mapping[str, Any], method: Method) -> None:
    """Raise SettingsError for moves and starts that the family's trees don't know."""
    family = FAMILIES[values["family"]]
    if not family.moves or not method.engine.forests:
        return
    unknown = [name for name in values["moves"] if name not in family.moves]
    if unknown or (values["start"] == "smc" and PARTICLE_GIBBS not in family.moves):
        field, value = ("moves", unknown[0]) if unknown else ("start", "smc")
        raise SettingsError(
            f"{field} with {value} has no meaning for family {values['family']}, whose trees have "
            f"{', '.join(family.moves)} alone: leave out {value}",
            field=field,
            code="not_applicable",
        )


def resolve_monotone(values: dict[str, Any], arguments: Mapping[str, Any], method: Method) -> dict[str, str]:
    """Check the directions of monotone features, and set the trees, moves and line that go with them.

    Raises
    ------
    SettingsError
        For another direction than increasing and decreasing, and for trees whose leaves are not normal.

    """
    given = values["monotone"] or {}
    if not isinstance(given, Mapping) or any(word not in DIRECTIONS for word in given.values()):
        raise SettingsError(
            'monotone must be a dict of "increasing" or "decreasing" by feature',
            field="monotone",
            code="not_accepted",
        )
    if not given:
        return {}
    family = FAMILIES[values["family"]]
    if not method.engine.forests or "log-linear-trees" in family.kernels or family.point:
        raise SettingsError(
            "monotone features go with sums of trees of numbers, two classes and ordered ones: set "
            "method=bart and family=gaussian, probit or ordinal, or leave them out",
            field="monotone",
            code="not_applicable",
        )
    if values["moves"] == "default":
        values["moves"] = "growprune"
    if arguments.get("num_trees") is None:
        values["num_trees"] = MONOTONE_TREES
    if arguments.get("linear") in (None, "auto"):
        values["linear"] = False
    return {str(name): str(word) for name, word in given.items()}


def check_beside_monotone(values: Mapping[str, Any]) -> None:
    """Raise SettingsError for moves, starts and lines that don't keep leaves in order."""
    if not values["monotone"]:
        return
    others = [name for name in values["moves"] if name not in ("grow", "prune")]
    unfit = {
        "linear": values["linear"] is not False,
        "start": values["start"] == "smc",
        "moves": bool(others),
    }
    for field, is_unfit in unfit.items():
        if is_unfit:
            value = {"linear": "true", "start": "smc", "moves": others[0] if others else ""}[field]
            raise SettingsError(
                f"{field} with {value} doesn't keep leaves of monotone features in order: leave out {field}, "
                "or monotone",
                field=field,
                code="contradiction",
            )


def resolve_parts(values: Mapping[str, Any], method: Method) -> dict[str, Any]:
    """Check what parts of other packages are told, and return it by name; raise SettingsError."""
    given = values["parts"] or {}
    if not isinstance(given, Mapping):
        raise SettingsError("parts must be a dict by name", field="parts", code="not_accepted")
    for name in given:
        if name not in PART_SETTINGS:
            raise SettingsError(
                f"no installed package has a part {name!r}{suggestion(name, PART_SETTINGS)}",
                field=f"parts.{name}",
                code="unknown",
            )
        if not method.engine.forests or not FAMILIES[values["family"]].groups:
            raise SettingsError(
                f"{name} stands beside a sum of trees of numbers, two classes or ordered ones: set "
                f"method=bart and family=gaussian, probit or ordinal, or leave out {name}",
                field=f"parts.{name}",
                code="not_applicable",
            )
    return {str(name): PART_SETTINGS[name].check(f"parts.{name}", each) for name, each in given.items()}


def resolve_search(
    entries: Mapping[str, float] | None, defaults: Mapping[str, float], num_draws: int
) -> dict[str, float]:
    """Check the given entries of a search over topologies and add the defaults of the others.

    Parameters
    ----------
    entries
        Given entries by name, or None.
    defaults
        Defaults of the method; empty where it doesn't search.
    num_draws
        Number of draws that the search must be able to give.

    Returns
    -------
    dict
        Every entry of the search, by name.

    Raises
    ------
    SettingsError
        For an unknown entry, and for a value out of range.

    """
    if not defaults:
        return {}
    search = dict(defaults)
    for name, value in (entries or {}).items():
        if name not in defaults:
            raise SettingsError(
                f"unknown entry {name!r} of search; accepted are "
                f"{', '.join(defaults)}{suggestion(name, defaults)}",
                field=f"search.{name}",
                code="unknown",
            )
        search[name] = SEARCH[name].check(f"search.{name}", value)
    if search["chains"] * search["draws"] * search["samples"] < num_draws:
        raise SettingsError(
            "search: chains x draws x samples must be at least num_draws",
            field="num_draws",
            code="contradiction",
        )
    return search
