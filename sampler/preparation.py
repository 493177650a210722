"""Preparation of a fit: from a table and an outcome to training data and the model's header."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.bart.intercepts import GroupTraining
from sampler.bart.linear_part import LinearTraining
from sampler.bart.prior import ABSOLUTE
from sampler.data.censoring.outcomes import (
    CensoredOutcomes,
    censoring_again,
    censoring_warnings,
    check_censoring,
    choose_censored_transform,
    read_censored_target,
    read_roles,
)
from sampler.data.censoring.regression import fit_censored
from sampler.data.columns import summarise
from sampler.data.cut_points import choose_grid
from sampler.data.data_warnings import copy_warnings, index_warnings, outlier_warnings
from sampler.data.encode import encode, train_column
from sampler.data.groupings import Groupings, check_names, columns_of, group_names, read_groups
from sampler.data.linear_terms import LinearTerms, ridge_fit
from sampler.data.schema import Column, Schema, choose
from sampler.data.table import one_column, read
from sampler.data.target import guess_family, read_exposure, read_target, read_weights
from sampler.data.transform import Transform, choose_transform, is_better_with_line
from sampler.errors import DataError, DataProblem, SettingsError
from sampler.families import FAMILIES
from sampler.methods import METHODS
from sampler.prior import outcome_sd
from sampler.setting_checks import check_groups
from sampler.settings import NO_TRANSFORM, Settings
from sampler.storage.model_header import REFERENCE_ROWS, Header
from sampler.training import Training

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sampler.data.binning import Grid
    from sampler.data.encode import Coded
    from sampler.data.schema import FeatureKind
    from sampler.data.table import RawColumn, Table
    from sampler.prior import Constants

MAX_COLUMNS = 32_767  # coded columns; prediction stores their indices in 16 bits
MAX_CELLS = 1 << 28  # 2 GB while the noise is estimated, a quarter of a GB afterwards


@dataclass(frozen=True)
class PreparedFit:
    """A prepared fit: training data for the chains, and the contents of the header for predictions."""

    training: Training
    schema: Schema
    grid: Grid
    warnings: list[str]
    default_grid: list[list[float]] = field(default_factory=list)  # see `Header`
    reference_values: NDArray[np.float64] | None = None  # likewise
    transform: Transform | None = None  # of the outcome; the training data has T(y)
    exposure: str | None = None  # likewise
    groupings: Groupings | None = None  # likewise
    censoring: dict[str, str] = field(default_factory=dict)  # likewise

    def header(self) -> bytes:
        """Encode the header of the model; equal fits give equal bytes."""
        codes, linear = self.training.codes, self.training.linear
        rows = _reference_rows(codes.shape[1])
        header = Header(
            schema=self.schema,
            grid=self.grid,
            constants=self.training.constants.to_json(),
            settings=self.training.settings.to_json(),
            reference=np.ascontiguousarray(codes[:, rows]),
            weighted=self.training.weights is not None,
            warnings=self.warnings,
            default_grid=self.default_grid,
            num_rows=self.training.num_counted,
            linear=linear.terms if linear else None,
            reference_values=self.reference_values,
            transform=self.transform,
            exposure=self.exposure,
            groupings=self.groupings,
            censoring=self.censoring,
        )
        return header.to_bytes()


def _reference_rows(num_rows: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, num_rows - 1, REFERENCE_ROWS).astype(np.int64))


def prepare(
    X: Any,
    y: Any,
    *,
    features: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    weights: Any = None,
    exposure: Any = None,
    exposure_name: str | None = None,
    groups: str | Sequence[str] | None = None,
    event: Any = None,
    lower: Any = None,
    upper: Any = None,
    target_name: str | None = None,
    ignored: Sequence[str] = (),
    prior: Mapping[str, Any] | None = None,
    **settings: Any,
) -> PreparedFit:
    """Check and encode the data of a fit, and resolve all settings and constants.

    Parameters
    ----------
    X
        A table (pandas, polars, pyarrow, a 2-D array, a mapping of columns), n rows.
    y
        The outcome, n values.
    features
        Names of the columns to learn from; None takes all that are usable.
    columns
        Kinds to use instead of the inferred ones, by name: "number", "boolean", "category", "date".
    weights
        n positive precision weights, or None.
    exposure
        n positive exposures of counts, or None.
    exposure_name
        Name of the exposures, never a feature; None takes the name of `exposure`, or else "exposure".
    groups
        Names of columns whose levels have an intercept each beside the trees; they are no features.
    event, lower, upper
        Events or limits of censored outcomes, n values each, or None; see `sampler.data.censoring.outcomes`.
        A column without a name is called as the argument.
    target_name
        Name of the outcome, never a feature; None takes the name of `y`, or else "y".
    ignored
        Further names that new tables may contain and the model ignores.
    prior
        Hyperparameters and absolute constants, see `sampler.bart.prior`; `cuts` is "quantile", "uniform",
        "mixed" (the default of classes with method bart; else "quantile") or a mapping from column to cut
        points.
    settings
        Settings of `sampler.settings.Settings`; family "auto" is chosen by y.

    Raises
    ------
    DataError
        With every problem found, by column and row.
    SettingsError
        For a setting that doesn't exist or is out of range.

    """
    roles = read_roles(event, lower, upper)
    if settings.get("family") == "auto":
        guessed = "gaussian" if roles else guess_family(y, str(settings.get("method") or "bart"))
        settings = {**settings, "family": guessed}
    resolved = Settings.resolve(**settings)
    grouped = group_names(groups)
    check_groups(resolved, METHODS[resolved.method], grouped)
    table = read(X)
    y = one_column(y)
    given = target_name or getattr(y, "name", None)
    target, outcome, censored = _read_outcomes(
        y, str(given or "y"), table.num_rows, resolved, roles, weighted=weights is not None
    )
    named_so = exposure_name or getattr(exposure, "name", None) or "exposure"
    exposed = None if exposure is None else str(named_so)
    names = {role: column.name for role, column in roles.items()}
    others = {f"column of {role}": name for role, name in names.items()}
    check_names(grouped, table.names, {"target": given, "column of exposures": exposed} | others, features)
    taken = [*([target.name] if given else []), *([] if exposed is None else [exposed]), *names.values()]
    reserved = [*(name for name in taken if name in table.names), *grouped]
    summaries = [summarise(table.column(name), count_distinct=False) for name in table.names]
    choice = choose(summaries, reserved=reserved, features=features, columns=columns, num_rows=table.num_rows)
    group_columns, group_index = read_groups(columns_of(table, grouped))
    used, design = _read_features(table, choice.kinds)
    schema = Schema(
        columns=used,
        target=target,
        left_out=choice.left_out,
        ignored=tuple(
            name for name in dict.fromkeys([*choice.ignored, *taken, *ignored]) if name not in grouped
        ),
        groups=group_columns,
    )
    prior = dict(prior or {})
    grid, default_grid = choose_grid(design, schema, prior.pop("cuts", {}), resolved)
    weight = None if weights is None else read_weights(weights, table.num_rows)
    codes = np.stack([grid.encode(j, values) for j, values in enumerate(design)])
    looked_at = outcome, design, weight, codes
    of_censored = (target.name, outcome, roles) if censored else None
    has_units = bool(prior.keys() & {*ABSOLUTE})
    resolved, transform = _choose_by_outcomes(resolved, looked_at, of_censored, has_units=has_units)
    learnt, limits = _transformed(transform, outcome, censored)
    expected, noise = learnt, None
    if limits is not None:
        expected, noise = fit_censored(limits, design, linear=prior.get("sigma_estimate") != "naive")
    linear = _linear_training(design, schema, outcome_sd(expected, weight)) if resolved.linear else None
    line = ridge_fit(linear.z, expected, weight) if linear else None
    constants = calibrated(expected, design, codes, weight, resolved, prior, line, noise)
    scale = 1.0 if resolved.family == "probit" else outcome_sd(expected, weight)
    places = _reference_rows(len(outcome))
    groupings = Groupings.of(group_columns, group_index, scale, places) if grouped else None
    exposures = None if exposed is None else read_exposure(exposure, exposed, table.num_rows)
    if exposures is not None:
        constants = _with_exposures(constants, outcome, exposures, resolved)
    training = Training(
        codes=codes,
        num_codes=grid.num_codes,
        y=learnt,
        weights=weight,
        constants=constants,
        settings=resolved,
        linear=linear,
        exposure=exposures,
        groups=_group_training(groupings, group_index),
        limits=limits,
    )
    warnings = [
        *choice.warnings,
        *index_warnings(X, y),
        *copy_warnings(design, outcome, schema),
        *outlier_warnings(outcome, target),
        *(censoring_warnings(censored, target.name) if censored else []),
        *METHODS[resolved.method].warnings(training, schema),
    ]
    kept = design[:, _reference_rows(len(outcome))] if linear else None
    parts = transform, exposed, groupings, names
    return PreparedFit(training, schema, grid, warnings, default_grid, kept, *parts)


def _linear_training(design: NDArray[np.float64], schema: Schema, sd: float) -> LinearTraining:
    """Choose the terms of a linear part for outcomes of that standard deviation."""
    terms = LinearTerms.choose(design, schema, sd)
    return LinearTraining(terms, terms.of(design))


def _with_exposures(
    constants: Constants, y: NDArray[np.float64], exposures: NDArray[np.float64], settings: Settings
) -> Constants:
    """Return constants whose mean rate is that of rows with such exposures; raise SettingsError."""
    from sampler.bart.families.counts import with_exposure  # noqa: PLC0415  # loads the engine

    check_exposure(settings)
    return with_exposure(constants, y, exposures)


def _read_outcomes(
    y: Any, name: str, num_rows: int, settings: Settings, roles: Mapping[str, RawColumn], *, weighted: bool
) -> tuple[Column, NDArray[np.float64], CensoredOutcomes | None]:
    """Read the outcomes of a fit, float64 [n]; those of censored rows too, where columns tell of any."""
    if not roles:
        return *read_target(y, name, num_rows, settings.family), None
    check_censoring(settings, of_trees=METHODS[settings.method].engine.forests, weighted=weighted)
    target, outcomes = read_censored_target(y, name, roles, num_rows)
    return target, outcomes.y, outcomes


def _transformed(
    transform: Transform | None, outcome: NDArray[np.float64], censored: CensoredOutcomes | None
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return what is learnt, float64 [n], and its limits, float64 [2, n]; None where no row is censored."""
    limits = censored.limits if censored and censored.censored.any() else None
    if transform is None:
        return outcome, limits
    return transform.forward(outcome), None if limits is None else transform.forward(limits)


