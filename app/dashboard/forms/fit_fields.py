"""Form fields for the settings of a fit: label, default and hint of each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.dashboard.formatting import NOTHING, number, percent
from sampler.host.data import FEWEST_OF_CLASSES
from sampler.host.settings import ALL_SETTINGS, COLUMNS, FAMILIES, FIELD_LABELS
from sampler.host.settings import FORECAST_SECTION as SECTION

FAMILY_LABELS = {
    "auto": "detected from the target",
    **{name: family.label for name, family in FAMILIES.items()},
}
SHOWN_SECTION = "Noise, transform and line"  # never folded
# Sections that are folded: title, and a sentence about it.
METHOD_SECTION = "Method, trees and chains"
SECTIONS = {
    COLUMNS: "Columns from which the model learns otherwise than from features, but that say something "
    "about each row: how much it counts, to which group it belongs, or that its outcome is known "
    "only in part.",
    METHOD_SECTION: "How much is computed, and by which method. More draws and chains make every "
    "figure more precise, and cost time.",
    "Effect of a treatment": "How the effect of a treatment is learnt, where a column tells of one.",
    "Iterations and moves": "How each chain samples. The defaults did best in benchmarks.",
    "When to stop": "The fit goes on until all the rules that you give here are met. It looks at them when "
    "the draws above are kept, then at half as many more, and so on. If you give no rule, and no "
    "number of chains, draws or the like, the default method goes on until its verdict is "
    "approximate or better, for at most about a minute on two cores with 5,000 rows; the estimate "
    "says how long that may be here.",
    "Prior": "What the model takes for plausible before it sees the outcomes. The defaults are relative to "
    "the spread of the outcomes, so they suit most tables.",
    "Hyperpriors": "With these the data decide how smooth the model is, and which columns matter. They are "
    "for the method bart only.",
    "Search over topologies": "For dcc-tree: the length of the search for topologies, and draws for each.",
    "Prior in absolute figures": "In units of the target, instead of scaling by the data. For experts.",
}


@dataclass(frozen=True)
class FieldSpec:
    """A field; `name` is the field of `POST /models`, with a dot inside `prior`, `search` and `stop`.

    An empty field keeps its default, which `default` describes.
    """

    name: str
    kind: str
    label: str
    default: str
    hint: str
    choices: tuple[tuple[str, str], ...]
    column_kinds: tuple[str, ...] = ()  # of columns to choose from; empty for any

    @property
    def id(self) -> str:
        """Id of the HTML element, one word."""
        return self.name.replace(".", "-")


@dataclass(frozen=True)
class FieldGroup:
    """Fields that are folded together."""

    title: str
    about: str
    fields: tuple[FieldSpec, ...]


def _section(title: str, without: str = "") -> tuple[FieldSpec, ...]:
    return tuple(
        FieldSpec(
            name,
            setting.kind,
            form.label,
            form.default,
            form.hint or setting.about,
            form.choices,
            form.kinds,
        )
        for name, setting in ALL_SETTINGS.items()
        if (form := setting.form) is not None and form.section == title and name != without
    )


FORECASTS = _section(SECTION)  # asked at the start
TREATMENT = next(field for field in _section(COLUMNS) if field.name == "treatment")  # asked at the start
SHOWN = _section(SHOWN_SECTION)
FOLDED = tuple(FieldGroup(title, about, _section(title, TREATMENT.name)) for title, about in SECTIONS.items())
OF_COLUMNS = {  # "column" or "names"
    field.name: field.kind
    for field in (TREATMENT, *FORECASTS, *SHOWN, *(each for group in FOLDED for each in group.fields))
    if field.kind in ("column", "names")
}
DIRECTIONS = {"monotone.increasing": "Rises with", "monotone.decreasing": "Falls with"}  # of two lists


def fitted_as(column: Mapping[str, Any], profile: Mapping[str, Any]) -> str:
    """Say what a model of a column is fitted to, and why, if its kind of outcome is left to be detected."""
    name, kind, levels = (column[key] for key in ("name", "kind", "levels"))
    if kind == "number":
        return _fitted_as_number(column, profile)
    if kind == "boolean":
        return f"Two classes: the model gives the probability that {name} is true."
    if kind != "category":
        return ""
    if column["distinct"] == len(levels) == 2:
        return f"Two classes: the model gives the probability that {name} is {levels[1]}."
    classes = f"{number(column['distinct'])} classes"
    if order := column.get("order"):
        return f"{classes} in order, from {order[0]} to {order[-1]}: the model gives the probability of each."
    return f"{classes}: the model gives the probability of each."


def _fitted_as_number(column: Mapping[str, Any], profile: Mapping[str, Any]) -> str:
    low, high = column["min"], column["max"]
    if low is None:
        return "No row has a value of it."
    top = profile.get("top") or ()
    two, seen = column["distinct"] == 2, sum(each["count"] for each in top)
    whole = float(low).is_integer() and float(high).is_integer()
    if two and whole and ((low, high) == (0, 1) or seen >= FEWEST_OF_CLASSES):
        return (
            f"Only {number(low)} and {number(high)}, so two classes: the model gives the probability that "
            f"{column['name']} is {number(high)}. If it is a measured number, choose that as the kind of "
            "outcome, among all settings."
        )
    text = f"Numbers from {number(low)} to {number(high)}: the model gives their mean, with an interval."
    if two:
        return (
            f"{text} If they stand for two classes, choose that as the kind of outcome, among all settings."
        )
    values = [*(profile.get("quantiles") or {}).values(), *(each["value"] for each in top)]
    if low < 0 or not whole or not all(float(value).is_integer() for value in values):
        return text
    return f"{text} If they are counts, choose “a count” as the kind of outcome, among all settings."


def every() -> Iterator[FieldSpec]:
    """Yield all fields."""
    yield TREATMENT
    yield from FORECASTS
    yield from SHOWN
    for group in FOLDED:
        yield from group.fields


def in_words(value: Any, name: str) -> str:
    """Write the value of a setting as its form does, entries of `prior` and `stop` with their labels."""
    if value is None:
        return NOTHING
    if name == "holdout":
        return percent(value)
    if isinstance(value, list) or name == "monotone":
        several = [" ".join(each) for each in value.items()] if name == "monotone" else value
        return ", ".join(map(str, several)) or NOTHING
    if isinstance(value, Mapping):
        known = ((f"{name}.{each}", each, part) for each, part in value.items() if part is not None)
        parts = (
            f"{FIELD_LABELS.get(key, each.replace('_', ' '))} {in_words(part, key)}"
            for key, each, part in known
        )
        return "as given" if "." in name else ", ".join(parts)
    form = ALL_SETTINGS[name].form if name in ALL_SETTINGS else None
    if name == "family":
        return FAMILY_LABELS.get(value, str(value))
    words = dict(form.choices).get(number(value)) if form and isinstance(value, bool | str) else None
    if value is False and form and form.choices:
        words = words or form.default
    return words or (("no", "yes")[value] if isinstance(value, bool) else number(value))


def facts(settings: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Name, label and value of the settings of a fitted model that are numbers, words and columns."""
    settings = settings | {f"parts.{name}": told for name, told in (settings.get("parts") or {}).items()}
    return [
        (name, FIELD_LABELS[name], in_words(settings[name], name))
        for name, setting in ALL_SETTINGS.items()
        if name in FIELD_LABELS
        and setting.kind in {"word", "whole", "number", "column", "names", "levels", "directions"}
        and settings.get(name) is not None
        and not (setting.rare and settings[name] == setting.default)
    ]
