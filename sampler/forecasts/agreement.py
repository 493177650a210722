"""Whether chains of members agree on what a forecaster answers: outcomes of steps, and totals over them.

A forecast pools the members' paths, and the noise of each step is in them: two fits that differ by a tenth of
a path's sd give the same forecast, whether or not f of each member agrees. So R-hat and Monte Carlo errors
are those of the paths, for the mixture of members (Vehtari et al. 2021, with variances added over members),
and the limits those of other verdicts: on each figure, or for chains that are pooled the root mean square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from sampler.array_types import Floats
from sampler.forecasts.calibration import Calibration, slots_of, thinning_of
from sampler.forecasts.history import History
from sampler.forecasts.paths import Fitted, Start, sample_paths
from sampler.posterior.laws.normal import NormalLaw
from sampler.posterior.protocol import Document
from sampler.posterior.verdict import rhat_ess
from sampler.posterior.verdict.agreement import (
    DENSITY,
    FEWEST_DRAWS,
    POOLED_ERROR,
    POOLED_RHAT,
    Agreement,
    at_share,
    judge,
)
from sampler.posterior.verdict.effects import worst
from sampler.posterior.verdict.reasons import VERDICTS, Verdict

MOST_OUTCOMES = 1_500_000  # of paths that are judged
MOST_STARTS = 60
MOST_MEMBERS = 6
# Of the noise's sd from the first half of the draws to the second, at most.
MOVES: dict[Verdict, float] = {"converged": 0.05, "approximate": 0.1}
FEWEST_STARTS = 3


@dataclass(frozen=True, eq=False, repr=False)
class ForecastSummary(Document):
    """The verdict on a forecaster's chains, by outcomes of the steps that were rehearsed and their totals."""

    verdict: Annotated[Verdict, "Whether another fit would give the same forecasts."]
    rhat: Annotated[float | None, "R-hat of paths that 95% of steps and totals don't exceed."]
    error: Annotated[float | None, "Monte Carlo error of ends, root mean square, in sds of paths."]
    figures: Annotated[int, "Number of steps and totals that were judged."]
    text: Annotated[str, "The verdict in a sentence."]


