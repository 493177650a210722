"""Specification of a fit: the model's row and the columns it names, as arguments of the sampler."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from app.store import datasets
from app.store.errors import LeaseLostError
from app.store.tables import Dataset, Json, Model
from sampler import Posterior, PreparedFit, holdout_rows, prepare
from sampler.data.censoring.outcomes import ROLES as CENSORING_ROLES
from sampler.data.censoring.outcomes import CensoredOutcomes, read_censored
from sampler.data.encode import Coded
from sampler.data.table import RawColumn, read_column
from sampler.definitions.data import COLUMN_ROLES
from sampler.settings import OMITTED, SETTINGS
from sampler.storage.file_dialect import FileDialect

# Entries of `models.settings` passed unchanged to `sampler.prepare` (`features`, `weights` and `holdout` name
# columns and rows).
_PASSED = (*SETTINGS, "prior", "columns")


@dataclass(frozen=True)
class Spec:
    """Specification of a model from its row."""

    model_id: str
    dataset_id: str
    num_rows: int
    names: list[str]  # all columns of the dataset
    target: str
    settings: Json
    warnings: list[str]
    dialect: FileDialect | None = None  # of the dataset's file

    @property
    def features(self) -> list[str] | None:
        """Columns to use as features; None: all usable ones."""
        features: list[str] | None = self.settings.get("features")
        return features

    @property
    def weights(self) -> str | None:
        """Column of precision weights."""
        weights: str | None = self.settings.get("weights")
        return weights

    @property
    def exposure(self) -> str | None:
        """Column of exposures of counts."""
        exposure: str | None = self.settings.get("exposure")
        return exposure

    @property
    def groups(self) -> list[str]:
        """Columns of groups."""
        groups: list[str] = self.settings.get("groups") or []
        return groups

    @property
    def slopes(self) -> list[str]:
        """Features whose slope differs by group."""
        slopes: list[str] = self.settings.get("slopes") or []
        return slopes

    @property
    def censoring(self) -> dict[str, str]:
        """Columns that tell of censored outcomes, by role."""
        return {role: name for role in CENSORING_ROLES if (name := self.settings.get(role))}

    @property
    def roles(self) -> dict[str, Any]:
        """Columns by role, as arguments of a study's fits."""
        return {
            "columns": self.settings.get("columns"),
            "features": self.features,
            "target_name": self.target,
            "exposure_name": self.exposure,
            "groups": self.groups,
            "slopes": self.slopes,
        }

    @property
    def learnt(self) -> list[str]:
        """Columns that may become features, in the dataset's order."""
        taken = {self.target, *(self.settings.get(role) for role in COLUMN_ROLES), *self.groups}
        used = set(self.names if self.features is None else self.features)
        return [name for name in self.names if name in used and name not in taken]

    @property
    def held_out(self) -> NDArray[np.int64]:
        """Indices of the held-out rows."""
        return holdout_rows(self.num_rows, self.settings.get("holdout"), self.settings.get("seed", 0))


@dataclass(frozen=True)
class ModelRows:
    """Rows of a model's data."""

    X: pa.Table
    y: pa.ChunkedArray
    weights: pa.ChunkedArray | None
    exposure: pa.ChunkedArray | None = None
    censoring: dict[str, RawColumn] = field(default_factory=dict)  # by role

    def take(self, index: NDArray[np.int64]) -> "ModelRows":
        """Select rows by their numbers."""
        weights, exposure = (None if c is None else c.take(index) for c in (self.weights, self.exposure))
        censoring = {role: column.part(index) for role, column in self.censoring.items()}
        return ModelRows(self.X.take(index), self.y.take(index), weights, exposure, censoring)

    def encoded(self, posterior: Posterior) -> Coded:
        """Encode the rows, with their exposures and limits, for a model."""
        if self.censoring:
            return replace(posterior.encode(self.X), limits=self.censored_outcomes().limits)
        if posterior.exposure is None or self.exposure is None:
            return posterior.encode(self.X)
        return posterior.encode(self.X.append_column(posterior.exposure, self.exposure))

    @property
    def outcomes(self) -> NDArray[np.float64]:
        """The outcomes as numbers, float64 [row]; of a censored row one of its limits, or their middle."""
        return self.censored_outcomes().y if self.censoring else floats(self.y)

    def censored_outcomes(self) -> CensoredOutcomes:
        """Read outcomes of which columns tell whether they are censored."""
        return read_censored(self.y, "the target", self.censoring, len(self.y))

    @property
    def precisions(self) -> NDArray[np.float64] | None:
        """The weights as numbers, float64 [row]; None without weights."""
        return None if self.weights is None else floats(self.weights)


def floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return a column as float64 numbers."""
    return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)


def read_spec(session: Session, model_id: str) -> Spec:
    """Read the model's row.

    Raises
    ------
    LeaseLostError
        The model has been deleted, and with it the unit.
    """
    model = session.get(Model, model_id)
    if model is None or model.dataset_id is None:
        raise LeaseLostError(f"Model {model_id} was deleted.")
    dataset = session.get_one(Dataset, model.dataset_id)
    names = [column["name"] for column in dataset.columns]
    dialect = FileDialect.of_report(dataset.read_as or {})
    return Spec(
        model_id, dataset.id, dataset.num_rows, names, model.target, model.settings, model.warnings, dialect
    )


def read_rows(session: Session, spec: Spec) -> ModelRows:
    """Read all rows of the columns that the model uses."""
    more = [name for name in (spec.target, spec.weights, spec.exposure, *spec.censoring.values()) if name]
    names = [*spec.learnt, *spec.groups]
    table = datasets.read(session, spec.dataset_id, [*names, *more])
    censoring = {role: read_column(table.column(name), name) for role, name in spec.censoring.items()}
    weights, exposure = (table.column(name) if name else None for name in (spec.weights, spec.exposure))
    return ModelRows(table.select(names), table.column(spec.target), weights, exposure, censoring)


def split(spec: Spec, rows: ModelRows) -> tuple[ModelRows, ModelRows]:
    """Split the rows into training and held-out rows, without those that have no target."""
    held = np.zeros(spec.num_rows, bool)
    held[spec.held_out] = True
    used = _used(spec, rows)
    if used.all() and not held.any():
        return rows, rows.take(np.zeros(0, np.int64))
    return rows.take(np.flatnonzero(used & ~held)), rows.take(np.flatnonzero(used & held))


def scored_rows(spec: Spec, rows: ModelRows) -> NDArray[np.int64]:
    """Return the indices of the held-out rows that have a target."""
    return spec.held_out[_used(spec, rows)[spec.held_out]]


def _used(spec: Spec, rows: ModelRows) -> NDArray[np.bool_]:
    """Return which rows have a target; all, if a missing one is an error."""
    if spec.settings.get("missing_target") != "leave_out":
        return np.ones(spec.num_rows, bool)
    known = np.asarray(rows.y.is_valid().to_numpy(), bool)
    for role, column in rows.censoring.items():
        if role != "event" and column.numbers is not None:
            known |= np.isfinite(column.numbers)
    return known


def prepare_problem(spec: Spec, training: ModelRows) -> PreparedFit:
    """Check and encode the training rows; raises as `sampler.prepare`."""
    stored = spec.settings
    arguments: dict[str, Any] = OMITTED | {
        name: stored[name] for name in _PASSED if stored.get(name) is not None
    }
    used = {*spec.learnt, spec.target}
    prepared = prepare(
        training.X,
        training.y,
        features=spec.features,
        weights=training.weights,
        exposure=training.exposure,
        exposure_name=spec.exposure,
        groups=spec.groups,
        slopes=spec.slopes,
        target_name=spec.target,
        ignored=[name for name in spec.names if name not in used],
        **(arguments | training.censoring),
    )
    used |= {*spec.groups, *(name for role in COLUMN_ROLES if (name := stored.get(role)))}
    dialect = None if spec.dialect is None else spec.dialect.of_columns(used)
    return replace(prepared, dialect=dialect).with_discarded(stored.get("discarded", 0))
