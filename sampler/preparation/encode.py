"""Encoding of a planned fit: from a table and outcomes to training data and the model's header."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.binning import Grid
from sampler.data.censoring.outcomes import censoring_roles, censoring_warnings
from sampler.data.censoring.regression import fit_censored
from sampler.data.columns import summarise
from sampler.data.cut_points import choose_grid
from sampler.data.data_warnings import (
    copy_warnings,
    dose_warnings,
    few_warnings,
    level_warnings,
    outlier_warnings,
    reading_warnings,
    site_warnings,
)
from sampler.data.groupings import Groupings
from sampler.data.level_means import LevelOutcomes
from sampler.data.linear_terms import LinearTerms, ridge_fit
from sampler.data.rows import Rows
from sampler.data.schema import Column, FeatureKind, Schema
from sampler.data.splits.copies import copied_rows, copies_in_words
from sampler.data.splits.resemblance import undeclared
from sampler.data.table import Table
from sampler.data.transform import Transform
from sampler.data.treatment.design import ROLE, EffectDesign
from sampler.data.treatment.reading import arms_of
from sampler.definitions.data import COLUMN_ROLES, LIMITS, OF_LIKELIHOOD
from sampler.definitions.design import Design
from sampler.definitions.new_rows import LIKE_TRAINING, NewRows
from sampler.definitions.prior import ABSOLUTE
from sampler.engines import load_code
from sampler.errors import DataError, DataProblem
from sampler.families import CLASS_SLOPE_SD, FAMILIES
from sampler.methods import METHODS
from sampler.noise import AUTO
from sampler.preparation.design import ColumnsOfDesign, TableDesign
from sampler.preparation.fit_plan import FitPlan
from sampler.preparation.hurdle import with_point, without_point
from sampler.preparation.noise_choice import choose_noise
from sampler.preparation.outcomes import choose_by_outcomes, transformed
from sampler.preparation.part import PartRows, parts_of
from sampler.preparation.plan import PLANNED, plan, resolve_settings
from sampler.preparation.propensity import effect_prior, effect_sd, num_codes_of, treated_rows
from sampler.prepared_fit import PreparedFit, reference_rows
from sampler.prior import Constants, estimate_sigma, outcome_sd
from sampler.settings import Settings
from sampler.storage.model_header import OUTCOME, need_values
from sampler.training import GroupTraining, LinearTraining, Training, room_for_codes

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
    return encode(plan(rows, summaries, settings, guessed=guessed, encodes=encodes, **given), rows, ignored)


def encode(planned: FitPlan, rows: Rows, ignored: Sequence[str] = ()) -> PreparedFit:
    """Read and encode the features of a planned fit, and compute its constants.

    `ignored` are further names that new tables may contain. Raises DataError for features that can't be used,
    and SettingsError for parts of the model that they have no place for.
    """
    choice, target, outcome, censored = planned.choice, planned.target, planned.outcome, planned.censored
    grouped = [column.name for column in planned.groups]
    used, design, rounded = _read_features(
        rows.table, choice.kinds, LevelOutcomes.of(outcome, planned.by_role)
    )
    unused = dict.fromkeys([*choice.ignored, *rows.known, *ignored])
    schema = Schema(
        columns=used,
        target=target,
        left_out=choice.left_out,
        ignored=tuple(name for name in unused if name not in grouped),
        groups=planned.groups,
    )
    grid, default_grid = choose_grid(design, schema, planned.cuts, planned.settings)
    by_role = dict(planned.by_role)
    weight = by_role.pop("weights", None)
    codes, places = _codes_of(design, grid), reference_rows(len(outcome))
    arms = None
    if ROLE in by_role:
        arms = treated_rows(
            rows.roles[ROLE].name,
            by_role[ROLE],
            design,
            codes,
            schema,
            planned.settings,
            planned.propensity,
            places,
            arms_of(rows.roles[ROLE]),
        )
    of_all, point = (outcome, design, codes), planned.point
    planned, outcome, design, codes = without_point(planned, *of_all)
    columns = _Columns(design, codes if arms is None else arms.codes, schema, grid, default_grid)
    of_choices = columns.without_means()
    encoded = outcome, of_choices.design, weight, of_choices.codes[: len(of_choices.design)]
    sigmas, has_units = (
        _Sigmas(several=planned.settings.noise == AUTO),
        bool(planned.prior.keys() & {*ABSOLUTE}),
    )
    chosen = choose_by_outcomes(
        planned.settings,
        encoded,
        (target.name, outcome, censoring_roles(rows.roles)) if censored else None,
        has_units=has_units,
        grouped=bool(grouped),
    )

    def fit_of(settings: Settings, transform: Transform | None, columns: _Columns = columns) -> PreparedFit:
        """Compute the constants of a fit with such settings, whose choices are made."""
        (learnt, limits), noise = transformed(transform, outcome, censored), None
        design, schema, expected = columns.design, columns.schema, learnt
        if limits is not None:
            naive = planned.prior.get("sigma_estimate") == "naive"
            expected, noise = fit_censored(limits, design, linear=not naive)
        linear, line = _linear_training(settings, design, schema, expected, weight)
        finer = None if arms is None else arms.finer
        known = {"line": line, "noise": noise, "sigma_of": sigmas.of(transform, len(design)), "finer": finer}
        estimates = {name: value for name, value in known.items() if value is not None}
        calibrate = load_code(METHODS[settings.method].engine.calibrate)
        constants: Constants = calibrate(
            expected, design, weight, settings, planned.prior, columns.codes[: len(design)], **estimates
        )
        for role, numbers in by_role.items():
            if place := COLUMN_ROLES[role].constants:
                constants = load_code(place)(constants, outcome, numbers)
        scale = 1.0 if FAMILIES[settings.family].has_latent_outcomes else outcome_sd(expected, weight)
        terms = LinearTerms.of_columns(design, schema, planned.slopes, scale)
        groupings = (
            Groupings.of(planned.groups, planned.group_index, scale, places, terms) if grouped else None
        )
        kind = FAMILIES[settings.family].target
        effects = None if arms is None else replace(arms.design, sd=effect_sd(expected, weight, kind))
        own = parts_of(
            PartRows(settings, schema, columns.codes[: len(design)], design, learnt, weight, by_role)
        )
        training = Training(
            codes=columns.codes,
            num_codes=num_codes_of(columns.grid, columns.codes),
            y=learnt,
            weights=weight,
            constants=constants,
            settings=settings,
            linear=linear,
            groups=None
            if groupings is None
            else GroupTraining.of(groupings, planned.group_index, linear, design),
            limits=limits,
            by_role=by_role,
            effect=effect_prior(effects, schema, counts=kind == "counts"),
            parts=own.training,
        )
        facts = {**_facts(linear, groupings, effects), **own.facts}
        return PreparedFit(
            training,
            schema,
            columns.grid,
            [],
            columns.default_grid,
            design[:, places] if need_values(facts) and point is None else None,
            transform,
            {role: column.name for role, column in rows.roles.items() if role != "weights"},
            parts=facts,
        )

    noise_choice = None
    if planned.settings.noise == AUTO:
        one_size = planned.settings.prior_only or bool(planned.settings.parts) or not len(encoded[1])
        apart = one_size or has_units or bool(grouped) or censored is not None or arms is not None
        chosen, noise_choice = choose_noise(
            planned.settings,
            chosen,
            encoded,
            None if apart else partial(fit_of, columns=of_choices),
        )
    prepared, (outcome, design, _) = with_point(fit_of(*chosen), point, *of_all), of_all
    warnings = [
        *planned.warnings,
        *rounded,
        *level_warnings(schema, len(outcome), chosen[0]),
        *([] if censored else few_warnings(len(outcome), target)),
        *copy_warnings(design, outcome, schema),
        *copies_in_words(copied_rows(rows, list(choice.kinds))),
        *outlier_warnings(outcome, target),
        *(
            []
            if arms is None or arms.design.dose is None
            else dose_warnings(rows.roles[ROLE].name, by_role[ROLE], schema, design)
        ),
        *(
            []
            if arms is None
            else site_warnings(rows.roles[ROLE].name, by_role[ROLE], schema, design, chosen[0])
        ),
        *(censoring_warnings(censored, target.name) if censored else []),
        *_method_warnings(prepared.training, schema),
    ]
    return replace(
        prepared,
        warnings=warnings,
        noise_choice=noise_choice,
        reference_outcomes=_outcomes_at(places, outcome, planned),
    )


def _facts(
    linear: LinearTraining | None, groupings: Groupings | None, effects: EffectDesign | None
) -> dict[str, Any]:
    """Return what the header keeps of the parts that the encoding makes itself."""
    every = {"line": linear and linear.terms, "groups": groupings, "treatment": effects}
    return {name: each for name, each in every.items() if each is not None}


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


def _codes_of(design: Design, grid: Grid) -> NDArray[np.uint8]:
    """Encode the columns by their cut points."""
    codes = room_for_codes(*design.shape)
    for j, values in enumerate(design):
        codes[j] = grid.encode(j, values)
    return codes


class _Sigmas:
    """Estimates of the noise for a fit that is tried with `several` kinds of it.

    Each takes a pass over the table, so that it is made once for a transform.
    """

    def __init__(self, *, several: bool) -> None:
        self._several = several
        self._known: dict[tuple[Any, ...], float] = {}

    def of(self, transform: Transform | None, columns: int) -> Callable[..., float] | None:
        """Return what estimates the noise of a transform's outcomes; None where one fit alone asks.

        Fits of so many columns have the same ones.
        """
        return partial(self._estimate, transform, columns) if self._several else None

    def _estimate(self, transform: Transform | None, columns: int, *rows: Any, robust: bool) -> float:
        key = transform, columns, robust
        if key not in self._known:
            self._known[key] = estimate_sigma(*rows, robust=robust)
        return self._known[key]


def _method_warnings(training: Training, schema: Schema) -> list[str]:
    """Return warnings about data that the method treats specially."""
    place = METHODS[training.settings.method].engine.warnings
    return load_code(place)(training, schema) if place else []


def _linear_training(
    settings: Settings,
    design: Design,
    schema: Schema,
    y: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
) -> tuple[LinearTraining | None, NDArray[np.float64] | None]:
    """Choose the terms of a linear part, and estimate it roughly for numbers, float64 [n]; None without."""
    if not settings.linear:
        return None, None
    classes = FAMILIES[settings.family].has_classes
    terms = LinearTerms.choose(design, schema, CLASS_SLOPE_SD if classes else outcome_sd(y, weights))
    linear = LinearTraining(terms, terms.of(design))
    return linear, None if classes else ridge_fit(linear.z, y, weights)


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
        if len(design) > MAX_COLUMNS or design.size > MAX_CELLS:
            size = (
                f"{table.num_rows} rows of more than {len(design) - 1} coded columns (a category takes many)"
            )
            raise DataError(f"the table is too large: {size}; use fewer features")
    if problems:
        raise DataError(problems)
    return tuple(used), np.stack([*design]) if design.size <= KEPT_CELLS else design, warnings
