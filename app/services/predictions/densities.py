"""What a person asks of one answer: which values a row may have, and the density of what is predicted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.services.errors import Fault, NotFoundError, UnusableDataError
from app.services.predictions.predict_rows import Predictor, PredictRequest, understood
from app.services.predictions.rows import columns_of
from sampler.data.scalars import days_to_text

POINTS = 240
FAR = 4.0  # standard deviations of the noise that are shown beyond the draws
LEVEL = 0.9
NO, YES = frozenset({"false", "no", "0"}), frozenset({"true", "yes", "1"})
Floats = NDArray[np.float64]


def features(
    predictor: Predictor, owner: str, model: str, profiles: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The columns a model learnt from: ``name, kind, levels, min, max, missing`` and a ``typical`` value.

    `profiles`, of the dataset's columns by name, say what is typical: the median, or the most frequent level.
    Raises as `Predictor.lookup`.
    """
    _, posterior, _ = predictor.lookup(owner, model)
    found = []
    for column in posterior.schema.columns:
        date = column.kind == "date"
        low, high = ((days_to_text(v) if date and v is not None else v) for v in (column.min, column.max))
        profile = (profiles or {}).get(column.name) or {}
        typical = (profile.get("quantiles") or {}).get("0.5")
        if typical is None:
            typical = next((entry["value"] for entry in profile.get("top", ())), None)
        if typical is None:
            typical = column.levels[0] if column.levels else low
        shown = {"name": column.name, "kind": column.kind, "levels": list(column.levels)}
        found.append(shown | {"min": low, "max": high, "missing": column.missing, "typical": typical})
    return found


def row_of(columns: Sequence[Mapping[str, Any]], given: Sequence[str | None]) -> dict[str, Any]:
    """A row of values from what was typed, column by column; empty is missing.

    Raises
    ------
    UnusableDataError
        For what is no number, or neither true nor false.
    """
    row: dict[str, Any] = {}
    faults = []
    for column, typed in zip(columns, given, strict=True):
        name, text = str(column["name"]), (typed or "").strip()
        row[name] = None
        if not text:
            continue
        if column["kind"] == "number":
            try:
                row[name] = int(text) if text.isascii() and text.lstrip("-").isdigit() else float(text)
            except ValueError:
                faults.append(Fault(name, None, f"{text[:50]!r} is no number"))
        elif column["kind"] == "boolean":
            if text.lower() not in NO | YES:
                faults.append(Fault(name, None, f"{text[:50]!r} is neither true nor false"))
            row[name] = text.lower() in YES
        else:
            row[name] = text
    if faults:
        raise UnusableDataError(errors=faults)
    return row


def density(predictor: Predictor, owner: str, model: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The densities at ``x`` of the regression function at a row (``mean``) and of a new ``outcome``.

    The first is a kernel estimate over the draws, None when they are all equal; the second the mixture of
    their normal densities itself, None for two classes. ``intervals`` by the same names at 90%, ``centre`` is
    the posterior mean. Raises as `Predictor.answer`, and NotFoundError of more than two classes.
    """
    given = columns_of([dict(row)], None, 1)
    _, posterior, draws = predictor.lookup(owner, model)
    with understood():
        coded = posterior.encode(given)
    from scipy.stats import gaussian_kde  # noqa: PLC0415  half a second, for the first of these alone

    if posterior.classes is not None and len(posterior.classes) > 2:
        raise NotFoundError("More than two classes have no one density: ask for their probabilities.")
    alike = posterior.spaced(draws, posterior.num_chains * draws)  # weighted ones as often as they weigh
    f = posterior.sample(coded, draws)[:, :, 0].reshape(-1)[alike]
    noise = None if posterior.sigma is None else posterior.sample_sigma(coded, draws)
    sigma = None if noise is None else noise[:, :, 0].reshape(-1)[alike]
    spread = float(np.ptp(f)) or max(abs(float(f[0])), 1.0) * 1e-3
    beyond = 0.15 * spread if sigma is None else max(FAR * float(sigma.mean()), 0.15 * spread)
    x = np.linspace(f.min() - beyond, f.max() + beyond, POINTS)
    if posterior.classes is not None:
        x = np.clip(x, 0.0, 1.0)
    asked = PredictRequest(columns=given, levels=(LEVEL,), draws=draws)
    kinds = {"mean": "credible"} | ({} if sigma is None else {"outcome": "predictive"})
    answers = {
        name: predictor.answer(owner, model, replace(asked, interval=kind)).prediction
        for name, kind in kinds.items()
    }
    return {
        "x": x,
        "mean": gaussian_kde(f)(x) if np.ptp(f) > 0 else None,
        "outcome": None if sigma is None else _mixture(x, f, sigma),
        "centre": float(answers["mean"].mean[0]),
        "intervals": {
            name: (float(answer.intervals[0].lower[0]), float(answer.intervals[0].upper[0]))
            for name, answer in answers.items()
        },
    }


def _mixture(x: Floats, f: Floats, sigma: Floats) -> Floats:
    z = (x[:, None] - f) / sigma
    found: Floats = (np.exp(-0.5 * z * z) / sigma).mean(axis=1) / np.sqrt(2 * np.pi)
    return found
