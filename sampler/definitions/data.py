"""Definitions of settings of the data: roles of columns, holdout and calibration, rows without a target."""

from __future__ import annotations

from dataclasses import dataclass

from sampler.definitions.setting import FormField, Setting


@dataclass(frozen=True)
class Role(Setting):
    """Definition of a role that a column has for the rows, by which all of the code knows it.

    Attributes
    ----------
    noun
        The column's values in messages, in the plural.
    cells
        Kind of values, as which text of a file is read: "number" or "boolean".
    reader
        Function (values, number of rows) -> float64 [row], which checks them, as "module:name"; "" for
        columns that are read with the outcome.
    targets
        Kinds of outcomes (`sampler.families.Family.target`) whose rows may have it.
    refusal
        Beginning of the message for other families, of `family`.
    constants
        Function (constants, outcomes, values) -> the prior's constants for rows of such values, as
        "module:name"; "" where they don't matter.
    per_unit
        Whether an outcome's mean is in proportion to it.
    twice
        Message for a column that has another role in a request too.
    absent
        Note for new rows without the column, of its `name`; "" where predictions don't read it.
    sentence
        Sentence about a model that has it, of the column's `name`.
    example
        Arguments of a command line that uses it.
    other_names
        Its names in other packages.

    """

    noun: str = ""
    cells: str = "number"
    reader: str = ""
    targets: tuple[str, ...] = ("numbers",)
    refusal: str = ""
    constants: str = ""
    per_unit: bool = False
    twice: str = "a column of events or limits can't have another role as well"
    absent: str = ""
    sentence: str = ""
    example: str = ""
    other_names: tuple[str, ...] = ()

    @property
    def of_outcome(self) -> bool:
        """Whether the column says how far outcomes are known."""
        return not self.reader


COLUMNS = "Weights, treatment, exposure, groups, events and limits"  # section of forms


def _field(label: str, hint: str, kinds: tuple[str, ...] = ("number",)) -> FormField:
    return FormField(label, COLUMNS, "None", hint, kinds=kinds)


