"""Scores of outcomes that came after a fit, at every step at which they were forecast.

An outcome is forecast from each origin up to the horizon before it that isn't before the end of the fit. It
counts once, at the farthest of these steps: so scores don't depend on how many are reported at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sampler.array_types import Bools, Floats, Longs
from sampler.errors import DataError
from sampler.forecasts.adapted import OF_PATHS, place_of
from sampler.forecasts.calibration import FEW_PATHS, ROWS, STEPS, Judged, slots_of, thinning_of
from sampler.forecasts.forecaster import Forecaster
from sampler.forecasts.history import History
from sampler.forecasts.paths import Start, sample_paths
from sampler.posterior.assessment.outcome_scores import CEILING, FLOOR, LEVELS, OutcomeScores
from sampler.storage.weekly_tables import ends_in_force

SMOOTHED = 0.9  # of the rule of thumb of the width of a kernel (Silverman 1986)


@dataclass(frozen=True)
class ScoredSteps:
    """Outcomes that were forecast, each at the farthest step; arrays [outcome].

    Attributes
    ----------
    series, index
        Positions of their series, and numbers of their steps.
    step
        The farthest step ahead at which each was forecast, from 1.
    scores
        Their scores there, and counts by step (`OutcomeScores.steps`).

    """

    series: Longs
    index: Longs
    step: Longs
    scores: OutcomeScores

    def __len__(self) -> int:
        """Return the number of outcomes."""
        return len(self.series)


def score_newer(
    forecaster: Forecaster, before: History, rng: np.random.Generator, num_threads: int | None = None
) -> ScoredSteps:
    """Score the outcomes that a forecaster's history has and an earlier one had not.

    Without rehearsals none is scored, nor are series that the fit had not. Of many series all are forecast
    from the farthest origin, and some from all: as many as are rehearsed.

    Parameters
    ----------
    forecaster
        The forecaster with the outcomes.
    before
        Its history before.
    rng
        By which ranks among equal draws are chosen.
    num_threads
        Threads; None for one per core.

    Returns
    -------
    ScoredSteps
        Scores of the outcomes that were forecast.

    """
    history, horizon = forecaster.history, forecaster.horizon
    series, at, seen = _forecast(forecaster, before)
    step = horizon - np.argmax(seen[:, ::-1], axis=1)
    every = np.isin(series, np.linspace(0, len(history.keys) - 1, max(1, ROWS // horizon)).astype(int))
    seen &= every[:, None] | (np.arange(1, horizon + 1) == step[:, None])
    outcome, ahead = np.nonzero(seen)
    starts, start = np.unique(
        np.stack([series[outcome], at[outcome] - ahead - 1]), axis=1, return_inverse=True
    )
    paths = _paths(forecaster, Start(starts[0], starts[1]), num_threads)
    is_drawn = ~np.isnan(paths[0, :, 0])[start.reshape(-1)]
    outcome, ahead, start = outcome[is_drawn], ahead[is_drawn], start.reshape(-1)[is_drawn]
    y = history.y[series, at]
    each = Judged.of(y[outcome], paths[:, start, ahead])
    half = 0.5 * forecaster.calibration.counts
    middle = each.ends(OF_PATHS)[0]
    place = place_of(np.sign(y[outcome] - middle) * each.scores(OF_PATHS, half))
    inside = {level: _inside(forecaster, each, place, level) for level in LEVELS}
    counts = np.zeros((len(series), horizon, 1 + len(LEVELS)), np.int64)
    counts[outcome, ahead] = np.stack([np.ones(len(outcome), bool), *inside.values()], axis=1)
    is_farthest = ahead + 1 == step[outcome]
    kept = outcome[is_farthest]
    of_kept = paths[:, start[is_farthest], ahead[is_farthest]]
    middle = middle[is_farthest]
    half_inside, most_inside = (inside[level][is_farthest] for level in LEVELS)
    pit = _rank(y[kept], of_kept, rng)
    scores = OutcomeScores(
        pit,
        place[is_farthest],
        np.maximum(_log_density(y[kept], of_kept), FLOOR),
        np.minimum((y[kept] - middle) ** 2, CEILING),
        half_inside,
        most_inside,
        pit > 0.5,
        counts[kept],
    )
    return ScoredSteps(series[kept], at[kept] + history.start, step[kept], scores)


def _forecast(forecaster: Forecaster, before: History) -> tuple[Longs, Longs, Bools]:
    """Find new outcomes that were forecast: series and position, and at which steps, [outcome, step]."""
    history, horizon, calibration = forecaster.history, forecaster.horizon, forecaster.calibration
    steps = np.arange(1, horizon + 1)
    new = ~np.isnan(history.y)
    known = new.copy()
    place = {key: number for number, key in enumerate(history.keys)}
    rows, first = [place[key] for key in before.keys], before.start - history.start
    new[rows, first : first + before.y.shape[1]] &= np.isnan(before.y)
    new[[key not in forecaster.fitted[0].scales for key in history.keys]] = False
    if not calibration:
        new[:] = False
    series, at = np.nonzero(new)
    fitted_to = calibration.origins[-1] + calibration.horizon - history.start if calibration else 0
    origins = at[:, None] - steps
    seen = (origins >= fitted_to) & known[series[:, None], np.maximum(origins, 0)]
    able = seen.any(axis=1)
    return series[able], at[able], seen[able]


def _paths(forecaster: Forecaster, start: Start, num_threads: int | None) -> Floats:
    """Sample paths from origins, [path, start, step]; NaN where no member suits what was known there."""
    history, horizon, fitted = forecaster.history, forecaster.horizon, forecaster.fitted
    thin = thinning_of(fitted, 3 if len(history.keys) > FEW_PATHS else 1)
    members = [each.member for each in fitted]
    slots: dict[int, list[int]] = {}
    for origin in np.unique(start.last).tolist():
        mine = np.flatnonzero(start.last == origin)
        seen = history.seen(origin)
        for row in mine.tolist():
            try:
                slots[row] = slots_of(members, seen.of_series(start.series[row : row + 1]))[0]
            except DataError:
                continue
    rows = np.array([*slots], np.int64)
    ahead = {
        name: np.pad(values, ((0, 0), (0, horizon)), mode="edge") for name, values in history.known.items()
    }
    own = sample_paths(
        [*slots.values()], fitted, history, ahead, Start(start.series[rows], start.last[rows]), horizon,
        int(forecaster.settings["seed"]), **thin, num_threads=num_threads,
    ) if len(rows) else np.zeros((1, 0, horizon))  # fmt: skip
    paths = np.full((len(own), len(start.series), horizon), np.nan)
    paths[:, rows] = own
    return paths


def _inside(forecaster: Forecaster, judged: Judged, place: Floats, level: float) -> Bools:
    """Tell which outcomes are inside intervals of a level: adapted ones, or those of rehearsals."""
    if forecaster.adapted is not None:
        low, high = ends_in_force(forecaster.adapted, level)
        return np.asarray((low <= place) & (place <= high))
    calibration = forecaster.calibration
    scores = judged.scores(level, 0.5 * calibration.counts)
    return np.asarray(scores <= calibration.factor(STEPS, level) + 1e-9)


def _rank(y: Floats, paths: Floats, rng: np.random.Generator) -> Floats:
    """Return the place of each outcome among its draws [path, outcome], in (0, 1), uniform if all is well."""
    below, equal = (paths < y).sum(axis=0), (paths == y).sum(axis=0)
    return np.asarray((below + rng.uniform(size=len(y)) * (equal + 1)) / (len(paths) + 1))


def _log_density(y: Floats, paths: Floats) -> Floats:
    """Return the log density of each outcome by a normal kernel over its draws [path, outcome]."""
    quarters = np.quantile(paths, (0.25, 0.75), axis=0) if paths.size else np.zeros((2, len(y)))
    spread = np.minimum(paths.std(axis=0), (quarters[1] - quarters[0]) / 1.349)
    width = np.maximum(SMOOTHED * spread * len(paths) ** -0.2, 1e-9 * np.maximum(np.abs(y), 1e-9))
    with np.errstate(over="ignore", divide="ignore"):
        kernel = np.exp(-0.5 * ((y - paths) / width) ** 2).mean(axis=0) / (width * np.sqrt(2 * np.pi))
        return np.asarray(np.log(kernel))
