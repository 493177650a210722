"""Stop rules of a fit: validation and resolution."""

from collections.abc import Mapping
from typing import Any

from app.services.errors import Fault, InvalidRequestError
from sampler import Settings
from sampler.definitions import STOP, TIMES_DRAWS
from sampler.methods import METHODS
from sampler.settings import LIMITS

RULES = tuple(name for name in STOP if name != "max_draws")


def resolve(rules: Mapping[str, Any] | None, settings: Settings) -> dict[str, Any] | None:
    """Resolve stop rules; raises InvalidRequestError for invalid ones.

    `max_draws` gets its default, and `first_look` is the number of draws per chain at the first check: the
    request's `num_draws`. The model's `settings` later show how many draws the fit took.
    """
    if rules is None:
        return None
    given = {name: value for name, value in rules.items() if value is not None}
    if not any(name in given for name in RULES):
        raise _refusal("stop", f"name at least one of {', '.join(RULES)}", "not_accepted")
    if given.get("verdict") == "converged" and settings.num_chains == 1:
        raise _refusal(
            "stop.verdict", "a single chain never is: raise num_chains, or use approximate", "contradiction"
        )
    if METHODS[settings.method].engine.at_once:
        raise _refusal(
            "stop",
            f"method {settings.method} makes all its draws at once: choose num_draws",
            "not_applicable",
        )
    most = min(TIMES_DRAWS * settings.num_draws, LIMITS["num_draws"][1])
    if given.setdefault("max_draws", most) < settings.num_draws:
        told = f"the rules are first checked at num_draws, {settings.num_draws}: it can't be less"
        raise _refusal("stop.max_draws", told, "contradiction")
    return {**dict.fromkeys(RULES), **given, "first_look": settings.num_draws}


def _refusal(field: str, told: str, code: str) -> InvalidRequestError:
    return InvalidRequestError(errors=[Fault(field, None, told, code)])
