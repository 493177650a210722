"""The held-out rows one by one: what was predicted of them, and how often intervals of any level hold."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.store.tables import Json
from sampler import Posterior
from sampler.target import read_target
from worker.scores import between
from worker.spec import Rows

MAX_ROWS = 2_000  # that the calibration rests on
MAX_SHOWN = 500  # that are kept one by one
LEVEL = 0.9  # of the intervals that are kept
LEVELS = (*(round(0.05 * i, 2) for i in range(1, 20)), 0.99)
BINS = 10  # of predicted probabilities
BATCH_ROWS = 500

Floats = NDArray[np.float64]


def look_at(
    posterior: Posterior,
    training: Rows,
    held: Rows,
    numbers: NDArray[np.int64],
    beat: Callable[[], None],
) -> Json | None:
    """What a picture of the held-out rows needs.

    Parameters
    ----------
    posterior
        Fitted to the training rows.
    training, held
        The rows it saw, and those it didn't.
    numbers
        The held-out rows' numbers in the dataset, 0-based.
    beat
        Called between batches of rows.

    Returns
    -------
    dict
        ``rows``, up to 500, evenly spaced: lists ``row`` (from 1), ``actual, mean, lower, upper``; ``level``
        and ``interval`` say of what, ``classes`` the two classes, of which ``actual`` is 0 or 1.
        ``calibration``, of up to 2,000 rows: for numbers, by ``level``, the share of outcomes inside
        predictive intervals (``observed``); for classes, by bin of the predicted probability, its mean
        (``level``) and the share of the second class; each with its 95% binomial interval (``lower``,
        ``upper``) and the ``rows`` it rests on. None of more than two classes.
    """
    if posterior.classes is not None and len(posterior.classes) > 2:
        return None
    chosen = _spaced(len(numbers), MAX_ROWS)
    y = _outcomes(posterior, training, held)[chosen]
    X = held.X.take(pa.array(chosen))
    of_classes = posterior.classes is not None
    found = {name: np.zeros(len(y)) for name in ("mean", "lower", "upper")}
    inside = np.zeros(len(LEVELS), np.int64)
    for start in range(0, len(y), BATCH_ROWS):
        beat()
        rows = slice(start, min(start + BATCH_ROWS, len(y)))
        levels = [LEVEL] if of_classes else list(LEVELS)
        kind = "credible" if of_classes else "predictive"
        answer = posterior.predict(X.slice(start, rows.stop - start), level=levels, interval=kind)
        for i, (level, lower, upper) in enumerate(answer.intervals):
            inside[i] += np.count_nonzero((lower <= y[rows]) & (y[rows] <= upper))
            if level == LEVEL:
                found["lower"][rows], found["upper"][rows] = lower, upper
        found["mean"][rows] = answer.mean
    shown = _spaced(len(y), MAX_SHOWN)
    return {
        "interval": "credible" if of_classes else "predictive",
        "level": LEVEL,
        "classes": None if posterior.classes is None else list(posterior.classes),
        "rows": {
            "row": (numbers[chosen[shown]] + 1).tolist(),
            "actual": y[shown].tolist(),
            **{name: values[shown].tolist() for name, values in found.items()},
        },
        "calibration": _by_bins(y, found["mean"])
        if of_classes
        else [_share(level, int(count), len(y)) for level, count in zip(LEVELS, inside, strict=True)],
    }


def _outcomes(posterior: Posterior, training: Rows, held: Rows) -> Floats:
    if posterior.classes is None:
        return np.asarray(held.y.cast(pa.float64()).to_numpy(), np.float64)
    everything = pa.chunked_array([*training.y.chunks, *held.y.chunks])
    _, outcome = read_target(everything, "target", len(everything), posterior.family)
    return np.asarray(outcome[len(training.y) :], np.float64)


def _by_bins(y: Floats, p: Floats) -> list[dict[str, Any]]:
    at = np.minimum((p * BINS).astype(int), BINS - 1)
    return [
        _share(float(p[at == i].mean()), int(y[at == i].sum()), int(np.count_nonzero(at == i)))
        for i in range(BINS)
        if np.any(at == i)
    ]


def _share(level: float, count: int, rows: int) -> dict[str, Any]:
    lower, upper = between(count, rows)
    return {"level": level, "observed": count / rows, "lower": lower, "upper": upper, "rows": rows}


def _spaced(count: int, most: int) -> NDArray[np.int64]:
    """Numbers of at most so many of them, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
