"""Encoding of a planned fit: from a table and outcomes to training data and the model's header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.binning import Grid
from sampler.data.censoring.outcomes import censoring_warnings
from sampler.data.censoring.regression import fit_censored
from sampler.data.columns import summarise
from sampler.data.cut_points import choose_grid
from sampler.data.data_warnings import (
    copy_warnings,
    few_warnings,
    level_warnings,
    outlier_warnings,
    reading_warnings,
)
from sampler.data.level_means import LevelOutcomes
from sampler.data.rows import Rows, censoring_roles
from sampler.data.schema import Column, FeatureKind, Schema
from sampler.data.splits.copies import copied_rows, copies_in_words
from sampler.data.splits.resemblance import undeclared
from sampler.data.table import Table
from sampler.data.transform import Transform
from sampler.data.treatment.design import ROLE
from sampler.definitions.data import COLUMN_ROLES, LIMITS, OF_LIKELIHOOD
from sampler.definitions.design import Design
from sampler.definitions.new_rows import LIKE_TRAINING, NewRows
from sampler.definitions.prior import ABSOLUTE
from sampler.engines import load_code
from sampler.errors import DataError, DataProblem
from sampler.families import FAMILIES
from sampler.methods import METHODS
from sampler.noise import AUTO
from sampler.preparation.design import ColumnsOfDesign, RowsOfDesign, TableDesign
from sampler.preparation.fit_plan import FitPlan
from sampler.preparation.hurdle import with_point, without_point
from sampler.preparation.noise_choice import choose_noise
from sampler.preparation.outcomes import choose_by_outcomes, transformed
from sampler.preparation.part import PartRows, facts_of, parts_of
from sampler.preparation.plan import PLANNED, plan, resolve_settings
from sampler.preparation.propensity import num_codes_of
from sampler.prepared_fit import PreparedFit, reference_rows
from sampler.prior import Constants, estimate_sigma
from sampler.settings import Settings
from sampler.storage.model_header import OUTCOME, need_values
from sampler.training import Training, room_for_codes

MAX_COLUMNS = 32_767  # coded columns; prediction stores their indices in 16 bits
MAX_CELLS = 1 << 30  # coded: a GB
KEPT_CELLS = 1 << 22  # up to which coded columns are kept as floats: 32 MB


def resemblance_warnings(rows: Rows, prepared: PreparedFit, new_rows: NewRows = LIKE_TRAINING) -> list[str]:
    """Warn of columns whose rows resemble each other, unless new rows are declared to differ by them.

    The table of the rows has all columns that may tell groups or times apart, also those left out.
    """
    features = {column.name for column in prepared.schema.columns}
    found = undeclared(
        rows.table,
        rows.outcome,
        has_classes=FAMILIES[prepared.training.settings.family].has_classes,
        features=features,
        taken=[name for name in rows.taken if name not in features],
        groups=[column.name for column in prepared.schema.groups],
        new_rows=new_rows,
    )
    return [each.text for each in found]


def prepare_one(
    rows: Rows,
    *,
    ignored: Sequence[str] = (),
    encodes: bool = True,
    among: tuple[Table, NDArray[np.int64]] | None = None,
    **arguments: Any,
) -> PreparedFit:
    """Plan and encode a fit of one outcome; raises as `plan` and `encode`.

    Parameters
    ----------
    rows
        The rows of the fit.
    ignored
        Further names that new tables may contain and the model ignores.
    encodes
        Whether text of many levels may be encoded by means of the outcome.
    among
        A table with more rows, and the places of the fit's among them, by all of which columns are read and
        cut; None for the fit's alone.
    arguments
        Those of `plan`, and settings of `sampler.settings.Settings`; family "auto" is chosen by the outcomes.

    Returns
    -------
    PreparedFit
        Training data and the contents of the header.

    """
    given = {name: arguments.pop(name) for name in PLANNED if name in arguments}
    guessed = arguments.get("family") == "auto"
    summaries = [summarise(rows.table.column(name), count_distinct=False) for name in rows.table.names]
    settings = resolve_settings(rows, **arguments, **given)
    planned = plan(rows, summaries, settings, guessed=guessed, encodes=encodes, **given)
    return encode(planned, rows, ignored, among)


def encode(
    planned: FitPlan,
    rows: Rows,
    ignored: Sequence[str] = (),
    among: tuple[Table, NDArray[np.int64]] | None = None,
) -> PreparedFit:
    """Read and encode the features of a planned fit, and compute its constants.

    `ignored` are further names that new tables may contain, `among` that of `prepare_one`. Raises DataError
    for features that can't be used, and SettingsError for parts of the model that they have no place for.
    """
    choice, target, censored, grouped = planned.choice, planned.target, planned.censored, bool(planned.groups)
    outcome, weights = planned.outcome, planned.by_role.get("weights")
    if "encoded" in choice.kinds.values():  # by means of the fit's own outcomes
        among = None
    used, design, rounded = _read_features(
        among[0] if among else rows.table, choice.kinds, LevelOutcomes.of(outcome, planned.by_role)
    )
    unused = dict.fromkeys([*choice.ignored, *rows.known, *ignored])
    groups = [column.name for column in planned.groups]
    schema = Schema(
        columns=used,
        target=target,
        left_out=choice.left_out,
        ignored=tuple(name for name in unused if name not in groups),
        groups=planned.groups,
    )
    grid, default_grid = choose_grid(design, schema, planned.cuts, planned.settings)
    if among:
        design = design[:, among[1]] if isinstance(design, np.ndarray) else RowsOfDesign(design, among[1])
    of_all, point = (outcome, design, _codes_of(design, grid)), planned.point
    some, off_point, own, codes = without_point(planned, *of_all)
    fit = _Fit(some, off_point, _Columns(own, codes, schema, grid, default_grid))
    of_choices = fit.without_means()
    columns, settings = of_choices.columns, some.settings
    encoded = fit.outcome, columns.design, weights, columns.codes
    has_units = bool(some.prior.keys() & {*ABSOLUTE})
    chosen = choose_by_outcomes(
        settings,
        encoded,
        (target.name, outcome, censoring_roles(rows.roles)) if censored else None,
        has_units=has_units,
        grouped=grouped,
    )
    noise_choice = None
    if settings.noise == AUTO:
        one_size = settings.prior_only or bool(settings.parts) or not len(columns.design)
        apart = one_size or has_units or grouped or censored is not None or ROLE in planned.by_role
        chosen, noise_choice = choose_noise(settings, chosen, encoded, None if apart else of_choices.to)
    prepared = with_point(fit.to(*chosen), point, *of_all)
    warnings = [
        *planned.warnings,
        *rounded,
        *level_warnings(schema, len(outcome), chosen[0]),
        *([] if censored else few_warnings(len(outcome), target)),
        *copy_warnings(design, outcome, schema),
        *copies_in_words(copied_rows(rows, list(choice.kinds))),
        *outlier_warnings(outcome, target),
        *prepared.warnings,
        *(censoring_warnings(censored, target.name) if censored else []),
        *_method_warnings(prepared.training, schema),
    ]
    return replace(
        prepared,
        warnings=warnings,
        noise_choice=noise_choice,
        reference_outcomes=_outcomes_at(reference_rows(len(outcome)), outcome, planned),
    )


def _outcomes_at(
    places: NDArray[np.int64], outcome: NDArray[np.float64], planned: FitPlan
) -> dict[str, NDArray[np.float64]]:
    """Return the outcomes of some rows, and what belongs to them; see `Header.reference_outcomes`."""
    kept = {OUTCOME: outcome}
    kept |= {name: planned.by_role[name] for name in OF_LIKELIHOOD if name in planned.by_role}
    if planned.censored is not None:
        kept |= zip(LIMITS, planned.censored.limits, strict=True)
    return {name: values[places] for name, values in kept.items()}


@dataclass(frozen=True)
class _Columns:
    """Coded columns of the rows of a fit before binning and after, and what the model keeps of them."""

    design: Design
    codes: NDArray[np.uint8]
    schema: Schema
    grid: Grid
    default_grid: list[list[float]]

    def without_means(self) -> _Columns:
        """Leave out encoded text for choices by rows left out: its means know the outcomes of all rows."""
        features = [j for j, column in enumerate(self.schema.columns) if column.kind != "encoded"]
        kept = np.array([k for k, (j, _) in enumerate(self.schema.coded) if j in features], np.int64)
        if len(features) == len(self.schema.columns):
            return self
        return _Columns(
            ColumnsOfDesign(self.design, kept),
            np.ascontiguousarray(self.codes[kept]),
            replace(self.schema, columns=tuple(self.schema.columns[j] for j in features)),
            Grid(tuple(self.grid.cuts[k] for k in kept)),
            [self.default_grid[j] for j in features],
        )


@dataclass(frozen=True)
class _Fit:
    """Rows of a fit whose features are encoded, before a kind of noise and a transform are chosen."""

    planned: FitPlan
    outcome: Floats
    columns: _Columns
    sigmas: dict[tuple[Any, ...], float] = field(default_factory=dict)

    def without_means(self) -> _Fit:
        """Return the fit for choices by rows left out; see `_Columns.without_means`."""
        return replace(self, columns=self.columns.without_means())

    def to(self, settings: Settings, transform: Transform) -> PreparedFit:
        """Compute the constants and parts of a fit with such settings, whose choices are made."""
        planned, columns, design = self.planned, self.columns, self.columns.design
        by_role = {role: numbers for role, numbers in planned.by_role.items() if role != "weights"}
        weights = planned.by_role.get("weights")
        learnt, limits = transformed(transform, self.outcome, planned.censored)
        estimates: dict[str, Any] = {}
        expected = learnt
        if limits is not None:
            naive = planned.prior.get("sigma_estimate") == "naive"
            expected, estimates["noise"] = fit_censored(limits, design, linear=not naive)
        if planned.settings.noise == AUTO:
            estimates["sigma_of"] = partial(self._estimate_sigma, transform)
        of_parts = PartRows(
            settings, columns.schema, columns.codes, design, expected, weights, by_role, planned.group_index
        )
        parts = parts_of(replace(of_parts, facts=facts_of(of_parts, planned)))
        _check_size(*parts.codes.shape)
        calibrate = load_code(METHODS[settings.method].engine.calibrate)
        estimates |= parts.estimates()
        constants: Constants = calibrate(
            expected, design, weights, settings, planned.prior, columns.codes, **estimates
        )
        for role, numbers in by_role.items():
            if place := COLUMN_ROLES[role].constants:
                constants = load_code(place)(constants, self.outcome, numbers)
        training = Training(
            codes=parts.codes,
            num_codes=num_codes_of(columns.grid, parts.codes),
            y=learnt,
            weights=weights,
            constants=constants,
            settings=settings,
            limits=limits,
            by_role=by_role,
            parts=parts.training,
        )
        return PreparedFit(
            training,
            columns.schema,
            columns.grid,
            parts.warnings(planned),
            columns.default_grid,
            design[:, reference_rows(len(learnt))] if need_values(parts.facts) else None,
            transform,
            {role: name for role, name in planned.roles.items() if role != "weights"},
            parts=parts.facts,
        )

    def _estimate_sigma(self, transform: Transform, *rows: Any, robust: bool) -> float:
        """Estimate the noise; fits that are tried with several kinds of it share it, which takes a pass."""
        key = transform, len(self.columns.design), robust
        if key not in self.sigmas:
            self.sigmas[key] = estimate_sigma(*rows, robust=robust)
        return self.sigmas[key]


def _codes_of(design: Design, grid: Grid) -> NDArray[np.uint8]:
    """Encode the columns by their cut points."""
    codes = room_for_codes(*design.shape)
    for j, values in enumerate(design):
        codes[j] = grid.encode(j, values)
    return codes


def _method_warnings(training: Training, schema: Schema) -> list[str]:
    """Return warnings about data that the method treats specially."""
    place = METHODS[training.settings.method].engine.warnings
    return load_code(place)(training, schema) if place else []


def _check_size(columns: int, rows: int) -> None:
    """Raise DataError for more coded columns, or cells, than there is room for."""
    if columns > MAX_COLUMNS or columns * rows > MAX_CELLS:
        size = f"{rows} rows of more than {columns - 1} coded columns (a category takes many)"
        raise DataError(f"the table is too large: {size}; use fewer features")


def _read_features(
    table: Table, kinds: Mapping[str, FeatureKind], outcomes: LevelOutcomes
) -> tuple[tuple[Column, ...], Design, list[str]]:
    """Read the features as columns of the schema and of numbers, with warnings."""
    used: list[Column] = []
    design = TableDesign(table, outcomes)
    problems: list[DataProblem] = []
    warnings: list[str] = []
    for name, kind in kinds.items():
        raw = table.column(name)
        used.append(design.add(raw, kind, problems))
        warnings += reading_warnings(raw, kind)
        _check_size(len(design), table.num_rows)
    if problems:
        raise DataError(problems)
    return tuple(used), np.stack([*design]) if design.size <= KEPT_CELLS else design, warnings
