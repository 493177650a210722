"""Support for the prediction form: the values a row may have, and the density of its prediction."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.services.errors import Fault, NotFoundError, UnusableDataError
from app.services.predictions.predict_rows import Predictor, understood
from app.services.predictions.rows import columns_of
from sampler.data.scalars import days_to_text
from sampler.posterior.assessment.density import density as of_row

NO, YES = frozenset({"false", "no", "0"}), frozenset({"true", "yes", "1"})


def features(
    predictor: Predictor, owner: str, model: str, profiles: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return a model's columns: ``name, kind, levels, min, max, missing`` and a ``typical`` value.

    `profiles`, by column name, give the typical value: the median, or the most frequent level. Raises as
    `Predictor.lookup`.
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
    """Parse a row typed into the form, column by column; empty text means missing.

    Raises
    ------
    UnusableDataError
        A value is not a number, or neither true nor false, where its column requires it.
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
                faults.append(Fault(name, None, f"{text[:50]!r} is not a number"))
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
    """Return densities of the prediction for a row, as `assessment.density.density` computes them.

    Raises as `Predictor.answer`, and NotFoundError for more than two classes.
    """
    _, posterior, draws = predictor.lookup(owner, model)
    if posterior.classes is not None and len(posterior.classes) > 2:
        raise NotFoundError("More than two classes have no density: ask for their probabilities.")
    with understood():
        return of_row(posterior, posterior.encode(columns_of([dict(row)], None, 1)), draws)
