"""Paths of series: outcomes of successive steps, each drawn given those before it.

One posterior draw is for a whole path, so that the path is a draw of the joint law of its steps; the same one
is for all series.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sampler import interrupt
from sampler.array_types import Codes, Floats, Longs
from sampler.forecasts.history import History
from sampler.forecasts.members import Member
from sampler.posterior.core.ensemble import sums_at_own_rows
from sampler.posterior.laws.counts import CountsLaw
from sampler.posterior.laws.normal import NormalLaw
from sampler.posterior.posterior import Posterior

CELLS = 1 << 23  # numbers in memory at once
LARGEST = 1e300  # of an outcome
MOST_COMMON = 0.95  # of the variance of noise


@dataclass(frozen=True)
class Fitted:
    """A member with its posterior.

    Attributes
    ----------
    member
        What it learns.
    posterior
        The posterior.
    scales
        Scale of each series of the fit, by key.
    common
        Share of the variance of a step's noise that all series have in common.

    """

    member: Member
    posterior: Posterior
    scales: Mapping[tuple[str, ...], float]
    common: float

    def scales_of(self, history: History) -> Floats:
        """Return the scale of each series; one that the fit had not is drawn to the typical one."""
        typical = float(np.exp(np.median(np.log([*self.scales.values()]))))
        own = self.member.scales(history, typical)
        return np.array([self.scales.get(key, each) for key, each in zip(history.keys, own, strict=True)])


@dataclass(frozen=True)
class Start:
    """Starts of paths: series of a history, each after the position of its last outcome that counts."""

    series: Longs
    last: Longs


def sample_paths(
    slots: Sequence[Sequence[int]],
    fitted: Sequence[Fitted],
    history: History,
    known: Mapping[str, Floats],
    start: Start,
    horizon: int,
    seed: int,
    *,
    every: int = 1,
    repeats: int = 1,
    num_threads: int | None = None,
) -> Floats:
    """Sample paths of series, each of which takes one posterior draw for all of its steps.

    Parameters
    ----------
    slots
        For each start the members, by their positions in `fitted`, that its shares of the paths are of.
    fitted, history
        The members, and the history, of which paths see what is up to their start.
    known
        Columns known ahead, float64 [series, step] from the start of the history on.
    start, horizon
        Where paths start, and how many steps they have.
    seed
        Equal arguments give equal paths, which don't depend on the other series.
    every, repeats
        Which draws are used, and how often each.
    num_threads
        Threads; None for one per core.

    Returns
    -------
    ndarray
        float64 [path, start, step].

    """
    order = np.array(slots, np.int64)  # [start, slot]
    scales = [each.scales_of(history) for each in fitted]
    tasks = []
    for slot in range(order.shape[1]):
        for number, each in enumerate(fitted):
            rows = np.flatnonzero(order[:, slot] == number)
            size = max(
                1,
                CELLS
                // ((each.posterior.num_chains * each.posterior.num_draws) * (each.member.reach + horizon)),
            )
            tasks += [
                (slot, number, rows[begin : begin + size], repeat)
                for begin in range(0, len(rows), size)
                for repeat in range(repeats)
            ]
    draws = fitted[0].posterior.num_chains * fitted[0].posterior.num_draws
    used = np.arange(0, draws, every)
    paths = np.empty((order.shape[1], repeats, len(used), len(order), horizon))

    def run(task: tuple[int, int, Longs, int]) -> None:
        slot, number, rows, repeat = task
        part = Start(start.series[rows], start.last[rows])
        key = [seed, slot, repeat]
        sampled = _sample(fitted[number], scales[number], history, known, part, horizon, used, key)
        paths[slot, repeat][:, rows] = sampled

    with ThreadPoolExecutor(num_threads or interrupt.count_cores()) as pool:
        for _ in pool.map(run, tasks):
            interrupt.look()
    return paths.reshape(-1, len(order), horizon)


def _sample(
    fitted: Fitted,
    scales: Floats,
    history: History,
    known: Mapping[str, Floats],
    start: Start,
    horizon: int,
    used: Longs,
    key: list[int],
) -> Floats:
    """Sample paths of one member, float64 [draw, start, step]."""
    member, law = fitted.member, fitted.posterior.law
    count, num = len(start.series), len(used)
    scale = scales[start.series]
    scaled = member.learnt(history.y[start.series]) / scale[:, None]
    reach, back = member.reach, member.back
    values = np.empty((num, count, reach + horizon))
    rows = np.arange(count)[:, None]
    padded = np.concatenate([np.full((count, reach), np.nan), scaled], axis=1)
    values[:, :, :reach] = padded[rows, start.last[:, None] + 1 + np.arange(reach)]
    anchors = member.anchors(scaled)[rows, start.last[:, None] + 1 + np.arange(back)]
    if np.isnan(anchors).any():  # places of the season that the series never had
        newest = replace(member, difference="last").anchors(scaled)[rows, start.last[:, None] + 1]
        anchors = np.where(np.isnan(anchors), newest, anchors)
    coded, position, raw = _fixed_codes(fitted, history, known, start, horizon)
    rngs = [_rng(key, "".join(f"{each}\x1f" for each in history.keys[i]), history.start + last)
            for i, last in zip(start.series.tolist(), start.last.tolist(), strict=True)]  # fmt: skip
    draw = _Drawing(law, used, rngs, horizon)
    shared = _shared(fitted.common, key, history.start + start.last, horizon, num)
    for h in range(horizon):
        past = values[:, :, h : h + reach]
        lags = member.features(past)
        codes = np.repeat(coded[None, :, h::horizon], num, axis=0)  # [draw, coded column, start]
        each = None if raw is None else np.repeat(raw[None, :, h::horizon], num, axis=0)
        for lag, place in enumerate(position):
            if place is not None:
                codes[:, place] = law.draws.header.grid.encode(place, lags[..., lag])
                if each is not None:
                    each[:, place] = lags[..., lag]
        z = draw.outcomes(codes, each, h, fitted.common, shared[h])
        anchor = anchors[:, h] if h < back else values[:, :, reach + h - back]
        if member.difference == "none":
            anchor = np.zeros(1)
        values[:, :, reach + h] = anchor + z
    y = member.outcome(values[:, :, reach:] * scale[:, None])
    return np.clip(y, -LARGEST, LARGEST)


def _fixed_codes(
    fitted: Fitted, history: History, known: Mapping[str, Floats], start: Start, horizon: int
) -> tuple[Codes, list[int | None], Floats | None]:
    """Encode the columns that are no lags, by start and step.

    Returns codes [coded column, start * step], the coded column of each lag, and the values before binning.
    """
    draws = fitted.posterior.law.draws
    series = np.repeat(start.series, horizon)
    steps = (history.start + start.last[:, None] + 1 + np.arange(horizon)).reshape(-1)
    columns = fitted.member.fixed(history, dict(known), series, steps)
    lags = fitted.member.columns(history.target)
    names = [column.name for column in draws.header.schema.columns]
    missing = np.full(len(series), np.nan)
    coded = draws.encode({name: missing if name in lags else columns[name] for name in names})
    place = {names[column]: at for at, (column, _) in enumerate(draws.header.schema.coded)}
    return coded.codes, [place.get(name) for name in lags], coded.values


class _Drawing:
    """Draws of outcomes at rows of their own: posterior draw d at row d alone."""

    def __init__(self, law: Any, used: Longs, rngs: Sequence[np.random.Generator], horizon: int) -> None:
        self._law, self._used, self._rngs = law, used, rngs
        self._noise = None
        if isinstance(law, NormalLaw):
            self._noise = np.stack([rng.standard_normal((horizon, len(used))) for rng in rngs], axis=2)

    def outcomes(self, codes: Codes, values: Floats | None, h: int, common: float, shared: Floats) -> Floats:
        """Draw an outcome [draw, start] of rows [draw, coded column, start] at the h-th step."""
        law, used = self._law, self._used
        if isinstance(law, CountsLaw):
            return self._counts(law, codes)
        f = law.offset + law.step * sums_at_own_rows(law.ensemble, used, codes)
        if values is not None:  # of a line beside the trees
            each = values.transpose(1, 0, 2)
            terms = law.slopes.terms.of(each.reshape(len(each), -1)).reshape(-1, *f.shape)
            for slope, term in zip(law.slopes.values[used].T, terms, strict=True):
                f += slope[:, None] * term
        sigma = law.draws.sigma.reshape(-1)[used]
        assert self._noise is not None
        noise = np.sqrt(common) * shared + np.sqrt(1 - common) * self._noise[h]
        return np.asarray(f + sigma[:, None] * noise)

    def _counts(self, law: CountsLaw, codes: Codes) -> Floats:
        of_all = law.at_own_rows(self._used, lambda ensemble: sums_at_own_rows(ensemble, self._used, codes))
        return np.concatenate([of_all.row(r).sample(rng) for r, rng in enumerate(self._rngs)], axis=1)


def _shared(common: float, key: list[int], last: Longs, horizon: int, num: int) -> list[Floats]:
    """Draw the noise that series have in common at each step after their last ones, [draw, start] each."""
    if not common:
        return [np.zeros((1, 1))] * horizon
    times = {int(t) for each in last for t in range(each + 1, each + 1 + horizon)}
    drawn = {t: _rng(key, "common", t).standard_normal(num) for t in times}
    return [np.stack([drawn[int(each) + 1 + h] for each in last], axis=1) for h in range(horizon)]


def _rng(key: list[int], name: str, step: int) -> np.random.Generator:
    return np.random.default_rng([*key, zlib.crc32(name.encode()), step % (1 << 62)])
