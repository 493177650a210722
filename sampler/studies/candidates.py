"""Candidates of tuning: grids of settings, simpler ones first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Any

from sampler.errors import SettingsError
from sampler.families import FAMILIES
from sampler.preparation.several import check_several

GRIDS = ("model", "prior")
SPARSE: dict[str, Any] = {"prior": {"sparse": True}}


def candidates(grid: str = "model", family: str = "gaussian") -> list[dict[str, Any]]:
    """List the candidates of a grid, simpler ones first.

    Parameters
    ----------
    grid
        "model": every noise, transform and linear part that go together, and the sparse prior, under which
        columns differ in weight (numbers only; of several outcomes noise by row, where all are numbers, the
        linear part and the sparse prior are what there is to choose). "prior": the default prior, the sparse
        one where the family has it, and the grid of CGM10's BART-cv: k, (nu, q) and the number of trees
        (section 5.1); of two classes k and the number of trees (section 5.3); of other families those of
        numbers.
    family
        Family of the fits.

    Returns
    -------
    list of dict
        Settings by name, for each candidate.

    Raises
    ------
    SettingsError
        For an unknown grid, and for "model" with anything but numbers.

    """
    if grid not in GRIDS:
        raise SettingsError(
            f"candidates must be {' or '.join(GRIDS)}, or a list of settings, not {grid!r}",
            field="candidates",
            code="unknown",
        )
    if grid == "prior":
        laws = [(3.0, 0.9), (3.0, 0.99), (10.0, 0.75)] if family == "gaussian" else [None]
        two = family == "probit"
        sizes = (100, 200, 400, 800) if two else (50, 200)
        shrinkage = (0.25, 0.5, 1.0, 2.0, 3.0) if two else (1.0, 2.0, 3.0, 5.0)
        known = FAMILIES[family].prior if family in FAMILIES else ()
        tried: list[dict[str, Any]] = [{}, *([SPARSE] if not known or "sparse" in known else [])]
        for trees, k, law in product(sizes, shrinkage, laws):
            of_noise = {} if law is None else {"nu": law[0], "q": law[1]}
            tried.append({"num_trees": trees, "prior": {"k": k} | of_noise})
        return tried
    if family != "gaussian":
        raise SettingsError(
            "candidates=model is for numbers: take prior, or a list of settings",
            field="candidates",
            code="not_applicable",
        )
    return [
        {"noise": noise, "transform": transform, "linear": linear}
        for noise, transform, linear in product(("constant", "t", "forest"), ("none", "auto"), (False, True))
        if not (noise == "t" and transform == "auto")
    ] + [SPARSE]


def candidates_of(
    grid: str | Sequence[Mapping[str, Any]], family: str, several: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Read candidates, or the name of a grid, of which several outcomes have a part; raise SettingsError.

    `several` are the families of these; none of one outcome.
    """
    if isinstance(grid, str):
        return [each for each in candidates(grid, family) if not several or _has_place(each, several)]
    listed = [dict(each) for each in grid if isinstance(each, Mapping)]
    if len(listed) < len(grid) or not listed:
        raise SettingsError(
            "candidates must be one or more mappings of settings, or the name of a grid",
            field="candidates",
            code="not_accepted",
        )
    return listed


def _has_place(candidate: Mapping[str, Any], families: Collection[str]) -> bool:
    """Tell whether several outcomes have a place for a candidate's settings."""
    try:
        check_several({**candidate, "families": families})
    except SettingsError:
        return False
    return True


def merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Add a candidate's settings to the common ones, and its prior entries to theirs."""
    settings = dict(common) | dict(own)
    if "prior" in common and "prior" in own:
        settings["prior"] = dict(common["prior"] or {}) | dict(own["prior"] or {})
    return settings


def settings_in_words(settings: Mapping[str, Any]) -> str:
    """Say in words how a candidate differs from the settings that all share."""
    flat = dict(settings)
    flat |= flat.pop("prior", None) or {}
    parts = [f"{name} {str(value).lower()}" for name, value in flat.items()]
    return ", ".join(parts) or "as given"