ROLES: dict[str, Setting] = {
    "features": Setting(
        "features",
        "roles",
        "Columns to use as features; null: all usable ones. Of several targets they may be by target, "
        '{"mpg": ["weight"], "horsepower": ["displacement", "year"]}: the trees of each split on its own.',
    ),
    "columns": Setting(
        "kinds",
        "roles",
        "Kinds that override the inferred ones: number, boolean, category, date, encoded (text that counts "
        "as the mean outcome of its rows).",
    ),
    "weights": Role(
        "column",
        "roles",
        "A column of positive precision weights.",
        form=_field(
            "Weights",
            "A column with the precision of each row's outcome: twice the weight is half the variance.",
        ),
        noun="weights",
        reader="sampler.data.target:read_weights",
        refusal="{family} takes no weights",
        twice="the target can't be the weights as well",
    ),
    "exposure": Role(
        "column",
        "roles",
        "A column of positive exposures of counts: a row's expected count is in proportion to its own. New "
        "rows have theirs in the column of this name; without it, 1.",
        sparing=True,
        form=_field(
            "Exposure", "For counts: a column with the time or size over which each row's were counted."
        ),
        noun="exposures",
        reader="sampler.data.target:read_exposure",
        targets=("counts",),
        refusal="exposure is for counts",
        constants="sampler.bart.families.counts:with_exposure",
        per_unit=True,
        twice="the column of exposures can't have another role as well",
        absent="{name}: the rows have no such column, so predictions are for an exposure of 1",
        sentence="Counts are of the exposure in the column {name}.",
        example="visits.csv --target visits --set family=negative-binomial --exposure months",
    ),
    "offset": Role(
        "column",
        "roles",
        "For two classes: a column of what is known of each row's probability beforehand, as its normal "
        "quantile (-1.28 for .1). The trees learn what is added to it. New rows have theirs in the column of "
        "this name; without it, 0.",
        sparing=True,
        form=_field(
            "Offset",
            "For two classes: a column of the normal quantile of a probability that is known beforehand.",
        ),
        noun="offsets",
        reader="sampler.data.target:read_offset",
        targets=("two",),
        refusal="offset is for two classes (counts take exposure, whose logarithm is their offset, and of "
        "numbers it can be subtracted)",
        constants="sampler.bart.prior:with_offsets",
        twice="the column of offsets can't have another role as well",
        absent="{name}: the rows have no such column, so predictions are for an offset of 0",
        sentence="Probabilities have the offset in the column {name}, on the scale of normal quantiles.",
        example="visits.csv --target returned --set family=probit --offset expected",
        other_names=("binaryOffset", "base_margin", "init_score"),
    ),
    "levels": Setting(
        "levels",
        "roles",
        "Of ordered classes (family ordinal): their names from the lowest to the highest. Numbers need none.",
        sparing=True,
        form=_field(
            "Order of classes",
            "Of ordered classes: all of them, from the lowest to the highest. Numbers have an order.",
            kinds=(),
        ),
    ),
    "treatment": Role(
        "column",
        "roles",
        "A column of 1 (or true) for rows that were treated, 0 (or false) for the others, of the names of "
        "two arms (one of them control, placebo, none, no, untreated or false), of two numbers, of the names "
        "of three to eight arms, or of doses (more numbers): the fit learns by how much that changes the "
        "outcome, for each row. It is no feature. New rows have theirs in the column of this name; without "
        "it, 0, the first arm, or about the mean dose.",
        sparing=True,
        form=_field(
            "Treatment",
            "A medicine, a discount, a training: the model then also says by how much that changes the "
            "outcome, and for whom. The column says whether a row had it, which of several, or how much.",
            kinds=("number", "boolean", "category"),
        ),
        noun="treatments",
        cells="boolean",
        reader="sampler.data.treatment.reading:read_treatment",
        targets=("numbers", "two", "counts"),
        refusal="treatment is for numbers, two classes and counts",
        twice="the column of treatments can't have another role as well",
        absent="{name}: the rows have no such column, so predictions are for rows that are not treated, or "
        "in the first of several arms, or have about the mean dose",
        sentence="The column {name} tells how rows were treated; its effect is a part of the model.",
        example="training.csv --target earnings --treatment trained",
        other_names=("Z_train", "trt"),
    ),
    "propensity": Setting(
        "column",
        "roles",
        "With a treatment: a feature that is each row's probability of being treated, or expected dose, "
        "known from elsewhere, instead of the one that is fitted.",
        sparing=True,
        form=_field(
            "Propensity",
            "A feature that is each row's known probability of being treated; left out, it is fitted.",
        ),
    ),
    "adoption": Setting(
        "column",
        "roles",
        "Of a panel: the period in which a row's unit adopted a treatment, missing if never. The effect at "
        "each lag since then is learnt; needs `period`, and the units as the first of `groups`.",
        sparing=True,
        form=_field(
            "Adoption",
            "Of units in several periods: the period in which a row's unit began to be treated, empty if "
            "never. Needs the period, and the units as groups.",
            kinds=("number", "date"),
        ),
    ),
    "period": Setting(
        "column",
        "roles",
        "With `adoption`: the feature that is a row's period, a number or date.",
        sparing=True,
        form=_field(
            "Period", "With an adoption: the feature that is a row's period.", kinds=("number", "date")
        ),
    ),
    "groups": Setting(
        "names",
        "roles",
        "Columns, at most four, whose levels differ by more than the features say: subjects, schools, sites. "
        "Each level has an intercept beside the trees (method bart, gaussian, probit or ordinal). They are "
        "no features.",
        sparing=True,
        form=_field(
            "Groups",
            "Columns of subjects, schools, sites: each of their levels has an intercept beside "
            "the trees. They are no features.",
            kinds=(),
        ),
    ),
    "slopes": Setting(
        "names",
        "roles",
        "Features, at most four (numbers, dates or booleans), whose slope differs by group too, in every "
        "column of `groups`: doses that act more on some subjects, time in which some change faster.",
        sparing=True,
        form=_field(
            "Slopes by group",
            "Features whose effect differs by group: days, doses. Needs groups; they stay features too.",
            kinds=("number", "boolean", "date"),
        ),
    ),
    "event": Role(
        "column",
        "roles",
        "A column of 1 where the target is the time of an event, 0 where it is the time up to which there "
        "was none: the row is censored.",
        sparing=True,
        form=_field(
            "Event",
            "For times: 1 where the event was seen at the target's time, 0 where there was none "
            "up to it (censored).",
            kinds=("number", "boolean"),
        ),
        noun="events",
        example="lung.csv --target time --event died",
        cells="boolean",
    ),
    "lower": Role(
        "column",
        "roles",
        "A column of lower limits of the target, for rows where it is missing: it is known to be above.",
        sparing=True,
        form=_field("Lower limit", "For rows without a target: it is known to be above this."),
        noun="lower limits",
    ),
    "upper": Role(
        "column",
        "roles",
        "A column of upper limits of the target, for rows where it is missing: it is known to be below.",
        sparing=True,
        form=_field(
            "Upper limit",
            "For rows without a target: it is known to be below this, a detection limit for instance.",
        ),
        noun="upper limits",
    ),
}
NAMED = (
    "groups",
    "slopes",
    "propensity",
    "adoption",
    "period",
)  # roles of columns that stay in the table: a fit has their names
CHOSEN = ("features", "columns")  # of which a plan has the rest, where a request leaves it open
COLUMN_ROLES = {name: role for name, role in ROLES.items() if isinstance(role, Role)}
CENSORING = tuple(name for name, role in COLUMN_ROLES.items() if role.of_outcome)
NO_FEATURES = "target, weights, exposure, treatment, groups, event or limits"
PREDICTED = tuple(name for name, role in COLUMN_ROLES.items() if role.absent)  # new rows may have them too
LIMITS = tuple(name for name in CENSORING if COLUMN_ROLES[name].cells == "number")
# without which an outcome's probability isn't known, besides limits
OF_LIKELIHOOD = tuple(name for name, role in COLUMN_ROLES.items() if role.reader and role.cells == "number")

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
    form=FormField(
        "Rows without a target", choices=(("refuse", "refused"), ("leave_out", "left out of the fit"))
    ),
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