def _choose_by_outcomes(
    settings: Settings,
    rows: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.uint8]],
    censored: tuple[str, NDArray[np.float64], Mapping[str, RawColumn]] | None,
    *,
    has_units: bool,
) -> tuple[Settings, Transform | None]:
    """Choose the transform and the linear part where their settings are "auto".

    `rows` are the outcomes, the columns, the weights (or None) and the codes; `censored` what
    `choose_censored_transform` takes of censored outcomes, for which no linear part is looked for;
    `has_units`: the prior has constants in units of the outcome, which then stays as it is.
    """
    named, linear = settings.transform, settings.linear
    if has_units and named == "auto":
        named = NO_TRANSFORM
    if censored:
        transform = choose_censored_transform(named, *censored)
    else:
        transform = choose_transform(named, *rows, linear=linear is True)
    if linear == "auto":
        linear = not has_units and censored is None and is_better_with_line(transform, *rows)
    kind = transform.kind if transform else NO_TRANSFORM
    return replace(settings, transform=kind, linear=linear), transform


def prepare_again(header: Header, X: Any, y: Any, weights: Any = None) -> PreparedFit:
    """Prepare a fitted model's training data again, from its header and its training rows.

    Parameters
    ----------
    header
        Header of the model.
    X, y, weights
        Training rows, outcomes and weights of the fit.

    Raises
    ------
    DataError
        For rows that don't fit the model, and for weights that are missing or superfluous.

    """
    settings = Settings.from_json(header.settings)
    coded = encode(X, header.schema, header.grid, keep_values=header.linear is not None)
    roles = censoring_again(header.censoring, X)
    _, outcome, censored = _read_outcomes(
        y, header.schema.target.name, coded.num_rows, settings, roles, weighted=False
    )
    if header.weighted != (weights is not None):
        told = "with weights: give them too" if header.weighted else "without weights: leave them out"
        raise DataError(f"the model was fitted {told}")
    learnt, limits = _transformed(header.transform, outcome, censored)
    training = Training(
        codes=coded.codes,
        num_codes=header.grid.num_codes,
        y=learnt,
        weights=None if weights is None else read_weights(weights, coded.num_rows),
        constants=_constants_again(header, settings),
        settings=settings,
        linear=None
        if header.linear is None or coded.values is None
        else LinearTraining(header.linear, header.linear.of(coded.values)),
        exposure=_exposure_again(header, X, coded.num_rows),
        groups=_group_training(header.groupings, _groups_again(header, coded)),
        limits=limits,
    )
    return PreparedFit(
        training,
        header.schema,
        header.grid,
        header.warnings,
        header.default_grid,
        header.reference_values,
        header.transform,
        header.exposure,
        header.groupings,
        header.censoring,
    )


