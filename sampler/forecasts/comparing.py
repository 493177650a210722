"""Comparison of two forecasters by windows of outcomes that neither has learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from sampler.array_types import Floats, Longs
from sampler.errors import DataError
from sampler.forecasts.answers import TENTHS, quantile_loss
from sampler.forecasts.calibration import (
    FEW_PATHS,
    FEW_WINDOWS,
    ORIGINS,
    PROBABILITIES,
    naive_of,
    origins_of,
    resemblance_of,
    slots_of,
    thinning_of,
)
from sampler.forecasts.forecaster import Forecaster
from sampler.forecasts.history import History
from sampler.forecasts.paths import Fitted, Start, sample_paths

DIGITS = 12  # of differences, of which sums in another order are none


@dataclass(frozen=True)
class ComparedForecasts:
    """Mean quantile losses of two forecasters, in units of the sd of each series' differences of seasons.

    Attributes
    ----------
    origins, series, outcomes
        What both forecast: from how many steps, of how many series, and how many outcomes came.
    windows
        How many windows those are worth that overlap and are of like series.
    champion, challenger
        Losses of the former and the new one; None where fewer than five windows can't tell.
    difference, lower, upper
        Challenger less champion, and its 95% interval.

    """

    origins: int
    series: int
    outcomes: int
    windows: float
    champion: float | None = None
    challenger: float | None = None
    difference: float | None = None
    lower: float | None = None
    upper: float | None = None


def compare_forecasts(
    history: History, before: Sequence[Fitted], champion: Forecaster, num_threads: int | None = None
) -> ComparedForecasts:
    """Compare a new forecaster with a former one on the newest outcomes, which neither has learnt.

    The former forecasts what came after its fit. Where that is worth fewer than five windows its own
    rehearsals are taken too. The new one forecasts all by the members of its rehearsals.

    Parameters
    ----------
    history
        That of the new forecaster.
    before
        Its members fitted to what is before its rehearsals, which forecast in its place.
    champion
        The former forecaster.
    num_threads
        Threads; None for one per core.

    Returns
    -------
    ComparedForecasts
        Losses on the same outcomes, and their difference.

    Raises
    ------
    DataError
        The two forecast something else, or one of them was never rehearsed.

    """
    asked, old = history.asked, champion.history
    same = ("time", "series", "horizon")
    if history.target != old.target or any(getattr(asked, n) != getattr(old.asked, n) for n in same):
        raise DataError("the model before forecasts other series, outcomes or steps")
    origins, calibration = origins_of(history), champion.calibration
    if not len(origins) or not before or not calibration:
        raise DataError("no rehearsal was made")
    horizon, first = asked.horizon, int(origins[0])
    newest = int(history.last.max()) - horizon
    place = {history.step.text(history.start + at): at for at in range(history.y.shape[1])}
    rehearsed = np.array([place.get(old.step.text(each), -1) for each in calibration.origins], np.int64)
    end = place.get(old.step.text(calibration.origins[-1] + horizon), newest + 1)
    later = np.unique(np.linspace(max(end, first), newest, ORIGINS).round().astype(np.int64))
    later = later if max(end, first) <= newest else later[:0]
    series = {key: at for at, key in enumerate(history.keys) if key in before[0].scales}
    of_old = np.array([at for at, key in enumerate(calibration.keys) if key in series], np.int64)
    chosen = np.array([series[calibration.keys[at]] for at in of_old], np.int64)
    if not len(chosen):
        raise DataError("they have no series in common")

    def losses(fitted: Sequence[Fitted], starts: Longs) -> Floats:
        paths = _paths(history, fitted, chosen, starts, int(champion.settings["seed"]), num_threads)
        return quantile_loss(outcomes(starts), np.quantile(paths, TENTHS, axis=0))

    def outcomes(starts: Longs) -> Floats:
        return history.y[chosen][:, starts[:, None] + 1 + np.arange(horizon)].transpose(1, 0, 2)

    def compared(starts: Longs, former: Floats) -> ComparedForecasts:
        if not len(starts):
            return ComparedForecasts(0, len(chosen), 0, 0.0)
        new = losses(before, starts)
        scale = naive_of(history.y[chosen], starts, horizon, _season(history))[1][:, :, None]
        scale = np.where(scale > 0, scale, 1.0)
        return _judged(starts, horizon, former / scale, new / scale)

    since = losses(champion.fitted, later) if len(later) else np.zeros((0, len(chosen), horizon))
    found = compared(later, since)
    if found.difference is not None:
        return found
    able = (rehearsed >= first) & (rehearsed <= newest)
    tenths = np.searchsorted(PROBABILITIES, TENTHS - 1e-9)
    said = calibration.steps.quantiles[np.ix_(tenths, np.flatnonzero(able), of_old)]
    former = quantile_loss(outcomes(rehearsed[able]), said)
    return compared(np.concatenate([rehearsed[able], later]), np.concatenate([former, since]))


def _season(history: History) -> int:
    return int((history.asked.season or history.step.seasons)[0])


def _paths(
    history: History,
    fitted: Sequence[Fitted],
    chosen: Longs,
    starts: Longs,
    seed: int,
    num_threads: int | None,
) -> Floats:
    """Sample paths [path, origin, series, step] of series from origins, by what was known there."""
    members, slots = [each.member for each in fitted], []
    for origin in starts.tolist():
        slots += slots_of(members, history.seen(origin).of_series(chosen))
    start = Start(np.tile(chosen, len(starts)), np.repeat(starts, len(chosen)))
    thin = thinning_of(fitted, 3 if len(chosen) > FEW_PATHS else 1)
    horizon = history.asked.horizon
    paths = sample_paths(
        slots, fitted, history, history.known, start, horizon, seed, **thin, num_threads=num_threads
    )
    return paths.reshape(len(paths), len(starts), len(chosen), horizon)


def _judged(starts: Longs, horizon: int, former: Floats, new: Floats) -> ComparedForecasts:
    """Judge losses [origin, series, step]: windows that overlap, and like series, count in part."""
    apart = np.round(_means(new - former), DIGITS)
    number = int((~np.isnan(former)).sum())
    length = (int(starts[-1]) - int(starts[0]) + horizon) / horizon
    count, alike = apart.shape[1], resemblance_of(apart.T)
    windows = min(length, len(starts)) * count / (1 + (count - 1) * alike)
    told = ComparedForecasts(len(starts), count, number, round(windows, 1))
    if windows < FEW_WINDOWS or np.isnan(apart).all():
        return told
    difference = float(np.nanmean(apart))
    reach = float(np.nanstd(apart, ddof=1) / np.sqrt(windows) * stdtrit(windows - 1, 0.975))
    champion, challenger = (float(np.nanmean(_means(each))) for each in (former, new))
    return replace(
        told,
        champion=champion,
        challenger=challenger,
        difference=difference,
        lower=difference - reach,
        upper=difference + reach,
    )


def _means(losses: Floats) -> Floats:
    """Average losses over steps [origin, series]; NaN where no outcome came."""
    came = ~np.isnan(losses)
    total, number = np.where(came, losses, 0.0).sum(axis=2), came.sum(axis=2)
    return np.asarray(np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0))
