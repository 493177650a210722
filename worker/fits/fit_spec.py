"""Specification of a fit: the model's row and the columns it names, as arguments of the sampler."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from app.store import datasets
from app.store.errors import CorruptBlockError, LeaseLostError
from app.store.tables import Dataset, Json, Model
from sampler import PreparedFit
from sampler.host.data import (
    MOST_CELLS,
    FileDialect,
    Rows,
    SplitPlan,
    copied_rows,
    read,
    read_column,
    undeclared,
)
from sampler.host.fits import prepare_rows
from sampler.host.settings import (
    COLUMN_ROLES,
    FAMILIES,
    ROLES,
    SETTINGS,
    VALUES_OF_OLD_MODELS,
    NewRows,
    Subgroups,
    every_feature,
)
from sampler.host.storage import Header
from worker.fits.stored_table import stored_table

# Entries of `models.settings` passed unchanged to `sampler.prepare` (`features`, `weights` and `holdout` name
# columns and rows).
_PASSED = (*SETTINGS, "prior")


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
    def others(self) -> list[str]:
        """Further outcomes than the target."""
        return list(self.settings.get("outcomes", ())[1:])

    @property
    def outcomes(self) -> list[str]:
        """All outcomes, the target first."""
        return [self.target, *self.others]

    @property
    def roles(self) -> dict[str, str]:
        """Columns besides features and groups, by role."""
        return {role: name for role in COLUMN_ROLES if (name := self.settings.get(role))}

    @property
    def features(self) -> dict[str, Any]:
        """Features, their kinds, groups and slopes, families of several outcomes, as arguments of fits."""
        chosen = [*(ROLES.keys() - COLUMN_ROLES.keys()), *(["families"] if self.others else [])]
        return {name: self.settings[name] for name in chosen if self.settings.get(name) is not None}

    @property
    def groups(self) -> list[str]:
        """Columns of groups, with those of the cohorts of a panel."""
        adoption = self.features.get("adoption")
        return [*([] if adoption is None else [adoption]), *self.features.get("groups", [])]

    @property
    def new_rows(self) -> NewRows:
        """Declared differences between new rows and these."""
        return NewRows.read(self.settings.get("new_rows"))

    @property
    def subgroups(self) -> Subgroups:
        """Declared subgroups in which calibrated intervals hold."""
        return Subgroups.read(self.settings.get("subgroups"))

    @property
    def learnt(self) -> list[str]:
        """Columns that may become features, in the dataset's order."""
        taken = {*self.outcomes, *self.roles.values(), *self.groups}
        named = every_feature(self.features.get("features"))
        used = set(self.names if named is None else named)
        return [name for name in self.names if name in used and name not in taken]


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


def read_rows(session: Session, spec: Spec) -> Rows:
    """Read all rows of the columns that the model uses, which were checked when it was created.

    Of large tables, features are read when they are asked for, each time.
    """
    beside = [*spec.groups, *spec.new_rows.columns, *spec.subgroups.columns]
    names = list(dict.fromkeys([*spec.learnt, *beside]))
    at_once = names if len(names) * spec.num_rows <= MOST_CELLS else []
    table = datasets.read(session, spec.dataset_id, [*at_once, *spec.outcomes, *spec.roles.values()])
    roles = {role: read_column(table.column(name), name) for role, name in spec.roles.items()}
    features = read(table.select(at_once))
    if names and not at_once:
        engine = session.get_bind().engine
        features = stored_table(engine, spec.dataset_id, names, spec.num_rows)
    target, *others = (read_column(table.column(name), name) for name in spec.outcomes)
    return Rows(features, target, roles, others={column.name: column for column in others})


