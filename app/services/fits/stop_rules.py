"""Stop rules of a fit: validation and resolution."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.services.errors import Fault, InvalidRequestError
from app.services.fits.requests import LENGTHS, FitRequest
from sampler.host.settings import (
    AUTO_NOISE,
    CONSTANT,
    DEFAULT_VERDICT,
    LIMITS,
    METHODS,
    MORE_TREES,
    MORE_TREES_ROWS,
    NO_RECIPE,
    STOP,
    TIMES_DRAWS,
    Settings,
)

RULES = tuple(name for name in STOP if name != "max_draws")


def given_or_default(request: FitRequest) -> FitRequest:
    """Let a fit by sums of trees end by its verdict where the request states neither rules nor a length."""
    method = METHODS.get(str(request.settings.get("method") or "bart"))
    states_length = any(request.settings.get(name) is not None for name in LENGTHS if name != "seed")
    if request.stop is not None or states_length or method is None or not method.engine.forests:
        return request
    return replace(request, stop={"verdict": DEFAULT_VERDICT})


def resolve(
    rules: Mapping[str, Any] | None, settings: Mapping[str, Any], times_draws: int = TIMES_DRAWS
) -> dict[str, Any] | None:
    """Resolve stop rules; raises InvalidRequestError for invalid ones.

    `max_draws` gets its default, `times_draws` times `num_draws` of the settings, and `first_look` is the
    number of draws per chain at the first check: that `num_draws`. The model's `settings` later show how many
    draws the fit took.
    """
    if rules is None:
        return None
    resolved = {name: value for name, value in rules.items() if value is not None}
    if not any(name in resolved for name in RULES):
        raise _refusal("stop", f"name at least one of {', '.join(RULES)}", "not_accepted")
    if resolved.get("verdict") == "converged" and settings["num_chains"] == 1:
        raise _refusal(
            "stop.verdict", "a single chain never is: raise num_chains, or use approximate", "contradiction"
        )
    method, num_draws = settings.get("method") or "bart", int(settings["num_draws"])
    if METHODS[method].engine.at_once:
        raise _refusal(
            "stop", f"method {method} makes all its draws at once: choose num_draws", "not_applicable"
        )
    most = min(times_draws * num_draws, LIMITS["num_draws"][1])
    if resolved.setdefault("max_draws", most) < num_draws:
        message = f"the rules are first checked at num_draws, {num_draws}: it can't be less"
        raise _refusal("stop.max_draws", message, "contradiction")
    return {**dict.fromkeys(RULES), **resolved, "first_look": num_draws}


def with_trees(rules: Mapping[str, Any] | None, settings: Settings, rows: int) -> Settings:
    """Choose the number of trees of a fit that ends by its verdict, where the request leaves it open.

    It is larger for numbers with noise of one size, or of a kind that the data choose, and so many training
    rows that chains of the default number may never agree while more trees predict as well.
    """
    fewest, most = MORE_TREES_ROWS
    if (
        (rules or {}).get("verdict") is not None
        and METHODS[settings.method].engine.forests
        and settings.family == "gaussian"
        and settings.recipe == NO_RECIPE
        and not settings.monotone
        and settings.noise in (CONSTANT, AUTO_NOISE)
        and fewest <= rows <= most
    ):
        return replace(settings, num_trees=MORE_TREES)
    return settings


def _refusal(field: str, message: str, code: str) -> InvalidRequestError:
    return InvalidRequestError(errors=[Fault(field, None, message, code)])
