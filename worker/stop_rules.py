"""How stop rules end a fit: looked at only when all chains have the same number of draws.

Those numbers depend on the request alone, so the same request stops at the same draws, on any machines. Only
a limit of time depends on how fast they are.
"""

from app.store.tables import Json
from sampler.posterior.assessment.stop_rules import StopCheck

RULES, TIME, DRAWS = "rules", "max_seconds", "max_draws"  # what can end a fit


def what_ends(seen: StopCheck, settings: Json, *, time_up: bool, cut: bool) -> str | None:
    """What ends the fit now, None when it goes on; `cut`: some chain has fewer draws than it was to have."""
    if cut:
        return TIME
    if seen.satisfied:
        return RULES
    if seen.draws >= settings["stop"]["max_draws"]:
        return DRAWS
    return TIME if time_up else None
