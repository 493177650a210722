"""End of a fit by stop rules, which are checked only when all chains have the same number of draws.

These numbers depend only on the request, so the same request stops at the same draws on any machine. Only a
time limit depends on the machine's speed.
"""

from app.store.tables import Json
from sampler.host.fits import StopCheck

RULES, TIME, DRAWS = "rules", "max_seconds", "max_draws"  # what can end a fit


def reason_to_stop(stop_check: StopCheck, settings: Json, *, time_up: bool, cut: bool) -> str | None:
    """Return what ends the fit now, None if it continues; `cut`: a chain has fewer draws than planned."""
    if cut:
        return TIME
    if stop_check.satisfied:
        return RULES
    if stop_check.draws >= settings["stop"]["max_draws"]:
        return DRAWS
    return TIME if time_up else None
