"""Stop rules: criteria for a posterior to have enough draws.

They depend on the draws alone, so equal fits stop at equal numbers of draws on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sampler.posterior.assessment.row_diagnostics import agreement, is_known
from sampler.posterior.posterior import Posterior
from sampler.posterior.verdict.agreement import ROWS_SHARE
from sampler.posterior.verdict.reasons import VERDICTS

RHATS, SIZES = (("average_rhat", "rows_rhat"), ("average_ess", "rows_ess"))  # of effects


@dataclass(frozen=True)
class StopCheck:
    """Stop rules that hold with `draws` draws per chain, by name, with the figures behind them.

    `discarded` draws per chain that came before these are left out.
    """

    draws: int
    discarded: int
    held: dict[str, bool]
    figures: dict[str, Any]

    @property
    def satisfied(self) -> bool:
        """Whether all rules hold; without any rule (a time limit alone) False."""
        return bool(self.held) and all(self.held.values())

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"draws": self.draws, "discarded": self.discarded, "held": self.held, **self.figures}


def next_look(num_draws: int, max_draws: int) -> int:
    """Return the number of draws per chain for the next check: half as many more, at most `max_draws`."""
    return min(num_draws + max(num_draws // 2, 1), max_draws)


def check_rules(posterior: Posterior, rules: Mapping[str, Any]) -> StopCheck:
    """Check a posterior against stop rules.

    Parameters
    ----------
    posterior
        All draws so far.
    rules
        Any of `verdict` (the worst that is accepted), `max_rhat` and `min_ess`, of f at 95% of the reference
        rows, of sigma, of the log-likelihood and of effects; None leaves a rule out.

    Returns
    -------
    StopCheck
        Figures, and whether the rules are met.

    """
    summary = posterior.summary()
    of_scalars = [each["rhat"] for each in _scalars(posterior)]
    of_scalars += [each for name, each in (summary.effects or {}).items() if name in RHATS]
    rhat = _largest(summary.f["rhat_p95"], of_scalars)
    ess = _ess(posterior) if rules.get("min_ess") is not None else None
    held = {
        "verdict": _rank(summary.verdict) >= _rank(rules.get("verdict") or VERDICTS[-1]),
        "max_rhat": rhat is not None and rhat <= (rules.get("max_rhat") or math.inf),
        "min_ess": ess is not None and ess >= (rules.get("min_ess") or 0.0),
    }
    return StopCheck(
        posterior.num_draws,
        int(posterior.settings.get("discarded", 0)),
        {name: holds for name, holds in held.items() if rules.get(name) is not None},
        {"verdict": summary.verdict, "rhat": rhat, "ess": ess},
    )


def check_part(posterior: Posterior, rules: Mapping[str, Any]) -> tuple[Posterior, StopCheck]:
    """Check a posterior, then what is left without the first third of its draws, until the rules hold.

    Chains that come slowly to where they stay agree sooner without the draws of the way there; to leave out
    as much of a chain as its agreement asks for goes back to Heidelberger and Welch (1983, Simulation run
    length control in the presence of an initial transient).

    Returns
    -------
    Posterior, StopCheck
        All of the posterior, or the later part if only this meets the rules; and its check.

    """
    whole = check_rules(posterior, rules)
    if whole.satisfied or not whole.held:
        return posterior, whole
    part = posterior.discard(posterior.num_draws // 3)
    later = check_rules(part, rules)
    return (part, later) if later.satisfied else (posterior, whole)


def _rank(verdict: Any) -> int:
    return -[*VERDICTS].index(verdict)  # the best comes first


def _scalars(posterior: Posterior) -> list[dict[str, float | None]]:
    """Return the figures of the scalars that the posterior has: classes have no sigma."""
    return [getattr(posterior.summary(), name) for name in posterior.law.scalars()]


def _largest(f: float | None, scalars: list[float | None]) -> float | None:
    """Return the largest R-hat of f and of scalars; None when one is unknown."""
    known = [each for each in (f, *scalars) if each is not None]
    return max(known) if len(known) == 1 + len(scalars) else None


def _ess(posterior: Posterior) -> float | None:
    """Return the effective sample size (bulk, tail) that scalars and f at 95% of the reference rows reach."""
    if not is_known(posterior.num_draws):
        return None
    agreed = agreement(posterior.law, posterior.reference, posterior.num_draws)
    of_f = float(np.quantile(np.minimum(agreed.ess_bulk, agreed.ess_tail), 1 - ROWS_SHARE))
    of_scalars = [each[name] for each in _scalars(posterior) for name in ("ess_bulk", "ess_tail")]
    of_scalars += [each for name, each in (posterior.summary().effects or {}).items() if name in SIZES]
    known = [value for value in of_scalars if value is not None]
    return min([of_f, *known]) if len(known) == len(of_scalars) else None