def resemblances(session: Session, spec: Spec, prepared: PreparedFit) -> list[str]:
    """Warn of columns by whose values rows resemble each other, by the first rows of the dataset.

    Columns that the model doesn't use may tell groups or times apart too; of wide tables nothing is said.
    """
    if len(spec.names) * min(spec.num_rows, datasets.BLOCK_ROWS) > MOST_CELLS:
        return []
    try:
        table = datasets.read_block(session, spec.dataset_id, spec.names, 0)
    except CorruptBlockError:  # of a column that the fit doesn't need
        return []
    found = undeclared(
        read(table),
        read_column(table.column(spec.target), spec.target),
        has_classes=FAMILIES[prepared.training.settings.family].has_classes,
        features=[column.name for column in prepared.schema.columns],
        taken=[*spec.outcomes, *spec.roles.values()],
        groups=spec.groups,
        new_rows=spec.new_rows,
    )
    return [each.text for each in found]


def plan_of(spec: Spec, rows: Rows) -> SplitPlan:
    """Plan which rows are held out, and which judge which fits."""
    copies = copied_rows(rows, spec.learnt)
    seed = spec.settings.get("seed", 0)
    return SplitPlan.of(spec.new_rows, rows.table.column, rows.num_rows, seed, copies)


class SplitRows(NamedTuple):
    """Training and held-out rows; the positions of these in the dataset, and the groups that count once."""

    training: Rows
    held: Rows
    places: NDArray[np.int64]
    plan: SplitPlan | None  # of the held-out rows
    judged_by: str = ""  # these rows in words, and for which new ones they tell

    def part(self, own: NDArray[np.int64]) -> Self:
        """Return some of the held-out rows, with all training rows."""
        plan = None if self.plan is None else self.plan.take(own)
        return self._replace(held=self.held.take(own), places=self.places[own], plan=plan)

    def of_outcome(self, name: str) -> Self:
        """Return those rows that have another outcome, with it."""
        training, held = self.training.of_outcome(name), self.held.of_outcome(name)
        own = np.flatnonzero(held.has_outcome)
        return self._replace(training=training.take(np.flatnonzero(training.has_outcome)), held=held).part(
            own
        )


def split(spec: Spec, rows: Rows) -> SplitRows:
    """Split the rows into training and held-out rows, without those that have no target."""
    used = _used(spec, rows)
    if not spec.settings.get("holdout"):
        none = np.zeros(0, np.int64)
        training = rows if used.all() else rows.take(np.flatnonzero(used))
        return SplitRows(training, rows.take(none), none, None)
    plan = plan_of(spec, rows)
    train, test = plan.holdout(spec.settings["holdout"])
    held = test[used[test]]
    return SplitRows(
        rows.take(train[used[train]]), rows.take(held), held, plan.take(held), plan.judged_by(held)
    )


def _used(spec: Spec, rows: Rows) -> NDArray[np.bool_]:
    """Return which rows have a target; all, if a missing one is an error."""
    if spec.settings.get("missing_target") != "leave_out":
        return np.ones(spec.num_rows, bool)
    return rows.of_outcome(spec.target).has_outcome


def prepare_problem(spec: Spec, training: Rows, header: bytes | None = None) -> PreparedFit:
    """Check and encode the training rows; raises as `sampler.preparation.prepare_rows`.

    With the model's `header`, once a chain has stored it, the data don't choose again what they chose for it.
    """
    stored = spec.settings
    arguments: dict[str, Any] = VALUES_OF_OLD_MODELS | {
        name: stored[name] for name in _PASSED if stored.get(name) is not None
    }
    before = None if header is None else Header.from_bytes(header)
    if before is not None and not before.others:
        left = [name for name in VALUES_OF_OLD_MODELS if arguments[name] == "auto"]
        arguments |= {name: before.settings.get(name, VALUES_OF_OLD_MODELS[name]) for name in left}
    used = {*spec.learnt, *spec.outcomes}
    arguments |= {"ignored": [name for name in spec.names if name not in used], **spec.features}
    prepared = prepare_rows(training, **arguments)
    if before is not None:
        prepared = replace(prepared, noise_choice=before.noise_choice)
    used |= {*spec.groups, *spec.roles.values()}
    dialect = None if spec.dialect is None else spec.dialect.of_columns(used)
    return replace(prepared, dialect=dialect).with_discarded(stored.get("discarded", 0))
