"""How a posterior does on rows it never saw, beside a linear model on the same columns."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.optimize import elementwise
from scipy.special import betaincinv, ndtr

from app.store.tables import Json
from sampler import Posterior
from sampler.data.encode import numbers
from sampler.data.target import read_target
from worker.fit_spec import ModelRows, floats

LEVELS = (0.5, 0.8, 0.9, 0.95)
BATCH_ROWS = 2_000  # predicted at once: 1,000 draws of so many rows are 16 MB
UNSEEN = "The model that is served was fitted without these rows."
TINY = 1e-12  # a probability is never taken for certain
LOG_2PI = float(np.log(2 * np.pi))
REACH = 40.0  # standard deviations beyond which no tail that is asked for begins

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Predictive:
    """The posterior predictive law of the outcome of some rows, each with its own weight.

    Of a row it is the mixture over draws of Normal(f, sigma^2 / weight): what the row's outcome was drawn
    from, if the model is right. `Posterior.predict` speaks of a new outcome of weight 1.

    Attributes
    ----------
    f, sigma
        float64 [chain, draw, row]; sigma is that of the row's own weight.
    share
        float64 [chain, draw], of the draws; they add up to 1. None where all are alike.

    """

    f: Floats
    sigma: Floats
    share: Floats | None

    @classmethod
    def of(cls, posterior: Posterior, X: pa.Table, weights: Floats | None) -> "Predictive":
        """The law of the outcomes of rows X with such weights, of weight 1 without any."""
        sigma = posterior.sample_sigma(X) / np.sqrt(1.0 if weights is None else weights)
        return cls(posterior.sample(X), sigma, posterior.weights)

    def log_density(self, y: Floats) -> Floats:
        """Log density of an outcome of each row."""
        each = -0.5 * (((y - self.f) / self.sigma) ** 2 + LOG_2PI) - np.log(self.sigma)
        if self.share is not None:
            with np.errstate(divide="ignore"):
                each = each + np.log(self.share * self.share.size)[:, :, None]
        density: Floats = np.logaddexp.reduce(each, axis=(0, 1)) - np.log(each[:, :, 0].size)
        return density

    def below(self, y: Floats) -> Floats:
        """The probability that each row's outcome is at most y."""
        return self._below(y, np.arange(len(y)))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Lower and upper ends of each row's equal-tailed interval."""
        low = np.min(self.f - REACH * self.sigma, axis=(0, 1))
        high = np.max(self.f + REACH * self.sigma, axis=(0, 1))
        tail = (1 - level) / 2
        return self._quantile(tail, low, high), self._quantile(1 - tail, low, high)

    def _below(self, y: Floats, rows: NDArray[np.int64]) -> Floats:
        each = ndtr((y - self.f[:, :, rows]) / self.sigma[:, :, rows])
        if self.share is None:
            return np.asarray(each.mean(axis=(0, 1)))
        return np.asarray(np.einsum("cd,cdr->r", self.share, each))

    def _quantile(self, q: float, low: Floats, high: Floats) -> Floats:
        def above(y: Floats, row: NDArray[np.int64]) -> Floats:
            return self._below(y, row.astype(np.int64)) - q

        found: Floats = elementwise.find_root(above, (low, high), args=(np.arange(len(low)),)).x
        return found


def count_inside(below: Floats, level: float) -> int:
    """How many outcomes are inside their equal-tailed intervals, by their laws' probabilities below them."""
    tail = (1 - level) / 2
    return int(np.count_nonzero((tail <= below) & (below <= 1 - tail)))


def score(posterior: Posterior, training: ModelRows, held: ModelRows, beat: Callable[[], None]) -> Json:
    """How the posterior does on the held-out rows: `_score_numbers`, or `_score_classes` for classes."""
    of = _score_numbers if posterior.classes is None else _score_classes
    return of(posterior, training, held, beat) | {"note": UNSEEN}


def _score_classes(
    posterior: Posterior, training: ModelRows, held: ModelRows, beat: Callable[[], None]
) -> Json:
    """`log_loss`, `brier` and `accuracy` of the mean probabilities; `base_log_loss` of the plain shares.

    Of two classes `brier` is of the second alone, of more the sum over the classes. A class that only
    held-out rows have was given no probability.
    """
    classes, outcome = classes_of(posterior, training, held)
    is_class = outcome[:, None] == np.arange(len(classes))
    seen, y = is_class[: len(training.y)], is_class[len(training.y) :]
    p = np.zeros(y.shape)
    known = len(posterior.classes or ())
    for batch in _batches(len(y)):
        beat()
        mean = posterior.predict(held.X.slice(batch.start, batch.stop - batch.start)).mean
        p[batch, :known] = mean if mean.ndim == 2 else np.stack([1 - mean, mean], axis=1)
    squares = (p - y) ** 2
    return {
        "rows": len(y),
        "log_loss": _log_loss(y, p),
        "base_log_loss": _log_loss(y, np.broadcast_to(seen.mean(axis=0), p.shape)),
        "brier": float(np.mean(squares[:, 1] if len(classes) == 2 else squares.sum(axis=1))),
        "accuracy": float(np.mean(y[np.arange(len(y)), p.argmax(axis=1)])),
    }