def _group_training(groupings: Groupings | None, index: NDArray[np.int32]) -> GroupTraining | None:
    if groupings is None:
        return None
    return GroupTraining(index, tuple(len(rows) for rows in groupings.rows), groupings.scales)


def _groups_again(header: Header, coded: Coded) -> NDArray[np.int32]:
    """Return the groups of the training rows; raise DataError for others than those of the fit."""
    if coded.groups is None:
        return np.zeros((0, coded.num_rows), np.int32)
    for column, places in zip(header.schema.groups, coded.groups, strict=True):
        if np.any(places < 0):
            row = int(np.argmax(places < 0)) + 1
            raise DataError([DataProblem(column.name, row, "the fit had no such group, so not this row")])
    return coded.groups


def _exposure_again(header: Header, X: Any, num_rows: int) -> NDArray[np.float64] | None:
    """Read the exposures of the training rows; raise DataError where they are missing."""
    if header.exposure is None:
        return None
    table = read(X)
    if header.exposure not in table.names:
        raise DataError(f"the model was fitted with exposures: X needs the column {header.exposure!r} too")
    return read_exposure(table.column(header.exposure), header.exposure, num_rows)


def _constants_again(header: Header, settings: Settings) -> Constants:
    """Read the constants of the method's class from the header, with tuples instead of JSON lists."""
    return (
        METHODS[settings.method]
        .constants_of(settings.family)
        .from_json({name: _tupled(value) for name, value in header.constants.items()})
    )


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


