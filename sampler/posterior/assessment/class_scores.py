"""Scores of predicted classes: ranking of two classes, and which classes are taken for which."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampler.array_types import Bools, Floats

Z = 1.959964  # the normal quantile of 97.5%
TINY = 1e-12  # what an area of 0 or 1 is moved by, where the standard error is 0
THRESHOLDS = tuple(k / 10 for k in range(1, 10))
MOST_STEPS = 41  # further thresholds of the ROC curve
MOST_CLASSES = 30  # in a confusion matrix


def class_scores(y: Bools, p: Floats) -> dict[str, Any]:
    """Score probabilities of classes, of which those that are most probable are predicted.

    Parameters
    ----------
    y
        bool [row, class], marks of the rows' classes.
    p
        float64 [row, class], their probabilities.

    Returns
    -------
    dict
        ``accuracy``, the share of rows whose class is predicted; ``majority_rate``, that of the most frequent
        class among the rows: the accuracy of always naming it; ``confusion``, the numbers of rows by class
        and predicted class, [class][predicted], None for more than 30 classes. Of two classes also ``auc``
        (`area_under_roc`) and ``confusion_by_threshold``, the numbers of rows by threshold of the second's
        probability: at 0.1 to 0.9, and at up to 41 others, which divide the rows evenly.

    """
    own, predicted, count = y.argmax(axis=1), p.argmax(axis=1), y.shape[1]
    pairs = np.bincount(own * count + predicted, minlength=count * count).reshape(count, count)
    scores: dict[str, Any] = {
        "accuracy": float(np.mean(own == predicted)),
        "majority_rate": float(y.mean(axis=0).max()),
        "confusion": pairs.tolist() if count <= MOST_CLASSES else None,
    }
    if count != 2:
        return scores
    return scores | {
        "auc": area_under_roc(y[:, 1], p[:, 1]),
        "confusion_by_threshold": _by_threshold(y[:, 1], p[:, 1]),
    }


def ranked_probability_score(y: Bools, p: Floats) -> float:
    """Compute the mean over rows of sum over k of (P(class <= k) - 1[class <= k])^2 / (classes - 1).

    Less is better; classes, [row, class] as in `class_scores`, are in their order (Epstein 1969).
    """
    apart = np.cumsum(p - y, axis=1)[:, :-1]
    return float(np.mean(apart**2))


def area_under_roc(positive: Bools, p: Floats) -> dict[str, float] | None:
    """Compute the area under the ROC curve: the share of pairs of both classes that p puts in order.

    A tie counts a half. The 95% interval is Newcombe's (2006, method 5), which has a finite width where all
    pairs are in order too.

    Returns
    -------
    dict
        ``value``, ``lower`` and ``upper``; None where one of the classes is absent.

    """
    from scipy.stats import rankdata  # noqa: PLC0415  # slow to import

    n, m = int(np.count_nonzero(positive)), int(np.count_nonzero(~positive))
    if not n or not m:
        return None
    area = (float(rankdata(p)[positive].sum()) - n * (n + 1) / 2) / (n * m)
    lower, upper = _limits_of_area(area, n, m)
    return {"value": area, "lower": lower, "upper": upper}


def _limits_of_area(area: float, n: int, m: int) -> tuple[float, float]:
    """Find the areas from which the one seen is 1.96 standard errors away, given such areas."""
    from scipy.optimize import brentq  # noqa: PLC0415  # slow to import

    more = (n + m) / 2 - 1

    def beyond(true: float) -> float:
        variance = true * (1 - true) * (1 + more * (1 - true) / (2 - true) + more * true / (1 + true))
        return float((area - true) ** 2 - Z * Z * variance / (n * m))

    lower = 0.0 if area <= 0 else float(brentq(beyond, 0.0, min(area, 1 - TINY)))
    return lower, 1.0 if area >= 1 else float(brentq(beyond, max(area, TINY), 1.0))


def _by_threshold(positive: Bools, p: Floats) -> list[dict[str, float]]:
    """Count rows that are, and are not, of the second class by whether p is at least each threshold."""
    steps = np.quantile(p, np.linspace(0, 1, MOST_STEPS), method="higher")
    thresholds = np.unique([*THRESHOLDS, *steps])
    ranked = [np.sort(p[which]) for which in (positive, ~positive)]
    missed, passed = (np.searchsorted(each, thresholds) for each in ranked)
    return [
        {
            "threshold": float(threshold),
            "true_positives": len(ranked[0]) - int(below),
            "false_positives": len(ranked[1]) - int(below_of_first),
            "true_negatives": int(below_of_first),
            "false_negatives": int(below),
        }
        for threshold, below, below_of_first in zip(thresholds, missed, passed, strict=True)
    ]