def summarise(
    history: History, fitted: Sequence[Fitted], calibration: Calibration, seed: int
) -> ForecastSummary:
    """Judge the chains of members by paths from the origins of rehearsals, else by the newest horizon."""
    chains, draws = fitted[0].posterior.num_chains, fitted[0].posterior.num_draws
    if draws < FEWEST_DRAWS:
        return ForecastSummary(
            "not_converged", None, None, 0, f"{draws} draws per chain are too few to tell."
        )
    horizon, start = history.asked.horizon, _starts(history, calibration, MOST_MEMBERS * chains * draws)
    slots = [
        slots_of([each.member for each in fitted], history.seen(last).of_series(np.array([series])))[0]
        for series, last in zip(start.series.tolist(), start.last.tolist(), strict=True)
    ]
    # Few members have several paths of a draw, as answers do, but few draws don't: these say little of f.
    repeats = min(thinning_of(fitted)["repeats"], max(1, MOST_MEMBERS // len(fitted)))
    paths = sample_paths(slots, fitted, history, history.known, start, horizon, seed, repeats=repeats)
    judged = np.concatenate([paths, paths.sum(axis=2, keepdims=True)], axis=2)
    if fitted[0].member.scale == "counts":  # spread over their unit: an end in a point mass is no doubt
        judged += np.random.default_rng(seed).uniform(size=judged.shape)
    by_draw = judged.reshape(len(fitted), repeats, chains, draws, -1).transpose(4, 0, 2, 3, 1)
    agreed = agreement_of(by_draw.reshape(-1, len(fitted), chains, draws * repeats))
    moved = _moved(fitted)
    settled: Verdict = next((each for each, most in MOVES.items() if moved <= most), VERDICTS[-1])
    verdict, _ = judge(agreed, {}, chains)
    assert agreed.mean_error is not None, "they are draws of chains"
    medians, ends = (float(np.sqrt(np.mean(each**2))) for each in (agreed.mean_error, agreed.error))
    rhat = at_share(agreed.rhat)
    if verdict == VERDICTS[-1] and chains > 1 and ends <= POOLED_ERROR and rhat <= POOLED_RHAT:
        verdict = "approximate"
    verdict = worst(verdict, settled)
    text = (
        f"Another fit would move medians by about {medians:.2f} sd of the paths and interval ends by "
        f"{ends:.2f} (at {len(agreed.rhat)} steps and totals in rehearsals; R-hat up to {rhat:.2f})."
    )
    if settled != "converged":
        text += f" The noise's sd moves by {moved:.0%} from the first half of the draws to the second."
    text += " One chain alone can't show that it agrees with others." if chains == 1 else ""
    return ForecastSummary(verdict, rhat, ends, len(agreed.rhat), text)


def agreement_of(x: Floats) -> Agreement:
    """Measure the agreement of draws [figure, member, chain, draw] of a mixture with equal shares of members.

    A chain of the mixture has one of each member: the variance of its mean is the sum of theirs over the
    square of the number of members.
    """
    figures, members, chains, draws = x.shape
    half = draws // 2
    parts = np.concatenate([x[..., :half], x[..., -half:]], axis=2).reshape(figures, -1, half)
    folded = np.abs(parts - np.median(parts, axis=(1, 2), keepdims=True))
    rhat = np.maximum(*(_rhat(rhat_ess.normal_ranks(each), members) for each in (parts, folded)))
    sd = x.std(axis=(1, 2, 3), ddof=1)
    unit = np.where(sd == 0, 1.0, sd)

    def error(each: Floats) -> Floats:
        """Compute errors by effective draws, and no less in all than means of chains differ."""
        own = each.reshape(-1, chains, draws)
        squares = own.var(axis=(1, 2), ddof=1) / rhat_ess.ess_mean(own)
        squares = squares.reshape(figures, members).sum(axis=1)
        if chains > 1 and squares.any():
            squares *= max(1.0, (rhat_ess.reproducibility(own) ** 2).sum() / squares.sum())
        return np.asarray(np.sqrt(squares) / members)

    ends = np.quantile(x, rhat_ess.TAILS, axis=(1, 2, 3), keepdims=True)
    at_ends = [error((x <= end).astype(np.float64)) / DENSITY for end in ends]
    means = error(x) / unit
    size = (sd / np.where(means == 0, 1.0, means * unit)) ** 2  # effective draws
    return Agreement(rhat, np.maximum(means, np.maximum(*at_ends)), size, size, means)


def _moved(fitted: Sequence[Fitted]) -> float:
    """Return how far the noise's sd moves from the first half of the draws to the second, over members.

    Intervals are as wide as it says, and its first fall is too slow to be seen in single paths.
    """
    logs = [np.log(law.draws.sigma) for each in fitted if isinstance(law := each.posterior.law, NormalLaw)]
    moves = [each[:, -(n := each.shape[1] // 2) :].mean() - each[:, :n].mean() for each in logs]
    return abs(float(np.mean(moves))) if moves else 0.0


def _rhat(z: Floats, members: int) -> Floats:
    """Compute R-hat of the mixture's chains by split ranks [figure, member x part, draw]."""
    z = z.reshape(len(z), members, -1, z.shape[2])
    means = z.mean(axis=3)
    between = means.var(axis=2, ddof=1).sum(axis=1) / members**2
    within = z.var(axis=3, ddof=1).mean(axis=(1, 2)) + means.mean(axis=2).var(axis=1)
    length = members * z.shape[3]
    ratio = between / np.where(within == 0, 1.0, within)
    return np.asarray(np.sqrt(np.where(within == 0, 1.0, (length - 1) / length + ratio)))


def _starts(history: History, calibration: Calibration, paths: int) -> Start:
    """Return starts that are followed by a horizon of the history, evenly spaced."""
    horizon = history.asked.horizon
    place = {key: number for number, key in enumerate(history.keys)}
    starts = [(place[key], at - history.start) for at in calibration.origins for key in calibration.keys]
    if not starts:
        least = (history.first + 1).tolist()
        newest = (history.last - horizon).tolist()
        starts = [*enumerate(map(max, newest, least))]
    most = min(MOST_STARTS, max(FEWEST_STARTS, MOST_OUTCOMES // (paths * (horizon + 1))))
    kept = np.unique(np.linspace(0, len(starts) - 1, most).astype(int))
    series, last = np.array(starts, np.int64)[kept].T
    return Start(series, last)
