"""Stop rules: whether a fit has drawn enough, looked at only when all chains have the same number of draws.

Those numbers depend on the request alone, so the same request stops at the same draws, on any machines. Only
a limit of time depends on how fast they are.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.store.tables import Json
from sampler import Posterior
from sampler.posterior.row_diagnostics import agreement, is_known
from sampler.posterior.verdict import ROWS_SHARE, VERDICTS
from sampler.storage.model_header import Header

RULES, TIME, DRAWS = "rules", "max_seconds", "max_draws"  # what can end a fit


@dataclass(frozen=True)
class StopCheck:
    """What was seen at a number of draws: which rules hold, by name, and the figures they rest on."""

    draws: int
    held: dict[str, bool]
    figures: dict[str, Any]

    @property
    def satisfied(self) -> bool:
        """Whether all rules hold; a limit of time alone is none."""
        return bool(self.held) and all(self.held.values())

    def to_json(self) -> Json:
        """As the model and its log show it."""
        return {"draws": self.draws, "held": self.held, **self.figures}


def next_look(num_draws: int, max_draws: int) -> int:
    """The number of draws per chain at which the rules are looked at after that one: half as many more."""
    return min(num_draws + max(num_draws // 2, 1), max_draws)


def look(posterior: Posterior, rules: Json) -> StopCheck:
    """Judge a posterior by stop rules.

    Parameters
    ----------
    posterior
        All draws so far.
    rules
        `verdict` at least; `max_rhat` and `min_ess`, of f at 95% of the reference rows and of sigma.

    """
    summary = posterior.summary()
    rhat = _largest(summary.f["rhat_p95"], summary.sigma["rhat"], of_sigma=posterior.sigma is not None)
    ess = _ess(posterior) if rules.get("min_ess") is not None else None
    held = {
        "verdict": _rank(summary.verdict) >= _rank(rules.get("verdict") or VERDICTS[-1]),
        "max_rhat": rhat is not None and rhat <= (rules.get("max_rhat") or math.inf),
        "min_ess": ess is not None and ess >= (rules.get("min_ess") or 0.0),
    }
    return StopCheck(
        posterior.num_draws,
        {name: holds for name, holds in held.items() if rules.get(name) is not None},
        {"verdict": summary.verdict, "rhat": rhat, "ess": ess},
    )


def what_ends(seen: StopCheck, settings: Json, *, time_up: bool, cut: bool) -> str | None:
    """What ends the fit now, None when it goes on; `cut`: some chain has fewer draws than it was to have."""
    if cut:
        return TIME
    if seen.satisfied:
        return RULES
    if seen.draws >= settings["stop"]["max_draws"]:
        return DRAWS
    return TIME if time_up else None


def retold(header: bytes, settings: Json) -> bytes:
    """The header that a fit with so many draws and chains would have."""
    read = Header.from_bytes(header)
    counts = {name: settings[name] for name in ("num_draws", "num_chains")}
    return replace(read, settings=read.settings | counts).to_bytes()


def _rank(verdict: Any) -> int:
    return -[*VERDICTS].index(verdict)  # the best comes first


def _largest(f: float | None, sigma: float | None, *, of_sigma: bool) -> float | None:
    """The larger R-hat of f and of sigma, None when one isn't known; two classes have no sigma."""
    if f is None or (of_sigma and sigma is None):
        return None
    return max(float(f), sigma or 0.0)


def _ess(posterior: Posterior) -> float | None:
    """Effective draws that f has at 95% of the reference rows, bulk and tail, and sigma too."""
    if not is_known(posterior.num_draws):
        return None
    found = agreement(posterior, posterior.reference, posterior.num_draws)
    of_f = float(np.quantile(np.minimum(found.ess_bulk, found.ess_tail), 1 - ROWS_SHARE))
    if posterior.sigma is None:
        return of_f
    of_sigma = [posterior.summary().sigma[name] for name in ("ess_bulk", "ess_tail")]
    known = [value for value in of_sigma if value is not None]
    return min(of_f, *known) if len(known) == len(of_sigma) else None
