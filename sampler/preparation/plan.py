"""Plan of a fit: settings, features, and rows of columns with a role, checked before features are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from sampler.data.censoring.outcomes import choose_censored_transform
from sampler.data.columns import ColumnSummary
from sampler.data.cut_points import check_cuts
from sampler.data.data_warnings import mass_warnings
from sampler.data.groupings import (
    check_names,
    columns_of,
    group_names,
    read_groups,
    slope_columns,
)
from sampler.data.level_means import ENCODED_TARGETS
from sampler.data.rows import Rows, censoring_roles, read_roles
from sampler.data.schema import choose
from sampler.data.target import absent_levels, family_warnings, find_point, guess_family, in_order
from sampler.data.transform import check_outcomes
from sampler.data.treatment.design import ROLE
from sampler.data.treatment.panel import read_panel
from sampler.data.treatment.reading import arms_of
from sampler.definitions.data import COLUMN_ROLES, ROLES
from sampler.definitions.pairs import Combination
from sampler.definitions.parts import code_asked
from sampler.engines import load_code
from sampler.errors import DataError, SettingsError
from sampler.families import FAMILIES
from sampler.methods import METHODS
from sampler.noise import CONSTANT
from sampler.pairs import check, refusals_of
from sampler.preparation.fit_plan import FitPlan
from sampler.preparation.outcomes import read_outcomes
from sampler.settings import NO_TRANSFORM, Settings

PLANNED = (*(name for name in ROLES if name not in COLUMN_ROLES), "prior")  # arguments of a plan


def resolve_settings(rows: Rows, **arguments: Any) -> Settings:
    """Resolve the settings of a fit; family "auto" is chosen by the outcomes. Raises SettingsError.

    The arguments may be those of `plan` too, which settings may not go with.
    """
    beside = asked_of(rows, {name: arguments.pop(name) for name in PLANNED if name in arguments})
    if arguments.get("family") == "auto":
        method = str(arguments.get("method") or "bart")
        arguments["family"] = (
            "gaussian" if censoring_roles(rows.roles) else guess_family(rows.outcome, method)
        )
    panel = beside["adoption"] is not None
    if (
        ROLE in rows.roles or panel
    ):  # the prior is about the effect on the outcome itself, or on the logarithm of times
        usual = {"noise": CONSTANT} | ({} if "event" in rows.roles else {"transform": NO_TRANSFORM})
        arguments |= {name: value for name, value in usual.items() if arguments.get(name) is None}
        if panel and arguments.get("linear") is None and not any(refusals_of(beside.but(arguments))):
            arguments["linear"] = True  # trends that differ by a feature are no step of a tree
    return Settings.resolve(beside, **arguments)


def asked_of(rows: Rows, arguments: Mapping[str, Any]) -> Combination:
    """Say what a fit to rows is asked to have beside its settings; the arguments are those of `plan`."""
    arms = {"arms": arms_of(rows.roles[ROLE])} if ROLE in rows.roles else {}

    def suits(family: str) -> bool:
        """Tell whether a family may have such outcomes."""
        known = FAMILIES[family]
        try:
            y = in_order(rows.outcome, arguments.get("levels"), family)
            censoring = censoring_roles(rows.roles) if known.target == "numbers" else {}
            outcome = read_outcomes(y, y.name, rows.num_rows, family, censoring)[1]
            return not known.point or find_point(arguments.get("prior") or {}, outcome) is not None
        except (DataError, SettingsError):
            return False

    return Combination({ROLE: None, **arguments, **rows.roles, **arms}, suits)


def plan(
    rows: Rows,
    summaries: Sequence[ColumnSummary],
    settings: Settings,
    *,
    guessed: bool = False,
    num_rows: int | None = None,
    encodes: bool = True,
    features: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    levels: Sequence[Any] | None = None,
    groups: str | Sequence[str] | None = None,
    slopes: str | Sequence[str] | None = None,
    propensity: str | None = None,
    adoption: str | None = None,
    period: str | None = None,
    prior: Mapping[str, Any] | None = None,
) -> FitPlan:
    """Check a fit before its features are read.

    Parameters
    ----------
    rows
        The rows of the fit; of the table, the columns of groups and those with slopes are read.
    summaries
        Summaries of all columns of the data.
    settings
        The settings, see `resolve_settings`.
    guessed
        Whether the family was chosen by the outcomes.
    num_rows
        Number of rows that the summaries are of; None for those of the fit.
    encodes
        Whether text of many levels may be encoded by means of this outcome.
    features
        Names of the columns to learn from; None takes all that are usable.
    columns
        Kinds to use instead of the inferred ones, by name: "number", "boolean", "category", "date",
        "encoded".
    levels
        Names of ordered classes from the lowest to the highest; None takes the outcomes' own order.
    groups
        Names of columns whose levels have an intercept each beside the trees; they are no features.
    slopes
        Names of features whose slope differs by group too.
    propensity
        Name of a feature that is the probability of being treated; None to fit it where it is needed.
    adoption, period
        Names of the column of a panel that has the period in which units adopted a treatment, and of the
        feature that is a row's period; the first of the groups are the units.
    prior
        Hyperparameters and absolute constants, see `sampler.bart.prior`; `cuts` is "quantile", "uniform",
        "mixed" (the default of classes with method bart; else "quantile") or a mapping from column to cut
        points.

    Returns
    -------
    FitPlan
        The plan.

    Raises
    ------
    DataError
        For columns and rows that can't be used.
    SettingsError
        For a setting that is out of range, or has no place in such a fit.

    """
    roles, table = rows.roles, rows.table
    censoring = censoring_roles(roles)
    grouped = group_names(groups)
    sloped = slope_columns(slopes)
    given = {
        "levels": levels,
        "groups": grouped,
        "slopes": sloped,
        "propensity": propensity,
        "adoption": adoption,
        "period": period,
        "prior": prior,
    }
    asked = asked_of(rows, given).but(asdict(settings))
    check(asked)
    entries = dict(prior or {})
    cuts = entries.pop("cuts", {})
    resolved_prior = checked_prior(entries, settings) | ({"cuts": cuts} if cuts else {})
    METHODS[settings.method].check_size(settings.num_draws, rows.num_rows)
    arms, panel = asked["arms"], None
    if adoption is not None and period is not None:
        panel = read_panel(table, adoption, period, grouped[0])
        table, arms, grouped = panel.of_rows(table), panel.arms, group_names((adoption, *grouped))
        roles = {**roles, ROLE: table.column(panel.treatment)}
    name, y = rows.outcome.name, in_order(rows.outcome, levels, settings.family)
    target, outcome, censored = read_outcomes(y, name, rows.num_rows, settings.family, censoring)
    point = find_point(entries, outcome) if FAMILIES[settings.family].point else None
    if censored is None:
        check_outcomes(settings.transform, np.where(outcome == point, 1.0, outcome))
    else:
        choose_censored_transform(settings.transform, name, outcome, censoring)
    known = [summary.name for summary in summaries]
    names = {role: column.name for role, column in roles.items()}
    check_names(grouped, known, {"target": rows.outcome.name} | names, features)
    choice = choose(
        summaries,
        reserved=[*(name for name in rows.taken if name in known and name not in rows.copies), *grouped],
        features=features,
        columns=columns,
        num_rows=rows.num_rows if num_rows is None else num_rows,
        unfit=rows.copies,
        encodes=encodes
        and FAMILIES[settings.family].target in ENCODED_TARGETS
        and not (censoring or rows.others or ROLE in roles),
    )
    if "cuts" in (prior or {}):
        check_cuts(cuts, choice.kinds)
    family_notes = [] if censoring else family_warnings(rows.outcome, settings.family, guessed=guessed)
    masses = []
    if FAMILIES[settings.family].target == "numbers" and point is None and not censoring:
        hurdle = asked.but({"family": "hurdle"})
        masses = mass_warnings(outcome, target, may_be_hurdle=not any(refusals_of(hurdle)))
    by_role = read_roles(roles, rows.num_rows)
    group_columns, group_index = read_groups(columns_of(table, grouped))
    planned = FitPlan(
        settings=settings,
        prior=entries,
        cuts=cuts,
        resolved_prior=resolved_prior,
        choice=choice,
        target=target,
        outcome=outcome,
        censored=censored,
        roles=names,
        by_role=by_role,
        groups=group_columns,
        group_index=group_index,
        slopes=sloped,
        propensity=propensity,
        arms=arms or (),
        panel=panel,
        point=point,
        warnings=[*choice.warnings, *family_notes, *absent_levels(y, target, settings.family), *masses],
    )
    for each in code_asked("design", vars(settings) | names | {"groups": grouped, "adoption": adoption}):
        each.check(planned, table)
    return planned


def checked_prior(prior: Mapping[str, Any] | None, settings: Settings) -> dict[str, Any]:
    """Check the prior entries except `cuts` and add defaults; raise SettingsError."""
    of_fit = {name: getattr(settings, name) for name in ("method", "family", "noise", "moves")}
    check(Combination({**of_fit, "prior": prior}))
    entries: dict[str, Any] = load_code(METHODS[settings.method].engine.check_prior)(prior, settings)
    return entries
