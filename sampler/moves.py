"""Moves of the chains: their names, the named sets of probabilities, and the check of given ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sampler.definitions.setting import is_number
from sampler.errors import SettingsError, suggestion

MoveSets = Mapping[str, Mapping[str, float]]

MOVES = ("grow", "prune", "change_nog", "change", "swap", "restructure")
RULE_DRAW = "rule"
PARTICLE_GIBBS = "pg"
MOVE_NAMES = (*MOVES, RULE_DRAW, PARTICLE_GIBBS)  # moves of method bart, in the order of the kernels' indices
CGM = {"grow": 0.25, "prune": 0.25, "change": 0.40, "swap": 0.10}
GROW_PRUNE = {"grow": 0.5, "prune": 0.5}
WU = {"grow": 0.22, "prune": 0.22, "change": 0.36, "swap": 0.10, "restructure": 0.10}
MOVE_SETS: MoveSets = {  # named sets of method bart
    "default": {"grow": 0.5, "prune": 0.5, "rule": 0.07},
    "growprune": GROW_PRUNE,
    "cgm": CGM,
    "growprunechange": {"grow": 0.28, "prune": 0.28, "change_nog": 0.44},
    "pg": {"pg": 1.0},
}
TREE_MOVES = ("grow", "prune", "change", "swap", "restructure")
SOFT_MOVES = ("grow", "prune", "stay")
MOVE_TEXTS = {  # in forms
    "growprune": "growprune: only grow and prune",
    "growprunechange": "growprunechange: also new rules for small nodes",
    "cgm": "cgm: as in CGM10, with swaps",
    "pg": "pg: particle Gibbs, whole trees at once",
}


def resolve_moves(
    moves: str | Mapping[str, float], sets: MoveSets, accepted: Sequence[str]
) -> dict[str, float]:
    """Return the probabilities of a named move set, or check given ones.

    Parameters
    ----------
    moves
        Name of a set, or probabilities by move.
    sets
        Named sets of the method.
    accepted
        Moves that may be given probabilities; empty where only the sets can be chosen.

    Raises
    ------
    SettingsError
        For an unknown name, a probability outside [0, 1], moves that don't sum to one, or no grow or prune.

    """
    if isinstance(moves, str) and moves in sets:
        return dict(sets[moves])
    if isinstance(moves, str) or not accepted:
        return _equal_set(moves, sets)
    names = ", ".join(accepted)
    if not hasattr(moves, "items"):
        raise SettingsError(
            f"moves must be one of {', '.join(sets)}, or a dict of probabilities of {names}",
            field="moves",
            code="not_accepted",
        )
    for name, value in moves.items():
        if name not in accepted:
            raise SettingsError(
                f"unknown move {name!r}; accepted are {names}{suggestion(name, accepted)}",
                field="moves",
                code="unknown",
            )
        if not is_number(value) or not 0 <= value <= 1:
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
        summed = ", ".join(name for name in accepted if name != RULE_DRAW)
        raise SettingsError(
            f"the probabilities of {summed} must sum to 1, not {total:g}", field="moves", code="contradiction"
        )
    return chosen


def _equal_set(moves: Any, sets: MoveSets) -> dict[str, float]:
    """Return the set that equals `moves`; raise SettingsError where there is none."""
    for each in sets.values():
        if moves == each:
            return dict(each)
    raise SettingsError(
        f"moves must be one of {', '.join(sets)}, not {moves!r}{suggestion(moves, sets)}",
        field="moves",
        code="not_accepted",
    )
