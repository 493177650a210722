"""Definitions of settings of the data: roles of columns, holdout and calibration, rows without a target."""

from __future__ import annotations

from sampler.definitions.setting import FormField, Setting

ROLES: dict[str, Setting] = {
    "features": Setting("names", "roles", "Columns to use as features; null: all usable ones."),
    "columns": Setting(
        "kinds", "roles", "Kinds that override the inferred ones: number, boolean, category, date."
    ),
    "weights": Setting(
        "column", "roles", "A column of positive precision weights.", form=FormField("Weights")
    ),
    "exposure": Setting(
        "column",
        "roles",
        "A column of positive exposures of counts: a row's expected count is in proportion to its own. New "
        "rows have theirs in the column of this name; without it, 1.",
        sparing=True,
        form=FormField("Exposure"),
    ),
    "groups": Setting(
        "names",
        "roles",
        "Columns, at most four, whose levels differ by more than the features say: subjects, schools, sites. "
        "Each level has an intercept beside the trees (method bart, gaussian or probit). They are no "
        "features.",
        sparing=True,
        form=FormField("Groups"),
    ),
    "slopes": Setting(
        "names",
        "roles",
        "Features, at most four (numbers, dates or booleans), whose slope differs by group too, in every "
        "column of `groups`: doses that act more on some subjects, time in which some change faster.",
        sparing=True,
        form=FormField("Slopes by group"),
    ),
    "event": Setting(
        "column",
        "roles",
        "A column of 1 where the target is the time of an event, 0 where it is the time up to which there "
        "was none: the row is censored.",
        sparing=True,
        form=FormField("Event"),
    ),
    "lower": Setting(
        "column",
        "roles",
        "A column of lower limits of the target, for rows where it is missing: it is known to be above.",
        sparing=True,
        form=FormField("Lower limit"),
    ),
    "upper": Setting(
        "column",
        "roles",
        "A column of upper limits of the target, for rows where it is missing: it is known to be below.",
        sparing=True,
        form=FormField("Upper limit"),
    ),
}
COLUMN_ROLES = tuple(name for name, role in ROLES.items() if role.kind == "column")

HOLDOUT = Setting(
    "number",
    "evaluation",
    "The fraction of rows held out from fitting and used for scores.",
    default=0.0,
    limits=(0, 0.9),
    form=FormField("Held out"),
)

MISSING_TARGET = Setting(
    "word",
    "evaluation",
    'What to do with rows without a target: "refuse" the fit, or "leave_out" the rows (those with a limit '
    "stay).",
    default="refuse",
    choices=("refuse", "leave_out"),
    sparing=True,
    rare=True,
    form=FormField("Rows without a target"),
)

CALIBRATE = Setting(
    "word",
    "evaluation",
    "Whether intervals are calibrated, so that their coverage is stated however wrong the model: none (the "
    "default); holdout, by the rows held out; folds, by five more fits, each to four fifths of the rows, for "
    "those who can't spare rows, with an estimate in place of a statement.",
    default="none",
    choices=("none", "holdout", "folds"),
    sparing=True,
    rare=True,
    form=FormField(
        "Calibrated intervals",
        hint="With a stated coverage however wrong the model: by the rows held out, or by five more fits.",
        choices=(("holdout", "by the rows held out"), ("folds", "by five more fits")),
    ),
)
