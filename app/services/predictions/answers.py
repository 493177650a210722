"""Predictions as JSON, CSV or an Arrow stream."""

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from app.services.predictions.csv_tables import Digits, Letters, places_of, rounded, with_interval
from app.services.predictions.kept_columns import IN_CSV, beside, renamed
from app.services.predictions.workbooks import write_workbook
from app.services.readers.options import CsvStyle
from sampler import Prediction
from sampler.host.assessment import RowsVerdict
from sampler.host.data import FileDialect
from sampler.host.posteriors import Errors, by_class, prediction_columns, without_infinity

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PredictionAnswer:
    """Prediction of the requested rows with its options and diagnostics."""

    model_id: str
    verdict: str | None
    prediction: Prediction
    only_mean: bool = False
    errors: Errors | None = None
    rhat: Floats | None = None  # [row] or [row, class], NaN where the chains don't move
    rows_verdict: RowsVerdict | None = None
    samples: Floats | None = None  # [row, draw], or of several classes [row, class, draw]
    notes: Sequence[str] = ()  # warnings from reading the rows
    kept: pa.Table | None = None  # columns of the rows that tables repeat
    texts: Letters = field(default_factory=dict)  # cells of these as they were written, by column
    written: CsvStyle | None = None  # style of the file of the rows
    read_as: Mapping[str, Any] | None = None  # how the file of the rows was read
    dialect: FileDialect | None = None  # of the file that the model was fitted to
    calibration: str | None = None  # checksum of the calibration of intervals
    outcome: str | None = None  # what is predicted
    classes: tuple[str, ...] | None = None  # predicted: P(second) of two, else each one's

    def facts(self) -> dict[str, Any]:
        """Return the facts that apply to all rows together."""
        return {
            "model_id": self.model_id,
            "outcome": self.outcome,
            "draws": self.prediction.draws,
            "interval": self.prediction.interval,
            "verdict": self.verdict,
            "classes": None if self.classes is None else list(self.classes),
            "warnings": [*self.notes, *self.prediction.warnings],
            **({"read_as": self.read_as} if self.read_as else {}),
            **({"groups": self.prediction.groups} if self.prediction.groups else {}),
            **({"claims": [each.claim for each in self.prediction.claims]} if self.prediction.claims else {}),
            **({"calibration": self.calibration} if self.calibration else {}),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the response document as JSON values."""
        prediction = self.prediction
        return {
            **self.facts(),
            "mean": prediction.mean.tolist(),
            "sd": None if self.only_mean else prediction.sd.tolist(),
            **_bounds(prediction),
            **_sets(prediction),
            "mcse": self.errors and {"mean": finite(self.errors.mean), **_bounds(self.errors)},
            "rhat": None if self.rhat is None else finite(self.rhat),
            "rows_verdict": self.rows_verdict and self.rows_verdict.verdict,
            "samples": None if self.samples is None else self.samples.tolist(),
            "flags": [[flag._asdict() for flag in row] for row in self.prediction.flags],
        }

    def to_table(self, *, rename: bool = False, digits: Digits = "full") -> pa.Table:
        """Return the response as columns, with the facts on all rows in the schema's metadata.

        `rename` renames repeated columns that have the name of a figure; else raises InvalidRequestError.
        """
        named = prediction_columns(
            self.prediction,
            only_mean=self.only_mean,
            errors=self.errors,
            rhat=self.rhat,
            samples=self.samples,
            flags=None if self.only_mean else self.prediction.flags,
        )
        arrays = {name: _array(values) for name, values in by_class(named, self.classes).items()}
        dialect = {"dialect": self.dialect.to_json()} if self.dialect else {}
        figures = with_facts(pa.table(arrays), self.facts() | dialect)
        figures = rounded(figures, places_of(figures)) if digits == "rounded" else figures
        if self.kept is None:
            return figures
        kept = renamed(self.kept, {*figures.column_names, IN_CSV}) if rename else self.kept
        return beside(kept, figures)

    def letters(self, table: pa.Table) -> Letters:
        """Return cells of a table's repeated columns as they were written, by their names in the table."""
        names = self.kept.column_names if self.kept is not None else []
        named = zip(table.column_names, names, strict=False)
        return {ours: self.texts[name] for ours, name in named if name in self.texts}


def labels_of(members: Iterable[Sequence[bool]], classes: Sequence[str]) -> list[list[str]]:
    """Name the classes in the prediction set of each row."""
    return [[label for label, inside in zip(classes, row, strict=True) if inside] for row in members]


def with_facts(table: pa.Table, facts: Mapping[str, Any]) -> pa.Table:
    """Return the table with the facts as JSON under `bartserve` in its metadata."""
    return table.replace_schema_metadata({"bartserve": json.dumps(facts)})


def to_arrow(table: pa.Table) -> bytes:
    """Encode a table as an Arrow stream."""
    return b"".join(arrow_parts(table.schema, table.to_batches()))


def arrow_parts(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Encode batches as an Arrow stream, piece by piece."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()


def to_parquet(table: pa.Table) -> bytes:
    """Encode a table as a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue().to_pybytes())


def to_workbook(answer: PredictionAnswer, table: pa.Table) -> bytes:
    """Encode the table of an answer as an Excel workbook; raises TooLargeError."""
    with write_workbook([(with_interval(table), answer.letters(table))], table.num_rows) as file:
        return file.read()


def _bounds(estimates: Prediction | Errors) -> dict[str, Any]:
    return {
        "intervals": [
            {"level": level, "lower": finite(lower), "upper": finite(upper)}
            for level, lower, upper in estimates.intervals
        ],
        "quantiles": [{"q": q, "values": finite(values)} for q, values in estimates.quantiles],
    }


def _sets(prediction: Prediction) -> dict[str, Any]:
    """Return the prediction sets of classes as an entry of an answer; empty for other predictions."""
    named = [
        {"level": each.level, "classes": labels_of(each.members.tolist(), prediction.classes or ())}
        for each in prediction.sets
    ]
    return {"sets": named} if named else {}


def finite(values: Floats) -> list[Any]:
    """Return values as a list for JSON, with None for numbers that are not finite."""
    if np.isfinite(values).all():
        return list(values.tolist())
    figures = values.astype(object)
    figures[~np.isfinite(values)] = None
    return list(figures.tolist())


def _array(values: Any) -> pa.Array:
    if isinstance(values, np.ndarray):
        return pa.array(without_infinity(values), from_pandas=True)
    return pa.array(values, pa.string())
