"""Stop rules of a fit: what can be asked, and what it comes to."""

from collections.abc import Mapping
from typing import Any

from app.services.errors import Fault, InvalidRequestError
from sampler import Settings
from sampler.methods import METHODS
from sampler.settings import LIMITS

RULES = ("verdict", "max_rhat", "min_ess", "max_seconds")
TIMES_DRAWS = 16  # a fit that never satisfies its rules ends at so many times its first number of draws


def resolve(rules: Mapping[str, Any] | None, settings: Settings) -> dict[str, Any] | None:
    """Stop rules with every entry resolved; raises InvalidRequestError for rules that can't be.

    `max_draws` is filled in, and `first_look` is the number of draws per chain at which they are looked at
    first: the request's `num_draws`. What `settings` shows there later is how far the fit went.
    """
    if rules is None:
        return None
    given = {name: value for name, value in rules.items() if value is not None}
    if not any(name in given for name in RULES):
        raise _refusal("stop", f"name at least one of {', '.join(RULES)}", "not_accepted")
    if given.get("verdict") == "converged" and settings.num_chains == 1:
        raise _refusal(
            "stop.verdict", "one chain alone never is: raise num_chains, or take approximate", "contradiction"
        )
    if METHODS[settings.method].engine.at_once:
        raise _refusal(
            "stop",
            f"method {settings.method} gives all its draws at once: choose num_draws",
            "not_applicable",
        )
    most = min(TIMES_DRAWS * settings.num_draws, LIMITS["num_draws"][1])
    if given.setdefault("max_draws", most) < settings.num_draws:
        told = f"the rules are looked at first at num_draws, {settings.num_draws}: it can't be less"
        raise _refusal("stop.max_draws", told, "contradiction")
    return {**dict.fromkeys(RULES), **given, "first_look": settings.num_draws}


def _refusal(field: str, told: str, code: str) -> InvalidRequestError:
    return InvalidRequestError(errors=[Fault(field, None, told, code)])
