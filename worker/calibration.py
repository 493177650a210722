"""The held-out rows one by one: what was predicted of them, and how often intervals of any level hold."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.store.tables import Json
from sampler import Posterior, Prediction
from worker.fit_spec import ModelRows, floats
from worker.scoring import Predictive, between, classes_of, count_inside

MAX_ROWS = 2_000  # that the calibration rests on
MAX_SHOWN = 500  # that are kept one by one
LEVEL = 0.9  # of the intervals that are kept
LEVELS = (*(round(0.05 * i, 2) for i in range(1, 20)), 0.99)
BINS = 10  # of predicted probabilities
BATCH_ROWS = 500

Floats = NDArray[np.float64]


def look_at(
    posterior: Posterior,
    training: ModelRows,
    held: ModelRows,
    numbers: NDArray[np.int64],
    beat: Callable[[], None],
) -> Json:
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
        and ``interval`` say of what, ``classes`` the classes (last those that no training row has), of which
        ``actual`` is the number. Figures are the probability of the second of two classes; of more, of the
        row's own, and ``predicted`` is the number of the most probable one. Intervals of a number are those
        of an outcome of the row's own weight, where rows have weights. ``calibration``, of up to 2,000 rows:
        for numbers, by ``level``, the share of outcomes inside predictive intervals (``observed``); for
        classes, by bin of the predicted probability, its mean (``level``) and the share of the second class;
        of more than two, by bin of the largest probability, the share of rows that are of that class; each
        with its 95% binomial interval (``lower``, ``upper``) and the ``rows`` it rests on.
    """
    chosen = _spaced(len(numbers), MAX_ROWS)
    classes, outcomes = _outcomes(posterior, training, held)
    y = outcomes[chosen]
    X = held.X.take(pa.array(chosen))
    of_classes = posterior.classes is not None
    several = len(classes or ()) > 2
    predicted, most = np.zeros(len(y), np.int64), np.zeros(len(y))
    found = {name: np.zeros(len(y)) for name in ("mean", "lower", "upper")}
    inside = np.zeros(len(LEVELS), np.int64)
    for start in range(0, len(y), BATCH_ROWS):
        beat()
        rows = slice(start, min(start + BATCH_ROWS, len(y)))
        part = X.slice(start, rows.stop - start)
        answer = posterior.predict(part, level=LEVEL, interval="credible" if of_classes else "predictive")
        if several:
            figures = _of_each_class(answer)
            predicted[rows], most[rows] = figures["mean"].argmax(axis=1), figures["mean"].max(axis=1)
            own = y[rows].astype(np.int64)
            known = np.flatnonzero(own < figures["mean"].shape[1])  # any other class has no probability
            for name, values in found.items():
                values[start + known] = figures[name][known, own[known]]
            continue
        found["mean"][rows], found["lower"][rows], found["upper"][rows] = (
            answer.mean,
            answer.lower,
            answer.upper,
        )
        if of_classes:
            continue
        weights = held.weights_of(chosen[rows])
        law = Predictive.of(posterior, part, weights)
        inside += [count_inside(law.below(y[rows]), level) for level in LEVELS]
        if weights is not None:
            found["lower"][rows], found["upper"][rows] = law.interval(LEVEL)
    shown = _spaced(len(y), MAX_SHOWN)
    return {
        "interval": "credible" if of_classes else "predictive",
        "level": LEVEL,
        "classes": classes,
        "rows": {
            "row": (numbers[chosen[shown]] + 1).tolist(),
            "actual": y[shown].tolist(),
            **{name: values[shown].tolist() for name, values in found.items()},
            **({"predicted": predicted[shown].tolist()} if several else {}),
        },
        "calibration": _by_bins(y == predicted, most)
        if several
        else _by_bins(y, found["mean"])
        if of_classes
        else [_share(level, int(count), len(y)) for level, count in zip(LEVELS, inside, strict=True)],
    }


def _outcomes(posterior: Posterior, training: ModelRows, held: ModelRows) -> tuple[list[str] | None, Floats]:
    if posterior.classes is None:
        return None, floats(held.y)
    classes, numbers = classes_of(posterior, training, held)
    return classes, numbers[len(training.y) :].astype(np.float64)


def _of_each_class(answer: Prediction) -> dict[str, Floats]:
    """Figures [row, class], also where those of two classes are of the second alone."""
    if answer.mean.ndim == 2:
        return {"mean": answer.mean, "lower": answer.lower, "upper": answer.upper}
    ends = {"mean": (answer.mean, answer.mean), "lower": (answer.upper, answer.lower)}
    ends["upper"] = (answer.lower, answer.upper)
    return {name: np.stack([1 - first, second], axis=1) for name, (first, second) in ends.items()}


def _by_bins(y: NDArray[Any], p: Floats) -> list[dict[str, Any]]:
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
