"""Verdicts, and reasons for them as codes with figures and as sentences."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray

from sampler.data.scalars import number_to_text
from sampler.noise import NOISES
from sampler.storage.model_header import Header

Verdict = Literal["converged", "approximate", "not_converged"]
VERDICTS: tuple[Verdict, ...] = ("converged", "approximate", "not_converged")
PRIOR_SHARE = 0.25  # share of sigma^2 due to the prior above which it is reported

ReasonCode = Literal[
    "limits_met",
    "rows_disagree",
    "sigma_disagrees",
    "likelihood_disagrees",
    "effect_disagrees",
    "reproducible",
    "one_chain",
    "evidence_disagrees",
    "chains_apart",
    "too_few_draws",
    "sigma_by_prior",
    "groups_disagree",
]
SENTENCES: dict[ReasonCode, str] = {
    "limits_met": "R-hat at most {rhat} and errors below {error} sd at {share:.0%} or more of the {rows}",
    "rows_disagree": "f: R-hat at most {rhat} and Monte Carlo error below {error} sd at only {share:.0%} of "
    "the {rows}",
    "sigma_disagrees": "sigma: R-hat {rhat:.2f} is above {limit}",
    "likelihood_disagrees": "log-likelihood of the reference rows: R-hat {rhat:.2f} is above {limit}",
    "effect_disagrees": "{of}: R-hat {rhat:.2f} and Monte Carlo error {error:.2f} sd, where {limit} and "
    "{most} are the limits",
    "reproducible": "all chains together: another fit would move means by about {error:.2f} sd, and they "
    "have settled, though R-hat reaches {rhat:.2f}",
    "one_chain": "one chain alone can't show that it agrees with others",
    "evidence_disagrees": "the runs' log evidences differ by {sd:.2f} (sd), above {limit}",
    "chains_apart": "chains of one topology are in modes {apart:.0f} apart in log density, above "
    "{limit:.0f}: a better one may not have been found",
    "too_few_draws": "{draws} draws per chain are too few to tell",
    "sigma_by_prior": "sigma: {share:.0%} of sigma^2 comes from its prior (scale {scale}{of}), not from the "
    "residuals; if the noise is smaller, set the prior's lambda to about the variance of the noise",
    "groups_disagree": "groups: R-hat {rhat:.2f} of the standard deviation of intercepts is above {limit}: "
    "predictions of new groups may be off",
}


@dataclass(frozen=True)
class Reason:
    """Reason why a verdict is not better, or what holds: code and figures.

    `limits_met`, `reproducible` and `sigma_by_prior` say what holds. `str()` gives a sentence; `rows` is its
    name for the rows that were examined, `of` says of what sigma or the effect is.
    """

    code: ReasonCode
    values: Mapping[str, float] = field(default_factory=dict)
    rows: str = "reference rows"
    of: str = ""

    def __str__(self) -> str:
        words = {
            "rows": self.rows,
            "of": self.of.format(rows=self.rows),
            "scale": number_to_text(self.values.get("scale"), 3),
        }
        return SENTENCES[self.code].format(**{**self.values, **words})

    def to_json(self) -> dict[str, Any]:
        """Return `{code, values}` as JSON values; undefined figures are None."""
        return {"code": self.code, "values": {name: defined(value) for name, value in self.values.items()}}


def reasons_to_json(reasons: Sequence[Reason]) -> dict[str, Any]:
    """Return the reasons as sentences (`reasons`) and as codes with their figures (`reason_codes`)."""
    return {
        "reasons": [str(reason) for reason in reasons],
        "reason_codes": [reason.to_json() for reason in reasons],
    }


def noise_prior_reason(sigma: NDArray[np.float64], header: Header) -> Reason | None:
    """Return the reason for draws of sigma [chain, draw] that rest on the prior; None for any others.

    Given residuals with the weighted sum of squares S, sigma^2 ~ (nu lambda + S) / chi^2(nu + rows): the
    prior's share is nu lambda / (nu lambda + S). The scale lambda comes from a linear model, so it is far too
    large where f is far from linear and the noise small; chains agree all the same. Of noise with heavy tails
    sigma is the scale, as it is drawn.
    """
    constants = header.constants
    nu, lambda_ = constants.get("nu"), constants.get("lambda_")
    settings = header.settings
    known = constants.get("sigma_fixed", True) or settings.get("prior_only", False)
    known = known or settings.get("method") != "bart"  # whose leaves have a prior of their own
    noise = NOISES[settings.get("noise", "constant")]
    differs = noise.forest or noise.mixture  # sigma is then made of what has priors
    if known or differs or header.num_rows is None or not (_is_positive(nu) and _is_positive(lambda_)):
        return None
    with np.errstate(over="ignore"):
        share = nu * lambda_ * float(np.mean(sigma**-2)) / (nu + header.num_rows)
    if not share > PRIOR_SHARE:
        return None
    transform = header.transform
    of = f" of {transform.of(header.schema.target.name)}" if transform else ""
    return Reason("sigma_by_prior", {"share": min(share, 1.0), "scale": math.sqrt(lambda_)}, of=of)


def _is_positive(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and 0 < value <= sys.float_info.max


def defined(value: Any) -> float | None:
    """Return a figure as a float; None where it is not finite."""
    return float(value) if np.isfinite(value) else None
