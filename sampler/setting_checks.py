"""Checks of a fit's settings against its method, and settings that go with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampler.definitions.parts import PART_SETTINGS
from sampler.definitions.search import SEARCH
from sampler.errors import SettingsError, suggestion
from sampler.methods import Method
from sampler.moves import PARTICLE_GIBBS

DIRECTIONS = {"increasing": 1, "decreasing": -1}  # of monotone features
MONOTONE_TREES = 50  # each that splits on a monotone feature adds to the rise that the prior expects


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


def has_particles(values: Mapping[str, Any]) -> bool:
    """Tell whether particles draw trees: then data choose no line or noise; the moves are resolved."""
    return PARTICLE_GIBBS in values["moves"] or values["start"] == "smc"


def _as_text(default: Any) -> Any:
    return "false" if default is False else default


def resolve_monotone(values: dict[str, Any], arguments: Mapping[str, Any], method: Method) -> dict[str, str]:
    """Check the directions of monotone features, and set the trees, moves and line that go with them.

    Raises
    ------
    SettingsError
        For another direction than increasing and decreasing.

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
    if values["moves"] == "default" and "growprune" in method.move_sets:
        values["moves"] = "growprune"
    if arguments.get("num_trees") is None:
        values["num_trees"] = MONOTONE_TREES
    if arguments.get("linear") in (None, "auto"):
        values["linear"] = False
    return {str(name): str(word) for name, word in given.items()}


def resolve_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check what further parts are told, and return it by name; raise SettingsError."""
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
