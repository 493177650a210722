"""The training rows as the watch on drift counts them."""

import numpy as np
from numpy.typing import NDArray

from app.store.tables import Json
from sampler import Posterior
from sampler.host.assessment import DRIFT_ROWS, PREDICTED_ROWS, training_parts
from sampler.host.data import Coded, Rows
from sampler.host.storage import kept_rows
from worker.fits.fit_spec import Spec


def drift_parts(posterior: Posterior, spec: Spec, training: Rows) -> list[Json]:
    """Count the training rows, at most 50,000 of them, in the cells of the watch on drift."""
    training = training.take(kept_rows(training.num_rows, DRIFT_ROWS))
    few = kept_rows(training.num_rows, PREDICTED_ROWS)
    coded, some = _encoded(posterior, training), training.take(few)
    predicted = {}
    for name in spec.outcomes:
        of_outcome = posterior if posterior.several is None else posterior.several[name]
        classes = of_outcome.classes
        # Encoded anew, since each outcome's model keeps of rows what its own parts need.
        mean = of_outcome.predict(_encoded(of_outcome, some), level=None).mean
        predicted[name] = (mean, classes if mean.ndim == 2 else None)
    days, groups = days_of(posterior, spec, training), groups_of(spec, training)
    parts = training_parts(posterior.schema, posterior.header.grid.cuts, coded, predicted, few, days, groups)
    for name in spec.others:  # which may have columns of their own
        own, seen = posterior.several[name], {part.name for part in parts if part.role == "feature"}
        if not {*own.schema.kinds} <= seen:
            more = own.schema, own.header.grid.cuts, _encoded(own, training)
            parts += [each for each in training_parts(*more, {}, few, days, groups) if each.name not in seen]
    return [part.to_json() for part in parts]


def _encoded(posterior: Posterior, rows: Rows) -> Coded:
    draws = posterior.law.draws
    return draws.encode(rows.table_of(draws.header.roles))


def days_of(posterior: Posterior, spec: Spec, rows: Rows) -> NDArray[np.float64] | None:
    """Return when rows were, in days, by the column of later rows or a date; None if it isn't known."""
    dates = [column.name for column in posterior.schema.columns if column.kind == "date"]
    for name in (spec.new_rows.later, *dates):
        column = None if name is None else rows.table.column(name)
        if column is not None and column.type == "date" and column.numbers is not None:
            return None if np.isnan(column.numbers).any() else column.numbers
    return None


def groups_of(spec: Spec, rows: Rows) -> NDArray[np.int64] | None:
    """Return the number of each row's group, by the column of the fewest; None where none is declared."""
    found = []
    for name in dict.fromkeys([*([spec.new_rows.groups] if spec.new_rows.groups else []), *spec.groups]):
        column = rows.table.column(name)
        cells = column.labelled[0] if column.numbers is None else column.numbers
        found.append(np.unique(cells, return_inverse=True)[1].astype(np.int64))
    return min(found, key=lambda group: int(group.max(initial=0)), default=None)
