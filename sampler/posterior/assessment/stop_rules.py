"""Stop rules: whether a posterior has enough draws.

They rest on the draws alone, so the same fit stops at the same draws on any machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.posterior.row_diagnostics import agreement, is_known
from sampler.posterior.verdict import ROWS_SHARE, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sampler.posterior.posterior import Posterior


@dataclass(frozen=True)
class StopCheck:
    """Which rules hold at a number of draws per chain, by name, and the figures they rest on."""

    draws: int
    held: dict[str, bool]
    figures: dict[str, Any]

    @property
    def satisfied(self) -> bool:
        """Whether all rules hold; a limit of time alone is none."""
        return bool(self.held) and all(self.held.values())

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"draws": self.draws, "held": self.held, **self.figures}


def next_look(num_draws: int, max_draws: int) -> int:
    """The number of draws per chain at which to look again after `num_draws`: half as many more."""
    return min(num_draws + max(num_draws // 2, 1), max_draws)


def look(posterior: Posterior, rules: Mapping[str, Any]) -> StopCheck:
    """Judge a posterior by stop rules.

    Parameters
    ----------
    posterior
        All draws so far.
    rules
        Any of `verdict` (the least that will do), `max_rhat` and `min_ess`, of f at 95% of the reference rows
        and of sigma; a rule that is None is left out.

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