def calibrated(
    y: NDArray[np.float64],
    design: NDArray[np.float64],
    codes: NDArray[np.uint8],
    weights: NDArray[np.float64] | None,
    settings: Settings,
    prior: Mapping[str, Any] | None = None,
    line: NDArray[np.float64] | None = None,
    noise: float | None = None,
) -> Constants:
    """Compute the constants of the method's prior.

    Parameters
    ----------
    y
        Outcomes, float64 [n].
    design
        Numeric coded columns before binning, float64 [p, n].
    codes
        Codes, uint8 [p, n].
    weights
        float64 [n] or None.
    settings
        Settings of the fit.
    prior
        Prior entries without `cuts`, or None.
    line
        Rough estimate of a linear part beside the trees, float64 [n], or None.
    noise
        Estimate of the noise's sd where outcomes are censored, in place of that of y; None elsewhere.

    Raises
    ------
    SettingsError
        For invalid entries, and for weights with classes.

    """
    check_weights(settings, weighted=weights is not None)
    return METHODS[settings.method].calibrate(y, design, weights, settings, prior, codes, line, noise)


def check_weights(settings: Settings, *, weighted: bool) -> None:
    """Raise SettingsError where the fit has weights and its family takes none."""
    if weighted and not FAMILIES[settings.family].weights:
        raise SettingsError(
            f"{settings.family} takes no weights: leave them out", field="weights", code="not_applicable"
        )


def check_exposure(settings: Settings) -> None:
    """Raise SettingsError where the fit has exposures and its family has no counts."""
    if FAMILIES[settings.family].target != "counts":
        counts = " or ".join(name for name, family in FAMILIES.items() if family.target == "counts")
        raise SettingsError(
            f"exposure is for counts: set family={counts}, or leave it out",
            field="exposure",
            code="not_applicable",
        )


def checked_prior(prior: Mapping[str, Any] | None, settings: Settings) -> dict[str, Any]:
    """Check the prior entries except `cuts` and add defaults; raise SettingsError."""
    return METHODS[settings.method].check_prior(prior, settings)


def _read_features(
    table: Table, kinds: Mapping[str, FeatureKind]
) -> tuple[tuple[Column, ...], NDArray[np.float64]]:
    used: list[Column] = []
    design: list[NDArray[np.float64]] = []
    problems: list[DataProblem] = []
    for name, kind in kinds.items():
        column, values = train_column(table.column(name), kind, problems)
        used.append(column)
        design += values
        if len(design) > MAX_COLUMNS or len(design) * table.num_rows > MAX_CELLS:
            size = (
                f"{table.num_rows} rows of more than {len(design) - 1} coded columns (a category takes many)"
            )
            raise DataError(f"the table is too large: {size}; use fewer features")
    if problems:
        raise DataError(problems)
    return tuple(used), np.stack(design)
