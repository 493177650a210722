"""Convergence diagnostics: rank-normalised split R-hat, effective sample sizes, Monte Carlo errors.

After Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), with Geyer's initial monotone sequence,
vectorised over quantities. All functions take float64 [quantity, chain, draw] and return float64 [quantity].
They agree with arviz-stats, whose own functions take one quantity at a time and differ between versions. A
quantity that never moves has R-hat 1 and an effective sample size equal to the number of draws.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, ndtri

from sampler.array_types import Floats

TAILS = (0.05, 0.95)
ONE_SD = (0.15865525393145707, 0.8413447460685429)  # the normal distribution function at -1 and 1


def rhat(x: Floats) -> Floats:
    """Compute rank-normalised split R-hat: the larger of that of the values and that of the folded values.

    Folded values are distances to the median.
    """
    x = _split(x)
    folded = np.abs(x - np.median(x, axis=(1, 2), keepdims=True))
    return np.maximum(_rhat(normal_ranks(x)), _rhat(normal_ranks(folded)))


def ess_bulk(x: Floats) -> Floats:
    """Compute the effective sample size for the centre of the distribution."""
    return _ess(normal_ranks(_split(x)))


def ess_tail(x: Floats) -> Floats:
    """Compute the smaller of the effective sample sizes for the 5% and 95% quantiles."""
    return np.minimum(ess_quantile(x, TAILS[0]), ess_quantile(x, TAILS[1]))


def ess_mean(x: Floats) -> Floats:
    """Compute the effective sample size for the mean."""
    return _ess(_split(x))


def ess_quantile(x: Floats, level: float) -> Floats:
    """Compute the effective sample size for a quantile: that of the indicator of being at most it."""
    below = x <= np.quantile(x, level, axis=(1, 2), keepdims=True)
    return _ess(_split(below.astype(np.float64)))


def mcse_mean(x: Floats) -> Floats:
    """Compute the Monte Carlo standard error of the mean."""
    error: Floats = x.std(axis=(1, 2), ddof=1) / np.sqrt(ess_mean(x))
    return error


def mcse_quantile(x: Floats, level: float) -> Floats:
    """Compute the Monte Carlo standard error of a quantile: half the width of its one-sd interval."""
    ess = ess_quantile(x, level)
    values = np.sort(x.reshape(len(x), -1), axis=1)
    size = values.shape[1]
    low, high = (betaincinv(ess * level + 1, ess * (1 - level) + 1, p) for p in ONE_SD)
    first = np.floor(np.maximum(low * size - 1, 0)).astype(np.int64)
    last = np.ceil(np.minimum(high * size - 1, size - 1)).astype(np.int64)
    rows = np.arange(len(x))
    return np.asarray((values[rows, last] - values[rows, first]) / 2)


def reproducibility(x: Floats) -> Floats:
    """Compute the standard error of the pooled mean that the chains' own means show; NaN of one chain.

    It is their sd divided by the root of their number, whatever the draws within chains say: how far other
    seeds would move the mean.
    """
    chains = x.shape[1]
    if chains == 1:
        return np.full(len(x), np.nan)
    error: Floats = x.mean(axis=2).std(axis=1, ddof=1) / np.sqrt(chains)
    return error


def reproducibility_of_quantile(x: Floats, level: float) -> Floats:
    """Compute the standard error of the pooled quantile that the chains show; NaN of one chain.

    It is half the distance between the quantiles one standard error of the level below and above: that of the
    pooled share of draws up to the quantile, by the chains' own shares.
    """
    chains = x.shape[1]
    if chains == 1:
        return np.full(len(x), np.nan)
    values = np.sort(x.reshape(len(x), -1), axis=1)
    below = x <= np.quantile(x, level, axis=(1, 2), keepdims=True)
    error = reproducibility(below.astype(np.float64))
    last = values.shape[1] - 1
    low = np.floor(np.clip((level - error) * last, 0, last)).astype(np.int64)
    high = np.ceil(np.clip((level + error) * last, 0, last)).astype(np.int64)
    rows = np.arange(len(x))
    return np.asarray((values[rows, high] - values[rows, low]) / 2)


def drift(x: Floats) -> Floats:
    """Compute how far pooled means move from the first half of the draws to the second, in standard errors.

    The standard errors are those by the chains' own moves. A burn-in too short shows here even where all
    chains move alike. NaN of one chain, and of a quantity that never moves.
    """
    if x.shape[1] == 1:
        return np.full(len(x), np.nan)
    moved, error = shift(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(moved / error)


def shift_beyond_chance(x: Floats) -> Floats:
    """Compute squares of shifts in posterior sds, less those expected by chance; 0 where nothing moves."""
    moved, error = shift(x)
    variance = x.var(axis=(1, 2), ddof=1)
    return np.asarray((moved**2 - error**2) / np.where(variance == 0, 1.0, variance))


def shift(x: Floats) -> tuple[Floats, Floats]:
    """Compute how far pooled means move from the first half of the draws to the second, in units of x.

    Returns the moves, and their standard errors by the chains' own moves; for several chains.
    """
    half = x.shape[2] // 2
    moved = x[:, :, -half:].mean(axis=2) - x[:, :, :half].mean(axis=2)
    return moved.mean(axis=1), moved.std(axis=1, ddof=1) / np.sqrt(x.shape[1])


def _split(x: Floats) -> Floats:
    """Split each chain in two, so that a trend within a chain shows as disagreement."""
    half = x.shape[2] // 2
    return np.concatenate([x[:, :, :half], x[:, :, -half:]], axis=1)


def normal_ranks(x: Floats) -> Floats:
    """Replace values by normal quantiles of their ranks over all chains; ties have their average rank."""
    flat = x.reshape(len(x), -1)
    size = flat.shape[1]
    order = np.argsort(flat, axis=1, kind="stable")
    values = np.take_along_axis(flat, order, axis=1)
    position = np.arange(size)
    change = values[:, 1:] != values[:, :-1]
    edge = np.ones((len(x), 1), dtype=bool)
    first = np.maximum.accumulate(np.where(np.hstack([edge, change]), position, 0), axis=1)
    last_from_end = np.where(np.hstack([change, edge]), position, size)[:, ::-1]
    last = np.minimum.accumulate(last_from_end, axis=1)[:, ::-1]
    ranks = np.empty_like(flat)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=1)
    return np.asarray(ndtri((ranks - 0.375) / (size + 0.25))).reshape(x.shape)


def _rhat(x: Floats) -> Floats:
    length = x.shape[2]
    within = x.var(axis=2, ddof=1).mean(axis=1)
    between = x.mean(axis=2).var(axis=1, ddof=1)
    still = (within <= 1e-28) & (between <= 1e-28)  # rounding of ranks that are all the same
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((length - 1) / length + between / within)
    return np.where(still, 1.0, ratio)


def _ess(x: Floats) -> Floats:
    """Divide the number of draws by the autocorrelation time, summed over Geyer's sequence."""
    _, chains, length = x.shape
    covariance = _autocovariance(x).mean(axis=1)
    within = covariance[:, :1] * (length / (length - 1))
    total = covariance[:, :1].copy()
    if chains > 1:
        total += x.mean(axis=2).var(axis=1, ddof=1)[:, None]
    still = total[:, 0] <= 1e-28
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1 - (within - covariance) / total
    correlation[:, 0] = 1.0
    last = 1 + max(0, (length - 3) // 2)
    even, odd = correlation[:, 0 : 2 * last : 2], correlation[:, 1 : 2 * last : 2]
    pairs = even + odd
    stops = pairs <= 0
    stops[:, -1] = True
    stop = np.argmax(stops, axis=1)  # the first pair whose sum is no longer positive
    counted = np.arange(last) < stop[:, None]
    time = -1 + 2 * np.sum(np.minimum.accumulate(pairs, axis=1), axis=1, where=counted)
    time += np.maximum(even[np.arange(len(x)), stop], 0)
    draws = chains * length
    ess = draws / np.maximum(time, 1 / np.log10(draws))
    return np.where(still, float(draws), ess)


def _autocovariance(x: Floats) -> Floats:
    """Compute autocovariances by chain and lag, by fast Fourier transform; the divisor is always `length`."""
    length = x.shape[2]
    size = 1 << (2 * length - 1).bit_length()
    spectrum = np.fft.rfft(x - x.mean(axis=2, keepdims=True), n=size, axis=2)
    power = spectrum.real**2 + spectrum.imag**2
    return np.asarray(np.fft.irfft(power, n=size, axis=2)[:, :, :length] / length)