def classes_of(
    posterior: Posterior, training: ModelRows, held: ModelRows
) -> tuple[list[str], NDArray[np.int64]]:
    """The model's classes, behind them those of held-out rows alone, and every row's number among them.

    The training rows come first.
    """
    everything = pa.chunked_array([*training.y.chunks, *held.y.chunks])
    column, outcome = read_target(everything, "target", len(everything), posterior.family)
    known = list(posterior.classes or ())
    names = [*known, *(level for level in column.levels if level not in known)]
    places = np.array([names.index(level) for level in column.levels], np.int64)
    return names, places[outcome.astype(np.int64)]


def _log_loss(y: NDArray[np.bool_], p: Floats) -> float:
    """Of probabilities [row, class], the class that came true marked in `y`."""
    return float(-np.mean(np.log(np.clip(p[y], TINY, 1 - TINY))))


def _score_numbers(
    posterior: Posterior, training: ModelRows, held: ModelRows, beat: Callable[[], None]
) -> Json:
    """Errors and coverage on the held-out rows.

    Parameters
    ----------
    posterior
        Fitted to the training rows.
    training, held
        The rows it saw, and those it didn't.
    beat
        Called between batches of rows.

    Returns
    -------
    dict
        `rows`; `rmse` of the posterior mean and `linear_rmse` of least squares; `log_score`, the mean log
        density of the outcomes under the posterior predictive mixture; `coverage`, of predictive intervals,
        each with its 95% binomial interval (Clopper and Pearson 1934). Of rows with weights the mixture is
        that of the row's own weight (`Predictive`).

    """
    y = floats(held.y)
    squared = np.zeros(len(y))
    density = np.zeros(len(y))
    inside = dict.fromkeys(LEVELS, 0)
    for batch in _batches(len(y)):
        beat()
        X = held.X.slice(batch.start, batch.stop - batch.start)
        law = Predictive.of(posterior, X, held.weights_of(batch))
        squared[batch] = (posterior.predict(X, level=None).mean - y[batch]) ** 2
        density[batch] = law.log_density(y[batch])
        below = law.below(y[batch])
        for level in LEVELS:
            inside[level] += count_inside(below, level)
    beat()
    linear = _linear_predictions(posterior, training, held)
    return {
        "rows": len(y),
        "rmse": float(np.sqrt(squared.mean())),
        "linear_rmse": float(np.sqrt(np.mean((linear - y) ** 2))),
        "log_score": float(density.mean()),
        "coverage": [_coverage(level, inside[level], len(y)) for level in LEVELS],
    }


def _coverage(level: float, inside: int, rows: int) -> Json:
    """The share of outcomes inside intervals of that level, with its own 95% interval."""
    lower, upper = between(inside, rows)
    return {
        "level": level,
        "interval": "predictive",
        "coverage": inside / rows,
        "expected": level,
        "lower": lower,
        "upper": upper,
    }


def between(count: int, rows: int) -> tuple[float, float]:
    """The 95% binomial interval of a share (Clopper and Pearson 1934)."""
    other = rows - count
    lower = betaincinv(count, other + 1, 0.025) if count else 0.0
    upper = betaincinv(count + 1, other, 0.975) if other else 1.0
    return float(lower), float(upper)


def _batches(count: int) -> Iterator[slice]:
    for start in range(0, count, BATCH_ROWS):
        yield slice(start, min(start + BATCH_ROWS, count))


def _linear_predictions(posterior: Posterior, training: ModelRows, held: ModelRows) -> Floats:
    """Least squares on the encoded columns, the mean for missing values; of least norm where not unique."""
    design = numbers(training.X, posterior.schema)
    with np.errstate(invalid="ignore"):
        centre = np.nan_to_num(np.nanmean(design, axis=1))
    root = np.ones(design.shape[1]) if training.weights is None else np.sqrt(floats(training.weights))
    scale = np.nan_to_num(np.nanstd(design, axis=1))
    scale[scale == 0] = 1.0

    def encode(values: Floats) -> Floats:
        filled = np.nan_to_num((values - centre[:, None]) / scale[:, None])
        return np.column_stack([np.ones(values.shape[1]), filled.T])

    fitted, *_ = np.linalg.lstsq(encode(design) * root[:, None], floats(training.y) * root)
    predictions: Floats = encode(numbers(held.X, posterior.schema)) @ fitted
    return predictions
