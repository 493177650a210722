"""Support for the prediction form: the values a row may have, and the density of its prediction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.services.errors import Fault, NotFoundError, UnusableDataError
from app.services.predictions.predict_rows import Predictor, understood
from app.services.predictions.rows import columns_of
from sampler.data.scalars import days_to_text
from sampler.posterior.assessment.density import density as of_row

NO, YES = frozenset({"false", "no", "0"}), frozenset({"true", "yes", "1"})


@dataclass(frozen=True)
class FormColumn:
    """A column of a model as a form asks for it; `typical` is a value to begin with."""

    name: str
    kind: str
    levels: list[str]
    min: float | str | None
    max: float | str | None
    missing: int
    typical: Any


@dataclass(frozen=True)
class Density:
    """Densities at one row: `sampler.posterior.assessment.density`."""

    x: NDArray[np.float64]
    mean: NDArray[np.float64] | None
    outcome: NDArray[np.float64] | None
    centre: float
    intervals: dict[str, tuple[float, float]]


def features(
    predictor: Predictor, owner: str, model: str, profiles: Mapping[str, Any] | None = None
) -> list[FormColumn]:
    """Return a model's columns.

    `profiles`, by column name, give the typical value: the median, or the most frequent level. Raises as
    `Predictor.lookup`.
    """
    _, posterior, _ = predictor.lookup(owner, model)
    fields = []
    for column in posterior.schema.inputs:
        date = column.kind == "date"
        low, high = ((days_to_text(v) if date and v is not None else v) for v in (column.min, column.max))
        profile = (profiles or {}).get(column.name) or {}
        typical = (profile.get("quantiles") or {}).get("0.5")
        if typical is None:
            typical = next((entry["value"] for entry in profile.get("top", ())), None)
        if typical is None:
            typical = column.levels[0] if column.levels else low
        levels = list(column.levels)
        fields.append(FormColumn(column.name, column.kind, levels, low, high, column.missing, typical))
    if posterior.exposure is not None:
        quantiles = ((profiles or {}).get(posterior.exposure) or {}).get("quantiles") or {}
        low, high = (quantiles.get(q) for q in ("0", "1"))
        fields.append(FormColumn(posterior.exposure, "number", [], low, high, 0, 1))
    return fields


def row_of(columns: Sequence[FormColumn], texts: Sequence[str | None]) -> dict[str, Any]:
    """Parse a row typed into the form, column by column; empty text means missing.

    Raises
    ------
    UnusableDataError
        A value is not a number, or neither true nor false, where its column requires it.
    """
    row: dict[str, Any] = {}
    faults = []
    for column, typed in zip(columns, texts, strict=True):
        name, text = column.name, (typed or "").strip()
        row[name] = None
        if not text:
            continue
        if column.kind == "number":
            try:
                row[name] = int(text) if text.isascii() and text.lstrip("-").isdigit() else float(text)
            except ValueError:
                faults.append(Fault(name, None, f"{text[:50]!r} is not a number"))
        elif column.kind == "boolean":
            if text.lower() not in NO | YES:
                faults.append(Fault(name, None, f"{text[:50]!r} is neither true nor false"))
            row[name] = text.lower() in YES
        else:
            row[name] = text
    if faults:
        raise UnusableDataError(errors=faults)
    return row


def density(predictor: Predictor, owner: str, model: str, row: Mapping[str, Any]) -> Density:
    """Return densities of the prediction for a row.

    Raises as `Predictor.predict`, and NotFoundError for more than two classes.
    """
    _, posterior, draws = predictor.lookup(owner, model)
    if posterior.classes is not None and len(posterior.classes) > 2:
        raise NotFoundError("More than two classes have no density: ask for their probabilities.")
    with understood():
        coded = posterior.encode(columns_of([dict(row)], None, 1))
        return Density(**of_row(posterior, coded, draws))
